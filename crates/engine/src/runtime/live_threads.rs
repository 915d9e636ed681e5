//! The names of a run's threads that haven't ended.

use parking_lot::Mutex;
use std::collections::BTreeSet;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LiveThreads(Mutex<BTreeSet<String>>);

impl LiveThreads {
    /// A thread has started.
    pub fn add(&self, thread: &str) {
        self.0.lock().insert(thread.to_owned());
    }

    /// A thread has ended.
    pub fn remove(&self, thread: &str) {
        self.0.lock().remove(thread);
    }

    /// The threads that haven't ended.
    pub fn names(&self) -> Vec<String> {
        self.0.lock().iter().cloned().collect()
    }
}
