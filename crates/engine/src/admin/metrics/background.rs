//! A value that takes its time to find: asked for on a thread beside, and kept.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// How long a scrape waits for it. After that it gives what was last known.
const PATIENCE: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Debug)]
pub(super) struct Background<T> {
    /// Does a thread wait for it? Then no other is started.
    asking: AtomicBool,
    last: Mutex<Option<T>>,
}

impl<T> Default for Background<T> {
    fn default() -> Self {
        Self {
            asking: AtomicBool::new(false),
            last: Mutex::new(None),
        }
    }
}

impl<T: Clone + Send + 'static> Background<T> {
    /// What was last found; `None`: nothing.
    pub(super) fn last(&self) -> Option<T> {
        self.last.lock().clone()
    }

    /// Asks again.
    pub(super) async fn ask(self: &Arc<Self>, find: impl FnOnce() -> Option<T> + Send + 'static) {
        if self.asking.swap(true, Relaxed) {
            return;
        }
        let this = Arc::clone(self);
        let asked = tokio::task::spawn_blocking(move || {
            let found = find();
            *this.last.lock() = found;
            this.asking.store(false, Relaxed);
        });
        let _in_time = tokio::time::timeout(PATIENCE, asked).await;
    }
}

#[cfg(test)]
mod tests;
