//! The topics that are written to.
//!
//! Takes a name, returns a topic handle, which saves a look-up per record. Creates one only for a topic
//! that exists.

use super::KafkaProducer;
use crate::ProducerRecord;
use crate::kafka::errors::error;
use crate::kafka::librdkafka::client::c_text;
use crate::kafka::librdkafka::outgoing::weight;
use crate::kafka::partitioner::{Label, StickyPartitioner, topic_config};
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka_sys as sys;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, Result};

/// Timeout for checking that a topic exists, at the first write.
const LOOK_UP: Duration = Duration::from_secs(30);

/// librdkafka's topic handle: saves a look-up by name per record.
#[derive(Debug)]
pub(super) struct Topic(pub(super) NonNull<sys::rd_kafka_topic_t>);

// SAFETY: librdkafka's topic handles are thread-safe.
unsafe impl Send for Topic {}

impl Drop for Topic {
    fn drop(&mut self) {
        // SAFETY: created in `add_target`, released once, before its client.
        unsafe { sys::rd_kafka_topic_destroy(self.0.as_ptr()) };
    }
}

#[derive(Debug)]
pub(super) struct Target {
    /// The `Arc` of the last record for this topic: one pointer comparison finds it.
    pub(super) name: Arc<str>,
    pub(super) topic: Topic,
    sticks: StickyPartitioner,
    /// Over how many partitions its records are spread, estimated low.
    pub(super) spread: usize,
}

impl KafkaProducer {
    pub(super) fn target(&mut self, name: &Arc<str>) -> Result<usize> {
        if self
            .targets
            .get(self.last)
            .is_some_and(|t| Arc::ptr_eq(&t.name, name))
        {
            return Ok(self.last);
        }
        if let Some(found) = self.targets.iter().position(|t| t.name == *name) {
            self.targets[found].name = name.clone();
            self.last = found;
            return Ok(found);
        }
        // The client would wait 30 s for a topic that doesn't exist, or have the broker create it.
        match &self.admin.topics(&[name], LOOK_UP)?[0] {
            Some(found) => self.add_target(name, found.partitions),
            None => Err(error(
                Code::UnknownTopicOrPartition,
                "unknown topic",
                self.doing("writing", Some(name)),
            )),
        }
    }

    /// Adds the handle of a topic that exists.
    pub(in crate::kafka) fn add_target(
        &mut self,
        name: &Arc<str>,
        partitions: i32,
    ) -> Result<usize> {
        let text = c_text(name)?;
        // SAFETY: client and name are alive; librdkafka takes ownership of the configuration.
        let handle = unsafe {
            let config = topic_config(&self.client);
            sys::rd_kafka_topic_new(self.client.ptr(), text.as_ptr(), config)
        };
        let handle = NonNull::new(handle).ok_or_else(|| {
            Error::internal(format!("the client gives no handle for topic '{name}'"))
        })?;
        self.targets.push(Target {
            name: name.clone(),
            topic: Topic(handle),
            sticks: StickyPartitioner::new(),
            spread: usize::try_from(partitions / 2).unwrap_or(1).max(1),
        });
        self.last = self.targets.len() - 1;
        let mut reports = self.client.events.reports.lock();
        reports.remember(self.last, self.remembered.contains(name));
        self.noted.retain(|at, end| {
            let other = at.topic != *name;
            if !other {
                reports.note(self.last, at.partition.0, end.0);
            }
            other
        });
        drop(reports);
        Ok(self.last)
    }

    pub(super) fn label(&mut self, target: usize, record: &ProducerRecord) -> Label {
        let stick = if record.key.is_none() && record.partition.is_none() {
            self.targets[target].sticks.take(weight(record))
        } else {
            0
        };
        let topic = u32::try_from(target).unwrap_or(u32::MAX);
        Label { topic, stick }
    }
}
