//! Restores on an embedded broker, alone and with threads.

use super::*;
use crate::admin::status::Status;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use stoatflow_core::{ErrorKind, ManualClock, Serde, Timestamp};
use stoatflow_log::{NewTopic, ProducerMode, ProducerRecord, embedded};
use stoatflow_state::memory::MemoryBackend;
use stoatflow_state::{EpochBatch, KeyRange, KeyValueStore, RestoreRun, Write};

/// A timeout that is long enough on the busiest machine.
const SOON: Duration = Duration::from_secs(60);
const PARTITIONS: i32 = 3;
const RECORDS: usize = 4_000;
/// A memory budget that a few hundred records exceed.
const LITTLE: usize = 1;

type OnLoad = Box<dyn Fn(StoreId, &RestoreRun) -> Result<()> + Send + Sync>;

/// A back end in memory that calls `on_load` before each run.
struct Watched {
    inner: MemoryBackend,
    on_load: OnLoad,
    loaded: Mutex<Vec<StoreId>>,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

impl Backend for Watched {
    fn get(&self, store: StoreId, key: &[u8]) -> Result<Option<Bytes>> {
        self.inner.get(store, key)
    }
    fn scan(&self, store: StoreId, range: &KeyRange, limit: usize) -> Result<Vec<(Bytes, Bytes)>> {
        self.inner.scan(store, range, limit)
    }
    fn snapshot(&self, stores: &[StoreId]) -> Result<Box<dyn stoatflow_state::Snapshot>> {
        self.inner.snapshot(stores)
    }
    fn apply(&self, batch: EpochBatch) -> Result<()> {
        self.inner.apply(batch)
    }
    fn restore(&self, s: StoreId, w: Vec<Write>, at: &[(Partition, Offset)]) -> Result<()> {
        self.inner.restore(s, w, at)
    }
    fn bulk_load(&self, s: StoreId, run: RestoreRun, at: &[(Partition, Offset)]) -> Result<()> {
        (self.on_load)(s, &run)?;
        self.inner.bulk_load(s, run, at)
    }
    fn loaded(&self, store: StoreId) -> Result<()> {
        self.loaded.lock().push(store);
        Ok(())
    }
    fn positions(&self, store: StoreId) -> Result<Vec<(Partition, Offset)>> {
        self.inner.positions(store)
    }
    fn current_at(&self, store: StoreId) -> Result<Option<Timestamp>> {
        self.inner.current_at(store)
    }
    fn note_current(&self, stores: &[StoreId], at: Timestamp) -> Result<()> {
        self.inner.note_current(stores, at)
    }
    fn source_topic(&self, store: StoreId) -> Result<Option<String>> {
        self.inner.source_topic(store)
    }
    fn note_source_topic(&self, store: StoreId, topic: Option<&str>) -> Result<()> {
        self.inner.note_source_topic(store, topic)
    }
    fn wipe(&self, store: StoreId) -> Result<()> {
        self.inner.wipe(store)
    }
    fn approximate_len(&self, store: StoreId) -> u64 {
        self.inner.approximate_len(store)
    }
    fn memory_bytes(&self) -> u64 {
        self.inner.memory_bytes()
    }
    fn is_durable(&self) -> bool {
        true
    }
}

/// Two stores whose changelogs contain values of keys, most of them written several times.
struct TestBench {
    broker: Arc<embedded::EmbeddedBroker>,
    backend: Arc<Watched>,
    shared: Arc<Shared>,
    stores: Vec<LoggedStore>,
    heard: Arc<Mutex<Vec<RestoreEvent>>>,
}

const NAMES: [&str; 2] = ["counts", "sums"];

fn key(n: usize) -> String {
    format!("key-{}", n * 31 % 1_500)
}

impl TestBench {
    fn new(on_load: impl Fn(StoreId, &RestoreRun) -> Result<()> + Send + Sync + 'static) -> Self {
        let broker = embedded::open(None).unwrap();
        let topics = NAMES.map(|name| NewTopic {
            name: name.to_owned(),
            partitions: PARTITIONS,
            replication: 1,
            config: Vec::new(),
        });
        broker.create_topics(&topics, SOON).unwrap();
        let plan = json!({"version": 1, "functions": [], "nodes": [
            {"op": "stream", "topics": ["in"], "key": "string", "value": "string"},
            {"op": "to", "from": 0, "topic": "out", "key": "string", "value": "string"},
        ]});
        let plan = Arc::new(stoatflow_plan::compile(plan.to_string().as_bytes()).unwrap());
        let backend = Arc::new(Watched {
            inner: MemoryBackend::new(true),
            on_load: Box::new(on_load),
            loaded: Mutex::default(),
        });
        let store = |(id, name): (u16, &&str)| LoggedStore {
            store: Arc::new(KeyValueStore::new(
                StoreId(id),
                Arc::from(*name),
                Serde::String,
                Arc::clone(&backend) as Arc<dyn Backend>,
                0,
            )),
            changelog: Some(Arc::from(*name)),
            source: None,
            waiting: false,
            indexes: None,
        };
        let bench = Self {
            stores: (0..).zip(&NAMES).map(store).collect(),
            shared: Arc::new(Shared::new(
                Arc::new(Status::new("stand", plan, 1)),
                Arc::new(ManualClock::new(Timestamp(0))),
                1,
                1,
                true,
                crate::runtime::failpoint::Failpoints::default(),
            )),
            broker,
            backend,
            heard: Arc::default(),
        };
        NAMES.iter().for_each(|name| bench.write(name, 0..RECORDS));
        bench
    }

