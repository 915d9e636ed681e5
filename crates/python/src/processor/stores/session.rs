//! `SessionStore`.

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

/// A value per key and session. A session ends with its last record. With `headers=True`, values are
/// `AggregationWithHeaders`.
///
/// >>> store = sf.Stores.in_memory_session("visits", "1h", key=str, value=int)
/// >>> with MockProcessorContext(store) as context:
/// ...     visits = context.state_store("visits")
/// ...     visits.put(sf.Windowed("ann", sf.Window(0, 5000)), 2)
/// ...     print(list(visits.fetch("ann")))
/// [(Windowed(key='ann', window=Window(start=0, end=5000)), 2)]
#[pyclass(frozen, module = "stoatflow._native")]
pub struct SessionStore {
    pub handle: StoreHandle,
}

/// Key, start and end of a `Windowed`.
fn session(windowed: &Bound<'_, PyAny>) -> PyResult<(Datum, i64, i64)> {
    match record_key(windowed)? {
        Datum::Windowed(w) => Ok((w.key.clone(), w.start, w.end)),
        _ => Err(PyTypeError::new_err(format!(
            "a session is named by Windowed(key, Window(start, end)), not by {}",
            windowed.get_type().qualname()?
        ))),
    }
}

impl SessionStore {
    fn write(&self, windowed: &Bound<'_, PyAny>, value: Datum) -> PyResult<()> {
        let (key, start, end) = session(windowed)?;
        self.handle.with(|host, context, at| {
            host.session_put(at, &key, start, end, stored(value, context.time))
        })
    }

    fn find(
        &self,
        py: Python<'_>,
        keys: Keys<'_>,
        (earliest_end, latest_start): (i64, i64),
        reverse: bool,
    ) -> PyResult<StoreIterator> {
        let found = self
            .handle
            .with(|host, _, at| host.session_find(at, keys, earliest_end, latest_start, reverse))?;
        let pairs = found.into_iter().map(|(key, start, end, value)| {
            let key = to_py(py, &Datum::windowed(key, start, end))?;
            let pair = (key, self.handle.to_aggregation(py, &value)?);
            Ok(pair.into_pyobject(py)?.into_any())
        });
        Ok(StoreIterator::new(pairs.collect::<PyResult<_>>()?))
    }
}

#[pymethods]
impl SessionStore {
    /// The store's name.
    ///
    /// >>> context = MockProcessorContext(sf.Stores.in_memory_session("visits", "1h", key=str, value=int))
    /// >>> context.state_store("visits").name
    /// 'visits'
    #[getter]
    fn name(&self) -> &str {
        &self.handle.name
    }

    /// Writes a session, identified by `Windowed(key, Window(start, end))`; `None` removes it.
    ///
    /// >>> store = sf.Stores.in_memory_session("visits", "1h", key=str, value=int)
    /// >>> with MockProcessorContext(store) as context:
    /// ...     visits = context.state_store("visits")
    /// ...     visits.put(sf.Windowed("ann", sf.Window(0, 5000)), 2)
    /// ...     print(visits.fetch_session("ann", 0, 5000))
    /// 2
    fn put(&self, session: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.write(session, self.handle.convert_aggregation(value)?)
    }

    /// Removes a session.
    ///
    /// >>> store = sf.Stores.in_memory_session("visits", "1h", key=str, value=int)
    /// >>> with MockProcessorContext(store) as context:
    /// ...     visits = context.state_store("visits")
    /// ...     visits.put(sf.Windowed("ann", sf.Window(0, 5000)), 2)
    /// ...     visits.remove(sf.Windowed("ann", sf.Window(0, 5000)))
    /// ...     print(visits.fetch_session("ann", 0, 5000))
    /// None
    fn remove(&self, session: &Bound<'_, PyAny>) -> PyResult<()> {
        self.write(session, Datum::Null)
    }

    /// The value of one session.
    ///
    /// >>> store = sf.Stores.in_memory_session("visits", "1h", key=str, value=int)
    /// >>> with MockProcessorContext(store) as context:
    /// ...     visits = context.state_store("visits")
    /// ...     visits.put(sf.Windowed("ann", sf.Window(0, 5000)), 2)
    /// ...     print(visits.fetch_session("ann", 0, 5000), visits.fetch_session("ann", 0, 6000))
    /// 2 None
    fn fetch_session<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        start: &Bound<'py, PyAny>,
        end: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let key = record_key(key)?;
        let (start, end) = (timestamp_ms(start)?, timestamp_ms(end)?);
        let found = self
            .handle
            .with(|host, _, at| host.session_get(at, &key, start, end))?;
        found
            .map(|value| self.handle.to_aggregation(py, &value))
            .transpose()
    }

    /// `(Windowed, value)` of the sessions (of one key, or of all) that end at `earliest_end` or later
    /// and start at `latest_start` or earlier.
    ///
    /// >>> store = sf.Stores.in_memory_session("visits", "1h", key=str, value=int)
    /// >>> with MockProcessorContext(store) as context:
    /// ...     visits = context.state_store("visits")
    /// ...     visits.put(sf.Windowed("ann", sf.Window(0, 5000)), 2)
    /// ...     visits.put(sf.Windowed("ann", sf.Window(60_000, 70_000)), 1)
    /// ...     found = visits.find_sessions("ann", earliest_end=6000, latest_start=60_000)
    /// ...     print([count for _, count in found])
    /// [1]
    #[pyo3(signature = (key=None, *, earliest_end, latest_start, reverse=false))]
    fn find_sessions(
        &self,
        py: Python<'_>,
        key: Option<&Bound<'_, PyAny>>,
        earliest_end: &Bound<'_, PyAny>,
        latest_start: &Bound<'_, PyAny>,
        reverse: bool,
    ) -> PyResult<StoreIterator> {
        let times = (timestamp_ms(earliest_end)?, timestamp_ms(latest_start)?);
        let key = key.map(record_key).transpose()?;
        let keys = key.as_ref().map_or(Keys::Between(None, None), Keys::One);
        self.find(py, keys, times, reverse)
    }

    /// `(Windowed, value)` of all sessions of a key, or of a range of keys with both bounds included.
    ///
    /// >>> store = sf.Stores.in_memory_session("visits", "1h", key=str, value=int)
    /// >>> with MockProcessorContext(store) as context:
    /// ...     visits = context.state_store("visits")
    /// ...     visits.put(sf.Windowed("ann", sf.Window(0, 5000)), 2)
    /// ...     visits.put(sf.Windowed("bob", sf.Window(0, 5000)), 1)
    /// ...     print([(session.key, count) for session, count in visits.fetch("ann", "bob")])
    /// [('ann', 2), ('bob', 1)]
    #[pyo3(signature = (lo, hi=None, *, reverse=false))]
    fn fetch(
        &self,
        py: Python<'_>,
        lo: &Bound<'_, PyAny>,
        hi: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<StoreIterator> {
        let lo = record_key(lo)?;
        let hi = hi.map(record_key).transpose()?;
        let keys = match &hi {
            Some(hi) => Keys::Between(Some(&lo), Some(hi)),
            None => Keys::One(&lo),
        };
        self.find(py, keys, (0, i64::MAX), reverse)
    }

    fn __repr__(&self) -> String {
        format!("<SessionStore '{}'>", self.handle.name)
    }

    #[classmethod]
    fn __class_getitem__<'py>(
        class: &Bound<'py, PyType>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        generic(class, item)
    }
}
