//! Faults: what can go wrong in every call, how often, and the error that the engine gets.
//!
//! Passes calls of a process to the broker or the disk, drops them, or returns an error. A call without
//! a fault is never changed.

mod broker;
mod disk;
mod producer;

pub(crate) use broker::FaultyBroker;
pub(crate) use disk::FaultyDisk;

use stoatflow_core::ErrorKind;

/// A call in which something can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultPoint {
    Topics,
    CreateTopics,
    DeleteTopics,
    Committed,
    Ranges,
    OpenConsumer,
    OpenProducer,
    Poll,
    Begin,
    Send,
    Flush,
    Offsets,
    Commit,
    Abort,
    Apply,
    Restore,
}

/// The fault of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// The process dies before the call has an effect.
    CrashBefore,
    /// The process dies after the call has had its effect.
    CrashAfter,
    /// An error without an effect.
    FailBefore,
    /// An error although the call had its effect: the acknowledgement was lost.
    FailAfter,
    /// A commit that the broker answers with an abort.
    Aborted,
}

impl FaultPoint {
    /// Faults with their probabilities in ten thousandths.
    pub fn chances(self) -> [(Fault, u32); 5] {
        use Fault::{Aborted, CrashAfter, CrashBefore, FailAfter, FailBefore};
        let [before, after, request_lost, ack_lost, aborted] = match self {
            Self::Topics
            | Self::CreateTopics
            | Self::DeleteTopics
            | Self::Committed
            | Self::Ranges => [8, 8, 15, 8, 0],
            Self::OpenConsumer => [15, 15, 30, 0, 0],
            Self::OpenProducer => [20, 30, 20, 20, 0],
            Self::Poll => [3, 3, 3, 0, 0],
            Self::Begin => [10, 10, 0, 0, 0],
            Self::Send => [10, 10, 10, 10, 0],
            Self::Flush => [120, 100, 60, 60, 0],
            Self::Offsets => [80, 120, 60, 60, 0],
            Self::Commit => [80, 120, 80, 80, 50],
            Self::Abort => [300, 300, 300, 300, 0],
            Self::Apply => [120, 100, 60, 60, 0],
            Self::Restore => [100, 100, 60, 60, 0],
        };
        [
            (CrashBefore, before),
            (CrashAfter, after),
            (FailBefore, request_lost),
            (FailAfter, ack_lost),
            (Aborted, aborted),
        ]
    }

    /// The kind of error that the engine gets.
    pub fn failure(self) -> ErrorKind {
        match self {
            Self::Commit => ErrorKind::UnknownOutcome,
            Self::Apply | Self::Restore => ErrorKind::DiskFull,
            _ => ErrorKind::Unavailable,
        }
    }

    /// The phase for which a crash before the call counts.
    pub fn phase_before(self) -> &'static str {
        match self {
            Self::Begin | Self::Send | Self::Flush => "before flush",
            Self::Offsets => "between flush and offsets",
            Self::Commit => "between offsets and commit",
            Self::Apply => "between commit and apply",
            Self::Restore => "in restore",
            Self::Abort => "in abort",
            Self::Poll => "in a fetch",
            _ => "in start",
        }
    }

    /// The phase for which a crash after the call counts.
    pub fn phase_after(self) -> &'static str {
        match self {
            Self::Flush => "between flush and offsets",
            Self::Offsets => "between offsets and commit",
            Self::Commit => "between commit and apply",
            Self::Apply => "between apply and announce",
            other => other.phase_before(),
        }
    }
}

/// All phases in which a process can crash, for the tests that count them.
pub const PHASES: &[&str] = &[
    "before flush",
    "between flush and offsets",
    "between offsets and commit",
    "between commit and apply",
    "between apply and announce",
    "in restore",
    "in abort",
    "in a fetch",
    "in start",
    "in shutdown",
    "between turns",
];
