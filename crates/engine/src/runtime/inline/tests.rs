//! Whole engines on an embedded broker, stepped one part at a time.

mod batches;
mod calls;
mod clocks;
mod counted_ahead;
mod delayed_fetch;
mod failpoints;
mod lane_determinism;
mod late;
mod offload;
mod order;
mod overlay;
mod reset;
mod restore;
mod schedule;
mod scheduled;
mod sources;
mod watermarks;

use super::*;
use crate::Components;
use bytes::Bytes;
use serde_json::{Value, json};
use stoatflow_core::{ManualClock, Offset, Settings, StoreId, Timestamp, TopicPartition};
use stoatflow_log::{
    Broker, ConsumerRecord, NewTopic, Producer, ProducerMode, ProducerRecord, embedded,
};
use stoatflow_operators::{ForeignCode, Udf};
use stoatflow_plan::PhysicalPlan;

const SOON: Duration = Duration::from_secs(5);

/// A broker, a clock, and a plan that can be started repeatedly.
struct TestBench {
    broker: Arc<embedded::EmbeddedBroker>,
    clock: Arc<ManualClock>,
    spec: EngineSpec,
    _dir: tempfile::TempDir,
}

fn compile(nodes: Value) -> PhysicalPlan {
    let plan = json!({"version": 1, "nodes": nodes, "functions": []});
    stoatflow_plan::compile(plan.to_string().as_bytes()).unwrap()
}

impl TestBench {
    fn new(topics: &[&str], lanes: u32, plan: PhysicalPlan) -> Self {
        Self::with_functions(topics, lanes, plan, Vec::new())
    }

    fn with_functions(
        topics: &[&str],
        lanes: u32,
        plan: PhysicalPlan,
        udfs: Vec<Arc<dyn Udf>>,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let broker = embedded::open(None).unwrap();
        let topics: Vec<NewTopic> = topics
            .iter()
            .map(|name| NewTopic {
                name: (*name).to_owned(),
                partitions: 2,
                replication: 1,
                config: Vec::new(),
            })
            .collect();
        broker.create_topics(&topics, SOON).unwrap();
        let clock = Arc::new(ManualClock::new(Timestamp(1_000_000)));
        let settings = Settings::from_pairs(&[
            ("application.id".into(), "stand".into()),
            ("bootstrap.servers".into(), "embedded:".into()),
            ("lanes.count".into(), lanes.into()),
            ("state.dir".into(), dir.path().to_string_lossy().into()),
        ])
        .unwrap();
        let spec = EngineSpec {
            plan: Arc::new(plan),
            foreign: Arc::new(ForeignCode {
                udfs,
                ..ForeignCode::default()
            }),
            settings: Arc::new(settings),
            components: Components {
                clock: Arc::clone(&clock) as _,
                ..Components::new(Arc::clone(&broker) as _)
            },
        };
        Self {
            broker,
            clock,
            spec,
            _dir: dir,
        }
    }

    fn start(&self) -> Inline {
        Inline::start(&self.spec).unwrap()
    }

    fn send(&self, topic: &str, records: &[(&'static str, &'static str, i64)]) {
        let record = |(key, value, time): &(&'static str, &'static str, i64)| ProducerRecord {
            topic: topic.into(),
            partition: None,
            key: Some(Bytes::from(*key)),
            value: Some(Bytes::from(*value)),
            timestamp: Timestamp(*time),
            headers: None,
        };
        self.write(records.iter().map(record).collect());
    }

    fn write(&self, mut records: Vec<ProducerRecord>) {
        let mut producer = self.producer("feeder");
        producer.begin().unwrap();
        producer.send(&mut records).unwrap();
        producer.flush(SOON).unwrap();
        producer.commit(SOON).unwrap();
    }

    fn producer(&self, id: &str) -> Box<dyn Producer> {
        let mode = ProducerMode::Plain {
            id: id.into(),
            timeout: SOON,
        };
        self.broker.producer(&mode, SOON).unwrap()
    }

    /// All records of a topic: value and timestamp, ordered by timestamp.
    fn read(&self, topic: &str) -> Vec<(String, i64)> {
        let fetched = self.fetch(topic);
        let text =
            |r: &ConsumerRecord| String::from_utf8(r.value.clone().unwrap().to_vec()).unwrap();
        let mut read: Vec<_> = fetched.iter().map(|r| (text(r), r.timestamp.0)).collect();
        read.sort_by_key(|(_, time)| *time);
        read
    }

    fn fetch(&self, topic: &str) -> Vec<ConsumerRecord> {
        let partitions: Vec<_> = (0..2)
            .map(|p| (TopicPartition::new(topic, p), Offset(0)))
            .collect();
        let mut consumer = self.broker.consumer("reader", 1).unwrap();
        consumer.assign(&partitions).unwrap();
        let mut fetched: Vec<ConsumerRecord> = Vec::new();
        consumer.poll(1_000, Duration::ZERO, &mut fetched).unwrap();
        fetched
    }
}

/// Copies `from` to `out` unchanged.
fn copy(from: &str) -> Value {
    json!([
        {"op": "stream", "topics": [from], "key": "string", "value": "string"},
        {"op": "to", "from": 0, "topic": "out", "key": "string", "value": "string"},
    ])
}
