//! What a Python object may reach of the engine while it is called: the context and its stores.
//!
//! Takes the host of a call, gives it to the context and the stores that the object keeps. Outside of the
//! call, or in another thread, each of them raises. An error of the engine that passes through user code (a
//! full disk) is kept, so that no `except` makes it vanish.

use crate::errors::{as_py_err, to_py_err};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::cell::Cell;
use std::thread::ThreadId;
use stoatflow_core::error::ErrorKind;
use stoatflow_core::{Error, Origin, Record, Result, Timestamp};
use stoatflow_operators::{NO_ORIGIN, ProcessorHost, Role, Timer, check_results};

use super::holding::Holding;
use super::records::Given;

/// What is being processed.
pub struct Moment {
    pub origin: Origin,
    /// The record's time, or the punctuation's.
    pub time: i64,
    /// The record and its Python form, so that what didn't change needn't be converted back.
    pub current: Option<Current>,
    /// How many records were forwarded for it.
    forwarded: Cell<usize>,
}

/// See [`Moment::current`].
pub struct Current {
    pub record: Record,
    pub key: Py<PyAny>,
    pub value: Py<PyAny>,
    pub headers: Py<PyAny>,
}

impl Moment {
    /// No record: `init` and punctuations.
    pub const fn none(time: i64) -> Self {
        Self {
            origin: NO_ORIGIN,
            time,
            current: None,
            forwarded: Cell::new(0),
        }
    }

    pub const fn at(record: &Record) -> Self {
        Self {
            origin: record.origin,
            time: record.timestamp.0,
            current: None,
            forwarded: Cell::new(0),
        }
    }

    /// No record but a key: what is forwarded for it has this key, and what is written its time.
    pub fn of_timer(py: Python<'_>, timer: &Timer<'_>, key: Bound<'_, PyAny>) -> Self {
        // A record's time can't be negative.
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

    pub fn of(record: &Record, given: Given<'_>) -> Self {
        Self {
            current: Some(Current {
                record: record.clone(),
                key: given.key.unbind(),
                value: given.value.unbind(),
                headers: given.headers.unbind(),
            }),
            ..Self::at(record)
        }
    }

    /// Another record is forwarded. A schedule or a timer may forward a whole store; a record stands for so many.
    pub fn count_forwarded(&self) -> Result<()> {
        if self.origin == NO_ORIGIN {
            return Ok(());
        }
        check_results(self.forwarded.replace(self.forwarded.get() + 1))
    }
}

/// A host in use. The pointer is only followed by the thread of the call, and only while the call lasts.
struct Open {
    host: *mut (dyn ProcessorHost + 'static),
    thread: ThreadId,
    moment: Moment,
}

// SAFETY: the pointer is taken out of the scope by the thread that put it there only (`take` compares).
unsafe impl Send for Open {}

#[allow(clippy::large_enum_variant)] // there is one for each processor
enum State {
    Shut,
    /// A method of the context or of a store is at work.
    Busy,
    Open(Open),
}

/// See the module.
pub struct CallScope {
    role: Role,
    state: Mutex<State>,
    failed: Mutex<Option<Error>>,
    /// The locks that the processor holds.
    pub(super) holding: Mutex<Option<Holding>>,
}

/// An open scope; closed when this is dropped.
pub struct OpenScope<'d> {
    scope: &'d CallScope,
}

impl CallScope {
    pub const fn new(role: Role) -> Self {
        Self {
            role,
            state: Mutex::new(State::Shut),
            failed: Mutex::new(None),
            holding: Mutex::new(None),
        }
    }

    pub const fn role(&self) -> Role {
        self.role
    }

    /// Opens it for one call. The guard must live as long as the borrow of the host: it holds the scope only,
    /// so its user drops it before `host` goes.
    pub fn open<'d>(&'d self, host: &mut dyn ProcessorHost, moment: Moment) -> OpenScope<'d> {
        let host: *mut dyn ProcessorHost = host;
        // SAFETY: only the lifetime changes. The guard shuts the scope at the end of the function that
        // borrowed the host, also when it unwinds, so the pointer isn't followed later.
        let host: *mut (dyn ProcessorHost + 'static) = unsafe { std::mem::transmute(host) };
        *self.state.lock() = State::Open(Open {
            host,
            thread: std::thread::current().id(),
            moment,
        });
        OpenScope { scope: self }
    }

    /// What is processed now.
    pub fn set(&self, moment: Moment) {
        let before = match &mut *self.state.lock() {
            State::Open(open) => std::mem::replace(&mut open.moment, moment),
            _ => moment,
        };
        drop(before);
    }

