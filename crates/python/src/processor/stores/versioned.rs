//! `VersionedKeyValueStore`.

use super::StoreHandle;
use crate::convert::to_py;
use crate::processor::context::{generic, timestamp_ms};
use crate::processor::records::{datum, key as record_key};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use stoatflow_operators::Version;

/// Versions of values per key, each valid from its timestamp on.
///
/// >>> store = sf.Stores.in_memory_versioned("prices", "1h", key=str, value=int)
/// >>> with MockProcessorContext(store) as context:
/// ...     prices = context.state_store("prices")
/// ...     _ = prices.put("tea", 3, 0)
/// ...     _ = prices.put("tea", 4, 60_000)
/// ...     print(prices.get("tea").value, prices.get("tea", as_of=30_000).value)
/// 4 3
#[pyclass(frozen, module = "stoatflow._native")]
pub struct VersionedKeyValueStore {
    pub handle: StoreHandle,
}

static VERSION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// `VersionedRecord(value, timestamp)`. Leaves out `valid_to`, as Kafka Streams does.
pub fn version_to_py<'py>(
    py: Python<'py>,
    version: Option<Version>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some((value, since, _)) = version else {
        return Ok(None);
    };
    let class = VERSION.import(py, "stoatflow.stores", "VersionedRecord")?;
    class.call1((to_py(py, &value)?, since)).map(Some)
}

#[pymethods]
impl VersionedKeyValueStore {
    /// The store's name.
    ///
    /// >>> context = MockProcessorContext(sf.Stores.in_memory_versioned("prices", "1h", key=str, value=int))
    /// >>> context.state_store("prices").name
    /// 'prices'
    #[getter]
    fn name(&self) -> &str {
        &self.handle.name
    }

    /// Writes a version; `None` deletes the value from `timestamp` on. Returns the time at which the
    /// version ends: `VALID_TO_UNDEFINED` if it is the latest, `NOT_PUT` if it is too old to be stored.
    ///
    /// >>> store = sf.Stores.in_memory_versioned("prices", "1h", key=str, value=int)
    /// >>> with MockProcessorContext(store) as context:
    /// ...     prices = context.state_store("prices")
    /// ...     print(prices.put("tea", 4, 60_000), prices.put("tea", 3, 0))
    /// -1 60000
    fn put(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        timestamp: &Bound<'_, PyAny>,
    ) -> PyResult<i64> {
        let (key, value) = (record_key(key)?, datum(value)?);
        let timestamp = timestamp_ms(timestamp)?;
        self.handle
            .with(|host, _, at| host.versioned_put(at, &key, value, timestamp))
    }

    /// The version that is valid now or was valid at `as_of`.
    ///
    /// >>> store = sf.Stores.in_memory_versioned("prices", "1h", key=str, value=int)
    /// >>> with MockProcessorContext(store) as context:
    /// ...     prices = context.state_store("prices")
    /// ...     _ = prices.put("tea", 3, 0)
    /// ...     _ = prices.put("tea", 4, 60_000)
    /// ...     print(prices.get("tea", as_of=30_000))
    /// VersionedRecord(value=3, timestamp=0, valid_to=None)
    #[pyo3(signature = (key, as_of=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        as_of: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let key = record_key(key)?;
        let as_of = as_of.map(timestamp_ms).transpose()?;
        let found = self
            .handle
            .with(|host, _, at| host.versioned_get(at, &key, as_of))?;
        version_to_py(py, found)
    }

    /// Deletes the value from `timestamp` on; returns the version that was valid then.
    ///
    /// >>> store = sf.Stores.in_memory_versioned("prices", "1h", key=str, value=int)
    /// >>> with MockProcessorContext(store) as context:
    /// ...     prices = context.state_store("prices")
    /// ...     _ = prices.put("tea", 3, 0)
    /// ...     print(prices.delete("tea", 60_000).value, prices.get("tea"), prices.get("tea", as_of=0).value)
    /// 3 None 3
    fn delete<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        timestamp: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let key = record_key(key)?;
        let timestamp = timestamp_ms(timestamp)?;
        let ended = self
            .handle
            .with(|host, _, at| host.versioned_delete(at, &key, timestamp))?;
        version_to_py(py, ended)
    }

    fn __repr__(&self) -> String {
        format!("<VersionedKeyValueStore '{}'>", self.handle.name)
    }

    #[classmethod]
    fn __class_getitem__<'py>(
        class: &Bound<'py, PyType>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        generic(class, item)
    }
}