    fn write(&self, topic: &str, numbers: std::ops::Range<usize>) {
        let mode = ProducerMode::Plain {
            id: "feeder".into(),
            timeout: SOON,
        };
        let mut producer = self.broker.producer(&mode, SOON).unwrap();
        producer.begin().unwrap();
        let record = |n: usize| ProducerRecord {
            topic: topic.into(),
            partition: None,
            key: Some(Bytes::from(key(n))),
            // Some keys end up deleted.
            value: (!n.is_multiple_of(7)).then(|| Bytes::from(format!("{topic}-{n}"))),
            timestamp: Timestamp(i64::try_from(n).unwrap()),
            headers: None,
        };
        producer.send(&mut numbers.map(record).collect()).unwrap();
        producer.flush(SOON).unwrap();
        producer.commit(SOON).unwrap();
    }

    fn run(&self, parallelism: Parallelism<'_>, memory: usize) -> Result<bool> {
        let heard = Arc::clone(&self.heard);
        Restore {
            shared: &self.shared,
            broker: self.broker.as_ref(),
            backend: &(Arc::clone(&self.backend) as Arc<dyn Backend>),
            stores: &self.stores,
            group: "stand",
            timeout: SOON,
            memory,
            now: None,
            committed: &HashMap::new(),
            markers: 1,
            parallelism,
            listener: Some(Arc::new(move |e: &RestoreEvent| {
                heard.lock().push(e.clone())
            })),
        }
        .run()
    }

    /// Checks the stores after this many records.
    fn check(&self, records: usize) {
        for (store, topic) in (0..).zip(NAMES) {
            let mut wanted = std::collections::BTreeMap::new();
            for n in 0..records {
                wanted.insert(
                    key(n),
                    (!n.is_multiple_of(7)).then(|| format!("{topic}-{n}")),
                );
            }
            wanted.retain(|_, value| value.is_some());
            let rows = self
                .backend
                .scan(StoreId(store), &KeyRange::default(), usize::MAX);
            let found = rows.unwrap().into_iter().map(|(key, value)| {
                // Eight bytes of timestamp precede the value.
                let text = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
                (text(&key), Some(text(&value[8..])))
            });
            assert_eq!(found.collect::<std::collections::BTreeMap<_, _>>(), wanted);
            let ends = self.ends(topic);
            assert_eq!(self.backend.positions(StoreId(store)).unwrap(), ends);
        }
    }

    fn ends(&self, topic: &str) -> Vec<(Partition, Offset)> {
        let of = |p| TopicPartition::new(Arc::<str>::from(topic), p);
        let partitions: Vec<_> = (0..PARTITIONS).map(of).collect();
        let ranges = self.broker.ranges(&partitions, SOON).unwrap();
        partitions
            .iter()
            .zip(ranges)
            .map(|(p, range)| (p.partition, range.stable_end))
            .collect()
    }
}

#[allow(clippy::disallowed_methods)] // as the host makes them
fn thread(name: &str, body: Box<dyn FnOnce() + Send>) -> Result<JoinHandle<()>> {
    let made = std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body);
    Ok(made.unwrap())
}

const MANY: Parallelism<'static> = Parallelism::Threads(&thread, 2);

#[test]
fn stores_hold_what_their_changelogs_say_whoever_does_the_work() {
    for parallelism in [Parallelism::Sequential, MANY] {
        for memory in [LITTLE, 1 << 30] {
            let bench = TestBench::new(|_, _| Ok(()));
            assert!(bench.run(parallelism, memory).unwrap());
            bench.check(RECORDS);
            let mut loaded = bench.backend.loaded.lock().clone();
            loaded.sort();
            assert_eq!(
                loaded,
                [StoreId(0), StoreId(1)],
                "each store is finished once"
            );
            // Only the new records: no run contains older ones.
            NAMES
                .iter()
                .for_each(|name| bench.write(name, RECORDS..RECORDS + 10));
            bench.heard.lock().clear();
            assert!(bench.run(parallelism, memory).unwrap());
            bench.check(RECORDS + 10);
            let heard = bench.heard.lock();
            let records: u64 = heard
                .iter()
                .map(|e| match e.step {
                    RestoreStep::Batch { records, .. } => records,
                    _ => 0,
                })
                .sum();
            assert_eq!(records, 20);
            assert!(
                bench
                    .shared
                    .status
                    .restore()
                    .iter()
                    .all(|p| p.complete && p.done == p.total)
            );
        }
    }
}

