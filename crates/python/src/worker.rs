//! A worker's access to its topics: reads requests, writes answers, commits positions.
//!
//! Takes answers and positions, returns requests, all in batches. Owns a consumer of its share of the
//! partitions, and a producer whose answers are visible once they are acknowledged; positions are
//! committed after them. Never calls a function: Python does (`stoatflow.worker`).

use crate::embedded::EmbeddedBroker;
use crate::engine::PreparedRun;
use crate::errors::to_py_err;
use crate::settings::Pairs;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{
    Bytes, Clock, Error, ErrorKind, Header, Headers, Offset, Partition, Result, SystemClock,
    TopicPartition,
};
use stoatflow_log::{Consumer, ConsumerRecord, CutEntry, Producer, ProducerMode, ProducerRecord};

/// The names and values of headers.
type PyHeaders<'py> = Vec<(String, Option<Bound<'py, PyBytes>>)>;

/// Partition, offset, key, value, headers.
type Request<'py> = (
    i32,
    i64,
    Option<Bound<'py, PyBytes>>,
    Option<Bound<'py, PyBytes>>,
    PyHeaders<'py>,
);

/// Key, value, headers.
type Answer = (
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    Vec<(String, Option<Vec<u8>>)>,
);

/// A client for the topics of one worker.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct WorkerClient {
    partitions: Vec<TopicPartition>,
    consumer: Mutex<Option<Box<dyn Consumer>>>,
    producer: Mutex<Option<Box<dyn Producer>>>,
    responses: Arc<str>,
    group: String,
    clock: SystemClock,
    timeout: Duration,
}

/// The index of a worker, and the number of workers that share the partitions.
#[derive(Clone, Copy)]
struct WorkerShare {
    index: u32,
    count: u32,
}

#[pymethods]
impl WorkerClient {
    #[new]
    #[pyo3(signature = (pairs, requests, responses, share, shares, broker=None))]
    fn new(
        py: Python<'_>,
        pairs: Pairs<'_>,
        requests: &str,
        responses: &str,
        share: u32,
        shares: u32,
        broker: Option<&EmbeddedBroker>,
    ) -> PyResult<Self> {
        let prepared = PreparedRun::open(py, &pairs, broker)?;
        let share = WorkerShare {
            index: share,
            count: shares,
        };
        py.detach(|| open(&prepared, (requests, responses), share))
            .map_err(to_py_err)
    }

    /// The partitions that this worker reads.
    fn partitions(&self) -> Vec<i32> {
        self.partitions.iter().map(|p| p.partition.0).collect()
    }

    /// Returns up to `most` requests; waits at most `timeout_s` for the first one.
    fn poll<'py>(
        &self,
        py: Python<'py>,
        most: usize,
        timeout_s: f64,
    ) -> PyResult<Vec<Request<'py>>> {
        let timeout = Duration::try_from_secs_f64(timeout_s.max(0.0)).unwrap_or(Duration::ZERO);
        let fetched = py
            .detach(|| {
                let mut fetched = Vec::new();
                let mut consumer = self.consumer.lock();
                let consumer = consumer.as_mut().ok_or_else(closed)?;
                consumer.poll(most, timeout, &mut fetched)?;
                Ok(fetched)
            })
            .map_err(to_py_err)?;
        let bytes = |b: &Option<Bytes>| b.as_ref().map(|b| PyBytes::new(py, b));
        let headers = |r: &ConsumerRecord| {
            let all = r.headers.as_deref().unwrap_or_default().iter();
            all.map(|h| (h.name.to_string(), bytes(&h.value))).collect()
        };
        let request = |r: &ConsumerRecord| {
            let partition = self.partitions[r.slot as usize].partition.0;
            (
                partition,
                r.offset.0,
                bytes(&r.key),
                bytes(&r.value),
                headers(r),
            )
        };
        Ok(fetched.iter().map(request).collect())
    }

    /// Queues answers, which are sent in the background. Returns the indexes of those that were
    /// rejected, each with the reason.
    fn answer(&self, py: Python<'_>, answers: Vec<Answer>) -> PyResult<Vec<(usize, String)>> {
        let now = self.clock.now();
        let records = answers
            .into_iter()
            .map(|(key, value, headers)| ProducerRecord {
                topic: Arc::clone(&self.responses),
                partition: None,
                key: key.map(Bytes::from),
                value: value.map(Bytes::from),
                timestamp: now,
                headers: to_headers(headers),
            });
        let records: Vec<ProducerRecord> = records.collect();
        py.detach(|| self.answer_now(records)).map_err(to_py_err)
    }

    /// Waits until all answers are acknowledged, then commits positions (partition, next offset).
    fn commit(&self, py: Python<'_>, positions: Vec<(i32, i64)>) -> PyResult<()> {
        py.detach(|| self.commit_now(&positions)).map_err(to_py_err)
    }

    /// Closes the consumer and the producer.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            drop(self.consumer.lock().take());
            drop(self.producer.lock().take());
        });
    }
}

