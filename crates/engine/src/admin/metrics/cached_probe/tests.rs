use super::CachedProbe;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;
use std::time::Duration;
use stoatflow_core::{Clock, SystemClock};

#[tokio::test]
async fn nobody_waits_for_what_does_not_answer() {
    let value = Arc::new(CachedProbe::default());
    value.refresh(|| Some(1)).await;
    // On a busy machine the answer may come later.
    while value.asking.load(Relaxed) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(value.last(), Some(1));
    let (answer, question) = channel::<()>();
    let clock = SystemClock::new();
    value
        .refresh(move || {
            let _ended = question.recv();
            Some(2)
        })
        .await;
    // While one thread waits, no other one is started.
    value.refresh(|| Some(3)).await;
    assert!(clock.monotonic() < Duration::from_secs(60));
    assert_eq!(value.last(), Some(1));
    drop(answer);
    while value.last() != Some(2) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
