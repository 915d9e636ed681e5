//! Waiting on sockets.

use rustix::event::{PollFd, Timespec, poll};
use std::time::Duration;

/// Waits until one of the sockets is ready, at most this long. Without sockets it is a pause.
pub(in crate::kafka::native) fn wait(sockets: &mut [PollFd<'_>], most: Duration) {
    let most = Timespec {
        tv_sec: i64::try_from(most.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: most.subsec_nanos().into(),
    };
    // A signal ends the wait early: the caller checks again.
    let _woken = poll(sockets, Some(&most));
}
