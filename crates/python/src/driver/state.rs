//! The state behind a test driver: the engine, its broker and clock, and the records of the test.
//!
//! Takes a plan and settings; creates the topics, appends records and runs the engine until it is idle.
//! Returns committed outputs.

use crate::embedded::read;
use crate::handler::PyRuntime;
use crate::plan::Plan;
use crate::settings::checked;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Clock, Error, Handler, ManualClock, Result, Timestamp, TopicPartition};
use stoatflow_engine::query::StoreReaders;
use stoatflow_engine::runtime::inline::Inline;
use stoatflow_engine::startup::EngineSpec;
use stoatflow_engine::startup::components::Components;
use stoatflow_log::{
    Broker, ConsumerRecord, NewTopic, Producer, ProducerMode, ProducerRecord, embedded,
};
use stoatflow_operators::ForeignCode;
use stoatflow_plan::{PhysicalPlan, Reset};

/// Timeout of broker calls. The broker is in process, so none of them waits for a network.
pub const BROKER_TIMEOUT: Duration = Duration::from_secs(5);

/// See the module.
pub struct DriverState {
    pub engine: Option<Inline>,
    /// Readers of the engine's stores.
    pub readers: StoreReaders,
    pub spec: EngineSpec,
    pub clock: Arc<ManualClock>,
    pub broker: Arc<embedded::EmbeddedBroker>,
    pub drained: BTreeMap<String, i64>,
    /// Records that the test itself appended, by topic and offset: no outputs, even if the topic is also
    /// a sink.
    pub piped: BTreeSet<(String, i64)>,
    pub sinks: BTreeSet<String>,
    /// `Some` between `hold` and `release`: several records in one epoch. Holds the topic of the last
    /// record.
    pub held: Option<Option<String>>,
    /// Plays the producers of the input topics.
    feeder: Box<dyn Producer>,
    /// Holds the state directory; removed with the driver.
    _state: tempfile::TempDir,
}

impl DriverState {
    pub fn new(
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
        broker.create_topics(&topics, BROKER_TIMEOUT)?;
        // Functions may write to any topic, as in Kafka Streams' own driver.
        broker.make_topics_when_written();
        let clock = Arc::new(ManualClock::new(Timestamp(start_ms)));
        let components = Components {
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            ..Components::new(Arc::clone(&broker) as Arc<dyn Broker>)
        };
        let spec = EngineSpec {
            plan: Arc::new(with_earliest_reset(
                &plan.plan.for_handlers(&settings.handlers),
            )),
            foreign: Arc::new(ForeignCode {
                runtime: Some(Arc::new(PyRuntime { pauses: false })),
                application: Some(settings.application_id.as_str().into()),
                ..(*plan.foreign).clone()
            }),
            settings: Arc::new(settings),
            components,
        };
        let engine = Some(Inline::start(&spec)?);
        let mode = ProducerMode::Plain {
            id: "stoatflow-test-driver".into(),
            timeout: BROKER_TIMEOUT,
        };
        let feeder = broker.producer(&mode, BROKER_TIMEOUT)?;
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
            feeder,
            _state: state,
        })
    }

    pub fn engine(&mut self) -> Result<&mut Inline> {
        self.engine.as_mut().ok_or_else(|| {
            Error::config("the driver's engine has crashed or was stopped")
                .hint("call restart() before going on")
        })
    }

    pub fn run(&mut self) -> Result<()> {
        self.run_engine(Inline::run_and_commit)
    }

    /// Runs until idle, without a commit, so that records appended so far are processed before later
    /// ones, whatever their timestamps.
    pub fn run_until_idle(&mut self) -> Result<()> {
        self.run_engine(Inline::run_until_idle)
    }

    pub fn pipe(&mut self, record: ProducerRecord) -> Result<()> {
        if self.held.is_some() {
            return self.pipe_together(vec![record]);
        }
        self.engine()?;
        self.append(vec![record])?;
        self.run()
    }

    /// Pipes records of one topic. Between `hold` and `release` they are appended together.
    pub fn pipe_together(&mut self, records: Vec<ProducerRecord>) -> Result<()> {
        let Some(topic) = records.first().map(|first| first.topic.to_string()) else {
            return Ok(());
        };
        if self.held.is_none() {
            return records.into_iter().try_for_each(|record| self.pipe(record));
        }
        self.engine()?;
        if self.held.take().flatten().is_some_and(|last| last != topic) {
            self.run_until_idle()?;
        }
        self.held = Some(Some(topic));
        self.append(records)
    }

    fn run_engine(&mut self, step: impl FnOnce(&mut Inline) -> Result<()>) -> Result<()> {
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

    /// Appends records of one topic and partition.
    fn append(&mut self, mut records: Vec<ProducerRecord>) -> Result<()> {
        let Some(first) = records.first() else {
            return Ok(());
        };
        let place = TopicPartition {
            topic: Arc::clone(&first.topic),
            partition: first.partition.unwrap_or_default(),
        };
        let ranges = self.broker.ranges(&[place], BROKER_TIMEOUT)?;
        let end = ranges.first().map_or(0, |range| range.stable_end.0);
        let offsets = (end..).zip(&records);
        let piped = offsets.map(|(offset, record)| (record.topic.to_string(), offset));
        self.piped.extend(piped);
        self.feeder.begin()?;
        self.feeder.send(&mut records)?;
        self.feeder.flush(BROKER_TIMEOUT)?;
        self.feeder.commit(BROKER_TIMEOUT).map(drop)
    }

    pub fn drain(&mut self, topic: &str) -> Result<Vec<ConsumerRecord>> {
        let missing = self
            .broker
            .topics(&[topic], BROKER_TIMEOUT)?
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

/// Makes every source start at the earliest offset: the driver creates its topics, and they hold only
/// what the test wrote.
fn with_earliest_reset(plan: &PhysicalPlan) -> PhysicalPlan {
    let mut plan = plan.clone();
    for source in &mut plan.sources {
        source.reset = source.reset.map(|_| Reset::Earliest);
    }
    plan
}
