//! `KeyValueStore` and `TimestampedKeyValueStore`.

use super::iterator::StoreIterator;
use super::{StoreHandle, stored};
use crate::convert::to_py;
use crate::processor::context::generic;
use crate::processor::key_locks::KeyLockGuard;
use crate::processor::records::{datum, key as record_key};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyMapping, PyType};
use stoatflow_core::{Datum, Error};
use stoatflow_state::Stored;

/// A key-value store.
///
/// >>> with MockProcessorContext(sf.Stores.in_memory_key_value("totals", key=str, value=int)) as context:
/// ...     totals = context.state_store("totals")
/// ...     totals.put("ann", 30)
/// ...     totals["bob"] = 20
/// ...     print(totals.get("ann"), totals["bob"], "cyd" in totals, list(totals))
/// 30 20 False ['ann', 'bob']
#[pyclass(frozen, subclass, module = "stoatflow._native")]
pub struct KeyValueStore {
    pub handle: StoreHandle,
}

/// A key-value store with a timestamp for each value.
///
/// >>> store = sf.Stores.in_memory_timestamped_key_value("totals", key=str, value=int)
/// >>> with MockProcessorContext(store) as context:
/// ...     totals = context.state_store("totals")
/// ...     totals.put("ann", sf.ValueAndTimestamp(30, 1000))
/// ...     print(totals.get("ann"))
/// ValueAndTimestamp(value=30, timestamp=1000)
#[pyclass(frozen, extends = KeyValueStore, module = "stoatflow._native")]
pub struct TimestampedKeyValueStore;

impl KeyValueStore {
    fn read(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<Stored>> {
        let key = record_key(key)?;
        self.handle.with(|host, _, at| host.get(at, &key))
    }

    fn write(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let key = record_key(key)?;
        let (value, time) = self.handle.convert_value(value)?;
        self.handle.with(|host, context, at| {
            host.put(at, &key, stored(value, time.unwrap_or(context.time)))
        })
    }

    /// Locks the key, so that other lanes can't write it in between.
    fn lock(
        &self,
        key: &Bound<'_, PyAny>,
        given: &Datum,
        method: &'static str,
    ) -> PyResult<Option<KeyLockGuard<'_>>> {
        let StoreHandle {
            scope, at, name, ..
        } = &self.handle;
        let lock = scope.with("a store", |host, context| {
            let lock = host.lock_key(*at, given)?;
            Ok((lock, host.locks(), host.lock_holder(&context.origin)))
        })?;
        scope.lock_key(key.py(), lock, (name, method), key)
    }

    /// Writes the value that `new` computes from the key's current one, atomically across lanes; returns
    /// the new value.
    fn update<'py>(
        &self,
        method: &'static str,
        key: &Bound<'py, PyAny>,
        new: impl Fn(Option<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = key.py();
        let given = record_key(key)?;
        let _locked = self.lock(key, &given, method)?;
        let (mut raised, mut made) = (None, None);
        let done = self.handle.scope.with_calls("a store", |host, calls| {
            host.update(self.handle.at, &given, &mut |host, found| {
                let time = calls.time();
                let called = calls.call(host, || {
                    let found = found.as_ref().map(|found| self.handle.to_object(py, found));
                    let object = new(found.transpose()?)?;
                    let (value, own) = self.handle.convert_value(&object)?;
                    Ok((object, stored(value, own.unwrap_or(time))))
                });
                match called {
                    Ok((object, value)) => {
                        made = Some(object);
                        Ok(value)
                    }
                    Err(error) => {
                        raised = Some(error);
                        Err(Error::user("a function of a store raised"))
                    }
                }
            })
        });
        if let Some(error) = raised {
            return Err(error);
        }
        done?;
        Ok(made.filter(|made| !made.is_none()))
    }

    fn pairs(&self, py: Python<'_>, found: Vec<(Datum, Stored)>) -> PyResult<StoreIterator> {
        let pairs = found.into_iter().map(|(key, stored)| {
            let pair = (to_py(py, &key)?, self.handle.to_object(py, &stored)?);
            Ok(pair.into_pyobject(py)?.into_any())
        });
        Ok(StoreIterator::new(pairs.collect::<PyResult<_>>()?))
    }

