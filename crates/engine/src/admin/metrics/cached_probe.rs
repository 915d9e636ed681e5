//! A value that may take long to compute: computed on a background thread, and cached.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// How long a scrape waits for a new value. After that it uses the last one.
const PROBE_TIMEOUT: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Debug)]
pub(super) struct CachedProbe<T> {
    /// True while a thread computes the value; no second one is started.
    asking: AtomicBool,
    last: Mutex<Option<T>>,
}

impl<T> Default for CachedProbe<T> {
    fn default() -> Self {
        Self {
            asking: AtomicBool::new(false),
            last: Mutex::new(None),
        }
    }
}

impl<T: Clone + Send + 'static> CachedProbe<T> {
    /// The last value; `None` if there is none.
    pub(super) fn last(&self) -> Option<T> {
        self.last.lock().clone()
    }

    /// Starts computing the value again, unless a thread still does, and waits a moment for the result.
    pub(super) async fn refresh(
        self: &Arc<Self>,
        find: impl FnOnce() -> Option<T> + Send + 'static,
    ) {
        if self.asking.swap(true, Relaxed) {
            return;
        }
        let this = Arc::clone(self);
        let asked = tokio::task::spawn_blocking(move || {
            let found = find();
            *this.last.lock() = found;
            this.asking.store(false, Relaxed);
        });
        let _in_time = tokio::time::timeout(PROBE_TIMEOUT, asked).await;
    }
}

#[cfg(test)]
mod tests;
