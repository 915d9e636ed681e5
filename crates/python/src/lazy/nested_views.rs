//! Caches the nested views of a view.
//!
//! Takes the position of a part and a function that creates it; returns the same object for the same
//! position. Caches views of objects and arrays only (decoding a scalar is as fast as finding it here),
//! and only a few. The lock is never held while Python code runs, so neither garbage collection nor
//! another thread can deadlock on it.

use parking_lot::Mutex;
use pyo3::prelude::*;

/// Nested parts beyond this number are created again at each access.
const MAX_CACHED: usize = 16;

#[derive(Default)]
pub struct NestedViews(Mutex<Vec<(usize, Py<PyAny>)>>);

impl NestedViews {
    pub fn get_or<'py>(
        &self,
        py: Python<'py>,
        place: usize,
        make: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(known) = self.find(py, place) {
            return Ok(known);
        }
        let made = make()?;
        let mut views = self.0.lock();
        // Another thread may have created it meanwhile; the first one is used.
        if let Some((_, known)) = views.iter().find(|(at, _)| *at == place) {
            let known = known.bind(py).clone();
            drop(views);
            return Ok(known);
        }
        if views.len() < MAX_CACHED {
            views.push((place, made.clone().unbind()));
        }
        Ok(made)
    }

    fn find<'py>(&self, py: Python<'py>, place: usize) -> Option<Bound<'py, PyAny>> {
        let views = self.0.lock();
        let known = views.iter().find(|(at, _)| *at == place);
        known.map(|(_, known)| known.bind(py).clone())
    }
}
