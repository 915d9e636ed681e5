//! The test driver: the real engine, inline, on an embedded broker with a virtual clock.

mod stores;

use crate::arrow::{StoreBatches, question};
use crate::embedded::read;
use crate::errors::to_py_err;
use crate::handler::PyRuntime;
use crate::metrics::metrics_json;
use crate::plan::Plan;
use crate::settings::{Pairs, checked, to_values};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_core::{
    Bytes, Clock, Error, Handler, Header, ManualClock, Partition, Result, Timestamp, TopicPartition,
};
use stoatflow_engine::query::StoreReaders;
use stoatflow_engine::query::read_listing;
use stoatflow_engine::runtime::inline::Inline;
use stoatflow_engine::startup::EngineSpec;
use stoatflow_engine::startup::components::Components;
use stoatflow_log::{Broker, ConsumerRecord, NewTopic, ProducerMode, ProducerRecord, embedded};
use stoatflow_operators::{Foreign, offload};
use stoatflow_plan::{PhysicalPlan, Reset};

/// Timeout of broker calls. The broker is in process, so none of them waits for a network.
const AT_ONCE: Duration = Duration::from_secs(5);

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

/// The engine under a virtual clock, with a commit after each record.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct Driver {
    world: Mutex<Option<World>>,
}

struct World {
    engine: Option<Inline>,
    /// Readers of the engine's stores.
    readers: StoreReaders,
    spec: EngineSpec,
    clock: Arc<ManualClock>,
    broker: Arc<embedded::EmbeddedBroker>,
    drained: BTreeMap<String, i64>,
    /// Records that the test itself appended, by topic and offset: no outputs, even if the topic is also
    /// a sink.
    piped: BTreeSet<(String, i64)>,
    sinks: BTreeSet<String>,
    /// `Some` between `hold` and `release`: several records in one epoch. Holds the topic of the last
    /// record.
    held: Option<Option<String>>,
    /// Holds the state directory; removed with the driver.
    _state: tempfile::TempDir,
}

impl World {
    fn new(
        plan: &Plan,
        mut values: Vec<(String, Value)>,
        lanes: u32,
        start_ms: i64,
    ) -> Result<Self> {
        let state = tempfile::tempdir()
            .map_err(|e| Error::disk_full("no temporary directory can be made").caused_by(e))?;
        let mut default = |key: &str, value: Value| {
            if !values.iter().any(|(k, _)| k.replace('_', ".") == key) {
                values.push((key.to_owned(), value));
            }
        };
        default("application.id", "test".into());
        default("bootstrap.servers", "embedded:".into());
        default("state.dir", state.path().to_string_lossy().into());
        // Kafka Streams' own driver forwards every update; so does this one unless configured otherwise.
        default("statestore.cache.max.bytes", 0.into());
        default("lanes.count", lanes.into());
        let settings = checked(&values)?;
        let broker = embedded::open(None)?;
        let sinks: BTreeSet<String> = plan
            .plan
            .sinks
            .iter()
            .filter_map(|s| s.topic.clone())
            .collect();
        let topics = plan
            .plan
            .sources
            .iter()
            .flat_map(|s| s.topics.iter())
            .chain(&sinks)
            .map(String::as_str)
            .chain(plan.plan.dead_letter_topics())
            .chain(settings.handlers.each().flat_map(Handler::topics))
            .collect::<BTreeSet<_>>();
        let topics: Vec<NewTopic> = topics
            .into_iter()
            .map(|name| NewTopic {
                name: name.to_owned(),
                partitions: 1,
                replication: 1,
                config: Vec::new(),
            })
            .collect();
        broker.create_topics(&topics, AT_ONCE)?;
        // Functions may write to any topic, as in Kafka Streams' own driver.
        broker.make_topics_when_written();
        let clock = Arc::new(ManualClock::new(Timestamp(start_ms)));
        let components = Components {
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            ..Components::new(Arc::clone(&broker) as Arc<dyn Broker>)
        };
        let spec = EngineSpec {
            plan: Arc::new(from_the_beginning(
                &plan.plan.for_handlers(&settings.handlers),
            )),
            foreign: Arc::new(Foreign {
                runtime: Some(Arc::new(PyRuntime { pauses: false })),
                application: Some(settings.application_id.as_str().into()),
                ..(*plan.foreign).clone()
            }),
            settings: Arc::new(settings),
            components,
        };
        let engine = Some(Inline::start(&spec)?);
        Ok(Self {
            engine,
            readers: StoreReaders::default(),
            spec,
            clock,
            broker,
            drained: BTreeMap::new(),
            piped: BTreeSet::new(),
            sinks,
            held: None,
            _state: state,
        })
    }

