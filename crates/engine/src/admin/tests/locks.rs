//! User code runs without a lock held: a thread that holds the interpreter may wait for that lock.

use super::fixture::{Still, plan};
use crate::admin::error_log::ErrorLog;
use crate::admin::status::Status;
use std::fmt;
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;
use stoatflow_core::{Clock as _, Error};
use stoatflow_operators::{Raised, Runtime};

const PATIENCE: Duration = Duration::from_secs(5);

/// Whether another thread can take the lock while this one waits for it.
fn gets_through<T>(ask: impl FnOnce() -> T + Send + 'static) -> bool {
    let (done, ended) = channel();
    let asks = move || {
        ask();
        done.send(()).ok();
    };
    let asked = thread::Builder::new().name("test-asks".into()).spawn(asks);
    asked.is_ok() && ended.recv_timeout(PATIENCE).is_ok()
}

/// A cause of an error whose text waits for another thread that reads the state.
#[derive(Debug)]
struct AsksForTheState(Arc<Status>);

impl fmt::Display for AsksForTheState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = Arc::clone(&self.0);
        assert!(gets_through(move || status.state()), "it is locked");
        f.write_str("asked")
    }
}

impl std::error::Error for AsksForTheState {}

#[test]
fn the_text_of_a_failure_is_made_without_the_lock_of_the_state() {
    let status = Arc::new(Status::new("app", Arc::new(plan()), 1));
    status.failed(&Error::user("it raised").caused_by(AsksForTheState(Arc::clone(&status))));
    assert!(status.error().unwrap().message.contains("asked"));
}

/// Describes an exception by waiting for another thread that reads the errors.
#[derive(Debug, Default)]
struct AsksForTheErrors(OnceLock<Arc<ErrorLog>>);

impl Runtime for AsksForTheErrors {
    fn pause(&self, _time: Duration) -> bool {
        true
    }

    fn exception(&self, _error: &Error) -> Option<Raised> {
        let log = Arc::clone(self.0.get().unwrap());
        assert!(gets_through(move || log.entries()), "it is locked");
        None
    }
}

#[test]
fn an_exception_is_described_without_the_lock_of_the_errors() {
    let runtime = Arc::new(AsksForTheErrors::default());
    let log = Arc::new(ErrorLog::of(Some(Arc::clone(&runtime) as _)));
    runtime.0.set(Arc::clone(&log)).unwrap();
    log.note(&Error::user("it raised"), None, "failed", Still.now());
    assert_eq!(log.entries().len(), 1);
}
