//! Faults put into the engine on purpose: tests of the tests.
//!
//! Takes a name; gives the broken part: an order of commit steps, the times that keep instances
//! apart, what operators omit, or (in [`crate::world`]) what is left out of a transaction.
//! Everything else is as in the product. A checker must catch each one (`tests/simulation.rs`).

use std::time::Duration;
use stoatflow_operators::FaultInjection;
use stoatflow_protocol::{CommitOrder, Lease, Step};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// The engine as it is.
    None,
    /// The local store is written before the transaction.
    StoreFirst,
    /// The same, but the disk is only checked at the end.
    StoreFirstUnseen,
    /// The local store is written when everything is sent, but not yet committed.
    StoreBeforeCommit,
    /// The local store is not written.
    StoreForgotten,
    /// Offsets are committed in a transaction of their own.
    OffsetsOutside,
    /// Offsets are not committed.
    OffsetsForgotten,
    /// The changelog is not written.
    ChangelogForgotten,
    /// The changelog is written behind the commit, in the next transaction.
    ChangelogLate,
    /// Doesn't wait for sent records to arrive.
    FlushForgotten,
    /// The first lane at a barrier opens it.
    Unaligned,
    /// Under at-least-once an instance never asks again whether it is still the one.
    Unchecked,
    /// Under at-least-once a newcomer starts beside an older instance that does not know of it yet.
    Unwaited,
    /// Async calls that outlive their epoch are not written down.
    CallsUnparked,
    /// The row of an async call stays when its result is given.
    CallsParkedForever,
    /// After a restart, newer records of a key don't wait for its parked calls.
    CallsOvertaken,
    /// What a batch has collected at a barrier is given in a later epoch.
    BatchesKept,
    /// The rows of an async joiner get results in the order in which they came.
    JoinedAsAnswered,
    /// The second answer to an offloaded record that waits for its turn gives its result, too.
    AnswersTwice,
    /// The row of an offloaded record stays when its result is given.
    ParkedForever,
    /// An offloaded record that is answered doesn't wait for earlier ones of its key.
    AnswersOvertake,
    /// After a restart, what seems to be due is given up before the answers that came meanwhile are read.
    AnswersUnread,
    /// Requests of an offload are sent outside the transaction.
    RequestsOutside,
    /// Behind an exchange, records are taken in the order in which lanes have sent them.
    TakenAsSent,
    /// A lane goes on to the next epoch while others still fire timers of this one.
    EndsApart,
    /// Time at a record is that of records that come after it.
    TimeFromLater,
    /// Committed offsets stand in the group only, where they expire.
    OffsetsExpire,
    /// Local state is gone on with however old it is.
    StateAgeless,
    /// A start trusts the metadata of one broker.
    LeadersUnasked,
}

impl Mutation {
    pub(crate) const fn order(self) -> CommitOrder {
        use Step::{Announce, Apply, Changelog, Commit, Flush, Offsets};
        CommitOrder::of(match self {
            Self::StoreFirst | Self::StoreFirstUnseen => {
                &[Apply, Changelog, Flush, Offsets, Commit, Announce]
            }
            Self::StoreBeforeCommit => &[Changelog, Flush, Offsets, Apply, Commit, Announce],
            Self::StoreForgotten => &[Changelog, Flush, Offsets, Commit, Announce],
            Self::OffsetsOutside => &[Changelog, Flush, Commit, Offsets, Commit, Apply, Announce],
            Self::OffsetsForgotten => &[Changelog, Flush, Commit, Apply, Announce],
            Self::ChangelogForgotten => &[Flush, Offsets, Commit, Apply, Announce],
            Self::ChangelogLate => &[Flush, Offsets, Commit, Changelog, Apply, Announce],
            Self::FlushForgotten => &[Changelog, Offsets, Commit, Apply, Announce],
            _ => return CommitOrder::SAFE,
        })
    }

    pub(crate) const fn fault(self) -> FaultInjection {
        match self {
            Self::CallsUnparked => FaultInjection::CallsUnparked,
            Self::CallsParkedForever => FaultInjection::CallsParkedForever,
            Self::CallsOvertaken => FaultInjection::CallsOvertaken,
            Self::BatchesKept => FaultInjection::BatchesKept,
            Self::JoinedAsAnswered => FaultInjection::JoinedAsAnswered,
            Self::AnswersTwice => FaultInjection::AnswersTwice,
            Self::ParkedForever => FaultInjection::ParkedForever,
            Self::AnswersOvertake => FaultInjection::AnswersOvertake,
            Self::AnswersUnread => FaultInjection::AnswersUnread,
            Self::TakenAsSent => FaultInjection::TakenAsSent,
            Self::EndsApart => FaultInjection::EndsApart,
            Self::TimeFromLater => FaultInjection::TimeOfTick,
            _ => FaultInjection::None,
        }
    }

    pub(crate) const fn lease(self) -> Lease {
        let Lease { trust, wait } = Lease::STANDARD;
        match self {
            Self::Unchecked => Lease {
                trust: Duration::MAX,
                wait,
            },
            Self::Unwaited => Lease {
                trust,
                wait: Duration::ZERO,
            },
            _ => Lease::STANDARD,
        }
    }
}
