//! Which user function a thread is running, with which record, and since when.
//!
//! The caller notes it with relaxed stores; others read it to say what is waited for. By thread, because a
//! function of the user doesn't know which lane calls it. A thread that is not watched notes nothing. A
//! wait of such a thread can be interrupted. Never waits for a reader.

use crate::{Failed, NO_ORIGIN};
use parking_lot::{Condvar, Mutex};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use stoatflow_core::{Clock, Error, Offset, Origin, Partition, SourceId};

#[cfg(test)]
mod tests;

/// See the module.
#[derive(Debug, Default)]
pub struct CurrentCall {
    /// The address of the function; 0: none.
    callee: AtomicUsize,
    /// Monotonic milliseconds.
    since_ms: AtomicU64,
    /// Source, topic and partition of the record.
    place: AtomicU64,
    /// Its offset.
    offset: AtomicI64,
    /// How the foreign runtime calls the thread; 0: not at all.
    thread: AtomicU64,
    /// What is asked of the run: nothing, a stop, an abort.
    asked: AtomicU8,
    waiting: Mutex<()>,
    wake: Condvar,
}

/// A foreign function that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// Its address, as [`address`] gives it.
    pub callee: usize,
    /// Monotonic milliseconds at which the call began, or the call with the batch.
    pub since_ms: u64,
    /// The record, if it is about one.
    pub origin: Option<Origin>,
}

const STOP: u8 = 1;
const ABORT: u8 = 2;

#[derive(Debug)]
struct Mine {
    at: Arc<CurrentCall>,
    clock: Arc<dyn Clock>,
}

thread_local! {
    // Looked at for every call: a reference, which needs no destructor, costs next to nothing.
    static MINE: Cell<Option<&'static Mine>> = const { Cell::new(None) };
}

/// Tells callees apart.
pub fn address<T: ?Sized>(callee: &T) -> usize {
    std::ptr::from_ref(callee).cast::<()>() as usize
}

/// From now on this thread notes there what it is at; times are of this clock. Kept for good: a thread has
/// it once.
pub fn note_at(at: Arc<CurrentCall>, clock: Arc<dyn Clock>) {
    MINE.set(Some(Box::leak(Box::new(Mine { at, clock }))));
}

/// The foreign runtime calls this thread so.
pub fn note_thread(id: u64) {
    if let Some(mine) = MINE.get() {
        mine.at.thread.store(id, Relaxed);
    }
}

/// A record is given to a function. False if that is no use: the run is being given up.
#[inline]
pub fn note_record(origin: &Origin) -> bool {
    let Some(Mine { at, .. }) = MINE.get() else {
        return true;
    };
    at.place.store(packed(origin), Relaxed);
    at.offset.store(origin.offset.0, Relaxed);
    at.asked.load(Relaxed) < ABORT
}

/// As [`note_record`], for a record of a batch: no further one is given to a function of a run that is
/// being given up.
///
/// # Errors
/// An interruption.
#[inline]
pub fn hold(at: usize, origin: &Origin) -> Result<(), Failed> {
    if note_record(origin) {
        return Ok(());
    }
    let error = Error::interruption();
    Err(Failed { at, error })
}

/// The next function is about no record that is known.
pub fn forget_record() {
    if let Some(mine) = MINE.get() {
        mine.at.forget();
    }
}

/// Calls a function of this address, and notes that for as long as it runs. `timed`: since when, too.
#[inline]
pub fn within<T>(callee: usize, timed: bool, call: impl FnOnce() -> T) -> T {
    let Some(mine) = MINE.get() else {
        return call();
    };
    let at = &*mine.at;
    if timed {
        let now = u64::try_from(mine.clock.monotonic().as_millis()).unwrap_or(u64::MAX);
        at.since_ms.store(now, Relaxed);
    }
    let before = at.callee.load(Relaxed);
    at.callee.store(callee, Relaxed);
    let _left = Left { at, before };
    call()
}

/// Waits. False, and at once, if this thread's run is asked to end.
pub fn pause(time: Duration) -> bool {
    match MINE.get() {
        Some(mine) => mine.at.wait(time),
        None => CurrentCall::default().wait(time),
    }
}

/// A function may call another one: afterwards the outer one runs again.
struct Left {
    at: &'static CurrentCall,
    before: usize,
}

impl Drop for Left {
    fn drop(&mut self) {
        self.at.callee.store(self.before, Relaxed);
    }
}

impl CurrentCall {
    /// What runs.
    pub fn running(&self) -> Option<Running> {
        let callee = self.callee.load(Relaxed);
        let origin = unpacked(self.place.load(Relaxed), self.offset.load(Relaxed));
        (callee != 0).then(|| Running {
            callee,
            since_ms: self.since_ms.load(Relaxed),
            origin: (origin != NO_ORIGIN).then_some(origin),
        })
    }

    /// How the foreign runtime calls the thread.
    pub fn thread(&self) -> Option<u64> {
        Some(self.thread.load(Relaxed)).filter(|id| *id != 0)
    }

    /// Its run is to stop: waits end.
    pub fn stop(&self) {
        self.ask(STOP);
    }

    /// Its run is given up: waits end, and no further record of a batch is given to a function.
    pub fn abort(&self) {
        self.ask(ABORT);
    }

    /// Before a run.
    pub fn begin(&self) {
        self.callee.store(0, Relaxed);
        self.asked.store(0, Relaxed);
        self.forget();
    }

    fn ask(&self, what: u8) {
        let _guard = self.waiting.lock();
        self.asked.fetch_max(what, Relaxed);
        self.wake.notify_all();
    }

    fn forget(&self) {
        self.place.store(packed(&NO_ORIGIN), Relaxed);
        self.offset.store(NO_ORIGIN.offset.0, Relaxed);
    }

    fn wait(&self, time: Duration) -> bool {
        let mut guard = self.waiting.lock();
        let asked = || self.asked.load(Relaxed) > 0;
        let _timeout = self.wake.wait_while_for(&mut guard, |()| !asked(), time);
        !asked()
    }
}

fn packed(origin: &Origin) -> u64 {
    let source = u64::from(origin.source.0) << 48;
    let topic = u64::from(origin.topic) << 32;
    source | topic | u64::from(origin.partition.0.cast_unsigned())
}

#[allow(clippy::cast_possible_truncation)] // the parts that were put together
fn unpacked(place: u64, offset: i64) -> Origin {
    Origin {
        source: SourceId((place >> 48) as u16),
        topic: (place >> 32) as u16,
        partition: Partition((place as u32).cast_signed()),
        offset: Offset(offset),
        ..NO_ORIGIN
    }
}
