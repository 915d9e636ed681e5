//! Locks that a processor holds: of one key during a call of a store's method, or of the keys of a
//! section.
//!
//! Takes locks from the table of the run. A lane that must wait detaches from the interpreter, since the
//! holder may need it. A processor that holds locks can't take more, so lanes can't deadlock.

use super::call_scope::CallScope;
use super::held_lock_set::HeldLockSet;
use super::records::key as record_key;
use crate::errors::to_py_err;
use parking_lot::Mutex;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_core::{Error, SystemClock};
use stoatflow_operators::{HeldLocks, LockHolder, LockKey, LockRefused, LockTable};

/// Default timeout for a lock.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// The id of the next [`HeldLockSet`].
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// The lock of one key during a call of a store's method.
pub struct KeyLockGuard<'s> {
    scope: &'s CallScope,
    id: u64,
}

impl Drop for KeyLockGuard<'_> {
    fn drop(&mut self) {
        self.scope.release(self.id);
    }
}

impl CallScope {
    /// Locks a key of a store during a call of its method; `None` if a section has locked it already.
    pub(super) fn lock_key(
        &self,
        py: Python<'_>,
        (lock, table, holder): (LockKey, Arc<LockTable>, LockHolder),
        (store, method): (&str, &'static str),
        key: &Bound<'_, PyAny>,
    ) -> PyResult<Option<KeyLockGuard<'_>>> {
        let known = self.held_locks.lock();
        let refused = match &*known {
            None => None,
            Some(HeldLockSet {
                locks,
                method: None,
                ..
            }) if locks.has(&lock) => return Ok(None),
            Some(HeldLockSet { method: None, .. }) => Some(
                Error::user(format!(
                    "{method} was called for the key {} of '{store}', which the section has not locked",
                    shown(key)
                ))
                .hint("name it in context.locks(...) too, or use get() and put() if no other lane writes it"),
            ),
            Some(HeldLockSet {
                method: Some(outer),
                ..
            }) => Some(
                Error::user(format!(
                    "{method} was called in the function of {outer}, which has its key locked"
                ))
                .hint("lock all keys first, with context.locks(...), then use get() and put()"),
            ),
        };
        drop(known);
        if let Some(error) = refused {
            return Err(to_py_err(error));
        }
        let what = |_: &LockKey| format!("the key {} of the store '{store}'", shown(key));
        let locks = self.take_locks(py, vec![lock], (&table, &holder), LOCK_TIMEOUT, what)?;
        Ok(Some(KeyLockGuard {
            scope: self,
            id: self.register(locks, Some(method)),
        }))
    }

    fn register(&self, locks: HeldLocks, method: Option<&'static str>) -> u64 {
        let id = NEXT_ID.fetch_add(1, Relaxed);
        *self.held_locks.lock() = Some(HeldLockSet { locks, id, method });
        id
    }

    fn release(&self, id: u64) {
        let mut held = self.held_locks.lock();
        let own = held.take_if(|held| held.id == id);
        drop(held);
        drop(own);
    }

    fn take_locks(
        &self,
        py: Python<'_>,
        keys: Vec<LockKey>,
        (table, holder): (&Arc<LockTable>, &LockHolder),
        timeout: Duration,
        what: impl FnOnce(&LockKey) -> String,
    ) -> PyResult<HeldLocks> {
        // Usually the locks are free, and there is no need to detach.
        let refused = match table.try_acquire(keys.clone(), holder) {
            Ok(held) => return Ok(held),
            Err(_) => py.detach(|| table.acquire(keys, holder, timeout, &SystemClock::new())),
        };
        match refused {
            Ok(held) => Ok(held),
            Err(LockRefused::Ended) => self.with("a lock", |_, _| Err(Error::interruption())),
            Err(LockRefused::Held { key, by }) => {
                let topic = self.ask("a lock", |host, _| host.topic(&by.origin))?;
                let record = topic.map_or_else(String::new, |topic| {
                    let (partition, offset) = (by.origin.partition.0, by.origin.offset.0);
                    format!(", for the record {topic}-{partition} at {offset}")
                });
                let error = Error::user(format!(
                    "the lock of {} was not free within {} ms: lane {} holds it, in the node '{}'{record}",
                    what(&key),
                    timeout.as_millis(),
                    by.lane,
                    by.node
                ));
                Err(to_py_err(error.hint(
                    "keep sections short (ask services before or behind them), or wait longer: locks(..., timeout=\"2m\")",
                )))
            }
        }
    }
}

