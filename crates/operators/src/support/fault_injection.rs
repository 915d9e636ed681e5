//! Faults injected on purpose, to test the simulator's checkers.
//!
//! Off in the product; the simulator turns one on with [`crate::ChainOptions`]. Never set by a setting.

/// What is left undone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaultInjection {
    /// Nothing: the operators as they are.
    #[default]
    None,
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
    /// The second answer to a parked record that waits for its turn gives its result, too.
    AnswersTwice,
    /// The row of a parked record stays when its result is given.
    ParkedForever,
    /// A parked record that is answered doesn't wait for earlier ones of its key.
    AnswersOvertake,
    /// What seems to be due is given up, though there are answers that were not read yet.
    AnswersUnread,
    /// Behind an exchange records are taken as lanes have sent them.
    TakenAsSent,
    /// A lane that has fired its timers goes on to the next epoch before others have.
    EndsApart,
    /// A record has the time of the whole tick, of later records too.
    TimeOfTick,
}
