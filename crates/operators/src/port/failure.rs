//! What a callable is told about a record that failed.

use bytes::Bytes;
use stoatflow_core::{Epoch, Error, Failing, Lane, Record};

/// What a callable is told.
#[derive(Debug)]
pub struct Failure<'a> {
    /// What went wrong.
    pub failing: Failing,
    /// And how, with the coordinates.
    pub error: &'a Error,
    /// The node's name.
    pub node: &'a str,
    /// The record as it came to the node; at a source its bytes.
    pub record: &'a Record,
    /// Its bytes as they were read, where they are at hand.
    pub raw: Option<Raw<'a>>,
    /// The lane.
    pub lane: Lane,
    /// The epoch.
    pub epoch: Epoch,
    /// So many calls have failed for this record, this one too.
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
