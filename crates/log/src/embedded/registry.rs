//! One open database per directory and process.
//!
//! Takes a canonical path, returns the log that is open there, or opens it. A directory is a resource of
//! the whole process: RocksDB's lock would refuse a second handle, and two handles would not see each
//! other's fences. That is the reason for the one static here: it holds weak references only, so it owns
//! nothing and the last user closes the database.

use super::log::Log;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use stoatflow_core::Result;

static OPEN: Mutex<Option<HashMap<PathBuf, Weak<Log>>>> = Mutex::new(None);
static CLOSED: Condvar = Condvar::new();

/// Last field of a log: its drop runs after the database is closed, and releases the path.
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

/// Returns the log at a canonical path, opening it with `make` if it isn't open.
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
    // The path is reserved and the lock released, so that a failed `make` can drop `Registered`.
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