    fn scan(
        &self,
        py: Python<'_>,
        lo: Option<&Bound<'_, PyAny>>,
        hi: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<StoreIterator> {
        let lo = lo.map(record_key).transpose()?;
        let hi = hi.map(record_key).transpose()?;
        let found = self
            .handle
            .with(|host, _, at| host.range(at, lo.as_ref(), hi.as_ref(), reverse))?;
        self.pairs(py, found)
    }

    fn missing(key: &Bound<'_, PyAny>) -> PyErr {
        PyKeyError::new_err(key.clone().unbind())
    }
}

#[pymethods]
impl KeyValueStore {
    /// The store's name.
    ///
    /// >>> context = MockProcessorContext(sf.Stores.in_memory_key_value("totals", key=str, value=int))
    /// >>> context.state_store("totals").name
    /// 'totals'
    #[getter]
    fn name(&self) -> &str {
        &self.handle.name
    }

    /// The value of a key.
    ///
    /// >>> with MockProcessorContext(sf.Stores.in_memory_key_value("totals", key=str, value=int)) as context:
    /// ...     totals = context.state_store("totals")
    /// ...     totals.put("ann", 30)
    /// ...     print(totals.get("ann"), totals.get("bob"), totals.get("bob", 0))
    /// 30 None 0
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.read(key)? {
            Some(found) => self.handle.to_object(py, &found).map(Some),
            None => Ok(default),
        }
    }

    /// Writes a value; `None` deletes the key.
    ///
    /// >>> with MockProcessorContext(sf.Stores.in_memory_key_value("totals", key=str, value=int)) as context:
    /// ...     totals = context.state_store("totals")
    /// ...     totals.put("ann", 30)
    /// ...     totals.put("bob", 20)
    /// ...     totals.put("bob", None)
    /// ...     print(dict(totals.all()))
    /// {'ann': 30}
    fn put(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.write(key, value)
    }

