//! Runs librdkafka calls that may never return, each with a deadline.
//!
//! One thread runs them, one after the other, and lives as long as the producer. After a call that
//! missed its deadline, the thread is abandoned with everything that the call uses.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

type Call = Box<dyn FnOnce() + Send>;

/// The thread; started by the first call.
#[derive(Debug, Default)]
pub(super) struct Caller {
    calls: Option<Sender<Call>>,
}

impl Caller {
    /// The result of the call; `None` if it took longer than `most`.
    pub(super) fn call<T: Send + 'static>(
        &mut self,
        most: Duration,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (done, result) = channel();
        let call: Call = Box::new(move || {
            // Fails if the caller has stopped waiting.
            let _ = done.send(call());
        });
        if let Err(call) = self.hand(call) {
            // No thread can be started: call without a deadline.
            call();
        }
        let given = result.recv_timeout(most).ok();
        if given.is_none() {
            self.calls = None;
        }
        given
    }

    fn hand(&mut self, call: Call) -> Result<(), Call> {
        if self.calls.is_none() {
            let (calls, made): (_, Receiver<Call>) = channel();
            let body = move || made.iter().for_each(|call| call());
            if Builder::new()
                .name("stoatflow-rdkafka".to_owned())
                .spawn(body)
                .is_ok()
            {
                self.calls = Some(calls);
            }
        }
        match &self.calls {
            Some(calls) => calls.send(call).map_err(|unsent| unsent.0),
            None => Err(call),
        }
    }
}

#[cfg(test)]
mod tests;