    /// Uses the host.
    pub fn with<T>(
        &self,
        what: &str,
        act: impl FnOnce(&mut dyn ProcessorHost, &Moment) -> Result<T>,
    ) -> PyResult<T> {
        let open = self.take(what).map_err(to_py_err)?;
        // SAFETY: the call that opened the scope still runs (its guard shuts the scope), on this thread, and the
        // host was taken out of the scope: nothing else follows the pointer until it is put back.
        let host = unsafe { &mut *open.host };
        host.at(open.moment.origin.order);
        let result = act(host, &open.moment);
        *self.state.lock() = State::Open(open);
        result.map_err(|e| self.raise(e))
    }

    /// As `with`, for what is known without an error.
    pub fn ask<T>(
        &self,
        what: &str,
        act: impl FnOnce(&mut dyn ProcessorHost, &Moment) -> T,
    ) -> PyResult<T> {
        self.with(what, |host, moment| Ok(act(host, moment)))
    }

    /// Uses the host, and calls user code meanwhile, which may use it too: through [`Calls`].
    pub fn with_calls<T>(
        &self,
        what: &str,
        act: impl FnOnce(&mut dyn ProcessorHost, &mut Calls<'_>) -> Result<T>,
    ) -> PyResult<T> {
        let Open { host, moment, .. } = self.take(what).map_err(to_py_err)?;
        let mut calls = Calls {
            scope: self,
            moment: Some(moment),
        };
        // SAFETY: as in `with`. While user code runs, the scope has a pointer that was made from this reference,
        // and gives it back before the reference is used again.
        let result = act(unsafe { &mut *host }, &mut calls);
        *self.state.lock() = State::Open(Open {
            host,
            thread: std::thread::current().id(),
            moment: calls.moment.take().unwrap_or(Moment::none(0)),
        });
        result.map_err(|e| self.raise(e))
    }

    fn take(&self, what: &str) -> Result<Open> {
        let mut state = self.state.lock();
        let elsewhere = match &*state {
            State::Open(open) => open.thread != std::thread::current().id(),
            State::Shut => {
                return Err(Error::user(format!("{what} was used outside of a call of its processor"))
                    .hint("use it in init(), process(), on_timer() or a punctuation only; don't keep iterating or writing after they return"));
            }
            State::Busy => {
                return Err(Error::user(format!("{what} was used while it was at work"))
                    .hint("a serde must not use the processor's context or stores, and no other thread may"));
            }
        };
        if elsewhere {
            return Err(Error::user(format!(
                "{what} was used in another thread than its processor's"
            ))
            .hint(
                "do the work of other threads first, then forward and write in process() itself",
            ));
        }
        match std::mem::replace(&mut *state, State::Busy) {
            State::Open(open) => Ok(open),
            _ => Err(Error::internal("a scope changed under its lock")),
        }
    }

    /// The exception for an error of the host.
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

/// What `with_calls` gives: runs user code while the host is in use.
pub struct Calls<'s> {
    scope: &'s CallScope,
    /// `None` while user code runs.
    moment: Option<Moment>,
}

impl Calls<'_> {
    /// The time of what is being processed.
    pub fn time(&self) -> i64 {
        self.moment.as_ref().map_or(0, |moment| moment.time)
    }

    /// Opens the scope again for `body`.
    pub fn call<T>(&mut self, host: &mut dyn ProcessorHost, body: impl FnOnce() -> T) -> T {
        let moment = self.moment.take().unwrap_or(Moment::none(0));
        let open = self.scope.open(host, moment);
        let done = body();
        let before = std::mem::replace(&mut *self.scope.state.lock(), State::Busy);
        if let State::Open(open) = before {
            self.moment = Some(open.moment);
        }
        // It would shut the scope; if `body` unwinds, it does.
        std::mem::forget(open);
        done
    }
}

impl OpenScope<'_> {
    /// The error of the engine that happened in the call, if one did.
    pub fn check(&self) -> Result<()> {
        self.scope.failed.lock().take().map_or(Ok(()), Err)
    }

    /// Gives back locks that are still held.
    ///
    /// # Errors
    /// `User` if there are any: they would be held over the end of the call.
    pub fn let_go(&self, call: &str) -> Result<()> {
        let Some(held) = self.scope.holding.lock().take() else {
            return Ok(());
        };
        drop(held);
        Err(Error::user(format!(
            "locks were still held when {call} returned: they are held within one call, never over a commit"
        ))
        .hint("write `with context.locks(...):` around what needs them"))
    }

    /// Shuts it.
    pub fn close(self, call: &str) -> Result<()> {
        self.check()?;
        self.let_go(call)
    }
}

impl Drop for OpenScope<'_> {
    fn drop(&mut self) {
        let open = std::mem::replace(&mut *self.scope.state.lock(), State::Shut);
        drop(open);
        let held = self.scope.holding.lock().take();
        drop(held);
    }
}
