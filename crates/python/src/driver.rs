//! The test driver: the real engine, inline, on an embedded broker with a virtual clock.

mod state;
mod stores;

use crate::arrow::{StoreBatches, store_request};
use crate::errors::to_py_err;
use crate::metrics::metrics_json;
use crate::plan::Plan;
use crate::processor::headers_to_py;
use crate::settings::{Pairs, to_values};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use state::{BROKER_TIMEOUT, DriverState};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_core::{Bytes, Error, Header, Partition, Result, Timestamp, TopicPartition};
use stoatflow_engine::query::read_listing;
use stoatflow_engine::runtime::inline::Inline;
use stoatflow_log::{Broker, ConsumerRecord, ProducerRecord};
use stoatflow_operators::offload;

/// Key, window (start, end), value, timestamp.
type Row<'py> = (
    Bound<'py, PyBytes>,
    Option<(i64, i64)>,
    Bound<'py, PyBytes>,
    i64,
);

/// Key, value, timestamp.
type Entry<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, i64);

/// Key, value, timestamp, headers.
type Drained<'py> = (
    Option<Bound<'py, PyBytes>>,
    Option<Bound<'py, PyBytes>>,
    i64,
    Vec<(String, Option<Bound<'py, PyBytes>>)>,
);

/// Key, value, timestamp, headers.
type Piped = (
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    i64,
    Vec<(String, Option<Vec<u8>>)>,
);

fn to_record(
    topic: Arc<str>,
    partition: i32,
    (key, value, timestamp, headers): Piped,
) -> ProducerRecord {
    let headers: Vec<Header> = headers
        .into_iter()
        .map(|(name, value)| Header {
            name: name.into(),
            value: value.map(Bytes::from),
        })
        .collect();
    ProducerRecord {
        topic,
        partition: Some(Partition(partition)),
        key: key.map(Bytes::from),
        value: value.map(Bytes::from),
        timestamp: Timestamp(timestamp),
        headers: (!headers.is_empty()).then(|| headers.into()),
    }
}

/// The engine under a virtual clock, with a commit after each record.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct Driver {
    state: Mutex<Option<DriverState>>,
}

impl Driver {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut DriverState) -> Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| {
            let mut state = self.state.lock();
            let state = state.as_mut().ok_or_else(|| {
                Error::config("this test driver was closed").hint("make a new one")
            })?;
            act(state)
        })
        .map_err(to_py_err)
    }
}

#[pymethods]
impl Driver {
    #[new]
    fn new(
        py: Python<'_>,
        plan: &Plan,
        pairs: Pairs<'_>,
        lanes: u32,
        start_ms: i64,
    ) -> PyResult<Self> {
        let values = to_values(&pairs)?;
        let state = py
            .detach(|| DriverState::new(plan, values, lanes, start_ms))
            .map_err(to_py_err)?;
        Ok(Self {
            state: Mutex::new(Some(state)),
        })
    }

    /// Appends one record and runs until idle. Commits, unless `hold` is in effect.
    #[allow(clippy::too_many_arguments)] // the shape of the Python call
    fn pipe(
        &self,
        py: Python<'_>,
        topic: &str,
        partition: i32,
        key: Option<Vec<u8>>,
        value: Option<Vec<u8>>,
        timestamp: i64,
        headers: Vec<(String, Option<Vec<u8>>)>,
    ) -> PyResult<()> {
        let record = to_record(topic.into(), partition, (key, value, timestamp, headers));
        self.with(py, |state| state.pipe(record))
    }

    /// As `pipe` for each of these records of partition 0: topic, key, value, timestamp, headers.
    fn pipe_all(&self, py: Python<'_>, records: Vec<(String, Piped)>) -> PyResult<()> {
        self.with(py, |state| {
            let records = records.into_iter();
            let records = records.map(|(topic, piped)| to_record(topic.into(), 0, piped));
            let mut left = records.peekable();
            while let Some(first) = left.next() {
                let topic = Arc::clone(&first.topic);
                let mut together = vec![first];
                while let Some(next) = left.next_if(|next| next.topic == topic) {
                    together.push(next);
                }
                state.pipe_together(together)?;
            }
            Ok(())
        })
    }

