use super::*;
use stoatflow_core::{Clock, SystemClock};

#[test]
fn a_hanging_call_is_abandoned() {
    let mut caller = Caller::default();
    let most = Duration::from_secs(60);
    assert_eq!(caller.call(most, || 1), Some(1));
    let (never, waits) = channel::<()>();
    let clock = SystemClock::new();
    let lost = caller.call(Duration::from_millis(50), move || waits.recv());
    assert!(lost.is_none());
    assert!(clock.monotonic() < most, "it was waited for");
    assert_eq!(
        caller.call(most, || 2),
        Some(2),
        "the next one has another thread"
    );
    drop(never);
}
