//! What becomes of a record that comes after its time.
//!
//! Gives the words that users choose from, per source, as plain data that crosses the border in the plan.
//! Never decides for a record: that is `operators::late`.

use crate::handler::Calling;
use ::serde::{Deserialize, Serialize};

/// What the policy of a source says of a record that is older than the watermark.
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
    /// A callable says one of the others for each record.
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
