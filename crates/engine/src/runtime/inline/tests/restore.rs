//! How a start handles state that is missing, behind or damaged.

use super::*;
use crate::runtime::failpoint::Failpoints;
use stoatflow_core::{Error, ErrorKind, Guarantee, Result};
use stoatflow_log::{ClusterExpiry, Committed, Consumer, Producer, Range, TopicInfo};
use stoatflow_state::Backend;
use stoatflow_state::memory::MemoryBackend;

const COUNTS: StoreId = StoreId(0);

fn count() -> PhysicalPlan {
    compile(json!([
        {"op": "stream", "topics": ["in"], "key": "string", "value": "string"},
        {"op": "group_by_key", "from": 0, "key": "string", "value": "string"},
        {"op": "count", "from": 1, "materialized": {"store": "counts"}},
        {"op": "to_stream", "from": 2},
        {"op": "to", "from": 3, "topic": "out", "key": "string", "value": "int64"},
    ]))
}

fn counted(engine: &mut Inline, key: &str) -> Option<i64> {
    let row = engine
        .parts()
        .backend
        .get(COUNTS, key.as_bytes())
        .unwrap()?;
    Some(i64::from_be_bytes(row[8..16].try_into().unwrap()))
}

/// Counts and commits a few records, then drops the engine.
fn counted_before(bench: &TestBench) {
    let mut engine = bench.start();
    bench.send("in", &[("a", "x", 1), ("a", "x", 2), ("b", "x", 3)]);
    engine.run_and_commit().unwrap();
    assert_eq!(counted(&mut engine, "a"), Some(2));
}

#[test]
fn at_least_once_a_result_is_acknowledged_before_its_row_is_sent() {
    let mut bench = TestBench::new(&["in", "out"], 2, count());
    set(&mut bench, |settings| {
        settings.guarantee = Guarantee::AtLeastOnce;
    });
    let failpoints = Failpoints::parse("commit.before-flush=error@2").unwrap();
    let mut engine = Inline::start_with(&bench.spec, failpoints).unwrap();
    bench.send("in", &[("a", "x", 1)]);
    engine.run_and_commit().unwrap();
    super::calls::slow_down(&mut engine, &bench, "out");
    bench.send("in", &[("a", "x", 2)]);
    let killed = engine.run_and_commit().unwrap_err();
    assert_eq!(killed.kind(), ErrorKind::Unavailable, "{killed}");
    drop(engine);
    // The disk is lost: the rows come from the changelog.
    std::fs::remove_dir_all(disk(&bench)).unwrap();
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
    let emitted = bench.fetch("out");
    let emitted = emitted.iter().map(|r| r.value.clone().unwrap());
    let emitted: Vec<_> = emitted
        .map(|value| i64::from_be_bytes(value[..].try_into().unwrap()))
        .collect();
    assert_eq!(emitted, [1, 2, 3], "the second record is read again");
}

fn disk(bench: &TestBench) -> std::path::PathBuf {
    bench.spec.settings.state_dir.join("rocksdb")
}

fn set(bench: &mut TestBench, change: impl FnOnce(&mut Settings)) {
    let mut settings = (*bench.spec.settings).clone();
    change(&mut settings);
    bench.spec.settings = Arc::new(settings);
}

/// A broker that refuses to assign input before the stores have reached the ends of their changelogs.
#[derive(Debug)]
struct Strict {
    broker: Arc<embedded::EmbeddedBroker>,
    backend: MemoryBackend,
    changelog: &'static str,
    /// The number of assignments of input.
    seen: Arc<std::sync::atomic::AtomicU32>,
}

struct StrictConsumer {
    inner: Box<dyn Consumer>,
    missing: bool,
    seen: Arc<std::sync::atomic::AtomicU32>,
}

impl Consumer for StrictConsumer {
    fn assign(&mut self, partitions: &[(TopicPartition, Offset)]) -> Result<()> {
        if partitions.iter().any(|(p, _)| &*p.topic == "in") {
            self.seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            if self.missing {
                return Err(Error::internal(
                    "input is read before the stores have caught up",
                ));
            }
        }
        self.inner.assign(partitions)
    }
    fn poll(&mut self, max: usize, wait: Duration, into: &mut Vec<ConsumerRecord>) -> Result<()> {
        self.inner.poll(max, wait, into)
    }
    fn positions(&self) -> Vec<Offset> {
        self.inner.positions()
    }
    fn caught_up(&self, slot: u32) -> bool {
        self.inner.caught_up(slot)
    }
    fn pause(&mut self, slots: &[u32], paused: bool) -> Result<()> {
        self.inner.pause(slots, paused)
    }
}

