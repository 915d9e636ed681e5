//! The mark of a reset that has begun and not ended, beside the committed offsets.
//!
//! Takes committed positions, gives the metadata that says "state is being thrown away" and keeps what stood there
//! before, so that the same request decides the same when it is made again. Never talks to a broker.

use crate::intake::watermarks::{decode_stream_time, encode_stream_time};
use stoatflow_core::{Error, Offset, Result, Timestamp};
use stoatflow_log::Committed;

/// At the very end of the metadata.
const MARK: &str = ";resetting";
/// Before it: the offset that was committed, or [`NOWHERE`].
const WAS: &str = ";was=";
const NOWHERE: &str = "none";

/// A committed position as it was before any reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Before {
    pub offset: Option<Offset>,
    pub stream_time: Timestamp,
    /// Does the mark stand?
    pub begun: bool,
}

impl Before {
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
                .rsplit_once(WAS)
                .and_then(|(_, was)| was.parse().ok())
                .map(Offset),
        };
        Self {
            offset,
            stream_time: decode_stream_time(&committed.metadata),
            begun: begun.is_some(),
        }
    }

    /// What is written while the reset is under way.
    pub fn marked(self) -> String {
        let was = self.offset.map_or(NOWHERE.to_owned(), |o| o.to_string());
        let time = encode_stream_time(self.stream_time);
        format!("{time}{WAS}{was}{MARK}")
    }
}

/// Must not start over positions that belong to a reset which has not ended: they are new, the state may be old.
///
/// # Errors
/// `Incompatible` if the mark stands beside any of them.
pub fn refuse_unfinished(application: &str, committed: &[Option<Committed>]) -> Result<()> {
    let begun = |c: &Committed| c.metadata.ends_with(MARK);
    if !committed.iter().flatten().any(begun) {
        return Ok(());
    }
    Err(Error::incompatible(format!(
        "a reset of '{application}' was begun and has not ended: its positions are new, its state may be old"
    ))
    .hint("run it again (stoatflow reset): it goes on where it stopped"))
}
