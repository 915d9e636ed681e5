//! A mutable borrow that is lent to code which can't hold one: an object of another language, while
//! it is called.
//!
//! [`Lent::open`] takes a pointer for the duration of a call. During the call, [`Lent::with`] hands its
//! host to one caller at a time, on the thread of the call; other callers get [`Refused`]. The type of
//! the host doesn't matter.

#[cfg(test)]
mod tests;

use parking_lot::Mutex;
use std::thread::{self, ThreadId};

/// Why the host can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No call is running.
    Closed,
    /// Another caller is using the host.
    Busy,
    /// The call runs on another thread.
    OtherThread,
}

/// What is lent during a call, with the context of the call.
#[derive(Debug)]
struct Open<H: ?Sized, M> {
    host: *mut H,
    thread: ThreadId,
    context: M,
}

// SAFETY: the pointer is only followed by the thread that put it there (`take` compares).
unsafe impl<H: ?Sized, M: Send> Send for Open<H, M> {}

#[derive(Debug)]
enum State<H: ?Sized, M> {
    Closed,
    Busy,
    Open(Open<H, M>),
}

/// See the module.
#[derive(Debug)]
pub struct Lent<H: ?Sized, M> {
    state: Mutex<State<H, M>>,
}

/// While this lives, the host is lent.
#[derive(Debug)]
pub struct LentCall<'l, H: ?Sized, M> {
    lent: &'l Lent<H, M>,
}

impl<H: ?Sized, M> Drop for LentCall<'_, H, M> {
    fn drop(&mut self) {
        let open = std::mem::replace(&mut *self.lent.state.lock(), State::Closed);
        // The context of the call is dropped outside the lock.
        drop(open);
    }
}

impl<H: ?Sized, M> Default for Lent<H, M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<H: ?Sized, M> Lent<H, M> {
    /// Nothing is lent.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            state: Mutex::new(State::Closed),
        }
    }

    /// Lends the host for one call.
    ///
    /// # Safety
    /// The pointer must be valid until the guard is dropped, and the host must be used through this
    /// guard only.
    #[must_use]
    pub unsafe fn open(&self, host: *mut H, context: M) -> LentCall<'_, H, M> {
        self.put(host, context);
        LentCall { lent: self }
    }

    fn put(&self, host: *mut H, context: M) {
        *self.state.lock() = State::Open(Open {
            host,
            thread: thread::current().id(),
            context,
        });
    }

    /// Sets the context of the call from now on.
    pub fn set(&self, context: M) {
        let before = match &mut *self.state.lock() {
            State::Open(open) => std::mem::replace(&mut open.context, context),
            _ => context,
        };
        drop(before);
    }

    /// Uses the host.
    ///
    /// # Errors
    /// If the host isn't lent, or not to this thread.
    pub fn with<T>(&self, act: impl FnOnce(&mut H, &M) -> T) -> Result<T, Refused> {
        let Open { host, context, .. } = self.take()?;
        // SAFETY: the call still runs (its guard shuts this), on this thread, and the pointer was
        // taken out: nothing else follows it until it is put back.
        let result = act(unsafe { &mut *host }, &context);
        self.put(host, context);
        Ok(result)
    }

    /// Uses the host, and meanwhile calls code that may use it too, through [`LentCalls`].
    ///
    /// # Errors
    /// If the host isn't lent, or not to this thread.
    pub fn with_calls<T>(
        &self,
        act: impl FnOnce(&mut H, &mut LentCalls<'_, H, M>) -> T,
    ) -> Result<T, Refused>
    where
        M: Default,
    {
        let Open { host, context, .. } = self.take()?;
        let mut calls = LentCalls {
            lent: self,
            context,
        };
        // SAFETY: as in `with`. While such code runs, a pointer is lent that was made from this
        // reference, and it is given back before the reference is used again.
        let result = act(unsafe { &mut *host }, &mut calls);
        self.put(host, calls.context);
        Ok(result)
    }

    fn take(&self) -> Result<Open<H, M>, Refused> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Busy) {
            State::Open(open) if open.thread == thread::current().id() => Ok(open),
            State::Open(open) => {
                *state = State::Open(open);
                Err(Refused::OtherThread)
            }
            State::Closed => {
                *state = State::Closed;
                Err(Refused::Closed)
            }
            State::Busy => Err(Refused::Busy),
        }
    }
}

/// Passed to the closure of [`Lent::with_calls`]: calls code that may use the host.
#[derive(Debug)]
pub struct LentCalls<'l, H: ?Sized, M> {
    lent: &'l Lent<H, M>,
    context: M,
}

impl<H: ?Sized, M: Default> LentCalls<'_, H, M> {
    /// The context of the call.
    pub const fn context(&self) -> &M {
        &self.context
    }

    /// Lends the host again while `body` runs.
    ///
    /// # Safety
    /// As for [`Lent::open`], while `body` runs.
    pub unsafe fn call<T>(&mut self, host: *mut H, body: impl FnOnce() -> T) -> T {
        // SAFETY: passed on.
        let open = unsafe { self.lent.open(host, std::mem::take(&mut self.context)) };
        let done = body();
        let before = std::mem::replace(&mut *self.lent.state.lock(), State::Busy);
        if let State::Open(open) = before {
            self.context = open.context;
        }
        // Dropping it would close the scope; if `body` unwinds, that happens.
        std::mem::forget(open);
        done
    }
}
