//! The floor: the cost of reading 1 KB records, writing four of five, and committing every 100 ms,
//! without an engine.
//!
//! `make bench-floor` starts a broker and runs it; by hand, `STOATFLOW_TEST_BOOTSTRAP=host:port
//! scripts/cargo.sh run --release -p stoatflow-log --example forward [records] [rounds]`. Each way
//! forwards the same records into a topic of its own; in each round all ways take turns. The records
//! that arrived are counted before a figure is printed. CPU is that of this process, all threads.
//! Bounded: the records are written before, and a loop ends with the last of them.

use bytes::Bytes;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::types::RDKafkaErrorCode::QueueFull;
use rdkafka::{Offset as Place, TopicPartitionList};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::settings::ClientRole;
use stoatflow_core::{
    Clock, Error, Offset, Partition, Result, SystemClock, Timestamp, TopicPartition,
};
use stoatflow_log::{
    Broker, CommitOutcome, CutEntry, NewTopic, ProducerMode, ProducerRecord, kafka,
};

const WAIT: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_millis(100);
const PARTITIONS: i32 = 8;
const SIZE: usize = 1024;

/// How records are read and written.
#[derive(Clone, Copy)]
enum Way {
    /// librdkafka as its Rust crate and its examples use it: a call per record, everything at its default.
    Plainly,
    /// The same with settings that trade latency for fewer and larger requests and fewer delivery
    /// reports.
    Tuned,
    /// librdkafka as StoatFlow uses it where it must: in batches, sent in bursts.
    Batches,
    /// Without librdkafka, as StoatFlow does by default.
    Own,
}

const WAYS: [(Way, &str); 4] = [
    (Way::Plainly, "librdkafka, a call per record"),
    (Way::Tuned, "the same, with settings for throughput"),
    (Way::Batches, "librdkafka, in batches and bursts"),
    (Way::Own, "without librdkafka"),
];

/// The settings of `Way::Tuned`.
const TUNED: [(&str, &str); 6] = [
    ("linger.ms", "50"),
    ("batch.size", "1000000"),
    ("delivery.report.only.error", "true"),
    ("queue.buffering.max.kbytes", "1048576"),
    ("fetch.message.max.bytes", "4194304"),
    ("fetch.queue.backoff.ms", "10"),
];

fn failed(error: KafkaError) -> Error {
    Error::unavailable("the loop on librdkafka failed; is the broker still there?").caused_by(error)
}

/// CPU time of the process in ticks of 10 ms, as the kernel accounts it.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2);
    Duration::from_millis(ticks.filter_map(|t| t.parse::<u64>().ok()).sum::<u64>() * 10)
}

/// Whether a record is forwarded: four of five.
fn goes_on(offset: i64) -> bool {
    offset % 5 != 4
}

/// One run of one way.
struct Job<'a> {
    bootstrap: &'a str,
    from: &'a str,
    to: &'a str,
    records: usize,
    transactions: bool,
}

