//! The mark that a reset leaves in committed offsets until it has ended.
//!
//! It is written into the offset's metadata and contains the offset that was committed before, so that
//! the same request, repeated, makes the same decision.

use crate::intake::watermarks::{decode_stream_time, encode_stream_time};
use stoatflow_core::{Error, Offset, Result, Timestamp};
use stoatflow_log::Committed;

/// The end of the metadata.
const MARK: &str = ";resetting";
/// Precedes the previously committed offset (or [`NO_PREVIOUS_OFFSET`]), which precedes the mark.
const PREVIOUS_OFFSET_PREFIX: &str = ";was=";
const NO_PREVIOUS_OFFSET: &str = "none";

/// A committed offset as it was before any reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OffsetBeforeReset {
    pub offset: Option<Offset>,
    pub stream_time: Timestamp,
    /// Whether the mark is present.
    pub begun: bool,
}

impl OffsetBeforeReset {
    pub fn of(committed: Option<&Committed>) -> Self {
        let Some(committed) = committed else {
            return Self {
                offset: None,
                stream_time: Timestamp::UNKNOWN,
                begun: false,
            };
        };
        let begun = committed.metadata.strip_suffix(MARK);
        let offset = match begun {
            None => Some(committed.offset),
            Some(rest) => rest
                .rsplit_once(PREVIOUS_OFFSET_PREFIX)
                .and_then(|(_, was)| was.parse().ok())
                .map(Offset),
        };
        Self {
            offset,
            stream_time: decode_stream_time(&committed.metadata),
            begun: begun.is_some(),
        }
    }

    /// The metadata during the reset.
    pub fn marked(self) -> String {
        let was = self
            .offset
            .map_or(NO_PREVIOUS_OFFSET.to_owned(), |o| o.to_string());
        let time = encode_stream_time(self.stream_time);
        format!("{time}{PREVIOUS_OFFSET_PREFIX}{was}{MARK}")
    }
}

/// Refuses to start from offsets of an unfinished reset: they are new, but the state may be old.
///
/// # Errors
/// `Incompatible` if any of them has the mark.
pub fn refuse_unfinished(application: &str, committed: &[Option<Committed>]) -> Result<()> {
    let begun = |c: &Committed| c.metadata.ends_with(MARK);
    if !committed.iter().flatten().any(begun) {
        return Ok(());
    }
    Err(Error::incompatible(format!(
        "a reset of '{application}' was started and has not ended: its positions are new, its state may \
            be old"
    ))
    .hint("run it again (stoatflow reset): it continues where it stopped"))
}
