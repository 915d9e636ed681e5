//! Ends a process whose interpreter doesn't respond: while a function holds the interpreter, no Python
//! signal handler and no other Python thread can run.
//!
//! Reads signal numbers from a pipe, which Python's C-level signal handler fills without the
//! interpreter, and ends the process if Python should have ended it and did not. Owns two threads that
//! never attach to the interpreter. Always gives Python time to act first.

use crate::engine::Engine;
use parking_lot::{Condvar, Mutex};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use std::io::{PipeReader, PipeWriter, Read, pipe};
use std::os::fd::AsRawFd;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Time that Python has to act.
const PYTHON_GRACE: Duration = Duration::from_millis(1900);
/// The part of it in which the interpreter must let a thread attach.
const ATTACH_TIMEOUT: Duration = Duration::from_millis(400);
/// Exit code of an application that ended while its threads still run; equals
/// `stoatflow.errors.StalledError.exit_code`.
const STALLED: i32 = 3;

type EngineHandle = stoatflow_engine::Engine;

/// Ends the process after `seconds`, whatever happens meanwhile.
#[pyfunction]
pub fn exit_after(code: i32, seconds: f64) -> PyResult<()> {
    let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    spawn("stoatflow-exit", move || {
        ClosedFlag::default().wait(time);
        exit(code);
    })
}

/// A flag that is set when Python leaves `run`, with a condition variable to wait for it.
#[derive(Debug, Default)]
struct ClosedFlag(Mutex<bool>, Condvar);

impl ClosedFlag {
    /// Waits at most `time` for the flag; returns whether it is set.
    fn wait(&self, time: Duration) -> bool {
        let mut closed = self.0.lock();
        self.1.wait_while_for(&mut closed, |closed| !*closed, time);
        *closed
    }
}

/// See the module; exists while the main thread waits in `run`.
#[pyclass(frozen, module = "stoatflow._native", name = "LastResort")]
pub struct ExitWatchdog {
    closed: Arc<ClosedFlag>,
    /// Python's signal handler writes here; `None` after `close`.
    signals: Mutex<Option<PipeWriter>>,
}

#[pymethods]
impl ExitWatchdog {
    #[new]
    fn new(engine: &Engine) -> PyResult<Self> {
        let (reader, writer) = pipe().map_err(|e| PyOSError::new_err(e.to_string()))?;
        let closed = Arc::<ClosedFlag>::default();
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

    /// The file descriptor for `signal.set_wakeup_fd`.
    fn fileno(&self) -> i32 {
        self.signals.lock().as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// Python responds in `run` again; stops watching.
    fn close(&self) {
        *self.closed.0.lock() = true;
        self.closed.1.notify_all();
        self.signals.lock().take();
    }
}

fn watch_signals(mut signals: PipeReader, engine: &EngineHandle, closed: &ClosedFlag) {
    let mut received = 0;
    let mut byte = [0];
    while signals.read(&mut byte).is_ok_and(|read| read == 1) {
        let number = i32::from(byte[0]);
        if number != libc::SIGINT && number != libc::SIGTERM {
            continue;
        }
        received += 1;
        // The interpreter responds, so Python's own handler stops the application. Or the signal was not
        // for this process: a freshly forked child writes to the same pipe.
        if interpreter_responds() {
            continue;
        }
        if received == 1 {
            engine.request_stop(Some(engine.shutdown_timeout()));
            continue;
        }
        engine.abort();
        if !closed.wait(PYTHON_GRACE.saturating_sub(ATTACH_TIMEOUT)) {
            tracing::error!("a function keeps the interpreter; the process ends without it");
            exit(128 + number);
        }
    }
}

/// Whether the interpreter lets a thread attach in time.
fn interpreter_responds() -> bool {
    let (sender, receiver) = mpsc::channel();
    let attach = move || {
        Python::attach(|_| ());
        // After a timeout the receiver is gone.
        let _timed_out = sender.send(());
    };
    spawn("stoatflow-answers", attach).is_ok() && receiver.recv_timeout(ATTACH_TIMEOUT).is_ok()
}

fn watch_end(engine: &EngineHandle, closed: &ClosedFlag) {
    // The Python thread that waits for the engine raises its error.
    let _ended = engine.wait(None);
    if engine.has_abandoned_threads() && !closed.wait(PYTHON_GRACE) {
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

/// Ends immediately: exit handlers of C and C++ libraries would run beside threads that are still
/// running.
fn exit(code: i32) -> ! {
    crate::logging::flush_to_stderr();
    // SAFETY: `_exit` may be called at any time from any thread, and it doesn't return.
    unsafe { libc::_exit(code) }
}
