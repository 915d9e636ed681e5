//! `WindowStore`.

use super::iterator::StoreIterator;
use super::{StoreHandle, stored};
use crate::convert::to_py;
use crate::processor::context::{generic, timestamp_ms};
use crate::processor::records::key as record_key;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyType;
use stoatflow_core::Datum;
use stoatflow_operators::Keys;

/// A value (or several) per key and window start.
///
/// >>> store = sf.Stores.in_memory_window("counts", "1h", "1m", key=str, value=int)
/// >>> with MockProcessorContext(store) as context:
/// ...     context.set_current_stream_time_ms(60_000)
/// ...     counts = context.state_store("counts")
/// ...     counts.put("ann", 2, 0)
/// ...     print(counts.fetch("ann", 0))
/// 2
#[pyclass(frozen, module = "stoatflow._native")]
pub struct WindowStore {
    pub handle: StoreHandle,
}

/// A bound of time that may be left out.
fn bound(time: Option<&Bound<'_, PyAny>>, open: i64) -> PyResult<i64> {
    time.map_or(Ok(open), timestamp_ms)
}

impl WindowStore {
    /// `(start, value)` of one key, by start.
    fn of_key(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        (from, to): (i64, i64),
        reverse: bool,
    ) -> PyResult<StoreIterator> {
        let key = record_key(key)?;
        let found = self
            .handle
            .with(|host, _, at| host.window_fetch(at, Keys::One(&key), from, to, reverse))?;
        let pairs = found.into_iter().map(|(_, start, stored)| {
            let pair = (start, self.handle.to_object(py, &stored)?);
            Ok(pair.into_pyobject(py)?.into_any())
        });
        Ok(StoreIterator::new(pairs.collect::<PyResult<_>>()?))
    }

    /// `(Windowed, value)` of many keys.
    fn of_keys(
        &self,
        py: Python<'_>,
        lo: Option<&Bound<'_, PyAny>>,
        hi: Option<&Bound<'_, PyAny>>,
        (from, to): (i64, i64),
        reverse: bool,
    ) -> PyResult<StoreIterator> {
        let lo = lo.map(record_key).transpose()?;
        let hi = hi.map(record_key).transpose()?;
        let keys = Keys::Between(lo.as_ref(), hi.as_ref());
        let found = self
            .handle
            .with(|host, _, at| host.window_fetch(at, keys, from, to, reverse))?;
        let pairs = found.into_iter().map(|(key, start, stored)| {
            let end = start.saturating_add(self.handle.size_ms);
            let key = to_py(py, &Datum::windowed(key, start, end))?;
            let pair = (key, self.handle.to_object(py, &stored)?);
            Ok(pair.into_pyobject(py)?.into_any())
        });
        Ok(StoreIterator::new(pairs.collect::<PyResult<_>>()?))
    }
}

#[pymethods]
impl WindowStore {
    /// The store's name.
    ///
    /// >>> context = MockProcessorContext(sf.Stores.in_memory_window("visits", "1h", "5m", key=str, value=int))
    /// >>> context.state_store("visits").name
    /// 'visits'
    #[getter]
    fn name(&self) -> &str {
        &self.handle.name
    }

    /// Writes the value of the window that starts at `start`; `None` deletes.
    ///
    /// >>> store = sf.Stores.in_memory_window("counts", "1h", "1m", key=str, value=int)
    /// >>> with MockProcessorContext(store) as context:
    /// ...     counts = context.state_store("counts")
    /// ...     counts.put("ann", 2, 60_000)
    /// ...     print(counts.fetch("ann", 60_000))
    /// 2
    fn put(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        start: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let key = record_key(key)?;
        let start = timestamp_ms(start)?;
        let (value, time) = self.handle.convert_value(value)?;
        self.handle.with(|host, context, at| {
            host.window_put(at, &key, start, stored(value, time.unwrap_or(context.time)))
        })
    }

