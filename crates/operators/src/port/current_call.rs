//! Which user function a thread is running, with which record, and since when.
//!
//! The calling thread stores it with relaxed stores; others read it to report what is waited for. By
//! thread, because a user function doesn't know which lane calls it. A thread that is not watched stores
//! nothing; a wait of a watched thread can be interrupted. Never waits for a reader.

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
    /// Monotonic milliseconds at which the call began.
    since_ms: AtomicU64,
    /// Source, topic and partition of the record.
    place: AtomicU64,
    /// Its offset.
    offset: AtomicI64,
    /// The foreign runtime's id of the thread; 0: none.
    thread: AtomicU64,
    /// What was requested of the run: nothing, a stop, an abort.
    asked: AtomicU8,
    waiting: Mutex<()>,
    wake: Condvar,
}

/// A foreign function that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// Its address, as returned by [`address`].
    pub callee: usize,
    /// Monotonic milliseconds at which the call began, or the call for its batch.
    pub since_ms: u64,
    /// The record, if it is about one.
    pub origin: Option<Origin>,
}

const STOP: u8 = 1;
const ABORT: u8 = 2;

#[derive(Debug)]
struct OwnCall {
    at: Arc<CurrentCall>,
    clock: Arc<dyn Clock>,
}

thread_local! {
    // Read for every call: a reference, which needs no destructor, costs next to nothing.
    static MINE: Cell<Option<&'static OwnCall>> = const { Cell::new(None) };
}

/// Identifies a callee.
pub fn address<T: ?Sized>(callee: &T) -> usize {
    std::ptr::from_ref(callee).cast::<()>() as usize
}

/// From now on this thread stores there what it is calling; times are of this clock. Never freed: it is
/// set once per thread.
pub fn watch_thread(at: Arc<CurrentCall>, clock: Arc<dyn Clock>) {
    MINE.set(Some(Box::leak(Box::new(OwnCall { at, clock }))));
}

/// Sets the foreign runtime's id of this thread.
pub fn note_thread(id: u64) {
    if let Some(mine) = MINE.get() {
        mine.at.thread.store(id, Relaxed);
    }
}

/// Stores the record that is passed to a function. Returns false if the call is useless, because the run
/// is being aborted.
#[inline]
pub fn note_record(origin: &Origin) -> bool {
    let Some(OwnCall { at, .. }) = MINE.get() else {
        return true;
    };
    at.place.store(packed(origin), Relaxed);
    at.offset.store(origin.offset.0, Relaxed);
    at.asked.load(Relaxed) < ABORT
}

/// As [`note_record`], for a record of a batch: no further one is passed to a function once the run is
/// being aborted.
///
/// # Errors
/// An interruption, if the run is being aborted.
#[inline]
pub fn note_record_or_abort(at: usize, origin: &Origin) -> Result<(), Failed> {
    if note_record(origin) {
        return Ok(());
    }
    let error = Error::interruption();
    Err(Failed { at, error })
}

/// Forgets the record: the next function is called for no known record.
pub fn forget_record() {
    if let Some(mine) = MINE.get() {
        mine.at.forget();
    }
}

/// Calls a function and stores its address for as long as it runs. `timed`: with the time of its start.
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
    let _left = RestoreOuterCall { at, before };
    call()
}

/// Waits. Returns false, and at once, if this thread's run is asked to end.
pub fn pause(time: Duration) -> bool {
    match MINE.get() {
        Some(mine) => mine.at.wait(time),
        None => CurrentCall::default().wait(time),
    }
}

/// Restores the outer function when an inner one has returned, because a function may call another one.
struct RestoreOuterCall {
    at: &'static CurrentCall,
    before: usize,
}

impl Drop for RestoreOuterCall {
    fn drop(&mut self) {
        self.at.callee.store(self.before, Relaxed);
    }
}

impl CurrentCall {
    /// The running function.
    pub fn running(&self) -> Option<Running> {
        let callee = self.callee.load(Relaxed);
        let origin = unpacked(self.place.load(Relaxed), self.offset.load(Relaxed));
        (callee != 0).then(|| Running {
            callee,
            since_ms: self.since_ms.load(Relaxed),
            origin: (origin != NO_ORIGIN).then_some(origin),
        })
    }

    /// The foreign runtime's id of the thread.
    pub fn thread(&self) -> Option<u64> {
        Some(self.thread.load(Relaxed)).filter(|id| *id != 0)
    }

    /// Asks the run to stop: waits end.
    pub fn stop(&self) {
        self.ask(STOP);
    }

    /// Aborts the run: waits end, and no further record of a batch is passed to a function.
    pub fn abort(&self) {
        self.ask(ABORT);
    }

    /// Call before a run.
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

#[allow(clippy::cast_possible_truncation)] // the parts that `packed` combined
fn unpacked(place: u64, offset: i64) -> Origin {
    Origin {
        source: SourceId((place >> 48) as u16),
        topic: (place >> 32) as u16,
        partition: Partition((place as u32).cast_signed()),
        offset: Offset(offset),
        ..NO_ORIGIN
    }
}