impl WorkerClient {
    /// Sends records one by one, so that a rejected one doesn't affect the others.
    fn answer_now(&self, records: Vec<ProducerRecord>) -> Result<Vec<(usize, String)>> {
        let mut producer = self.producer.lock();
        let producer = producer.as_mut().ok_or_else(closed)?;
        let mut refused = Vec::new();
        for (at, record) in records.into_iter().enumerate() {
            match producer.send(&mut vec![record]) {
                Err(e) if e.kind() == ErrorKind::Serde => {
                    refused.push((at, e.message().to_owned()));
                }
                sent => sent?,
            }
        }
        Ok(refused)
    }

    fn commit_now(&self, positions: &[(i32, i64)]) -> Result<()> {
        let topic = self.partitions.first().map(|p| Arc::clone(&p.topic));
        let cut: Vec<CutEntry> = positions
            .iter()
            .zip(topic.iter().cycle())
            .map(|((partition, offset), topic)| CutEntry {
                partition: TopicPartition {
                    topic: Arc::clone(topic),
                    partition: Partition(*partition),
                },
                offset: Offset(*offset),
                metadata: String::new(),
            })
            .collect();
        let mut producer = self.producer.lock();
        let producer = producer.as_mut().ok_or_else(closed)?;
        producer.flush(self.timeout)?;
        if cut.is_empty() {
            return Ok(());
        }
        producer.begin()?;
        producer.offsets(&self.group, &cut, self.timeout)?;
        producer.commit(self.timeout).map(drop)
    }
}

fn closed() -> Error {
    Error::config("this worker was closed").hint("make a new one")
}

fn to_headers(headers: Vec<(String, Option<Vec<u8>>)>) -> Headers {
    let header = |(name, value): (String, Option<Vec<u8>>)| Header {
        name: name.into(),
        value: value.map(Bytes::from),
    };
    (!headers.is_empty()).then(|| headers.into_iter().map(header).collect())
}

fn open(
    prepared: &PreparedRun,
    (requests, responses): (&str, &str),
    share: WorkerShare,
) -> Result<WorkerClient> {
    let (broker, settings) = (prepared.broker.as_ref(), &prepared.settings);
    let timeout = settings.broker_wait;
    let infos = broker.topics(&[requests, responses], timeout)?;
    let mut found = Vec::new();
    for (name, info) in [requests, responses].into_iter().zip(infos) {
        found.push(info.ok_or_else(|| {
            Error::missing_topic(format!(
                "the topic '{name}' does not exist at {}",
                broker.address()
            ))
            .hint("create it, or name the topics that the offload names")
            .at(|at| at.topic = Some(name.to_owned()))
        })?);
    }
    let numbers =
        (0..found[0].partitions).filter(|p| p.unsigned_abs() % share.count == share.index);
    let partitions: Vec<TopicPartition> = numbers
        .map(|p| TopicPartition::new(Arc::clone(&found[0].name), p))
        .collect();
    if partitions.is_empty() {
        return Err(Error::config(format!(
            "the topic '{requests}' has {} partition(s), of which none is left for worker {} of {}",
            found[0].partitions,
            share.index + 1,
            share.count
        ))
        .hint("run fewer workers, or give the topic more partitions"));
    }
    let group = settings.application_id.clone();
    // Fences the previous worker of the same topic and share at its next commit. No topic name contains
    // a slash.
    let id = format!(
        "{group}-worker/{requests}/{}-of-{}",
        share.index + 1,
        share.count
    );
    let timeout = settings.transaction_timeout;
    let producer = broker.producer(&ProducerMode::Background { id, timeout }, timeout)?;
    let committed = broker.committed(&group, &partitions, timeout)?;
    let ranges = broker.ranges(&partitions, timeout)?;
    let starts = partitions.iter().zip(committed).zip(ranges);
    let starts: Vec<(TopicPartition, Offset)> = starts
        .map(|((partition, committed), range)| {
            let at = match committed {
                Some(known) => known.offset.max(range.begin),
                None if settings.reset_to_earliest => range.begin,
                None => range.stable_end,
            };
            (partition.clone(), at)
        })
        .collect();
    let mut consumer = broker.consumer(&group, partitions.len())?;
    consumer.assign(&starts)?;
    Ok(WorkerClient {
        partitions,
        consumer: Mutex::new(Some(consumer)),
        producer: Mutex::new(Some(producer)),
        responses: Arc::clone(&found[1].name),
        group,
        clock: SystemClock::new(),
        timeout,
    })
}
