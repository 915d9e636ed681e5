use super::*;
use std::sync::mpsc;
use stoatflow_core::SystemClock;

fn origin(offset: i64) -> Origin {
    Origin {
        source: SourceId(3),
        topic: 2,
        partition: Partition(17),
        offset: Offset(offset),
        ..NO_ORIGIN
    }
}

/// A watched thread.
fn watched<T: Send>(at: &Arc<CurrentCall>, body: impl FnOnce() -> T + Send) -> T {
    at.begin();
    std::thread::scope(|scope| {
        let body = || {
            watch_thread(Arc::clone(at), Arc::new(SystemClock::new()));
            body()
        };
        #[allow(clippy::disallowed_methods)] // a test's own thread
        scope.spawn(body).join().expect("it doesn't panic")
    })
}

#[test]
fn a_function_with_its_record_is_known_while_it_runs() {
    let at = Arc::new(CurrentCall::default());
    let seen = watched(&at, || {
        assert!(note_record(&origin(5_000_000_000)));
        within(7, true, || at.running())
    });
    let seen = seen.expect("one runs");
    assert_eq!((seen.callee, seen.origin), (7, Some(origin(5_000_000_000))));
    assert_eq!(at.running(), None);
}

#[test]
fn the_outer_function_goes_on_after_an_inner_one() {
    let at = Arc::new(CurrentCall::default());
    let callee = || at.running().map(|r| r.callee);
    watched(&at, || {
        within(7, true, || {
            within(8, false, || assert_eq!(callee(), Some(8)));
            assert_eq!(callee(), Some(7));
        });
    });
    assert_eq!(callee(), None);
}

#[test]
fn a_function_may_be_about_no_record() {
    let at = Arc::new(CurrentCall::default());
    let seen = watched(&at, || {
        note_record(&origin(1));
        forget_record();
        within(7, false, || at.running())
    });
    assert_eq!(seen.expect("one runs").origin, None);
}

#[test]
fn unwatched_threads_note_nothing() {
    assert!(note_record(&origin(1)));
    assert_eq!(within(7, true, || 3), 3);
    assert!(pause(Duration::from_millis(1)));
}

#[test]
fn a_stop_ends_a_pause_and_an_abort_a_batch() {
    let at = Arc::new(CurrentCall::default());
    let (begun, begins) = mpsc::channel();
    let asking = Arc::clone(&at);
    std::thread::scope(|scope| {
        #[allow(clippy::disallowed_methods)]
        scope.spawn(move || {
            begins.recv().expect("it begins");
            asking.stop();
        });
        watched(&at, || {
            begun.send(()).expect("somebody hears it");
            assert!(!pause(Duration::from_secs(600)));
            assert!(note_record(&origin(1)), "a stop lets the batch end");
            at.abort();
            assert!(!note_record(&origin(2)));
        });
    });
    at.begin();
    watched(&at, || assert!(note_record(&origin(3)), "another run"));
}
