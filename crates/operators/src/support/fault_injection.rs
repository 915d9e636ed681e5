//! Faults injected on purpose, to test the simulator's checkers.
//!
//! Off in the product; the simulator turns one on with [`crate::ChainOptions`]. Never set by a setting.

/// The injected fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaultInjection {
    /// No fault.
    #[default]
    None,
    /// Async calls that outlive their epoch are not stored.
    CallsNotParked,
    /// The row of an async call stays when its result is emitted.
    CallsParkedForever,
    /// After a restart, newer records of a key don't wait for its parked calls.
    CallsOvertaken,
    /// Rows that a batch has collected at a barrier are emitted in a later epoch.
    BatchesHeldOverBarrier,
    /// The rows of an async joiner get results in the order in which the answers arrived.
    JoinedInAnswerOrder,
    /// The second answer to a parked record that waits for its turn emits its result, too.
    AnswersTwice,
    /// The row of a parked record stays when its result is emitted.
    RecordsParkedForever,
    /// A parked record that is answered doesn't wait for earlier ones of its key.
    AnswersOvertake,
    /// Records that seem to be due are given up, although some answers were not read yet.
    AnswersUnread,
    /// After an exchange, records are processed in the order in which lanes have sent them.
    ExchangeInArrivalOrder,
    /// A lane that has fired its timers goes on to the next epoch before others have fired theirs.
    EpochEndsUnaligned,
    /// A record sees the time of the whole tick, including later records.
    StreamTimeOfTick,
    /// Entries of overwritten rows stay in the indexes.
    IndexEntriesKept,
}
