//! What an error handler learns about a record that failed.

use bytes::Bytes;
use stoatflow_core::{Epoch, Error, FailureKind, Lane, Record};

/// What an error handler learns about a failure.
#[derive(Debug)]
pub struct Failure<'a> {
    /// What kind of work failed.
    pub failing: FailureKind,
    /// The error, with its coordinates.
    pub error: &'a Error,
    /// The node's name.
    pub node: &'a str,
    /// The record as the node received it; at a source its bytes.
    pub record: &'a Record,
    /// Its bytes as they were read, if available.
    pub raw: Option<Raw<'a>>,
    /// The lane.
    pub lane: Lane,
    /// The epoch.
    pub epoch: Epoch,
    /// How many calls have failed for this record, including this one.
    pub attempt: u32,
}

/// Key and value of an input record as they were read.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    /// The key.
    pub key: Option<&'a Bytes>,
    /// The value.
    pub value: Option<&'a Bytes>,
}
