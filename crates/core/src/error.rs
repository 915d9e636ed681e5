//! One error type for the whole engine: what happened, where, and what to do next.
//!
//! One public struct with a small kind wraps the causes of all crates. A new kind is only needed for a
//! different *action* by the reader; otherwise it is a new message. Error policies are decided
//! elsewhere.

use crate::{Epoch, Lane, Offset, Partition};
use std::fmt;

#[cfg(test)]
mod tests;

/// The result of everything that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of action an error asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting is wrong: fix it.
    Config,
    /// The topology is not valid: fix the line it names.
    Topology,
    /// A record can't be read or written: fix the data or choose a handler.
    Serde,
    /// A user function raised: fix it or choose a handler.
    User,
    /// The broker doesn't answer: check the address and the network.
    Unavailable,
    /// Another instance of the application took over: nothing to do here.
    Fenced,
    /// A source topic doesn't exist: create it.
    MissingTopic,
    /// The broker refuses this user: grant the permission.
    Unauthorized,
    /// The local state is damaged. It is never used; with `state.damaged=rebuild` it is restored from
    /// the changelog.
    StateCorrupt,
    /// The local state was written by another format or topology: follow the message.
    Incompatible,
    /// The local state is in use by another process: stop that one.
    StateLocked,
    /// The disk is full: free space and restart.
    DiskFull,
    /// The outcome of a commit is unknown: restart, recovery finds out.
    UnknownOutcome,
    /// A function doesn't return: fix it, or give it a timeout.
    Stalled,
    /// A follower of a store no longer gets its changes: follow it again, from a snapshot.
    ChangesLost,
    /// A bug of the engine: report it.
    Internal,
}

/// Every kind with its stable name and the action it asks for. Docs and Python classes are made from
/// this table, so a kind without an action can't exist.
pub const ERROR_KINDS: &[(ErrorKind, &str, &str)] = &[
    (
        ErrorKind::Config,
        "config",
        "fix the settings that the message lists",
    ),
    (
        ErrorKind::Topology,
        "topology",
        "fix the topology at the line that the message names",
    ),
    (
        ErrorKind::Serde,
        "serde",
        "fix the data, or choose the serde that it was written with",
    ),
    (
        ErrorKind::User,
        "user",
        "fix the function that the message names, then start again: the record is read again",
    ),
    (
        ErrorKind::Unavailable,
        "unavailable",
        "check bootstrap.servers, the broker and the network, then start again",
    ),
    (
        ErrorKind::Fenced,
        "fenced",
        "nothing if another instance with the same application.id runs now; if none does, this process stood still for longer than transaction.timeout.ms: start it again",
    ),
    (
        ErrorKind::MissingTopic,
        "missing_topic",
        "create the topic, or fix its name in the topology",
    ),
    (
        ErrorKind::Unauthorized,
        "unauthorized",
        "grant the broker permission that the message names",
    ),
    (
        ErrorKind::StateCorrupt,
        "state_corrupt",
        "delete the state directory; it is rebuilt from the changelog topics",
    ),
    (
        ErrorKind::Incompatible,
        "incompatible",
        "use the version that wrote the state, or delete it and let it be rebuilt",
    ),
    (
        ErrorKind::StateLocked,
        "state_locked",
        "stop the other process, or give this one another state.dir",
    ),
    (
        ErrorKind::DiskFull,
        "disk_full",
        "free space on the disk of state.dir, then start again",
    ),
    (
        ErrorKind::UnknownOutcome,
        "unknown_outcome",
        "start again: recovery reads the true outcome from the broker",
    ),
    (
        ErrorKind::Stalled,
        "stalled",
        "fix the function that the message names, or give what it waits for a timeout, then start again: the record is read again",
    ),
    (
        ErrorKind::ChangesLost,
        "changes_lost",
        "follow the store again: it begins with a snapshot, which replaces what was read before",
    ),
    (
        ErrorKind::Internal,
        "internal",
        "report it with the log; the committed results are safe",
    ),
];

