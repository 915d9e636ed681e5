//! One open database per directory and process.
//!
//! Takes a canonical path, gives the log that is open there, opening it if nobody has. A directory
//! is a resource of the whole process: RocksDB's lock would refuse the second handle, and two
//! handles would not see each other's fences. That is the reason for the one static here: it holds
//! weak references only, so it owns nothing and the last user closes the database.

use super::log::Log;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use stoatflow_core::Result;

static OPEN: Mutex<Option<HashMap<PathBuf, Weak<Log>>>> = Mutex::new(None);
static CLOSED: Condvar = Condvar::new();

/// Held by a log as its last field: dropped after the database, it says that the path is free.
#[derive(Debug)]
pub(super) struct Registered(PathBuf);

impl Drop for Registered {
    fn drop(&mut self) {
        let mut open = OPEN.lock();
        if let Some(open) = open.as_mut() {
            open.remove(&self.0);
        }
        CLOSED.notify_all();
    }
}

/// The log at a canonical path.
pub(super) fn shared(
    path: &Path,
    make: impl FnOnce(Registered) -> Result<Log>,
) -> Result<Arc<Log>> {
    let mut open = OPEN.lock();
    loop {
        match open.get_or_insert_default().get(path).map(Weak::upgrade) {
            Some(Some(log)) => return Ok(log),
            // Another thread dropped the last handle and is closing the files right now.
            Some(None) => CLOSED.wait(&mut open),
            None => break,
        }
    }
    // The place is reserved and the lock let go, so that a failure may drop `Registered`.
    open.get_or_insert_default()
        .insert(path.to_owned(), Weak::new());
    drop(open);
    let log = Arc::new(make(Registered(path.to_owned()))?);
    OPEN.lock()
        .get_or_insert_default()
        .insert(path.to_owned(), Arc::downgrade(&log));
    CLOSED.notify_all();
    Ok(log)
}
