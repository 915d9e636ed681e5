//! Implements the engine's processor interface for Python objects.
//!
//! Takes a supplier (a class, or a callable without arguments), creates one Python object per lane.
//! Attaches to the interpreter once per batch. While it is called, an object accesses the engine through
//! its [`CallScope`], which is open only during the call.

mod call_scope;
mod context;
mod held_lock_set;
mod key_locks;
mod records;
mod stores;

pub use call_scope::CallScope;
pub use context::{Cancellable, ProcessorContext};
pub use key_locks::KeyLocks;
pub use records::headers_to_py;
pub use stores::*;

use crate::convert::{from_py, to_py};
use crate::errors::raised;
use crate::profile::Profile;
use crate::vectorcall::call;
use call_scope::CallContext;
use parking_lot::Mutex;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Record, Result};
use stoatflow_operators::current_call::{
    address, forget_record, note_record, note_record_or_abort, within,
};
use stoatflow_operators::{
    Cost, Failed, Processor, ProcessorHost, ProcessorSupplier, Punctuator, Role, Timer,
};

/// Creates processors with the user's supplier.
pub struct PyProcessorSupplier {
    name: Arc<str>,
    make: Py<PyAny>,
    /// The `Metrics` of the topology.
    metrics: Option<Py<PyAny>>,
    /// The last created object: a supplier must not return the same object twice.
    last: Mutex<Option<Py<PyAny>>>,
    profile: Arc<Profile>,
}

impl std::fmt::Debug for PyProcessorSupplier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PyProcessorSupplier")
            .field(&self.name)
            .finish()
    }
}

impl PyProcessorSupplier {
    /// `name` is the display name (`app.py:12 Enrich`).
    pub fn new(name: String, make: Py<PyAny>, metrics: Option<Py<PyAny>>) -> Self {
        Self {
            name: name.into(),
            make,
            metrics,
            last: Mutex::new(None),
            profile: Arc::default(),
        }
    }
}

impl ProcessorSupplier for PyProcessorSupplier {
    fn name(&self) -> &str {
        &self.name
    }

    fn cost(&self) -> Option<Cost> {
        Some(self.profile.cost())
    }

    fn create(&self, role: Role) -> Result<Box<dyn Processor>> {
        Python::attach(|py| {
            let object = self
                .make
                .call0(py)
                .map_err(|e| raised(py, &self.name, "the supplier", e))?;
            let before = self.last.lock().replace(object.clone_ref(py));
            if before.is_some_and(|before| before.is(&object)) {
                return Err(Error::user("the supplier gave the same processor twice")
                    .hint(
                        "make a new one at each call: pass the class, or a function that calls it",
                    )
                    .at(|at| at.function = Some(self.name.to_string())));
            }
            let scope = Arc::new(CallScope::new(role));
            let name = Arc::clone(&self.name);
            let metrics = self.metrics.as_ref().map(|metrics| metrics.clone_ref(py));
            let context = ProcessorContext::new(Arc::clone(&scope), name, address(self), metrics);
            let context = Py::new(py, context)
                .map_err(|e| raised(py, &self.name, "the processor's context", e))?;
            let made: Box<dyn Processor> = Box::new(PyProcessor {
                name: Arc::clone(&self.name),
                object,
                context,
                scope,
                profile: Arc::clone(&self.profile),
                callee: address(self),
            });
            Ok(made)
        })
    }

    fn scope(&self, body: &mut dyn FnMut()) {
        self.profile.scope(body);
    }
}

/// The processor of one lane.
struct PyProcessor {
    name: Arc<str>,
    object: Py<PyAny>,
    context: Py<ProcessorContext>,
    scope: Arc<CallScope>,
    profile: Arc<Profile>,
    /// Address of the supplier, which identifies the callee of current calls.
    callee: usize,
}

impl PyProcessor {
    fn method<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyString>,
    ) -> Result<Bound<'py, PyAny>> {
        self.object
            .bind(py)
            .getattr(name)
            .map_err(|e| raised(py, &self.name, "the processor", e))
    }
}

