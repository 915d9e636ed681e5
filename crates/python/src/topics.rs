//! Access to topics for the command line: reads by position, writes in transactions.
//!
//! Takes settings, answers questions about a broker, and creates readers of a range of a partition and
//! transactional writers. Uses the engine's own client, so TLS and SASL are those of the application.
//! Makes no decisions: Python does (`stoatflow.dlq`). Blocking calls run with the interpreter detached.

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
    Bytes, Clock, Error, Header, Headers, Offset, Partition, Result, SystemClock, Timestamp,
    TopicPartition,
};
use stoatflow_log::{
    Broker, ClusterExpiry, CommitOutcome, Consumer, ConsumerRecord, NewTopic, Producer,
    ProducerMode, ProducerRecord,
};

/// Timeout of a request, and of a read that returns no records.
const BROKER_TIMEOUT: Duration = Duration::from_secs(30);
/// Poll timeout, after which a reader checks for Ctrl-C.
const INTERRUPT_CHECK_INTERVAL: Duration = Duration::from_millis(200);

type PyHeaders<'py> = Vec<(String, Option<Bound<'py, PyBytes>>)>;

/// Offset, timestamp, key, value, headers.
type ReadRecord<'py> = (
    i64,
    i64,
    Option<Bound<'py, PyBytes>>,
    Option<Bound<'py, PyBytes>>,
    PyHeaders<'py>,
);

/// Topic, partition, key, value, timestamp, headers.
type WrittenRecord = (
    String,
    Option<i32>,
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    i64,
    Vec<(String, Option<Vec<u8>>)>,
);

/// A client for the topics of a broker.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct TopicsClient {
    broker: Arc<dyn Broker>,
    transaction_timeout: Duration,
}

#[pymethods]
impl TopicsClient {
    #[new]
    #[pyo3(signature = (pairs, broker=None))]
    fn new(py: Python<'_>, pairs: Pairs<'_>, broker: Option<&EmbeddedBroker>) -> PyResult<Self> {
        let PreparedRun {
            settings, broker, ..
        } = PreparedRun::open(py, &pairs, broker)?;
        Ok(Self {
            broker,
            transaction_timeout: settings.transaction_timeout,
        })
    }

    /// The broker's address.
    #[getter]
    fn address(&self) -> String {
        self.broker.address()
    }

    /// The number of partitions of a topic, and its id if it has one; `None` if the topic doesn't exist.
    fn topic(&self, py: Python<'_>, name: &str) -> PyResult<Option<(i32, Option<String>)>> {
        let found = py
            .detach(|| self.broker.topics(&[name], BROKER_TIMEOUT))
            .map_err(to_py_err)?;
        let info = found.into_iter().flatten().next();
        Ok(info.map(|info| (info.partitions, info.id.map(|id| id.to_string()))))
    }

    /// The first offset and the end of each partition; a `read_committed` reader sees no record at or
    /// beyond the end.
    fn ranges(&self, py: Python<'_>, topic: &str, partitions: i32) -> PyResult<Vec<(i64, i64)>> {
        let all = partitions_of(topic, partitions);
        let found = py
            .detach(|| self.broker.ranges(&all, BROKER_TIMEOUT))
            .map_err(to_py_err)?;
        let range = |r: stoatflow_log::Range| (r.begin.0, r.stable_end.0);
        Ok(found.into_iter().map(range).collect())
    }

    /// Whether the latest record of each key is kept: the topic is compacted, or the broker deletes
    /// nothing.
    fn keeps_latest(&self, py: Python<'_>, topic: &str) -> PyResult<bool> {
        if self.broker.expiry() == ClusterExpiry::Never {
            return Ok(true);
        }
        let found = py
            .detach(|| self.broker.tombstone_retention(&[topic], BROKER_TIMEOUT))
            .map_err(to_py_err)?;
        Ok(found.into_iter().next().flatten().is_some())
    }

    /// Creates a topic with the broker's default replication factor; an existing topic is left
    /// unchanged.
    fn create_topic(
        &self,
        py: Python<'_>,
        name: &str,
        partitions: i32,
        config: Vec<(String, String)>,
    ) -> PyResult<()> {
        let topic = NewTopic {
            name: name.to_owned(),
            partitions,
            replication: -1,
            config,
        };
        py.detach(|| self.broker.create_topics(&[topic], BROKER_TIMEOUT))
            .map_err(to_py_err)
    }

    /// A reader of the committed records of a partition, from one offset up to another.
    fn read(
        &self,
        py: Python<'_>,
        topic: &str,
        partition: i32,
        begin: i64,
        until: i64,
    ) -> PyResult<TopicReader> {
        let partition = TopicPartition::new(topic, partition);
        let consumer = py.detach(|| {
            let mut consumer = self.broker.bulk_consumer("stoatflow-topics")?;
            consumer.assign(&[(partition.clone(), Offset(begin))])?;
            Ok(consumer)
        });
        Ok(TopicReader {
            consumer: Mutex::new(consumer.map_err(to_py_err)?),
            partition,
            until: Offset(until),
            next: Mutex::new(Offset(begin)),
        })
    }

