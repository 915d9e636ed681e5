//! Access to the engine while a Python object is called: the context and its stores.
//!
//! Lends the host of a call to the context and the stores that the object keeps. Outside the call, or in
//! another thread, each of them raises. An engine error that passes through user code (a full disk) is
//! kept, so that no `except` can swallow it.

use crate::errors::{as_py_err, to_py_err};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::cell::Cell;
use stoatflow_core::error::ErrorKind;
use stoatflow_core::lent::{Lent, LentCall, LentCalls, Refused};
use stoatflow_core::{Error, Origin, Record, Result, Timestamp};
use stoatflow_operators::{NO_ORIGIN, ProcessorHost, Role, Timer, check_results};

use super::held_lock_set::HeldLockSet;
use super::records::PyRecord;

/// The record or punctuation that is being processed.
pub struct CallContext {
    pub origin: Origin,
    /// The timestamp of the record or punctuation.
    pub time: i64,
    /// The record and its Python form, so that unchanged parts needn't be converted back.
    pub current: Option<Current>,
    /// Number of records forwarded for it.
    forwarded: Cell<usize>,
}

/// See [`CallContext::current`].
pub struct Current {
    pub record: Record,
    pub key: Py<PyAny>,
    pub value: Py<PyAny>,
    pub headers: Py<PyAny>,
}

impl Default for CallContext {
    fn default() -> Self {
        Self::without_record(0)
    }
}

impl CallContext {
    /// No record: `init` and punctuations.
    pub const fn without_record(time: i64) -> Self {
        Self {
            origin: NO_ORIGIN,
            time,
            current: None,
            forwarded: Cell::new(0),
        }
    }

    pub const fn for_record(record: &Record) -> Self {
        Self {
            origin: record.origin,
            time: record.timestamp.0,
            current: None,
            forwarded: Cell::new(0),
        }
    }

    /// A timer has a key but no record: records forwarded for it get this key, and writes its time.
    pub fn for_timer(py: Python<'_>, timer: &Timer<'_>, key: Bound<'_, PyAny>) -> Self {
        // A record's timestamp can't be negative.
        let timestamp = Timestamp(timer.at.max(0));
        let record = Record {
            origin: NO_ORIGIN,
            key: timer.key.clone(),
            timestamp,
            ..Record::default()
        };
        Self {
            origin: NO_ORIGIN,
            time: timestamp.0,
            current: Some(Current {
                record,
                key: key.unbind(),
                value: py.None(),
                headers: PyTuple::empty(py).into_any().unbind(),
            }),
            forwarded: Cell::new(0),
        }
    }

    pub fn with_py_record(record: &Record, made: PyRecord<'_>) -> Self {
        Self {
            current: Some(Current {
                record: record.clone(),
                key: made.key.unbind(),
                value: made.value.unbind(),
                headers: made.headers.unbind(),
            }),
            ..Self::for_record(record)
        }
    }

    /// Counts a forwarded record. Results per input record are limited; schedules and timers may forward
    /// a whole store.
    pub fn count_forwarded(&self) -> Result<()> {
        if self.origin == NO_ORIGIN {
            return Ok(());
        }
        check_results(self.forwarded.replace(self.forwarded.get() + 1))
    }
}

/// The host that is lent to a Python object during a call.
type Host = dyn ProcessorHost + 'static;

/// See the module.
pub struct CallScope {
    role: Role,
    lent: Lent<Host, CallContext>,
    failed: Mutex<Option<Error>>,
    /// Locks that the processor holds.
    pub(super) held_locks: Mutex<Option<HeldLockSet>>,
}

/// An open scope; dropping it closes the scope.
pub struct OpenScope<'d> {
    scope: &'d CallScope,
    _call: LentCall<'d, Host, CallContext>,
}

impl CallScope {
    pub const fn new(role: Role) -> Self {
        Self {
            role,
            lent: Lent::new(),
            failed: Mutex::new(None),
            held_locks: Mutex::new(None),
        }
    }

    pub const fn role(&self) -> Role {
        self.role
    }