impl PyProcessor {
    /// Runs a callback that concerns no record.
    fn without_record<T>(&self, body: impl FnOnce(Python<'_>) -> T) -> T {
        forget_record();
        within(self.callee, true, || Python::attach(body))
    }
}

impl Processor for PyProcessor {
    fn init(&mut self, host: &mut dyn ProcessorHost) -> Result<()> {
        self.without_record(|py| {
            let init = self.method(py, intern!(py, "init"))?;
            let now = host.wall_time();
            let open = self.scope.open(host, CallContext::without_record(now));
            let done = init.call1((&self.context,));
            open.close("init()")?;
            done.map(drop)
                .map_err(|e| raised(py, &self.name, "init()", e))
        })
    }

    fn process(&mut self, batch: &[Record], host: &mut dyn ProcessorHost) -> Result<(), Failed> {
        let profile = Arc::clone(&self.profile);
        profile.batch(self.callee, batch.len(), |py| {
            let at_first = |error| Failed { at: 0, error };
            let process = self.method(py, intern!(py, "process")).map_err(at_first)?;
            let factory = records::RecordFactory::new(py, self.scope.role())
                .map_err(|e| at_first(raised(py, &self.name, "the record", e)))?;
            let open = self.scope.open(host, CallContext::without_record(0));
            for (at, record) in batch.iter().enumerate() {
                note_record_or_abort(at, &record.origin)?;
                let called = factory.record(py, record).and_then(|made| {
                    let object = made.object.clone();
                    self.scope.set(CallContext::with_py_record(record, made));
                    call(&process, [object])
                });
                let kept = open.release_leftover_locks("process()");
                open.check().map_err(|error| Failed { at, error })?;
                called.map_err(|e| Failed {
                    at,
                    error: raised(py, &self.name, "process()", e),
                })?;
                kept.map_err(|error| Failed { at, error })?;
            }
            Ok(())
        })
    }

    fn transform(&mut self, record: &Record, host: &mut dyn ProcessorHost) -> Result<Datum> {
        let profile = Arc::clone(&self.profile);
        note_record(&record.origin);
        profile.call(self.callee, |py| {
            let transform = self.method(py, intern!(py, "transform"))?;
            let open = self.scope.open(host, CallContext::for_record(record));
            let value = match &record.value {
                Datum::Change(change) => &change.new,
                plain => plain,
            };
            let called =
                to_py(py, &record.key).and_then(|key| call(&transform, [key, to_py(py, value)?]));
            open.close("transform()")?;
            from_py(&called.map_err(|e| raised(py, &self.name, "transform()", e))?)
        })
    }

    fn on_timer(&mut self, timer: &Timer<'_>, host: &mut dyn ProcessorHost) -> Result<()> {
        let profile = Arc::clone(&self.profile);
        forget_record();
        profile.call(self.callee, |py| {
            let on_timer = self.method(py, intern!(py, "on_timer"))?;
            let key = to_py(py, &timer.key).map_err(|e| raised(py, &self.name, "the key", e))?;
            let made = timer_to_py(py, timer.store, &key, timer.at, timer.domain);
            let made = made.map_err(|e| raised(py, &self.name, "the timer", e))?;
            let open = self
                .scope
                .open(host, CallContext::for_timer(py, timer, key));
            let done = on_timer.call1((made,));
            open.close("on_timer()")?;
            done.map(drop)
                .map_err(|e| raised(py, &self.name, "on_timer()", e))
        })
    }

    fn close(&mut self) {
        self.without_record(|py| {
            let object = self.object.bind(py);
            if let Err(error) = object.call_method0(intern!(py, "close")) {
                // The engine stops regardless of this error; Python's unraisable hook reports it.
                error.write_unraisable(py, Some(object));
            }
        });
    }
}

/// The callback of a punctuation.
pub struct PyPunctuator {
    pub name: Arc<str>,
    pub callback: Py<PyAny>,
    pub scope: Arc<CallScope>,
    /// Address of the processor's supplier.
    pub callee: usize,
}

impl std::fmt::Debug for PyPunctuator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PyPunctuator").field(&self.name).finish()
    }
}

impl Punctuator for PyPunctuator {
    fn punctuate(&self, time: i64, host: &mut dyn ProcessorHost) -> Result<()> {
        forget_record();
        let attached = |py: Python<'_>| {
            let open = self.scope.open(host, CallContext::without_record(time));
            let done = self.callback.call1(py, (time,));
            open.close("a punctuation")?;
            done.map(drop)
                .map_err(|e| raised(py, &self.name, "a punctuation", e))
        };
        within(self.callee, true, || Python::attach(attached))
    }
}