    fn engine(&mut self) -> Result<&mut Inline> {
        self.engine.as_mut().ok_or_else(|| {
            Error::config("the driver's engine has crashed or was stopped")
                .hint("call restart() before going on")
        })
    }

    fn run(&mut self) -> Result<()> {
        self.go(Inline::run_and_commit)
    }

    /// Runs until idle, without a commit, so that records appended so far are processed before later
    /// ones, whatever their timestamps.
    fn settle(&mut self) -> Result<()> {
        self.go(Inline::run_until_idle)
    }

    fn pipe(&mut self, record: ProducerRecord) -> Result<()> {
        self.engine()?;
        let Some(last) = self.held.take() else {
            self.append(record)?;
            return self.run();
        };
        if last.is_some_and(|topic| *topic != *record.topic) {
            self.settle()?;
        }
        self.held = Some(Some(record.topic.to_string()));
        self.append(record)
    }

    fn go(&mut self, step: impl FnOnce(&mut Inline) -> Result<()>) -> Result<()> {
        let done = step(self.engine()?);
        if done.is_err() {
            // A failed engine aborts its open transaction, as in production.
            self.readers.end();
            if let Some(mut engine) = self.engine.take() {
                engine.parts().commit.abandon();
            }
        }
        done
    }

    fn append(&mut self, record: ProducerRecord) -> Result<()> {
        let partition = record.partition.unwrap_or_default();
        let place = TopicPartition {
            topic: Arc::clone(&record.topic),
            partition,
        };
        let end = self
            .broker
            .ranges(&[place], AT_ONCE)?
            .first()
            .map_or(0, |r| r.stable_end.0);
        self.piped.insert((record.topic.to_string(), end));
        // A separate producer: the driver plays the producers of the input topics.
        let mode = ProducerMode::Plain {
            id: "stoatflow-test-driver".into(),
            timeout: AT_ONCE,
        };
        let mut producer = self.broker.producer(&mode, AT_ONCE)?;
        producer.begin()?;
        producer.send(&mut vec![record])?;
        producer.flush(AT_ONCE)?;
        producer.commit(AT_ONCE).map(drop)
    }

    fn drain(&mut self, topic: &str) -> Result<Vec<ConsumerRecord>> {
        let missing = self
            .broker
            .topics(&[topic], AT_ONCE)?
            .iter()
            .all(Option::is_none);
        if missing {
            return Ok(Vec::new());
        }
        let from = self.drained.get(topic).copied().unwrap_or(0);
        let mut all: Vec<ConsumerRecord> = Vec::new();
        loop {
            let next = all.last().map_or(from, |r| r.offset.0 + 1);
            let more = read(self.broker.as_ref(), topic, 0, next, 10_000)?;
            if more.is_empty() {
                break;
            }
            all.extend(more);
        }
        if let Some(last) = all.last() {
            self.drained.insert(topic.to_owned(), last.offset.0 + 1);
        }
        all.retain(|r| !self.piped.contains(&(topic.to_owned(), r.offset.0)));
        Ok(all)
    }
}

impl Driver {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut World) -> Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| {
            let mut world = self.world.lock();
            let world = world.as_mut().ok_or_else(|| {
                Error::config("this test driver was closed").hint("make a new one")
            })?;
            act(world)
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
        let world = py
            .detach(|| World::new(plan, values, lanes, start_ms))
            .map_err(to_py_err)?;
        Ok(Self {
            world: Mutex::new(Some(world)),
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
        let headers: Vec<Header> = headers
            .into_iter()
            .map(|(name, value)| Header {
                name: name.into(),
                value: value.map(Bytes::from),
            })
            .collect();
        let record = ProducerRecord {
            topic: topic.into(),
            partition: Some(Partition(partition)),
            key: key.map(Bytes::from),
            value: value.map(Bytes::from),
            timestamp: Timestamp(timestamp),
            headers: (!headers.is_empty()).then(|| headers.into()),
        };
        self.with(py, |world| world.pipe(record))
    }

    /// Starts an epoch of several records: no commit until `release`, and adjacent records of one topic
    /// are processed in batches.
    fn hold(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |world| {
            world.engine()?;
            world.held = Some(None);
            Ok(())
        })
    }