#[test]
fn every_partition_is_reported_from_start_to_end() {
    for parallelism in [Parallelism::Sequential, MANY] {
        let bench = TestBench::new(|_, _| Ok(()));
        assert!(bench.run(parallelism, LITTLE).unwrap());
        let heard = bench.heard.lock();
        for name in NAMES {
            let mut all = 0;
            for (partition, end) in bench.ends(name) {
                let steps: Vec<RestoreStep> = heard
                    .iter()
                    .filter(|e| e.store == name && e.partition.partition == partition)
                    .map(|e| e.step)
                    .collect();
                let (first, last) = (steps[0], steps[steps.len() - 1]);
                assert_eq!(
                    first,
                    RestoreStep::Started {
                        from: Offset(0),
                        end
                    }
                );
                let (mut records, mut at) = (0, Offset(0));
                for step in &steps[1..steps.len() - 1] {
                    let RestoreStep::Batch {
                        reached,
                        records: more,
                    } = *step
                    else {
                        panic!("{step:?} in the middle");
                    };
                    assert!(reached >= at);
                    (records, at) = (records + more, reached);
                }
                assert_eq!((last, at), (RestoreStep::Ended { records }, end));
                all += records;
            }
            assert_eq!(all, RECORDS as u64);
        }
    }
}

#[test]
fn a_stop_ends_it_and_the_next_start_goes_on() {
    for parallelism in [Parallelism::Sequential, MANY] {
        let asked: Arc<Mutex<Option<Arc<Shared>>>> = Arc::default();
        let seen = Arc::clone(&asked);
        let bench = TestBench::new(move |_, _| {
            if let Some(shared) = &*seen.lock() {
                shared.stop();
            }
            Ok(())
        });
        *asked.lock() = Some(Arc::clone(&bench.shared));
        assert!(
            !bench.run(parallelism, LITTLE).unwrap(),
            "it must not say that it is done"
        );
        let suspended = |e: &RestoreEvent| matches!(e.step, RestoreStep::Suspended { .. });
        assert!(bench.heard.lock().iter().any(suspended));
        assert!(bench.shared.status.restore().iter().any(|p| !p.complete));
        *asked.lock() = None;
        let again = TestBench {
            shared: TestBench::new(|_, _| Ok(())).shared,
            ..bench
        };
        assert!(again.run(parallelism, LITTLE).unwrap());
        again.check(RECORDS);
    }
}

#[test]
fn a_failed_loader_ends_it_with_its_error() {
    for parallelism in [Parallelism::Sequential, MANY] {
        let bench = TestBench::new(|store, _| match store {
            StoreId(1) => Err(Error::new(ErrorKind::DiskFull, "no space")),
            _ => Ok(()),
        });
        let error = bench.run(parallelism, LITTLE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DiskFull);
        assert!(bench.backend.positions(StoreId(1)).unwrap().is_empty());
    }
}

#[test]
fn reading_goes_on_while_a_run_is_loaded() {
    // The first run waits until the reader has filled another one: without overlap it would wait
    // forever.
    let (seen, full) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let (seen_, full_) = (Arc::clone(&seen), Arc::clone(&full));
    let bench = TestBench::new(move |store, _| {
        if store == StoreId(0) && !seen_.swap(true, Ordering::SeqCst) {
            for _ in 0..6_000 {
                if full_.load(Ordering::SeqCst) {
                    return Ok(());
                }
                std::thread::park_timeout(Duration::from_millis(10));
            }
            return Err(Error::internal("nothing was loaded beside it"));
        }
        full_.store(true, Ordering::SeqCst);
        Ok(())
    });
    assert!(bench.run(MANY, LITTLE).unwrap());
    bench.check(RECORDS);
}

#[test]
fn a_listener_that_panics_stops_nothing() {
    let bench = TestBench::new(|_, _| Ok(()));
    let restore = Restore {
        shared: &bench.shared,
        broker: bench.broker.as_ref(),
        backend: &(Arc::clone(&bench.backend) as Arc<dyn Backend>),
        stores: &bench.stores,
        group: "stand",
        timeout: SOON,
        memory: LITTLE,
        now: None,
        committed: &HashMap::new(),
        markers: 1,
        parallelism: MANY,
        listener: Some(Arc::new(|_: &RestoreEvent| panic!("on purpose"))),
    };
    assert!(restore.run().unwrap());
    bench.check(RECORDS);
}
