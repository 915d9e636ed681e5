//! The cost of a record: produce with commit, and consume, at 100 B.
//!
//! `cargo run --release -p stoatflow-log --example speed` measures the embedded broker, and a real one
//! too if `STOATFLOW_TEST_BOOTSTRAP` names it. Prints nanoseconds of wall time and of this process's CPU
//! time per record. Bounded: 100 to 400 thousand records a line.

use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Clock, Offset, Partition, Result, SystemClock, Timestamp, TopicPartition};
use stoatflow_log::{Broker, CutEntry, NewTopic, ProducerMode, ProducerRecord, embedded, kafka};

const WAIT: Duration = Duration::from_secs(60);
const PARTITIONS: i32 = 4;

/// CPU time of the process in ticks of 10 ms, as the kernel accounts it.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<u64> = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|f| f.parse().ok())
        .collect();
    Duration::from_millis(fields.iter().sum::<u64>() * 10)
}

fn timed<T>(what: &str, records: usize, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let (clock, before) = (SystemClock::new(), cpu());
    let done = work()?;
    let (wall, cpu) = (clock.monotonic(), cpu() - before);
    let per = |d: Duration| d.as_nanos() / records as u128;
    println!(
        "  {what:<46} {:>6} ns wall {:>6} ns CPU per record",
        per(wall),
        per(cpu)
    );
    Ok(done)
}

fn measure(broker: &dyn Broker, records: usize) -> Result<()> {
    let tag = format!("speed-{}", std::process::id());
    println!("{} ({records} records of 100 B)", broker.address());
    let topic: Arc<str> = tag.as_str().into();
    broker.create_topics(
        &[NewTopic {
            name: tag.clone(),
            partitions: PARTITIONS,
            replication: -1,
            config: Vec::new(),
        }],
        WAIT,
    )?;
    let mut producer = broker.producer(
        &ProducerMode::Transactional {
            id: tag.clone(),
            timeout: WAIT,
        },
        WAIT,
    )?;
    let value = Bytes::from(vec![b'x'; 92]);
    let make = |n: usize| ProducerRecord {
        topic: topic.clone(),
        partition: Some(Partition((n % PARTITIONS as usize) as i32)),
        key: Some(Bytes::copy_from_slice(&(n as u64).to_be_bytes())),
        value: Some(value.clone()),
        timestamp: Timestamp(1_700_000_000_000),
        headers: None,
    };
    let mut commits = Vec::new();
    for (size, share) in [(200, 20), (10_000, 1)] {
        let count = records / share;
        timed(
            &format!("produce and commit, {size} in a transaction"),
            count,
            || {
                for start in (0..count).step_by(size) {
                    let clock = SystemClock::new();
                    producer.begin()?;
                    producer.send(&mut (start..count.min(start + size)).map(make).collect())?;
                    producer.flush(WAIT)?;
                    let cut = CutEntry {
                        partition: TopicPartition::new(topic.clone(), 0),
                        offset: Offset(start as i64),
                        metadata: String::new(),
                    };
                    producer.offsets(&tag, &[cut], WAIT)?;
                    producer.commit(WAIT)?;
                    commits.push(clock.monotonic());
                }
                Ok(())
            },
        )?;
        commits.sort();
        println!(
            "  {:<46} p50 {:?}, p99 {:?}",
            "    one transaction",
            commits[commits.len() / 2],
            commits[commits.len() * 99 / 100]
        );
        commits.clear();
    }
    let total = records + records / 20;
    let parts: Vec<_> = (0..PARTITIONS)
        .map(|p| (TopicPartition::new(topic.clone(), p), Offset(0)))
        .collect();
    for max in [1024, 64] {
        let mut consumer = broker.consumer(&tag, parts.len())?;
        consumer.assign(&parts)?;
        timed(&format!("consume, at most {max} a poll"), total, || {
            let (mut seen, mut count) = (Vec::new(), 0);
            while count < total {
                consumer.poll(max, WAIT, &mut seen)?;
                count += seen.len();
                seen.clear();
            }
            Ok(())
        })?;
    }
    Ok(())
}

#[allow(clippy::disallowed_methods)] // a measurement has no settings
fn main() -> Result<()> {
    measure(embedded::open(None)?.as_ref(), 400_000)?;
    match std::env::var("STOATFLOW_TEST_BOOTSTRAP") {
        Ok(bootstrap) => measure(kafka::connect(&bootstrap, &[])?.as_ref(), 400_000),
        Err(_) => {
            println!("real Kafka was not measured: STOATFLOW_TEST_BOOTSTRAP is not set");
            Ok(())
        }
    }
}
