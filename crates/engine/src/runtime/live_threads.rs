//! The threads of a run that have not ended, by name.

use parking_lot::Mutex;
use std::collections::BTreeSet;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LiveThreads(Mutex<BTreeSet<String>>);

impl LiveThreads {
    /// One begins.
    pub fn add(&self, thread: &str) {
        self.0.lock().insert(thread.to_owned());
    }

    /// One has ended.
    pub fn remove(&self, thread: &str) {
        self.0.lock().remove(thread);
    }

    /// Those that live.
    pub fn names(&self) -> Vec<String> {
        self.0.lock().iter().cloned().collect()
    }
}
