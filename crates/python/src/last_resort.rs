//! The end of a process whose interpreter doesn't answer: a function that never lets go of it keeps
//! every signal handler and every thread of Python waiting.
//!
//! Takes the numbers of signals from a pipe, which Python's own handler in C fills without the
//! interpreter, and an engine; ends the process where Python should have done it and did not. Owns
//! two threads that never enter the interpreter. Never acts before Python has had its time.

use crate::engine::Engine;
use parking_lot::{Condvar, Mutex};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use std::io::{PipeReader, PipeWriter, Read, pipe};
use std::os::fd::AsRawFd;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// How long Python has.
const PYTHONS_TURN: Duration = Duration::from_millis(1900);
/// Of it: until the interpreter has answered.
const ANSWER: Duration = Duration::from_millis(400);
/// Of an application that ended without its threads; `stoatflow.errors.StalledError.exit_code`.
const STALLED: i32 = 3;

type Engines = stoatflow_engine::Engine;

/// Ends the process then, whatever happens meanwhile.
#[pyfunction]
pub fn exit_after(code: i32, seconds: f64) -> PyResult<()> {
    let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    spawn("stoatflow-exit", move || {
        Closed::default().wait(time);
        exit(code);
    })
}

/// A thread that waits for the end of an application in `run`.
#[derive(Debug, Default)]
struct Closed(Mutex<bool>, Condvar);

impl Closed {
    /// Is it closed, now or within this time?
    fn wait(&self, time: Duration) -> bool {
        let mut closed = self.0.lock();
        self.1.wait_while_for(&mut closed, |closed| !*closed, time);
        *closed
    }
}

/// See the module; for as long as the main thread waits in `run`.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct LastResort {
    closed: Arc<Closed>,
    /// Python's handler writes here; gone when it is closed.
    signals: Mutex<Option<PipeWriter>>,
}

#[pymethods]
impl LastResort {
    #[new]
    fn new(engine: &Engine) -> PyResult<Self> {
        let (reader, writer) = pipe().map_err(|e| PyOSError::new_err(e.to_string()))?;
        let closed = Arc::<Closed>::default();
        let (engine, at_signals) = (engine.handle(), Arc::clone(&closed));
        let at_end = (engine.clone(), Arc::clone(&closed));
        spawn("stoatflow-signals", move || {
            watch_signals(reader, &engine, &at_signals);
        })?;
        spawn("stoatflow-end", move || watch_end(&at_end.0, &at_end.1))?;
        Ok(Self {
            closed,
            signals: Mutex::new(Some(writer)),
        })
    }

    /// Where `signal.set_wakeup_fd` is to write.
    fn fileno(&self) -> i32 {
        self.signals.lock().as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// Python is back in `run`.
    fn close(&self) {
        *self.closed.0.lock() = true;
        self.closed.1.notify_all();
        self.signals.lock().take();
    }
}

fn watch_signals(mut signals: PipeReader, engine: &Engines, closed: &Closed) {
    let mut heard = 0;
    let mut byte = [0];
    while signals.read(&mut byte).is_ok_and(|read| read == 1) {
        let number = i32::from(byte[0]);
        if number != libc::SIGINT && number != libc::SIGTERM {
            continue;
        }
        heard += 1;
        // Then its own handler does it; or the signal was none of ours: a child that was just
        // forked writes here too.
        if answers() {
            continue;
        }
        if heard == 1 {
            engine.request_stop(Some(engine.shutdown_timeout()));
            continue;
        }
        engine.abort();
        if !closed.wait(PYTHONS_TURN.saturating_sub(ANSWER)) {
            tracing::error!("a function keeps the interpreter; the process ends without it");
            exit(128 + number);
        }
    }
}

/// Does the interpreter let a thread in?
fn answers() -> bool {
    let (say, hear) = mpsc::channel();
    let asks = move || {
        Python::attach(|_| ());
        // If it took too long, the receiver is gone.
        let _unheard = say.send(());
    };
    spawn("stoatflow-answers", asks).is_ok() && hear.recv_timeout(ANSWER).is_ok()
}

fn watch_end(engine: &Engines, closed: &Closed) {
    // The thread that waits in Python raises its error.
    let _ended = engine.wait(None);
    if engine.has_abandoned_threads() && !closed.wait(PYTHONS_TURN) {
        tracing::error!("a function keeps the interpreter; the process ends without it");
        exit(STALLED);
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> PyResult<()> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map(drop)
        .map_err(|e| PyOSError::new_err(format!("the thread '{name}' can't be started: {e}")))
}

/// At once: handlers of C and C++ libraries for the end of a process would run beside threads that still run.
fn exit(code: i32) -> ! {
    crate::logging::flush_to_stderr();
    // SAFETY: it may be called at any time from any thread, and doesn't come back.
    unsafe { libc::_exit(code) }
}
