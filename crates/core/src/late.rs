//! What happens to a record that comes late.
//!
//! The choices that users have per source, as plain data that the plan carries. `operators::late`
//! applies them.

use crate::handler::Calling;
use ::serde::{Deserialize, Serialize};

/// A source's policy for records older than the watermark.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Late {
    /// It goes in like any other; each window decides by its grace.
    #[default]
    Grace,
    /// It is left out, and counted.
    Drop,
    /// It is left out, counted, and goes to this topic in the same transaction.
    Dlq(String),
    /// A user function decides for each record.
    Call(Calling),
}

impl Late {
    /// Does every record go in?
    #[must_use]
    pub fn is_grace(&self) -> bool {
        *self == Self::Grace
    }

    /// The dead-letter topics that it names.
    #[must_use]
    pub fn topics(&self) -> Vec<&str> {
        match self {
            Self::Grace | Self::Drop => Vec::new(),
            Self::Dlq(topic) => vec![topic],
            Self::Call(calling) => calling.topics.iter().map(String::as_str).collect(),
        }
    }
}
