//! What has been decoded of a view already.
//!
//! Takes the place of a part and how to make it; gives the same object for the same place. Keeps
//! views of objects and arrays only (a scalar is decoded as fast as it is found here), and only a
//! few. Its lock is never held while Python runs, so neither a collection of garbage nor another
//! thread can wait for it forever.

use parking_lot::Mutex;
use pyo3::prelude::*;

/// More nested parts than this are made again at each access.
const MOST: usize = 16;

#[derive(Default)]
pub struct Parts(Mutex<Vec<(usize, Py<PyAny>)>>);

impl Parts {
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
        let mut parts = self.0.lock();
        // Another thread may have made it meanwhile: one of both counts.
        if let Some((_, known)) = parts.iter().find(|(at, _)| *at == place) {
            let known = known.bind(py).clone();
            drop(parts);
            return Ok(known);
        }
        if parts.len() < MOST {
            parts.push((place, made.clone().unbind()));
        }
        Ok(made)
    }

    fn find<'py>(&self, py: Python<'py>, place: usize) -> Option<Bound<'py, PyAny>> {
        let parts = self.0.lock();
        let known = parts.iter().find(|(at, _)| *at == place);
        known.map(|(_, known)| known.bind(py).clone())
    }
}