fn shown(key: &Bound<'_, PyAny>) -> String {
    key.repr().map_or_else(
        |_| "(it can't be shown)".to_owned(),
        |text| text.to_string(),
    )
}

/// The locks of a section, as a context manager.
///
/// >>> context = MockProcessorContext(sf.Stores.in_memory_key_value("totals", key=str, value=int))
/// >>> with context.locks(("totals", "ann")):
/// ...     totals = context.state_store("totals")
/// ...     totals.put("ann", totals.get("ann", 0) + 50)
/// >>> totals.get("ann")
/// 50
#[pyclass(frozen, module = "stoatflow._native")]
pub struct KeyLocks {
    scope: Arc<CallScope>,
    /// The locks, each with its description for errors.
    what: Vec<(LockKey, String)>,
    timeout: Duration,
    /// The number of the current [`HeldLockSet`].
    held_id: Mutex<Option<u64>>,
}

impl KeyLocks {
    pub fn new(
        scope: &Arc<CallScope>,
        what: &Bound<'_, PyTuple>,
        timeout: Duration,
    ) -> PyResult<Self> {
        if what.is_empty() {
            return Err(PyTypeError::new_err(
                "locks() needs at least one name or pair. Next: write locks((store, key), ...)",
            ));
        }
        let what = what.iter().map(|one| lock(scope, &one));
        Ok(Self {
            what: what.collect::<PyResult<_>>()?,
            scope: Arc::clone(scope),
            timeout,
            held_id: Mutex::new(None),
        })
    }
}

/// Parses a name, or a pair of a store (or its name) and a key.
fn lock(scope: &CallScope, one: &Bound<'_, PyAny>) -> PyResult<(LockKey, String)> {
    if let Ok(name) = one.cast::<PyString>() {
        let name = name.to_cow()?;
        return Ok((LockKey::Name((*name).into()), format!("'{name}'")));
    }
    let wrong = || {
        PyTypeError::new_err(format!(
            "locks() takes names and pairs (store, key), not {}. Next: write locks((self.accounts, \"ann\"), ...)",
            shown(one)
        ))
    };
    let (store, key): (Bound<'_, PyAny>, Bound<'_, PyAny>) = one.extract().map_err(|_| wrong())?;
    let name: String = match store.cast::<PyString>() {
        Ok(name) => name.extract()?,
        Err(_) => store
            .getattr("name")
            .and_then(|name| name.extract())
            .map_err(|_| wrong())?,
    };
    let encoded = record_key(&key)?;
    let found = scope.with("the context", |host, _| {
        let at = host.store(&name).ok_or_else(|| {
            Error::user(format!(
                "the processor is not connected to a store '{name}'"
            ))
            .hint(format!(
                "it is connected to: {}",
                host.store_names().join(", ")
            ))
        })?;
        host.check_one_step(at)?;
        host.lock_key(at, &encoded)
    })?;
    Ok((
        found,
        format!("the key {} of the store '{name}'", shown(&key)),
    ))
}

#[pymethods]
impl KeyLocks {
    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let own = slf.get();
        let scope = &own.scope;
        let (table, holder) = scope.ask("a lock", |host, context| {
            (host.locks(), host.lock_holder(&context.origin))
        })?;
        if scope.held_locks.lock().is_some() {
            return Err(to_py_err(
                Error::user("locks were asked for while others are held").hint(
                    "name all names and keys in one context.locks(...): so lanes can't wait for each other in a circle",
                ),
            ));
        }
        let keys = own.what.iter().map(|(key, _)| key.clone()).collect();
        let called = |key: &LockKey| {
            let found = own.what.iter().find(|(of, _)| of == key);
            found.map_or_else(String::new, |(_, name)| name.clone())
        };
        let locks = scope.take_locks(slf.py(), keys, (&table, &holder), own.timeout, called)?;
        *own.held_id.lock() = Some(scope.register(locks, None));
        Ok(slf.clone())
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, _error: &Bound<'_, PyTuple>) {
        let held = self.held_id.lock().take();
        if let Some(id) = held {
            self.scope.release(id);
        }
    }

    fn __repr__(&self) -> String {
        let names = self.what.iter().map(|(_, name)| name.as_str());
        format!("<KeyLocks of {}>", names.collect::<Vec<_>>().join(", "))
    }
}