impl Broker for Strict {
    fn address(&self) -> String {
        self.broker.address()
    }
    fn topics(&self, names: &[&str], t: Duration) -> Result<Vec<Option<TopicInfo>>> {
        self.broker.topics(names, t)
    }
    fn expiry(&self) -> ClusterExpiry {
        self.broker.expiry()
    }
    fn topic_names(&self, t: Duration) -> Result<Vec<Arc<str>>> {
        self.broker.topic_names(t)
    }
    fn create_topics(&self, topics: &[NewTopic], t: Duration) -> Result<()> {
        self.broker.create_topics(topics, t)
    }
    fn delete_topics(&self, names: &[&str], t: Duration) -> Result<()> {
        self.broker.delete_topics(names, t)
    }
    fn committed(
        &self,
        group: &str,
        partitions: &[TopicPartition],
        t: Duration,
    ) -> Result<Vec<Option<Committed>>> {
        self.broker.committed(group, partitions, t)
    }
    fn ranges(&self, partitions: &[TopicPartition], t: Duration) -> Result<Vec<Range>> {
        self.broker.ranges(partitions, t)
    }
    fn offsets_for_times(
        &self,
        partitions: &[TopicPartition],
        since: Timestamp,
        t: Duration,
    ) -> Result<Vec<Option<Offset>>> {
        self.broker.offsets_for_times(partitions, since, t)
    }
    fn consumer(&self, group: &str, partitions: usize) -> Result<Box<dyn Consumer>> {
        let changelog: Vec<_> = (0..2)
            .map(|p| TopicPartition::new(self.changelog, p))
            .collect();
        let ranges = self.broker.ranges(&changelog, SOON)?;
        let stored = self.backend.positions(COUNTS)?;
        let missing = changelog.iter().zip(ranges).any(|(p, range)| {
            let at = stored.iter().find(|(n, _)| *n == p.partition);
            range.stable_end > at.map_or(Offset(0), |(_, at)| *at)
        });
        Ok(Box::new(StrictConsumer {
            inner: self.broker.consumer(group, partitions)?,
            missing,
            seen: Arc::clone(&self.seen),
        }))
    }
    fn bulk_consumer(&self, group: &str) -> Result<Box<dyn Consumer>> {
        self.broker.bulk_consumer(group)
    }
    fn producer(&self, mode: &ProducerMode, t: Duration) -> Result<Box<dyn Producer>> {
        self.broker.producer(mode, t)
    }
}

#[test]
fn input_is_read_only_when_every_store_has_caught_up() {
    let mut bench = TestBench::new(&["in", "out"], 2, count());
    counted_before(&bench);
    let backend = MemoryBackend::new(false);
    let seen = Arc::default();
    bench.spec.components.backend = Some(Arc::new(backend.clone()));
    bench.spec.components.broker = Arc::new(Strict {
        broker: Arc::clone(&bench.broker),
        backend,
        changelog: "stand-counts-changelog",
        seen: Arc::clone(&seen),
    });
    // New records must be counted on top of the earlier ones.
    bench.send("in", &[("a", "x", 4)]);
    let mut engine = bench.start();
    engine.run_and_commit().unwrap();
    assert_eq!(counted(&mut engine, "a"), Some(3));
    assert_eq!(seen.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[test]
fn damaged_state_is_refused_or_rebuilt_as_declared() {
    let mut bench = TestBench::new(&["in", "out"], 2, count());
    counted_before(&bench);
    std::fs::write(disk(&bench).join("CURRENT"), b"nonsense").unwrap();
    let refused = Inline::start(&bench.spec).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::StateCorrupt);
    assert!(
        refused.next_step().contains("state.damaged = rebuild"),
        "{refused}"
    );
    set(&mut bench, |s| s.rebuild_damaged_state = true);
    let mut engine = bench.start();
    assert_eq!(counted(&mut engine, "a"), Some(2), "from the changelog");
    bench.send("in", &[("a", "x", 4)]);
    engine.run_and_commit().unwrap();
    assert_eq!(counted(&mut engine, "a"), Some(3));
}

#[test]
fn stores_without_a_changelog_are_kept() {
    let mut plan = count();
    plan.stores[0].logged = false;
    let mut bench = TestBench::new(&["in", "out"], 2, plan);
    counted_before(&bench);
    let current = disk(&bench).join("CURRENT");
    let whole = std::fs::read(&current).unwrap();
    std::fs::write(&current, b"nonsense").unwrap();
    set(&mut bench, |s| s.rebuild_damaged_state = true);
    let refused = Inline::start(&bench.spec).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::StateCorrupt);
    assert!(refused.to_string().contains("counts"), "{refused}");
    // Nothing was removed: with the file back, everything is there.
    std::fs::write(&current, whole).unwrap();
    let mut engine = bench.start();
    assert_eq!(counted(&mut engine, "a"), Some(2));
}
