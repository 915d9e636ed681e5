//! Iterators over the entries of a store.

use parking_lot::Mutex;
use pyo3::prelude::*;
use std::collections::VecDeque;

/// Entries of a store, in order. Also a context manager, because Kafka Streams' iterators must be
/// closed; this one holds nothing open.
///
/// >>> with MockProcessorContext(sf.Stores.in_memory_key_value("totals", key=str, value=int)) as context:
/// ...     totals = context.state_store("totals")
/// ...     totals.put_all({"ann": 30, "bob": 20})
/// ...     rows = totals.all()
/// ...     print(rows.peek(), next(rows), next(rows), rows.peek())
/// ('ann', 30) ('ann', 30) ('bob', 20) None
#[pyclass(frozen, module = "stoatflow._native")]
pub struct StoreIterator {
    rest: Mutex<VecDeque<Py<PyAny>>>,
}

impl StoreIterator {
    pub fn new(entries: Vec<Bound<'_, PyAny>>) -> Self {
        let rest = entries.into_iter().map(Bound::unbind).collect();
        Self {
            rest: Mutex::new(rest),
        }
    }
}

#[pymethods]
impl StoreIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self) -> Option<Py<PyAny>> {
        self.rest.lock().pop_front()
    }

    /// The next entry, without consuming it; `None` at the end.
    fn peek(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.rest.lock().front().map(|entry| entry.clone_ref(py))
    }

    fn __length_hint__(&self) -> usize {
        self.rest.lock().len()
    }

    /// Drops the remaining entries.
    fn close(&self) {
        let rest = std::mem::take(&mut *self.rest.lock());
        drop(rest);
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, _error: &Bound<'_, PyAny>) {
        self.close();
    }
}