    /// `fetch(key, start)`: the value of one window. `fetch(key, frm=, to=)`: `(start, value)` of the windows
    /// that start between the two, both included.
    ///
    /// >>> store = sf.Stores.in_memory_window("counts", "1h", "1m", key=str, value=int)
    /// >>> with MockProcessorContext(store) as context:
    /// ...     counts = context.state_store("counts")
    /// ...     counts.put("ann", 2, 0)
    /// ...     counts.put("ann", 1, 60_000)
    /// ...     print(counts.fetch("ann", 0), list(counts.fetch("ann", frm=0, to=60_000)))
    /// 2 [(0, 2), (60000, 1)]
    #[pyo3(signature = (key, start=None, *, frm=None, to=None, reverse=false))]
    fn fetch<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        start: Option<&Bound<'py, PyAny>>,
        frm: Option<&Bound<'py, PyAny>>,
        to: Option<&Bound<'py, PyAny>>,
        reverse: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(start) = start else {
            let times = (bound(frm, 0)?, bound(to, i64::MAX)?);
            let found = self.of_key(py, key, times, reverse)?;
            return Ok(Some(Bound::new(py, found)?.into_any()));
        };
        if frm.is_some() || to.is_some() {
            return Err(PyTypeError::new_err(
                "fetch() takes either a window's start, or frm= and to=",
            ));
        }
        let key = record_key(key)?;
        let start = timestamp_ms(start)?;
        let found = self
            .handle
            .with(|host, _, at| host.window_get(at, &key, start))?;
        found
            .map(|found| self.handle.to_object(py, &found))
            .transpose()
    }

    /// As `fetch(key, frm=, to=)`, the last window first.
    ///
    /// >>> store = sf.Stores.in_memory_window("counts", "1h", "1m", key=str, value=int)
    /// >>> with MockProcessorContext(store) as context:
    /// ...     counts = context.state_store("counts")
    /// ...     counts.put("ann", 2, 0)
    /// ...     counts.put("ann", 1, 60_000)
    /// ...     print(list(counts.backward_fetch("ann")))
    /// [(60000, 1), (0, 2)]
    #[pyo3(signature = (key, frm=None, to=None))]
    fn backward_fetch(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        frm: Option<&Bound<'_, PyAny>>,
        to: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<StoreIterator> {
        self.of_key(py, key, (bound(frm, 0)?, bound(to, i64::MAX)?), true)
    }

    /// `(Windowed, value)` of the keys between two and the windows that start between two times,
    /// all included.
    ///
    /// >>> store = sf.Stores.in_memory_window("counts", "1h", "1m", key=str, value=int)
    /// >>> with MockProcessorContext(store) as context:
    /// ...     counts = context.state_store("counts")
    /// ...     for key in ("ann", "bob", "cyd"):
    /// ...         counts.put(key, 1, 0)
    /// ...     print([(windowed.key, count) for windowed, count in counts.fetch_range("bob", "cyd")])
    /// [('bob', 1), ('cyd', 1)]
    #[pyo3(signature = (lo=None, hi=None, *, frm=None, to=None, reverse=false))]
    fn fetch_range(
        &self,
        py: Python<'_>,
        lo: Option<&Bound<'_, PyAny>>,
        hi: Option<&Bound<'_, PyAny>>,
        frm: Option<&Bound<'_, PyAny>>,
        to: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<StoreIterator> {
        self.of_keys(py, lo, hi, (bound(frm, 0)?, bound(to, i64::MAX)?), reverse)
    }

    /// `(Windowed, value)` of the windows that start between two times, both included.
    ///
    /// >>> store = sf.Stores.in_memory_window("counts", "1h", "1m", key=str, value=int)
    /// >>> with MockProcessorContext(store) as context:
    /// ...     counts = context.state_store("counts")
    /// ...     counts.put("ann", 2, 0)
    /// ...     counts.put("bob", 1, 60_000)
    /// ...     print([(windowed.key, count) for windowed, count in counts.fetch_all(frm=60_000)])
    /// [('bob', 1)]
    #[pyo3(signature = (frm=None, to=None, *, reverse=false))]
    fn fetch_all(
        &self,
        py: Python<'_>,
        frm: Option<&Bound<'_, PyAny>>,
        to: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<StoreIterator> {
        self.of_keys(
            py,
            None,
            None,
            (bound(frm, 0)?, bound(to, i64::MAX)?),
            reverse,
        )
    }

    /// `(Windowed, value)` of everything.
    ///
    /// >>> store = sf.Stores.in_memory_window("counts", "1h", "1m", key=str, value=int)
    /// >>> with MockProcessorContext(store) as context:
    /// ...     counts = context.state_store("counts")
    /// ...     counts.put("ann", 2, 0)
    /// ...     print(list(counts.all()))
    /// [(Windowed(key='ann', window=Window(start=0, end=60000)), 2)]
    #[pyo3(signature = (*, reverse=false))]
    fn all(&self, py: Python<'_>, reverse: bool) -> PyResult<StoreIterator> {
        self.of_keys(py, None, None, (0, i64::MAX), reverse)
    }

    fn __repr__(&self) -> String {
        format!("<WindowStore '{}'>", self.handle.name)
    }

    #[classmethod]
    fn __class_getitem__<'py>(
        class: &Bound<'py, PyType>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        generic(class, item)
    }
}