    /// A transactional writer. Fences an older one with the same id, and ends the transaction that it
    /// left open.
    fn writer(&self, py: Python<'_>, transactional_id: &str) -> PyResult<TransactionalWriter> {
        let mode = ProducerMode::Transactional {
            id: transactional_id.to_owned(),
            timeout: self.transaction_timeout,
        };
        let producer = py.detach(|| self.broker.producer(&mode, BROKER_TIMEOUT));
        Ok(TransactionalWriter {
            producer: Mutex::new(producer.map_err(to_py_err)?),
        })
    }
}

/// Reads one partition from one offset up to another.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct TopicReader {
    consumer: Mutex<Box<dyn Consumer>>,
    partition: TopicPartition,
    until: Offset,
    next: Mutex<Offset>,
}

#[pymethods]
impl TopicReader {
    /// The next records, at most `most`; an empty list at the end.
    fn next<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Vec<ReadRecord<'py>>> {
        let clock = SystemClock::new();
        loop {
            let fetched = py.detach(|| self.fetch(most)).map_err(to_py_err)?;
            match fetched {
                None => return Ok(Vec::new()),
                Some(fetched) if !fetched.is_empty() => {
                    return Ok(fetched.iter().map(|r| shown(py, r)).collect());
                }
                Some(_) => {}
            }
            py.check_signals()?;
            if clock.monotonic() > BROKER_TIMEOUT {
                return Err(to_py_err(self.silent()));
            }
        }
    }
}

impl TopicReader {
    /// Polls once; `None` at the end.
    fn fetch(&self, most: usize) -> Result<Option<Vec<ConsumerRecord>>> {
        let (mut consumer, mut next) = (self.consumer.lock(), self.next.lock());
        if *next >= self.until {
            return Ok(None);
        }
        let mut fetched = Vec::new();
        consumer.poll(most, INTERRUPT_CHECK_INTERVAL, &mut fetched)?;
        // Also moves past transaction markers and aborted records.
        *next = consumer.positions().first().copied().unwrap_or(*next);
        fetched.retain(|record| record.offset < self.until);
        Ok(Some(fetched))
    }

    fn silent(&self) -> Error {
        let (topic, partition) = (&self.partition.topic, self.partition.partition);
        Error::unavailable(format!(
            "nothing more of the topic '{topic}' came within {BROKER_TIMEOUT:?}, and its end is not reached"
        ))
        .hint("check the broker, then ask again")
        .at(|at| {
            at.topic = Some(topic.to_string());
            at.partition = Some(partition);
        })
    }
}

/// Writes in transactions: `begin`, any number of `send`, `flush`, then `commit` or `abort`.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct TransactionalWriter {
    producer: Mutex<Box<dyn Producer>>,
}

#[pymethods]
impl TransactionalWriter {
    /// Begins a transaction.
    fn begin(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.producer.lock().begin())
            .map_err(to_py_err)
    }

    /// Queues records for sending.
    fn send(&self, py: Python<'_>, records: Vec<WrittenRecord>) -> PyResult<()> {
        let mut records: Vec<_> = records.into_iter().map(written).collect();
        py.detach(|| self.producer.lock().send(&mut records))
            .map_err(to_py_err)
    }

    /// Waits until all records are acknowledged.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.producer.lock().flush(BROKER_TIMEOUT))
            .map_err(to_py_err)
    }

    /// Commits; returns false if the broker aborted the transaction instead.
    fn commit(&self, py: Python<'_>) -> PyResult<bool> {
        let outcome = py.detach(|| self.producer.lock().commit(BROKER_TIMEOUT));
        Ok(outcome.map_err(to_py_err)? == CommitOutcome::Committed)
    }

    /// Aborts the transaction.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.producer.lock().abort(BROKER_TIMEOUT))
            .map_err(to_py_err)
    }
}

fn partitions_of(topic: &str, count: i32) -> Vec<TopicPartition> {
    let name: Arc<str> = topic.into();
    (0..count)
        .map(|p| TopicPartition::new(Arc::clone(&name), p))
        .collect()
}

fn shown<'py>(py: Python<'py>, record: &ConsumerRecord) -> ReadRecord<'py> {
    let bytes = |b: &Option<Bytes>| b.as_ref().map(|b| PyBytes::new(py, b));
    let headers = record.headers.as_deref().unwrap_or_default().iter();
    (
        record.offset.0,
        record.timestamp.0,
        bytes(&record.key),
        bytes(&record.value),
        headers
            .map(|h| (h.name.to_string(), bytes(&h.value)))
            .collect(),
    )
}

fn written(record: WrittenRecord) -> ProducerRecord {
    let (topic, partition, key, value, timestamp, headers) = record;
    let header = |(name, value): (String, Option<Vec<u8>>)| Header {
        name: name.into(),
        value: value.map(Bytes::from),
    };
    let headers: Headers = match headers.is_empty() {
        true => None,
        false => Some(headers.into_iter().map(header).collect()),
    };
    ProducerRecord {
        topic: topic.into(),
        partition: partition.map(Partition),
        key: key.map(Bytes::from),
        value: value.map(Bytes::from),
        timestamp: Timestamp(timestamp),
        headers,
    }
}