impl Job<'_> {
    fn mode(&self) -> ProducerMode {
        let (id, timeout) = (self.to.to_owned(), WAIT);
        if self.transactions {
            ProducerMode::Transactional { id, timeout }
        } else {
            ProducerMode::Plain { id, timeout }
        }
    }

    /// Through the port, with either client.
    fn by_port(&self, broker: &dyn Broker) -> Result<()> {
        let clock = SystemClock::new();
        let from: Arc<str> = self.from.into();
        let to: Arc<str> = self.to.into();
        let places: Vec<_> = (0..PARTITIONS)
            .map(|p| (TopicPartition::new(from.clone(), p), Offset(0)))
            .collect();
        let mut consumer = broker.consumer(self.to, places.len())?;
        consumer.assign(&places)?;
        let mut producer = broker.producer(&self.mode(), WAIT)?;
        producer.begin()?;
        let (mut seen, mut fetched, mut out) = (0, Vec::new(), Vec::new());
        let mut committed = clock.monotonic();
        while seen < self.records {
            consumer.poll(4096, INTERVAL, &mut fetched)?;
            seen += fetched.len();
            out.extend(
                fetched
                    .drain(..)
                    .filter(|r| goes_on(r.offset.0))
                    .map(|r| ProducerRecord {
                        topic: to.clone(),
                        partition: i32::try_from(r.slot).ok().map(Partition),
                        key: r.key,
                        value: r.value,
                        timestamp: r.timestamp,
                        headers: r.headers,
                    }),
            );
            producer.send(&mut out)?;
            producer.send_pending()?;
            let now = clock.monotonic();
            if now.saturating_sub(committed) >= INTERVAL || seen == self.records {
                producer.flush(WAIT)?;
                let positions = consumer.positions().into_iter().zip(&places);
                let cut: Vec<_> = positions
                    .map(|(offset, (partition, _))| CutEntry {
                        partition: partition.clone(),
                        offset,
                        metadata: String::new(),
                    })
                    .collect();
                producer.offsets(self.to, &cut, WAIT)?;
                if producer.commit(WAIT)? == CommitOutcome::Aborted {
                    return Err(Error::unavailable("the broker aborted a transaction"));
                }
                producer.begin()?;
                committed = clock.monotonic();
            }
        }
        producer.abort(WAIT)
    }

    /// With librdkafka's Rust crate.
    fn by_crate(&self, settings: &[(&str, &str)]) -> std::result::Result<(), KafkaError> {
        let clock = SystemClock::new();
        let config = |own: &[(&str, &str)]| {
            let mut config = ClientConfig::new();
            config.set("bootstrap.servers", self.bootstrap);
            for (name, value) in own.iter().chain(settings) {
                config.set(*name, *value);
            }
            // Hides the warnings about properties of the other role.
            config.set_log_level(rdkafka::config::RDKafkaLogLevel::Error);
            config
        };
        let consumer: BaseConsumer = config(&[
            ("group.id", self.to),
            ("isolation.level", "read_committed"),
            ("enable.auto.commit", "false"),
        ])
        .create()?;
        let mut assignment = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            assignment.add_partition_offset(self.from, partition, Place::Offset(0))?;
        }
        consumer.assign(&assignment)?;
        let mut own = vec![
            ("enable.idempotence", "true"),
            ("queue.buffering.max.messages", "500000"),
        ];
        if self.transactions {
            own.push(("transactional.id", self.to));
        }
        let producer: BaseProducer = config(&own).create()?;
        if self.transactions {
            producer.init_transactions(WAIT)?;
            producer.begin_transaction()?;
        }
        let (mut seen, mut committed) = (0, clock.monotonic());
        let mut positions = [0; PARTITIONS as usize];
        while seen < self.records {
            if let Some(message) = consumer.poll(INTERVAL) {
                let message = message?;
                seen += 1;
                let (partition, offset) = (message.partition(), message.offset());
                positions[usize::try_from(partition).unwrap_or_default()] = offset + 1;
                if goes_on(offset) {
                    let value = message.payload().unwrap_or_default();
                    let mut record = BaseRecord::<[u8], [u8]>::to(self.to)
                        .partition(partition)
                        .payload(value);
                    while let Err((error, back)) = producer.send(record) {
                        if error.rdkafka_error_code() != Some(QueueFull) {
                            return Err(error);
                        }
                        producer.poll(Duration::from_millis(10));
                        record = back;
                    }
                }
            }
            let now = clock.monotonic();
            if now.saturating_sub(committed) >= INTERVAL || seen == self.records {
                let mut cut = TopicPartitionList::new();
                for (partition, offset) in (0..).zip(positions) {
                    cut.add_partition_offset(self.from, partition, Place::Offset(offset))?;
                }
                if self.transactions {
                    if let Some(group) = consumer.group_metadata() {
                        producer.send_offsets_to_transaction(&cut, &group, WAIT)?;
                    }
                    producer.commit_transaction(WAIT)?;
                    producer.begin_transaction()?;
                } else {
                    producer.flush(WAIT)?;
                    consumer.commit(&cut, rdkafka::consumer::CommitMode::Sync)?;
                }
                committed = clock.monotonic();
            }
            producer.poll(Duration::ZERO);
        }
        if self.transactions {
            producer.abort_transaction(WAIT)?;
        }
        Ok(())
    }

    fn run(&self, way: Way) -> Result<()> {
        match way {
            Way::Plainly => self.by_crate(&[]).map_err(failed),
            Way::Tuned => self.by_crate(&TUNED).map_err(failed),
            Way::Batches => {
                let only = (ClientRole::All, "kafka.client".into(), "librdkafka".into());
                self.by_port(kafka::connect(self.bootstrap, &[only])?.as_ref())
            }
            Way::Own => self.by_port(kafka::connect(self.bootstrap, &[])?.as_ref()),
        }
    }
}

fn topic(broker: &dyn Broker, name: &str) -> Result<()> {
    let new = NewTopic {
        name: name.to_owned(),
        partitions: PARTITIONS,
        replication: -1,
        config: Vec::new(),
    };
    broker.create_topics(&[new], WAIT)
}

