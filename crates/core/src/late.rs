//! What happens to a late record.
//!
//! The choices that users have per source, as plain data that the plan carries. `operators::late`
//! applies them.

use crate::handler::CallableHandler;
use ::serde::{Deserialize, Serialize};

/// A source's policy for records older than the watermark.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Late {
    /// It is processed like any other; each window decides by its grace.
    #[default]
    Grace,
    /// It is dropped and counted.
    Drop,
    /// It is dropped, counted, and written to this topic in the same transaction.
    Dlq(String),
    /// A user function decides for each record.
    Call(CallableHandler),
}

impl Late {
    /// True if every record is processed.
    #[must_use]
    pub fn is_grace(&self) -> bool {
        *self == Self::Grace
    }

    /// The dead-letter topics that this policy names.
    #[must_use]
    pub fn topics(&self) -> Vec<&str> {
        match self {
            Self::Grace | Self::Drop => Vec::new(),
            Self::Dlq(topic) => vec![topic],
            Self::Call(calling) => calling.topics.iter().map(String::as_str).collect(),
        }
    }
}