    /// Starts an epoch of several records: no commit until `release`, and adjacent records of one topic
    /// are processed in batches.
    fn hold(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |state| {
            state.engine()?;
            state.held = Some(None);
            Ok(())
        })
    }

    /// Commits everything piped since `hold` and returns to a commit after each record. Does nothing
    /// after a crash.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |state| match state.held.take() {
            Some(_) => state.run(),
            None => Ok(()),
        })
    }

    /// Committed records of a topic since the last call, without those that the test appended.
    fn drain<'py>(&self, py: Python<'py>, topic: &str) -> PyResult<Vec<Drained<'py>>> {
        let records = self.with(py, |state| state.drain(topic))?;
        let bytes = |b: &Option<Bytes>| b.as_ref().map(|b| PyBytes::new(py, b));
        let headers = |r: &ConsumerRecord| {
            r.headers
                .iter()
                .flat_map(|h| h.iter())
                .map(|h| (h.name.to_string(), bytes(&h.value)))
                .collect()
        };
        Ok(records
            .iter()
            .map(|r| (bytes(&r.key), bytes(&r.value), r.timestamp.0, headers(r)))
            .collect())
    }

    /// Advances the virtual clock and runs whatever is due. After a crash, time passes without the
    /// engine.
    fn advance_wall_clock(&self, py: Python<'_>, ms: u64) -> PyResult<()> {
        self.with(py, |state| {
            state.clock.advance(Duration::from_millis(ms));
            if state.engine.is_none() {
                return Ok(());
            }
            state.run()
        })
    }

    /// Advances the application's watermark and commits.
    fn advance_watermark(&self, py: Python<'_>, to: i64) -> PyResult<()> {
        self.with(py, |state| {
            let engine = state.engine()?;
            engine.parts().shared.request_watermark(to);
            state.held = state.held.take().map(|_| None);
            state.run()
        })
    }

    /// The application's watermark at the last commit; -1 if there is none yet.
    fn watermark(&self, py: Python<'_>) -> PyResult<i64> {
        self.with(py, |state| {
            let shared = &state.engine()?.parts().shared;
            Ok(shared.status.watermark.load(Relaxed))
        })
    }

    /// Commits now.
    fn barrier(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, DriverState::run)
    }

    /// Ends the engine as SIGKILL would.
    fn crash(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |state| {
            state.engine()?;
            // While records are held, everything is processed but not committed when the crash happens.
            if state.held.take().is_some() {
                state.run_until_idle()?;
            }
            state.readers.end();
            state.engine = None;
            Ok(())
        })
    }

    /// Recovers from the committed state, with this many lanes.
    fn restart(&self, py: Python<'_>, lanes: u32) -> PyResult<()> {
        self.with(py, |state| {
            state.readers.end();
            state.engine = None;
            let mut settings = (*state.spec.settings).clone();
            settings.lanes = lanes;
            state.spec.settings = Arc::new(settings);
            state.engine = Some(Inline::start(&state.spec)?);
            state.run()
        })
    }

    /// Committed entries ordered by key bytes, both bounds included.
    #[pyo3(signature = (name, from_key, to_key, limit))]
    fn store_scan<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        from_key: Option<Vec<u8>>,
        to_key: Option<Vec<u8>>,
        limit: Option<usize>,
    ) -> PyResult<Vec<Entry<'py>>> {
        let (from, to) = (from_key.map(Bytes::from), to_key.map(Bytes::from));
        let entries = self.with(py, |state| {
            state.scan(name, from, to, limit.unwrap_or(usize::MAX))
        })?;
        Ok(entries
            .iter()
            .map(|(k, v, t)| (PyBytes::new(py, k), PyBytes::new(py, v), *t))
            .collect())
    }

    /// The headers of a key's value; `None` without a value.
    fn store_headers<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        key: Vec<u8>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = self.with(py, |state| state.headers(name, &key))?;
        found
            .map(|headers| headers_to_py(py, headers.as_deref().unwrap_or_default()))
            .transpose()
    }

    /// All readable rows of a store, ordered by key bytes, then window; the latest versions of a
    /// versioned store.
    fn store_rows<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Vec<Row<'py>>> {
        let rows = self.with(py, |state| state.rows(name))?;
        Ok(rows
            .iter()
            .map(|r| {
                let key = PyBytes::new(py, &r.key);
                (key, r.window, PyBytes::new(py, &r.value), r.timestamp)
            })
            .collect())
    }

    /// Value and start time of the version of a key that is valid now or was valid at `as_of`.
    fn version<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        key: Vec<u8>,
        as_of: Option<i64>,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, i64)>> {
        let found = self.with(py, |state| state.version(name, &key, as_of))?;
        Ok(found.map(|(value, since)| (PyBytes::new(py, &value), since)))
    }

    /// The rows of a store as Arrow batches.
    fn store_batches(
        &self,
        py: Python<'_>,
        name: &str,
        schema: Option<&str>,
        max_rows: usize,
    ) -> PyResult<StoreBatches> {
        let request = store_request(name, schema, max_rows)?;
        let batches = self.with(py, |state| {
            let parts = state.engine()?.parts();
            let (backend, shared) = (Arc::clone(&parts.backend), Arc::clone(&parts.shared));
            state.readers.begin(&backend, &shared);
            let spec = &state.spec;
            let (plan, foreign) = (&spec.plan, &spec.foreign);
            state.readers.ask(plan, foreign, request)
        })?;
        Ok(StoreBatches::new(batches))
    }

    /// Records that an offload has parked, as of the last commit.
    fn parked<'py>(
        &self,
        py: Python<'py>,
        name: &str,
    ) -> PyResult<Vec<crate::parked::ParkedEntry<'py>>> {
        let found = self.with(py, |state| {
            let spec = &state.spec;
            let listing = offload::parked(&spec.plan, &spec.foreign, name)?;
            read_listing(&listing, state.engine()?.parts().backend.as_ref())
        })?;
        crate::parked::entries(py, &found)
    }

    /// All metrics as a JSON object.
    fn metrics_json(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |state| Ok(metrics_json(state.engine()?.status())))
    }

    /// The topics that the topology wrote to, by name.
    fn produced_topics(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.with(py, |state| {
            let mut written = Vec::new();
            let plan = &state.spec.plan;
            let known = |name: &str| {
                plan.sources
                    .iter()
                    .any(|s| s.topics.iter().any(|t| t == name))
                    || name.ends_with("-changelog")
            };
            let mut sinks = state.sinks.clone();
            let others = state.broker.list_topics().into_iter().map(|t| t.name);
            sinks.extend(others.filter(|t| !known(t)).map(|t| t.to_string()));
            for topic in &sinks {
                let range = state
                    .broker
                    .ranges(&[TopicPartition::new(topic.as_str(), 0)], BROKER_TIMEOUT)?;
                if range.iter().any(|r| r.stable_end.0 > 0) {
                    written.push(topic.clone());
                }
            }
            Ok(written)
        })
    }

    /// Stops cleanly and removes all files.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            let Some(mut state) = self.state.lock().take() else {
                return;
            };
            state.readers.end();
            if let Some(mut engine) = state.engine.take() {
                engine.close();
            }
        });
    }
}