    /// Opens the scope for one call. The guard borrows only the scope, so the caller must drop it before
    /// its borrow of `host` ends.
    pub fn open<'d>(&'d self, host: &mut dyn ProcessorHost, context: CallContext) -> OpenScope<'d> {
        OpenScope {
            scope: self,
            // SAFETY: the guard closes the scope at the end of the function that borrowed the host, also
            // when it unwinds, so the pointer isn't followed later.
            _call: unsafe { self.lent.open(erase_lifetime(host), context) },
        }
    }

    /// Sets the record that is processed now.
    pub fn set(&self, context: CallContext) {
        self.lent.set(context);
    }

    /// Calls `act` with the host.
    pub fn with<T>(
        &self,
        what: &str,
        act: impl FnOnce(&mut Host, &CallContext) -> Result<T>,
    ) -> PyResult<T> {
        let done = self.lent.with(|host, context| {
            host.at(context.origin.order);
            act(host, context)
        });
        self.answer(done, what)
    }

    /// Like `with`, for calls that can't fail.
    pub fn ask<T>(
        &self,
        what: &str,
        act: impl FnOnce(&mut Host, &CallContext) -> T,
    ) -> PyResult<T> {
        self.with(what, |host, context| Ok(act(host, context)))
    }

    /// Calls `act` with the host and a [`Calls`], through which user code can run and use the host too.
    pub fn with_calls<T>(
        &self,
        what: &str,
        act: impl FnOnce(&mut Host, &mut Calls<'_, '_>) -> Result<T>,
    ) -> PyResult<T> {
        let done = (self.lent).with_calls(|host, calls| act(host, &mut Calls { calls }));
        self.answer(done, what)
    }

    fn answer<T>(&self, done: Result<Result<T>, Refused>, what: &str) -> PyResult<T> {
        match done {
            Ok(result) => result.map_err(|e| self.raise(e)),
            Err(why) => Err(to_py_err(refused(why, what))),
        }
    }

    /// The exception for an error of the host. Errors that are not the user's are also kept for `check`.
    fn raise(&self, error: Error) -> PyErr {
        if matches!(
            error.kind(),
            ErrorKind::User | ErrorKind::Serde | ErrorKind::Topology | ErrorKind::Config
        ) {
            return to_py_err(error);
        }
        let shown = as_py_err(&error);
        self.failed.lock().get_or_insert(error);
        shown
    }
}

fn refused(why: Refused, what: &str) -> Error {
    match why {
        Refused::Closed => Error::user(format!("{what} was used outside of a call of its processor")).hint(
            "use it in init(), process(), on_timer() or a punctuation only; don't keep iterating or writing after they \
                return",
        ),
        Refused::Busy => Error::user(format!("{what} was used while it was at work"))
            .hint("a serde must not use the processor's context or stores, and no other thread may"),
        Refused::OtherThread => {
            Error::user(format!("{what} was used in another thread than its processor's"))
                .hint("do the work of other threads first, then forward and write in process() itself")
        }
    }
}

/// Removes the lifetime of the host's borrows from the pointer.
fn erase_lifetime(host: &mut dyn ProcessorHost) -> *mut Host {
    let host: *mut dyn ProcessorHost = host;
    // SAFETY: only the lifetime changes; callers that follow the pointer guarantee that the host is
    // alive.
    unsafe { std::mem::transmute(host) }
}

/// Runs user code while the host is in use; passed to the closure of `with_calls`.
pub struct Calls<'c, 's> {
    calls: &'c mut LentCalls<'s, Host, CallContext>,
}

impl Calls<'_, '_> {
    /// The timestamp of the record or punctuation.
    pub const fn time(&self) -> i64 {
        self.calls.context().time
    }

    /// Opens the scope again while `body` runs.
    pub fn call<T>(&mut self, host: &mut dyn ProcessorHost, body: impl FnOnce() -> T) -> T {
        // SAFETY: the host is borrowed while `body` runs.
        unsafe { self.calls.call(erase_lifetime(host), body) }
    }
}

impl OpenScope<'_> {
    /// Returns the engine error that occurred in the call, if any.
    pub fn check(&self) -> Result<()> {
        self.scope.failed.lock().take().map_or(Ok(()), Err)
    }

    /// Releases locks that are still held.
    ///
    /// # Errors
    /// `User` if there are any: locks must not outlive the call.
    pub fn release_leftover_locks(&self, call: &str) -> Result<()> {
        let Some(held) = self.scope.held_locks.lock().take() else {
            return Ok(());
        };
        drop(held);
        Err(Error::user(format!(
            "locks were still held when {call} returned: they are held within one call, never over a commit"
        ))
        .hint("write `with context.locks(...):` around what needs them"))
    }

    /// Closes the scope and reports errors and locks that were left.
    pub fn close(self, call: &str) -> Result<()> {
        self.check()?;
        self.release_leftover_locks(call)
    }
}

impl Drop for OpenScope<'_> {
    fn drop(&mut self) {
        let held = self.scope.held_locks.lock().take();
        drop(held);
    }
}
