//! The parts that commit is built from, and the data that it collects for an epoch.
//!
//! Startup builds the parts. The cut and the sealed writes of an epoch stay here until all lanes have
//! sealed.

use crate::commit::guard::InstanceGuard;
use crate::commit::offsets_topic::OffsetsTopic;
use crate::index::StoreIndexes;
use crate::runtime::shared::Shared;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Guarantee, Serde, StoreId, Timestamp};
use stoatflow_log::{Broker, CutEntry, Producer};
use stoatflow_protocol::CommitOrder;
use stoatflow_state::{Backend, KeyRange, KeyValueStore, Sealed};

/// A store and its changelog topic.
#[derive(Clone, Debug)]
pub struct LoggedStore {
    /// The store.
    pub store: Arc<KeyValueStore>,
    /// The changelog topic; `None` if it has none of its own.
    pub changelog: Option<Arc<str>>,
    /// The topic that it is restored from instead: a table's own source.
    pub source: Option<SourceTopic>,
    /// True if its rows wait for a time or an answer. Then the deletion of a row says that its result
    /// was emitted.
    pub waiting: bool,
    /// Its indexes, if it has some.
    pub indexes: Option<Arc<StoreIndexes>>,
}

/// A compacted topic that a table is read from and restored from.
#[derive(Clone, Debug)]
pub struct SourceTopic {
    /// The topic.
    pub topic: Arc<str>,
    /// Serde of its keys.
    pub key: Serde,
    /// Serde of its values.
    pub value: Serde,
}

impl LoggedStore {
    /// The topic that it is restored from.
    #[must_use]
    pub fn restored_from(&self) -> Option<&Arc<str>> {
        let source = self.source.as_ref().map(|source| &source.topic);
        self.changelog.as_ref().or(source)
    }

    /// True if this write deletes a row that waited.
    pub(super) fn deletes_waiting_row(&self, write: &Sealed) -> bool {
        self.waiting && write.changelog && write.value.is_none()
    }
}

/// The parts that commit is built from.
pub struct CommitParts {
    /// Shared by all parts of the run.
    pub shared: Arc<Shared>,
    /// The producer; opening it has fenced older ones.
    pub producer: Box<dyn Producer>,
    /// Only for a producer without transactional fencing.
    pub guard: Option<InstanceGuard>,
    /// The local back end.
    pub backend: Arc<dyn Backend>,
    /// Stores by number.
    pub stores: Vec<LoggedStore>,
    /// The store of stream times.
    pub times: Option<StoreId>,
    /// `application.id`, which is also the consumer group.
    pub group: String,
    /// `processing.guarantee`.
    pub guarantee: Guarantee,
    /// `commit.timeout.ms`.
    pub timeout: Duration,
    /// How many lanes must seal.
    pub lanes: u32,
    /// The order of steps.
    pub order: CommitOrder,
    /// For fetching the records of dead letters again.
    pub broker: Arc<dyn Broker>,
    /// The offsets topic, if the broker expires committed offsets.
    pub offsets: Option<OffsetsTopic>,
}

/// The writes of all lanes, and the key ranges that retention drops.
#[derive(Debug, Default)]
pub(super) struct Writes {
    pub(super) stores: Vec<(StoreId, Vec<Sealed>)>,
    pub(super) drops: Vec<(StoreId, KeyRange)>,
}

#[derive(Debug, Default)]
pub(super) struct Cut {
    pub(super) entries: Vec<CutEntry>,
    pub(super) records: u64,
    pub(super) oldest: Option<Timestamp>,
    pub(super) at: Duration,
}
