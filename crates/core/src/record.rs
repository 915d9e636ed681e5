//! A record, and where it came from.
//!
//! The same type is used from dispatch to outbox. Key and value are reference counted. A record doesn't
//! know the topic it will be written to.

use crate::{Datum, Offset, Order, Partition, SourceId, Task, Timestamp};
use bytes::Bytes;
use std::sync::Arc;

/// One header of a record, as Kafka keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its name; may repeat.
    pub name: Arc<str>,
    /// Its value; may be null.
    pub value: Option<Bytes>,
}

/// Headers in order; `None` costs nothing, which is the common case.
pub type Headers = Option<Arc<[Header]>>;

/// Which input record caused this one: the coordinates that every error message carries. Two origins are
/// equal if they have the same input record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin {
    /// The source node that read it.
    pub source: SourceId,
    /// Index of the topic in that source's list of topics.
    pub topic: u16,
    /// Its partition.
    pub partition: Partition,
    /// The offset of the input record.
    pub offset: Offset,
    /// The place of this record in the order of the input.
    pub order: Order,
}

impl PartialEq for Origin {
    fn eq(&self, other: &Self) -> bool {
        let coordinates = |of: &Self| (of.source, of.topic, of.partition, of.offset);
        coordinates(self) == coordinates(other)
    }
}

impl Eq for Origin {}

/// A record on its way through the topology.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The key.
    pub key: Datum,
    /// The value.
    pub value: Datum,
    /// Event time.
    pub timestamp: Timestamp,
    /// Headers of the record that triggered this one.
    pub headers: Headers,
    /// The input record that caused it.
    pub origin: Origin,
}

impl Record {
    /// The Kafka Streams task that would process it.
    #[must_use]
    pub const fn task(&self) -> Task {
        self.origin.order.task()
    }

    /// The same record with another value.
    #[must_use]
    pub fn with_value(&self, value: Datum) -> Self {
        Self {
            key: self.key.clone(),
            value,
            timestamp: self.timestamp,
            headers: self.headers.clone(),
            origin: self.origin,
        }
    }

    /// The same record with another key and value.
    #[must_use]
    pub fn with_pair(&self, key: Datum, value: Datum) -> Self {
        Self {
            key,
            value,
            timestamp: self.timestamp,
            headers: self.headers.clone(),
            origin: self.origin,
        }
    }

    /// About how many bytes it keeps alive, for the admission budget.
    #[must_use]
    pub fn weight(&self) -> usize {
        // 96: the struct itself in a queue.
        96 + self.key.weight() + self.value.weight()
    }
}