    /// Commits everything piped since `hold` and returns to a commit after each record. Does nothing
    /// after a crash.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |world| match world.held.take() {
            Some(_) => world.run(),
            None => Ok(()),
        })
    }

    /// Committed records of a topic since the last call, without those that the test appended.
    fn drain<'py>(&self, py: Python<'py>, topic: &str) -> PyResult<Vec<Drained<'py>>> {
        let records = self.with(py, |world| world.drain(topic))?;
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
        self.with(py, |world| {
            world.clock.advance(Duration::from_millis(ms));
            if world.engine.is_none() {
                return Ok(());
            }
            world.run()
        })
    }

    /// Advances the application's watermark and commits.
    fn advance_watermark(&self, py: Python<'_>, to: i64) -> PyResult<()> {
        self.with(py, |world| {
            let engine = world.engine()?;
            engine.parts().shared.request_watermark(to);
            world.held = world.held.take().map(|_| None);
            world.run()
        })
    }

    /// The application's watermark at the last commit; -1 if there is none yet.
    fn watermark(&self, py: Python<'_>) -> PyResult<i64> {
        self.with(py, |world| {
            let shared = &world.engine()?.parts().shared;
            Ok(shared.status.watermark.load(Relaxed))
        })
    }

    /// Commits now.
    fn barrier(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, World::run)
    }

    /// Ends the engine as SIGKILL would.
    fn crash(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |world| {
            world.engine()?;
            // While records are held, everything is processed but not committed when the crash happens.
            if world.held.take().is_some() {
                world.settle()?;
            }
            world.readers.end();
            world.engine = None;
            Ok(())
        })
    }

    /// Recovers from the committed state, with this many lanes.
    fn restart(&self, py: Python<'_>, lanes: u32) -> PyResult<()> {
        self.with(py, |world| {
            world.readers.end();
            world.engine = None;
            let mut settings = (*world.spec.settings).clone();
            settings.lanes = lanes;
            world.spec.settings = Arc::new(settings);
            world.engine = Some(Inline::start(&world.spec)?);
            world.run()
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
        let entries = self.with(py, |world| {
            world.scan(name, from, to, limit.unwrap_or(usize::MAX))
        })?;
        Ok(entries
            .iter()
            .map(|(k, v, t)| (PyBytes::new(py, k), PyBytes::new(py, v), *t))
            .collect())
    }

    /// All readable rows of a store, ordered by key bytes, then window; the latest versions of a
    /// versioned store.
    fn store_rows<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Vec<Row<'py>>> {
        let rows = self.with(py, |world| world.rows(name))?;
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
        let found = self.with(py, |world| world.version(name, &key, as_of))?;
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
        let question = question(name, schema, max_rows)?;
        let batches = self.with(py, |world| {
            let parts = world.engine()?.parts();
            let (backend, shared) = (Arc::clone(&parts.backend), Arc::clone(&parts.shared));
            world.readers.begin(&backend, &shared);
            let spec = &world.spec;
            let (plan, foreign) = (&spec.plan, &spec.foreign);
            world.readers.ask(plan, foreign, question)
        })?;
        Ok(StoreBatches::new(batches))
    }

    /// Records that an offload has parked, as of the last commit.
    fn parked<'py>(
        &self,
        py: Python<'py>,
        name: &str,
    ) -> PyResult<Vec<crate::parked::ParkedEntry<'py>>> {
        let found = self.with(py, |world| {
            let spec = &world.spec;
            let listing = offload::parked(&spec.plan, &spec.foreign, name)?;
            read_listing(&listing, world.engine()?.parts().backend.as_ref())
        })?;
        crate::parked::entries(py, &found)
    }

    /// All metrics as a JSON object.
    fn metrics_json(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |world| Ok(metrics_json(world.engine()?.status())))
    }

    /// The topics that the topology wrote to, by name.
    fn produced_topics(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.with(py, |world| {
            let mut written = Vec::new();
            let plan = &world.spec.plan;
            let known = |name: &str| {
                plan.sources
                    .iter()
                    .any(|s| s.topics.iter().any(|t| t == name))
                    || name.ends_with("-changelog")
            };
            let mut sinks = world.sinks.clone();
            let others = world.broker.list_topics().into_iter().map(|t| t.name);
            sinks.extend(others.filter(|t| !known(t)).map(|t| t.to_string()));
            for topic in &sinks {
                let range = world
                    .broker
                    .ranges(&[TopicPartition::new(topic.as_str(), 0)], AT_ONCE)?;
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
            let Some(mut world) = self.world.lock().take() else {
                return;
            };
            world.readers.end();
            if let Some(mut engine) = world.engine.take() {
                engine.close();
            }
        });
    }
}

/// Makes every source start at the earliest offset: the driver creates its topics, and they hold only
/// what the test wrote.
fn from_the_beginning(plan: &PhysicalPlan) -> PhysicalPlan {
    let mut plan = plan.clone();
    for source in &mut plan.sources {
        source.reset = source.reset.map(|_| Reset::Earliest);
    }
    plan
}