impl ErrorKind {
    /// The stable name (`"missing_topic"`), the same in Python, docs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// What the reader of the error should do.
    #[must_use]
    pub fn action(self) -> &'static str {
        self.row().2
    }

    /// The Python exception class.
    #[must_use]
    pub const fn class(self) -> &'static str {
        match self {
            Self::Config => "ConfigError",
            Self::Topology => "TopologyError",
            Self::Serde => "SerdeError",
            Self::User => "ProcessingError",
            Self::Unavailable => "BrokerUnavailableError",
            Self::Fenced => "FencedError",
            Self::MissingTopic => "MissingTopicError",
            Self::Unauthorized => "AuthorizationError",
            Self::StateCorrupt => "StateCorruptError",
            Self::Incompatible => "IncompatibleStateError",
            Self::StateLocked => "StateLockedError",
            Self::DiskFull => "DiskFullError",
            Self::UnknownOutcome => "UnknownOutcomeError",
            Self::Stalled => "StalledError",
            Self::ChangesLost => "ChangesLostError",
            Self::Internal => "InternalError",
        }
    }

    fn row(self) -> &'static (ErrorKind, &'static str, &'static str) {
        ERROR_KINDS
            .iter()
            .find(|row| row.0 == self)
            .expect("every kind is in ERROR_KINDS (tested)")
    }

    /// Whether the same work may succeed if it is retried in place.
    #[must_use]
    pub const fn is_retriable(self) -> bool {
        matches!(self, Self::Unavailable)
    }
}

/// Coordinates of an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorCoordinates {
    /// The node of the topology.
    pub node: Option<String>,
    /// The store.
    pub store: Option<String>,
    /// The topic of the input record.
    pub topic: Option<String>,
    /// Its partition.
    pub partition: Option<Partition>,
    /// Its offset.
    pub offset: Option<Offset>,
    /// The lane.
    pub lane: Option<Lane>,
    /// The epoch.
    pub epoch: Option<Epoch>,
    /// The user's function: file, line and name.
    pub function: Option<String>,
}

/// An error: kind, message, coordinates, next step, cause.
#[derive(Debug, thiserror::Error)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    at: ErrorCoordinates,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    bypass_handlers: bool,
    interruption: bool,
}

