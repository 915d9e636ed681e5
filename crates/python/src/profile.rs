//! Measures calls into Python: their number, the time inside, and the time waiting for the interpreter.
//!
//! Wraps every attach except those of the event loop, which reports the durations of its calls. A batch
//! costs three clock reads. Single calls (aggregators, within a scope that holds the interpreter for a
//! batch) are each measured if they are long; of short calls every eighth is measured and counts for
//! those before it. Owns relaxed counters that all lanes share. Never blocks. Also ends a forked copy of
//! the process in which a user function returns.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use stoatflow_core::{Clock, SystemClock};
use stoatflow_operators::current_call::within;
use stoatflow_operators::{Cost, Failed};

/// Longer calls are each measured; clock reads are negligible beside them.
const LONG_CALL: Duration = Duration::from_micros(4);

/// Number of short calls between two that are measured.
const SKIPPED_SHORT_CALLS: u32 = 7;

/// Number of forks between the original process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Number of forks between the original process and this one, so far.
pub fn forks() -> u32 {
    FORKS.load(Relaxed)
}

/// Called in a child process right after a fork.
#[pyfunction]
fn count_fork() {
    FORKS.fetch_add(1, Relaxed);
}

/// Registers `count_fork`.
pub fn watch_forks(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let os = py.import("os")?;
    // Windows has no fork.
    let Ok(register) = os.getattr("register_at_fork") else {
        return Ok(());
    };
    let when = PyDict::new(py);
    when.set_item("after_in_child", wrap_pyfunction!(count_fork, module)?)?;
    register.call((), Some(&when)).map(drop)
}

/// Ends a forked copy of the process. Lanes, broker and stores belong to the parent, so the copy must
/// neither touch them nor run exit handlers.
#[cold]
fn exit_forked_copy(py: Python<'_>) {
    const EX_SOFTWARE: i32 = 70;
    let message = "stoatflow: a function forked the process and returned in the copy, which ends here. Next: leave \
                the copy within the function (os._exit), or use subprocess or multiprocessing\n";
    let os = py.import("os");
    let _written = os
        .as_ref()
        .map(|os| os.call_method1("write", (2, message.as_bytes())));
    let exited = os.and_then(|os| os.call_method1("_exit", (EX_SOFTWARE,)));
    if exited.is_err() {
        std::process::abort();
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Profile {
    clock: SystemClock,
    calls: AtomicU64,
    inside_ns: AtomicU64,
    waiting_ns: AtomicU64,
    /// Calls since the last measured one.
    since: AtomicU32,
    /// Number of calls to skip before measuring again.
    skip: AtomicU32,
}

impl Profile {
    pub fn cost(&self) -> Cost {
        Cost {
            calls: self.calls.load(Relaxed),
            inside: Duration::from_nanos(self.inside_ns.load(Relaxed)),
            waiting: Duration::from_nanos(self.waiting_ns.load(Relaxed)),
        }
    }

    /// Measures a batch of `size` calls. `callee` is the address under which the running function is
    /// noted.
    pub fn batch(
        &self,
        callee: usize,
        size: usize,
        body: impl for<'py> FnOnce(Python<'py>) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        self.measured(callee, 1, |py| {
            let done = body(py);
            let calls = done.as_ref().map_or_else(|failed| failed.at + 1, |()| size);
            self.calls.fetch_add(calls as u64, Relaxed);
            done
        })
    }

    /// Counts one call, and measures some of them.
    pub fn call<T>(&self, callee: usize, body: impl for<'py> FnOnce(Python<'py>) -> T) -> T {
        self.calls.fetch_add(1, Relaxed);
        let since = self.since.fetch_add(1, Relaxed);
        if since < self.skip.load(Relaxed) {
            return within(callee, false, || {
                Python::attach(|py| checking_for_fork(py, body))
            });
        }
        // Another thread may get here at the same time; the swap counts each call once.
        let weight = self.since.swap(0, Relaxed);
        self.measured(callee, weight, body)
    }

    /// Counts a call that was measured elsewhere, in the thread that made it. `forks` is [`forks`] at
    /// its start.
    pub fn count(&self, py: Python<'_>, inside: Duration, waiting: Duration, forks: u32) {
        if FORKS.load(Relaxed) != forks {
            exit_forked_copy(py);
        }
        self.calls.fetch_add(1, Relaxed);
        add(&self.inside_ns, inside, 1);
        add(&self.waiting_ns, waiting, 1);
    }

    /// Holds the interpreter while `body` makes calls that are counted themselves.
    pub fn scope(&self, body: &mut dyn FnMut()) {
        let requested_at = self.clock.monotonic();
        Python::attach(|_| {
            add(
                &self.waiting_ns,
                self.clock.monotonic().saturating_sub(requested_at),
                1,
            );
            body();
        });
    }

    /// `weight` is the number of calls that this one counts for.
    fn measured<T>(
        &self,
        callee: usize,
        weight: u32,
        body: impl for<'py> FnOnce(Python<'py>) -> T,
    ) -> T {
        let requested_at = self.clock.monotonic();
        let attached = |py: Python<'_>| {
            let attached_at = self.clock.monotonic();
            let result = checking_for_fork(py, body);
            let inside = self.clock.monotonic().saturating_sub(attached_at);
            add(
                &self.waiting_ns,
                attached_at.saturating_sub(requested_at),
                weight,
            );
            add(&self.inside_ns, inside, weight);
            self.skip.store(
                if inside < LONG_CALL {
                    SKIPPED_SHORT_CALLS
                } else {
                    0
                },
                Relaxed,
            );
            result
        };
        within(callee, true, || Python::attach(attached))
    }
}

fn checking_for_fork<'py, T>(py: Python<'py>, body: impl FnOnce(Python<'py>) -> T) -> T {
    let forks = forks();
    let result = body(py);
    if FORKS.load(Relaxed) != forks {
        exit_forked_copy(py);
    }
    result
}

fn add(counter: &AtomicU64, time: Duration, weight: u32) {
    let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    counter.fetch_add(ns.saturating_mul(u64::from(weight)), Relaxed);
}
