//! Bugs put into the engine on purpose: tests of the tests.
//!
//! Takes a name; returns the broken part: an order of commit steps, the durations that keep instances
//! apart, what operators omit, or (in [`crate::world`]) what is left out of a transaction. Everything
//! else is as in the product. A checker must catch each of them (`tests/simulation.rs`).

use std::time::Duration;
use stoatflow_operators::FaultInjection;
use stoatflow_protocol::{CommitOrder, CommitStep, Lease};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// The engine as it is.
    None,
    /// The local store is written before the transaction.
    StoreFirst,
    /// Like `StoreFirst`, but the disk is only checked at the end.
    StoreFirstUnseen,
    /// The local store is written after everything is sent, but before the commit.
    StoreBeforeCommit,
    /// The local store is not written.
    StoreForgotten,
    /// Offsets are committed in a separate transaction.
    OffsetsOutsideTransaction,
    /// Offsets are not committed.
    OffsetsForgotten,
    /// The changelog is not written.
    ChangelogForgotten,
    /// The changelog is written after the commit, in the next transaction.
    ChangelogLate,
    /// Commits without waiting for acknowledgements of sent records.
    FlushForgotten,
    /// The first lane that reaches a barrier completes it.
    BarriersUnaligned,
    /// Under at-least-once an instance never checks again that it is the only one.
    LeaseNeverChecked,
    /// Under at-least-once a new instance starts beside an older one that doesn't know of it yet.
    LeaseNotAwaited,
    /// Async calls that outlive their epoch are not persisted.
    CallsNotParked,
    /// The row of a parked async call is not deleted when its result is emitted.
    CallsParkedForever,
    /// After a restart, newer records of a key don't wait for its parked calls.
    CallsOvertaken,
    /// Records that a batch holds at a barrier are emitted in a later epoch.
    BatchesHeldOverBarrier,
    /// Rows of an async joiner get results in the order in which the answers arrive.
    JoinedInAnswerOrder,
    /// The second answer to an offloaded record that waits for its turn also emits its result.
    AnswersTwice,
    /// The row of an offloaded record is not deleted when its result is emitted.
    RecordsParkedForever,
    /// An answered record of an offload doesn't wait for earlier records of its key.
    AnswersOvertake,
    /// After a restart, records that seem to be overdue are given up before the answers that arrived
    /// meanwhile are read.
    AnswersUnread,
    /// Requests of an offload are sent outside the transaction.
    RequestsOutsideTransaction,
    /// After an exchange, records are processed in the order in which lanes sent them.
    ExchangeInArrivalOrder,
    /// A lane goes on to the next epoch while others still fire timers of this one.
    EpochEndsUnaligned,
    /// The stream time at a record includes records that come after it.
    StreamTimeFromLaterRecords,
    /// Entries of overwritten rows stay in the indexes.
    IndexEntriesKept,
    /// Committed offsets are stored in the group only, where they expire.
    OffsetsExpire,
    /// Local state is used however old it is.
    StaleStateTrusted,
    /// A start trusts the metadata of one broker.
    StaleMetadataTrusted,
}

impl Mutation {
    pub(crate) const fn order(self) -> CommitOrder {
        use CommitStep::{Announce, Apply, Changelog, Commit, Flush, Offsets};
        CommitOrder::of(match self {
            Self::StoreFirst | Self::StoreFirstUnseen => {
                &[Apply, Changelog, Flush, Offsets, Commit, Announce]
            }
            Self::StoreBeforeCommit => &[Changelog, Flush, Offsets, Apply, Commit, Announce],
            Self::StoreForgotten => &[Changelog, Flush, Offsets, Commit, Announce],
            Self::OffsetsOutsideTransaction => {
                &[Changelog, Flush, Commit, Offsets, Commit, Apply, Announce]
            }
            Self::OffsetsForgotten => &[Changelog, Flush, Commit, Apply, Announce],
            Self::ChangelogForgotten => &[Flush, Offsets, Commit, Apply, Announce],
            Self::ChangelogLate => &[Flush, Offsets, Commit, Changelog, Apply, Announce],
            Self::FlushForgotten => &[Changelog, Offsets, Commit, Apply, Announce],
            _ => return CommitOrder::SAFE,
        })
    }

    pub(crate) const fn fault(self) -> FaultInjection {
        match self {
            Self::CallsNotParked => FaultInjection::CallsNotParked,
            Self::CallsParkedForever => FaultInjection::CallsParkedForever,
            Self::CallsOvertaken => FaultInjection::CallsOvertaken,
            Self::BatchesHeldOverBarrier => FaultInjection::BatchesHeldOverBarrier,
            Self::JoinedInAnswerOrder => FaultInjection::JoinedInAnswerOrder,
            Self::AnswersTwice => FaultInjection::AnswersTwice,
            Self::RecordsParkedForever => FaultInjection::RecordsParkedForever,
            Self::AnswersOvertake => FaultInjection::AnswersOvertake,
            Self::AnswersUnread => FaultInjection::AnswersUnread,
            Self::ExchangeInArrivalOrder => FaultInjection::ExchangeInArrivalOrder,
            Self::EpochEndsUnaligned => FaultInjection::EpochEndsUnaligned,
            Self::StreamTimeFromLaterRecords => FaultInjection::StreamTimeOfTick,
            Self::IndexEntriesKept => FaultInjection::IndexEntriesKept,
            _ => FaultInjection::None,
        }
    }

    pub(crate) const fn lease(self) -> Lease {
        let Lease { trust, wait } = Lease::STANDARD;
        match self {
            Self::LeaseNeverChecked => Lease {
                trust: Duration::MAX,
                wait,
            },
            Self::LeaseNotAwaited => Lease {
                trust,
                wait: Duration::ZERO,
            },
            _ => Lease::STANDARD,
        }
    }
}