macro_rules! constructors {
    ($($(#[$doc:meta])* $fn:ident => $kind:ident),* $(,)?) => {
        impl Error {
            $( $(#[$doc])* pub fn $fn(message: impl Into<String>) -> Self { Self::new(ErrorKind::$kind, message) } )*
        }
    };
}

constructors! {
    /// A wrong setting.
    config => Config,
    /// An invalid topology.
    topology => Topology,
    /// A record that can't be read or written.
    serde => Serde,
    /// A failing user function.
    user => User,
    /// A broker that doesn't answer.
    unavailable => Unavailable,
    /// Another instance took over.
    fenced => Fenced,
    /// A topic that doesn't exist.
    missing_topic => MissingTopic,
    /// A missing permission.
    unauthorized => Unauthorized,
    /// Damaged local state.
    state_corrupt => StateCorrupt,
    /// State of another format.
    incompatible => Incompatible,
    /// State in use elsewhere.
    state_locked => StateLocked,
    /// No space left.
    disk_full => DiskFull,
    /// A commit that may or may not have happened.
    unknown_outcome => UnknownOutcome,
    /// The application makes no progress.
    stalled => Stalled,
    /// Changes of a store that no longer reach a follower.
    changes_lost => ChangesLost,
    /// A bug in the engine.
    internal => Internal,
}

impl Error {
    /// An error of a kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            hint: None,
            at: ErrorCoordinates::default(),
            source: None,
            bypass_handlers: false,
            interruption: false,
        }))
    }

    /// Work was given up because the application is shutting down: nothing has failed.
    pub fn interruption() -> Self {
        let mut error = Self::internal("the application is asked to end").bypass_handlers();
        error.0.interruption = true;
        error
    }

    /// Whether work was given up because the application is shutting down.
    #[must_use]
    pub const fn is_interruption(&self) -> bool {
        self.0.interruption
    }

    /// Bypasses error handlers: the application must stop, and no record is to blame.
    #[must_use]
    pub fn bypass_handlers(mut self) -> Self {
        self.0.bypass_handlers = true;
        self
    }

    /// Whether error handlers are bypassed.
    #[must_use]
    pub const fn bypasses_handlers(&self) -> bool {
        self.0.bypass_handlers
    }

    /// Sets a more precise next step than the kind's.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// The next step that was set with [`Self::hint`], if any.
    #[must_use]
    pub fn given_hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Keeps another error as the cause.
    #[must_use]
    pub fn caused_by(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Adds coordinates; those that are already set stay.
    #[must_use]
    pub fn at(mut self, fill: impl FnOnce(&mut ErrorCoordinates)) -> Self {
        let mut fresh = ErrorCoordinates::default();
        fill(&mut fresh);
        let at = &mut self.0.at;
        macro_rules! keep_first { ($($f:ident),*) => { $( if at.$f.is_none() { at.$f = fresh.$f; } )* } }
        keep_first!(node, store, topic, partition, offset, lane, epoch, function);
        self
    }

    /// Prefixes the message with a part of a whole: `the key: ...`.
    #[must_use]
    pub fn of_the(mut self, part: &str) -> Self {
        self.0.message = format!("the {part}: {}", self.0.message);
        self
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What happened, without coordinates and next step.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What to do next.
    #[must_use]
    pub fn next_step(&self) -> &str {
        self.0
            .hint
            .as_deref()
            .unwrap_or_else(|| self.0.kind.action())
    }

    /// Where it happened.
    #[must_use]
    pub fn coordinates(&self) -> &ErrorCoordinates {
        &self.0.at
    }

    /// The cause, which the Python binding takes over (an exception becomes `__cause__`).
    #[must_use]
    pub fn cause(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        self.0.source.as_deref()
    }
}

impl Error {
    /// Message, coordinates and causes, without the next step: when an error is the cause of another
    /// one, its next step is not the reader's.
    pub fn brief(&self) -> impl fmt::Display + '_ {
        Brief(self)
    }

    fn write_brief(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.message)?;
        let at = &self.0.at;
        let mut parts = Vec::new();
        if let Some(x) = &at.function {
            parts.push(format!("function {x}"));
        }
        if let Some(x) = &at.node {
            parts.push(format!("node {x}"));
        }
        if let Some(x) = &at.store {
            parts.push(format!("store {x}"));
        }
        if let Some(x) = &at.topic {
            parts.push(format!("topic {x}"));
        }
        if let Some(x) = at.partition {
            parts.push(format!("partition {x}"));
        }
        if let Some(x) = at.offset {
            parts.push(format!("offset {x}"));
        }
        if let Some(x) = at.lane {
            parts.push(format!("lane {x}"));
        }
        if let Some(x) = at.epoch {
            parts.push(format!("epoch {x}"));
        }
        if !parts.is_empty() {
            write!(f, " [{}]", parts.join(", "))?;
        }
        match &self.0.source {
            None => Ok(()),
            Some(source) => match source.downcast_ref::<Self>() {
                Some(ours) => {
                    write!(f, ": ")?;
                    ours.write_brief(f)
                }
                None => {
                    let cause = source.to_string();
                    // "the function raised ValueError: x" already contains the cause.
                    if self.0.message.contains(&cause) {
                        return Ok(());
                    }
                    write!(f, ": {cause}")
                }
            },
        }
    }
}

/// See [`Error::brief`].
struct Brief<'a>(&'a Error);

impl fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write_brief(f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_brief(f)?;
        write!(f, ". Next: {}", self.next_step())
    }
}