/// Records of 1 KB that don't compress, the same number in each partition.
fn fill(broker: &dyn Broker, name: &str, records: usize) -> Result<()> {
    topic(broker, name)?;
    let mode = ProducerMode::Plain {
        id: format!("{name}-filling"),
        timeout: WAIT,
    };
    let mut producer = broker.producer(&mode, WAIT)?;
    producer.begin()?;
    let to: Arc<str> = name.into();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for start in (0..records).step_by(1000) {
        let mut batch: Vec<_> = (start..records.min(start + 1000))
            .map(|n| {
                let value: Vec<u8> = std::iter::repeat_with(|| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    state.to_le_bytes()
                })
                .flatten()
                .take(SIZE)
                .collect();
                ProducerRecord {
                    topic: to.clone(),
                    partition: i32::try_from(n % PARTITIONS as usize).ok().map(Partition),
                    key: None,
                    value: Some(Bytes::from(value)),
                    timestamp: Timestamp(1_700_000_000_000),
                    headers: None,
                }
            })
            .collect();
        producer.send(&mut batch)?;
        producer.flush(WAIT)?;
    }
    producer.abort(WAIT)
}

/// How many records a committed reader finds.
fn count(broker: &dyn Broker, name: &str, wanted: usize) -> Result<usize> {
    let to: Arc<str> = name.into();
    let places: Vec<_> = (0..PARTITIONS)
        .map(|p| (TopicPartition::new(to.clone(), p), Offset(0)))
        .collect();
    let mut consumer = broker.consumer("counting", places.len())?;
    consumer.assign(&places)?;
    let (mut seen, mut idle) = (0, 0);
    // After the last expected record, a second without records shows that there are no more.
    while idle < if seen < wanted { 300 } else { 10 } {
        let mut fetched = Vec::new();
        consumer.poll(4096, INTERVAL, &mut fetched)?;
        seen += fetched.len();
        idle = if fetched.is_empty() { idle + 1 } else { 0 };
    }
    Ok(seen)
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

#[allow(clippy::disallowed_methods)] // a measurement has no settings
fn main() -> Result<()> {
    let mut given = std::env::args().skip(1).map(|n| n.parse::<usize>());
    let (Ok(records), Ok(rounds)) = (
        given.next().unwrap_or(Ok(400_000)),
        given.next().unwrap_or(Ok(3)),
    ) else {
        return Err(Error::config(
            "forward takes two numbers: records, and rounds",
        ));
    };
    let Ok(bootstrap) = std::env::var("STOATFLOW_TEST_BOOTSTRAP") else {
        return Err(Error::config(
            "set STOATFLOW_TEST_BOOTSTRAP=host:port to a broker, or run `make bench-floor`, which starts one",
        ));
    };
    let broker = kafka::connect(&bootstrap, &[])?;
    let from = format!("floor-{}", std::process::id());
    fill(broker.as_ref(), &from, records)?;
    let per_partition = records / PARTITIONS as usize;
    let wanted = PARTITIONS as usize * (0..per_partition as i64).filter(|o| goes_on(*o)).count();
    println!("{records} records of {SIZE} B, {wanted} of them forwarded, {rounds} rounds");
    for transactions in [true, false] {
        let mut figures = vec![(Vec::new(), Vec::new()); WAYS.len()];
        for round in 0..rounds {
            for ((way, name), (costs, times)) in WAYS.iter().zip(&mut figures) {
                let to = format!("{from}-{transactions}-{round}-{}", *way as u8);
                topic(broker.as_ref(), &to)?;
                let job = Job {
                    bootstrap: &bootstrap,
                    from: &from,
                    to: &to,
                    records,
                    transactions,
                };
                let (clock, before) = (SystemClock::new(), cpu());
                job.run(*way)?;
                eprint!(".");
                let per = |spent: Duration| spent.as_secs_f64() * 1e6 / records as f64;
                costs.push(per(cpu() - before));
                times.push(per(clock.monotonic()));
                let found = count(broker.as_ref(), &to, wanted)?;
                if found != wanted {
                    return Err(Error::internal(format!(
                        "{name}: {found} records have arrived, {wanted} were to"
                    )));
                }
                broker.delete_topics(&[&to], WAIT)?;
            }
        }
        eprintln!();
        println!(
            "{}, µs per record read:                CPU [each round]            by the clock",
            if transactions {
                "in transactions"
            } else {
                "without"
            }
        );
        for ((_, name), (costs, times)) in WAYS.iter().zip(figures) {
            let each: Vec<_> = costs.iter().map(|c| format!("{c:.2}")).collect();
            let (cost, time) = (median(costs), median(times));
            println!(
                "  {name:<42} {cost:>6.2} [{}] {time:>10.2}",
                each.join(", ")
            );
        }
    }
    Ok(())
}
