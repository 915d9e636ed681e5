//! What happens to a record that can't be read, processed or written.
//!
//! The choices that users have per application, source and operator, as plain data that the plan
//! carries. `operators::error_policy` applies them.

use ::serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// A handler's choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Handler {
    /// The application stops; nothing of the epoch is committed.
    Fail,
    /// The record is dropped, logged and counted.
    Continue,
    /// The record is dropped, and written to this topic in the same transaction.
    Dlq(String),
    /// The function is called again for this record.
    Retry(Box<RetryHandler>),
    /// A user function decides.
    Call(CallableHandler),
}

/// A callable that decides about a failed record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallableHandler {
    /// Index into the table of callables.
    pub udf: u32,
    /// Dead-letter topics that the callable may name; the engine looks them up at the start. Any other
    /// topic is looked up when the callable names it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<String>,
}

/// How often and how soon to retry, and what to do if that doesn't help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryHandler {
    /// The number of retries.
    pub times: u32,
    /// How long the lane waits before each retry.
    pub backoff_ms: u64,
    /// What to do when all retries have failed.
    pub then: Handler,
}

const FAILS: &[&str] = &[
    "LogAndFailExceptionHandler",
    "LogAndFailProcessingExceptionHandler",
    "DefaultProductionExceptionHandler",
];
const CONTINUES: &[&str] = &[
    "LogAndContinueExceptionHandler",
    "LogAndContinueProcessingExceptionHandler",
];

impl Handler {
    /// Parses the value of a setting: `log_and_fail`, `log_and_continue` or `dlq:TOPIC`. Class names of
    /// Kafka Streams are accepted too.
    #[must_use]
    pub fn of_setting(text: &str) -> Option<Self> {
        let class = text.trim().rsplit('.').next().unwrap_or_default();
        match text.trim() {
            "log_and_fail" => Some(Self::Fail),
            "log_and_continue" => Some(Self::Continue),
            _ if FAILS.contains(&class) => Some(Self::Fail),
            _ if CONTINUES.contains(&class) => Some(Self::Continue),
            other => {
                let topic = other.strip_prefix("dlq:")?.trim();
                (!topic.is_empty()).then(|| Self::Dlq(topic.to_owned()))
            }
        }
    }

    /// The dead-letter topics that this handler names.
    #[must_use]
    pub fn topics(&self) -> Vec<&str> {
        match self {
            Self::Fail | Self::Continue => Vec::new(),
            Self::Dlq(topic) => vec![topic],
            Self::Retry(retrying) => retrying.then.topics(),
            Self::Call(calling) => calling.topics.iter().map(String::as_str).collect(),
        }
    }

    /// Whether a function of the user names its dead-letter topics while it runs.
    #[must_use]
    pub fn names_topics(&self) -> bool {
        match self {
            Self::Fail | Self::Continue | Self::Dlq(_) => false,
            Self::Retry(retrying) => retrying.then.names_topics(),
            Self::Call(_) => true,
        }
    }

    /// The same handler with its indexes of callables shifted: its callables follow others in one table.
    #[must_use]
    pub fn behind(self, callables: u32) -> Self {
        match self {
            Self::Call(calling) => Self::Call(CallableHandler {
                udf: calling.udf + callables,
                ..calling
            }),
            Self::Retry(retrying) => Self::Retry(Box::new(RetryHandler {
                then: retrying.then.behind(callables),
                ..*retrying
            })),
            plain => plain,
        }
    }

    /// Whether it may drop a record, so that processing continues without it.
    #[must_use]
    pub fn may_drop(&self) -> bool {
        match self {
            Self::Fail => false,
            Self::Retry(retrying) => retrying.then.may_drop(),
            Self::Continue | Self::Dlq(_) | Self::Call(_) => true,
        }
    }

    /// Whether it may block the lane: it has a backoff, or is a callable.
    #[must_use]
    pub fn waits(&self) -> bool {
        match self {
            Self::Call(_) => true,
            Self::Retry(retrying) => retrying.backoff_ms > 0 || retrying.then.waits(),
            _ => false,
        }
    }
}

/// The application's handlers, for sources and operators without their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handlers {
    /// A function fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processing: Option<Handler>,
    /// An input record can't be decoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deserialization: Option<Handler>,
    /// An output record can't be encoded, or the broker would not accept it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub production: Option<Handler>,
}

impl Handlers {
    /// True if no handler is set.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.processing.is_none() && self.deserialization.is_none() && self.production.is_none()
    }

    /// Whether an input record that can't be decoded may be dropped.
    #[must_use]
    pub fn may_drop_input(&self) -> bool {
        let handler = self.deserialization.as_ref();
        handler.is_some_and(Handler::may_drop)
    }

    /// All handlers that are set.
    pub fn each(&self) -> impl Iterator<Item = &Handler> {
        [&self.processing, &self.deserialization, &self.production]
            .into_iter()
            .flatten()
    }

    /// These handlers, and those of `other` where none is set here.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let either = |a: &Option<Handler>, b: &Option<Handler>| a.as_ref().or(b.as_ref()).cloned();
        Self {
            processing: either(&self.processing, &other.processing),
            deserialization: either(&self.deserialization, &other.deserialization),
            production: either(&self.production, &other.production),
        }
    }

    /// The same handlers with their indexes of callables shifted, see [`Handler::behind`].
    #[must_use]
    pub fn behind(self, callables: u32) -> Self {
        let moved = |handler: Option<Handler>| handler.map(|h| h.behind(callables));
        Self {
            processing: moved(self.processing),
            deserialization: moved(self.deserialization),
            production: moved(self.production),
        }
    }
}

/// What went wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// It could not be decoded at a source.
    Deserialization,
    /// A function failed.
    Processing,
    /// It could not be encoded at a sink, or is larger than the producer may send.
    Production,
}

impl FailureKind {
    /// The name in headers, docs and Python.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deserialization => "deserialization",
            Self::Processing => "processing",
            Self::Production => "production",
        }
    }

    /// The reason under which a dropped record is counted.
    #[must_use]
    pub const fn reason(self, dead_letter: bool) -> &'static str {
        match (self, dead_letter) {
            (Self::Deserialization, false) => "deserialization_error",
            (Self::Processing, false) => "processing_error",
            (Self::Production, false) => "production_error",
            (Self::Deserialization, true) => "deserialization_dead_letter",
            (Self::Processing, true) => "processing_dead_letter",
            (Self::Production, true) => "production_dead_letter",
        }
    }
}
