//! The embedded broker as a Python handle.

use crate::errors::to_py_err;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Bytes, Error, Offset, TopicPartition};
use stoatflow_log::{Broker, ConsumerRecord, NewTopic, embedded};

/// Timeout of broker calls. The broker is in process, so none of them waits for a network.
const BROKER_TIMEOUT: Duration = Duration::from_secs(5);

type Fetch<'py> = (
    i64,
    Option<Bound<'py, PyBytes>>,
    Option<Bound<'py, PyBytes>>,
    i64,
);

/// Topics in a directory, or in a temporary one.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct EmbeddedBroker {
    broker: Mutex<Option<Arc<embedded::EmbeddedBroker>>>,
    path: String,
}

impl EmbeddedBroker {
    /// The open broker.
    pub fn handle(&self) -> PyResult<Arc<embedded::EmbeddedBroker>> {
        self.broker.lock().clone().ok_or_else(|| {
            to_py_err(
                Error::config("this embedded broker was closed")
                    .hint("open a new EmbeddedBroker on the same path"),
            )
        })
    }

    /// Its directory.
    pub fn directory(&self) -> &str {
        &self.path
    }

    fn partitions(&self, topic: &str) -> PyResult<Vec<TopicPartition>> {
        let info = self
            .handle()?
            .topics(&[topic], BROKER_TIMEOUT)
            .map_err(to_py_err)?
            .pop()
            .flatten();
        let info = info.ok_or_else(|| {
            to_py_err(
                Error::missing_topic(format!(
                    "the topic '{topic}' does not exist at {}",
                    self.path
                ))
                .hint("create it first: create_topic(name, partitions)"),
            )
        })?;
        Ok((0..info.partitions)
            .map(|p| TopicPartition::new(Arc::clone(&info.name), p))
            .collect())
    }
}

#[pymethods]
impl EmbeddedBroker {
    #[new]
    #[pyo3(signature = (path=None))]
    fn new(py: Python<'_>, path: Option<&str>) -> PyResult<Self> {
        let broker = py
            .detach(|| embedded::open(path.map(std::path::Path::new)))
            .map_err(to_py_err)?;
        let path = broker.path().to_string_lossy().into_owned();
        Ok(Self {
            broker: Mutex::new(Some(broker)),
            path,
        })
    }

    /// The directory.
    #[getter]
    fn path(&self) -> &str {
        &self.path
    }

    /// Creates a topic.
    fn create_topic(&self, py: Python<'_>, name: &str, partitions: i32) -> PyResult<()> {
        let topic = NewTopic {
            name: name.to_owned(),
            partitions,
            replication: 1,
            config: Vec::new(),
        };
        let broker = self.handle()?;
        py.detach(|| broker.create_topics(&[topic], BROKER_TIMEOUT))
            .map_err(to_py_err)
    }

    /// Name and number of partitions, by name.
    fn topics(&self) -> PyResult<Vec<(String, i32)>> {
        let topics = self.handle()?.list_topics();
        Ok(topics
            .into_iter()
            .map(|t| (t.name.to_string(), t.partitions))
            .collect())
    }

    /// Appends (partition, key, value, timestamp) records; returns their number.
    #[allow(clippy::type_complexity)] // the shape of the Python call
    fn produce_many(
        &self,
        py: Python<'_>,
        topic: &str,
        records: Vec<(Option<i32>, Option<Vec<u8>>, Option<Vec<u8>>, i64)>,
    ) -> PyResult<u64> {
        let broker = self.handle()?;
        let records = records
            .into_iter()
            .map(|(p, k, v, t)| (p, k.map(Bytes::from), v.map(Bytes::from), t));
        py.detach(|| broker.produce_many(topic, records))
            .map_err(to_py_err)
    }

    /// Committed records from an offset on.
    fn fetch<'py>(
        &self,
        py: Python<'py>,
        topic: &str,
        partition: i32,
        offset: i64,
        max_records: usize,
    ) -> PyResult<Vec<Fetch<'py>>> {
        let broker = self.handle()?;
        let fetched = py
            .detach(|| read(broker.as_ref(), topic, partition, offset, max_records))
            .map_err(to_py_err)?;
        let bytes = |b: &Option<Bytes>| b.as_ref().map(|b| PyBytes::new(py, b));
        Ok(fetched
            .iter()
            .map(|r| (r.offset.0, bytes(&r.key), bytes(&r.value), r.timestamp.0))
            .collect())
    }

    /// The offset of the next committed record of each partition.
    fn end_offsets(&self, topic: &str) -> PyResult<Vec<i64>> {
        let ranges = self
            .handle()?
            .ranges(&self.partitions(topic)?, BROKER_TIMEOUT)
            .map_err(to_py_err)?;
        Ok(ranges.iter().map(|r| r.stable_end.0).collect())
    }

    /// Releases the directory.
    fn close(&self, py: Python<'_>) {
        let broker = self.broker.lock().take();
        py.detach(|| drop(broker));
    }
}

/// Committed records of a partition from an offset on.
pub fn read(
    broker: &dyn Broker,
    topic: &str,
    partition: i32,
    offset: i64,
    max: usize,
) -> stoatflow_core::Result<Vec<ConsumerRecord>> {
    let mut consumer = broker.consumer("stoatflow-reader", 1)?;
    consumer.assign(&[(TopicPartition::new(topic, partition), Offset(offset))])?;
    let mut fetched = Vec::new();
    consumer.poll(max, Duration::ZERO, &mut fetched)?;
    Ok(fetched)
}
