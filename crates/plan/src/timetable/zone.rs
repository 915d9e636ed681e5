//! Converts between local time and instants.
//!
//! Takes a local time in a zone, returns the instant. A local time that does not exist, because the
//! clock is put forward over it, becomes the first instant after the gap; one that exists twice, because
//! the clock is put back, becomes the first of both.
//!
//! Why `jiff`: it tells for every local time whether it exists once, twice or not at all, and knows all
//! changes of a zone. Cron crates handle this each in their own way, and not always consistently.

use super::timestamp;
use crate::suggestion::suggestion;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

/// A zone of the IANA database.
#[derive(Clone, Debug)]
pub(super) struct Zone(TimeZone);

/// Suggestions for an unknown zone.
const KNOWN: &[&str] = &[
    "UTC",
    "Europe/Berlin",
    "Europe/London",
    "Europe/Paris",
    "Europe/Madrid",
    "Europe/Rome",
    "Europe/Vienna",
    "Europe/Zurich",
    "Europe/Amsterdam",
    "Europe/Stockholm",
    "Europe/Warsaw",
    "Europe/Kyiv",
    "America/New_York",
    "America/Chicago",
    "America/Denver",
    "America/Los_Angeles",
    "America/Toronto",
    "America/Sao_Paulo",
    "Asia/Tokyo",
    "Asia/Shanghai",
    "Asia/Singapore",
    "Asia/Kolkata",
    "Asia/Dubai",
    "Australia/Sydney",
];

impl Zone {
    pub(super) fn get(name: &str) -> Result<Self, String> {
        TimeZone::get(name).map(Self).map_err(|_| {
            let near = suggestion(name, KNOWN);
            let hint = if near.starts_with("did you mean") {
                near
            } else {
                "write the name of a place, such as tz=\"Europe/Berlin\", or tz=\"UTC\"".to_owned()
            };
            format!("the time zone '{name}' is unknown; {hint}")
        })
    }

    /// The local time at an instant.
    pub(super) fn local(&self, at: i64) -> Option<DateTime> {
        Some(self.0.to_datetime(timestamp(at)?))
    }

    /// The instant of a local time, see the module.
    pub(super) fn instant(&self, local: DateTime) -> Option<i64> {
        let at = match self.0.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local).ok()?,
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok()?,
            AmbiguousOffset::Gap { after, .. } => {
                // With the later offset it lies before the change that causes the gap.
                let before = after.to_timestamp(local).ok()?;
                self.0.following(before).next()?.timestamp()
            }
        };
        Some(at.as_millisecond())
    }

    /// How many seconds after this local time it occurs a second time; 0 if it occurs once.
    pub(super) fn repeated(&self, local: DateTime) -> i32 {
        match self.0.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Fold { before, after } => before.seconds() - after.seconds(),
            _ => 0,
        }
    }

    pub(super) fn offset(&self, at: Timestamp) -> Offset {
        self.0.to_offset(at)
    }

    /// The first offset change after an instant.
    pub(super) fn next_change(&self, at: Timestamp) -> Option<Timestamp> {
        Some(self.0.following(at).next()?.timestamp())
    }

    /// The last offset change before an instant.
    pub(super) fn last_change(&self, at: Timestamp) -> Option<Timestamp> {
        Some(self.0.preceding(at).next()?.timestamp())
    }
}