    /// Writes a value unless the key has one; returns the value that was there before.
    ///
    /// >>> with MockProcessorContext(sf.Stores.in_memory_key_value("totals", key=str, value=int)) as context:
    /// ...     totals = context.state_store("totals")
    /// ...     print(totals.put_if_absent("ann", 30), totals.put_if_absent("ann", 50), totals.get("ann"))
    /// None 30 30
    fn put_if_absent<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let given = record_key(key)?;
        let (value, time) = self.handle.convert_value(value)?;
        let _locked = self.lock(key, &given, "put_if_absent()")?;
        let found = self.handle.with(|host, context, at| {
            host.put_if_absent(at, &given, stored(value, time.unwrap_or(context.time)))
        })?;
        found
            .map(|found| self.handle.to_object(py, &found))
            .transpose()
    }

    /// Writes `function(key, value)`, where `value` is the current value or `None`, atomically across
    /// lanes. Returns the new value.
    ///
    /// >>> with MockProcessorContext(sf.Stores.in_memory_key_value("totals", key=str, value=int)) as context:
    /// ...     totals = context.state_store("totals")
    /// ...     totals.put("ann", 30)
    /// ...     print(totals.compute("ann", lambda key, total: (total or 0) + 20))
    /// 50
    fn compute<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        function: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.update("compute()", key, |found| match found {
            Some(found) => function.call1((key, found)),
            None => function.call1((key, key.py().None())),
        })
    }

    /// Writes `function(key)` if the key has no value. Returns the current or new value.
    ///
    /// >>> with MockProcessorContext(sf.Stores.in_memory_key_value("totals", key=str, value=int)) as context:
    /// ...     totals = context.state_store("totals")
    /// ...     totals.put("ann", 30)
    /// ...     print([totals.compute_if_absent(name, lambda name: 1) for name in ("ann", "bob")])
    /// [30, 1]
    fn compute_if_absent<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        function: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if let Some(found) = self.read(key)? {
            return self.handle.to_object(key.py(), &found).map(Some);
        }
        self.update("compute_if_absent()", key, |found| match found {
            // Another lane wrote it in the meantime.
            Some(found) => Ok(found),
            None => function.call1((key,)),
        })
    }

    /// Writes `function(key, value)` if the key has a value. Returns the new value.
    ///
    /// >>> with MockProcessorContext(sf.Stores.in_memory_key_value("totals", key=str, value=int)) as context:
    /// ...     totals = context.state_store("totals")
    /// ...     totals.put("ann", 30)
    /// ...     double = lambda key, total: total * 2
    /// ...     print(totals.compute_if_present("ann", double), totals.compute_if_present("bob", double))
    /// 60 None
    fn compute_if_present<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        function: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.update("compute_if_present()", key, |found| match found {
            Some(found) => function.call1((key, found)),
            None => Ok(key.py().None().into_bound(key.py())),
        })
    }

    /// Writes `operand` if the key has no value, otherwise `function(value, operand)`. Returns the new
    /// value.
    ///
    /// >>> with MockProcessorContext(sf.Stores.in_memory_key_value("totals", key=str, value=int)) as context:
    /// ...     totals = context.state_store("totals")
    /// ...     add = lambda total, order: total + order
    /// ...     print(totals.merge("ann", 30, add), totals.merge("ann", 20, add))
    /// 30 50
    fn merge<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        operand: &Bound<'py, PyAny>,
        function: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.update("merge()", key, |found| match found {
            Some(found) => function.call1((found, operand)),
            None => Ok(operand.clone()),
        })
    }

    /// Writes many values, from a mapping or from pairs.
    ///
    /// >>> with MockProcessorContext(sf.Stores.in_memory_key_value("totals", key=str, value=int)) as context:
    /// ...     totals = context.state_store("totals")
    /// ...     totals.put_all({"ann": 30, "bob": 20})
    /// ...     totals.put_all([("bob", None), ("cyd", 10)])
    /// ...     print(dict(totals.all()))
    /// {'ann': 30, 'cyd': 10}
    fn put_all(&self, items: &Bound<'_, PyAny>) -> PyResult<()> {
        let pairs = match items.cast::<PyMapping>() {
            Ok(mapping) => mapping.items()?.into_any(),
            Err(_) => items.clone(),
        };
        for pair in pairs.try_iter()? {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair?.extract()?;
            self.write(&key, &value)?;
        }
        Ok(())
    }

    /// Deletes a key; returns the value it had.
    ///
    /// >>> with MockProcessorContext(sf.Stores.in_memory_key_value("totals", key=str, value=int)) as context:
    /// ...     totals = context.state_store("totals")
    /// ...     totals.put("ann", 30)
    /// ...     print(totals.delete("ann"), totals.delete("ann"))
    /// 30 None
    fn delete<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let given = record_key(key)?;
        let _locked = self.lock(key, &given, "delete()")?;
        let found = self
            .handle
            .with(|host, context, at| host.delete(at, &given, context.time))?;
        found
            .map(|found| self.handle.to_object(py, &found))
            .transpose()
    }

    /// Entries between two keys, both included, in the order of the keys' bytes.
    ///
    /// >>> with MockProcessorContext(sf.Stores.in_memory_key_value("totals", key=str, value=int)) as context:
    /// ...     totals = context.state_store("totals")
    /// ...     totals.put_all({"ann": 30, "bob": 20, "cyd": 10})
    /// ...     print(list(totals.range("b", "cyd")), list(totals.range("bob", reverse=True)))
    /// [('bob', 20), ('cyd', 10)] [('cyd', 10), ('bob', 20)]
    #[pyo3(signature = (lo=None, hi=None, *, reverse=false))]
    fn range(
        &self,
        py: Python<'_>,
        lo: Option<&Bound<'_, PyAny>>,
        hi: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<StoreIterator> {
        self.scan(py, lo, hi, reverse)
    }

    /// Like `range`, in descending order.
    ///
    /// >>> with MockProcessorContext(sf.Stores.in_memory_key_value("totals", key=str, value=int)) as context:
    /// ...     totals = context.state_store("totals")
    /// ...     totals.put_all({"ann": 30, "bob": 20, "cyd": 10})
    /// ...     print(list(totals.reverse_range("b", "cyd")))
    /// [('cyd', 10), ('bob', 20)]
    #[pyo3(signature = (lo=None, hi=None))]
    fn reverse_range(
        &self,
        py: Python<'_>,
        lo: Option<&Bound<'_, PyAny>>,
        hi: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<StoreIterator> {
        self.scan(py, lo, hi, true)
    }

    /// All entries, in the order of the keys' bytes.
    ///
    /// >>> with MockProcessorContext(sf.Stores.in_memory_key_value("totals", key=str, value=int)) as context:
    /// ...     totals = context.state_store("totals")
    /// ...     totals.put_all({"ann": 30, "bob": 20})
    /// ...     print(list(totals.all()), list(totals.all(reverse=True)))
    /// [('ann', 30), ('bob', 20)] [('bob', 20), ('ann', 30)]
    #[pyo3(signature = (*, reverse=false))]
    fn all(&self, py: Python<'_>, reverse: bool) -> PyResult<StoreIterator> {
        self.scan(py, None, None, reverse)
    }

    /// All entries, in descending order of the keys' bytes.
    ///
    /// >>> with MockProcessorContext(sf.Stores.in_memory_key_value("totals", key=str, value=int)) as context:
    /// ...     totals = context.state_store("totals")
    /// ...     totals.put_all({"ann": 30, "bob": 20})
    /// ...     print(list(totals.reverse_all()))
    /// [('bob', 20), ('ann', 30)]
    fn reverse_all(&self, py: Python<'_>) -> PyResult<StoreIterator> {
        self.scan(py, None, None, true)
    }

    /// Entries whose key bytes begin with those of `prefix` (a key, or raw bytes).
    ///
    /// >>> with MockProcessorContext(sf.Stores.in_memory_key_value("totals", key=str, value=int)) as context:
    /// ...     totals = context.state_store("totals")
    /// ...     totals.put_all({"ann": 30, "anton": 20, "bob": 10})
    /// ...     print(list(totals.prefix_scan("an")))
    /// [('ann', 30), ('anton', 20)]
    fn prefix_scan(&self, py: Python<'_>, prefix: &Bound<'_, PyAny>) -> PyResult<StoreIterator> {
        let prefix = datum(prefix)?;
        let found = self.handle.with(|host, _, at| host.prefix(at, &prefix))?;
        self.pairs(py, found)
    }

    /// The approximate number of keys; new keys of the current transaction may be missing.
    ///
    /// >>> with MockProcessorContext(sf.Stores.in_memory_key_value("totals", key=str, value=int)) as context:
    /// ...     totals = context.state_store("totals")
    /// ...     totals.put_all({"ann": 30, "bob": 20})
    /// ...     print(totals.approximate_len())
    /// 2
    fn approximate_len(&self) -> PyResult<u64> {
        self.handle.with(|host, _, at| Ok(host.approximate_len(at)))
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = self.read(key)?.ok_or_else(|| Self::missing(key))?;
        self.handle.to_object(py, &found)
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.write(key, value)
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.delete(key.py(), key)?
            .map(drop)
            .ok_or_else(|| Self::missing(key))
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.read(key)?.is_some())
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<StoreIterator> {
        let found = self
            .handle
            .with(|host, _, at| host.range(at, None, None, false))?;
        let keys = found.iter().map(|(key, _)| to_py(py, key));
        Ok(StoreIterator::new(keys.collect::<PyResult<_>>()?))
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(format!(
            "<{} '{}'>",
            slf.get_type().qualname()?,
            slf.get().handle.name
        ))
    }

    #[classmethod]
    fn __class_getitem__<'py>(
        class: &Bound<'py, PyType>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        generic(class, item)
    }
}
