//! Cron expressions.
//!
//! Takes an expression and a zone, returns its ticks. `croner` parses the expression (Vixie's language
//! with seconds, years, `L`, `#` and `W`: the Open Cron Pattern Specification) and finds the matching
//! calendar times; it never sees the zone. This module decides what that means on days with a clock
//! change, by the hour field:
//!
//! - A fixed hour (`30 2 * * *`) is a local time. If that time does not exist, it ticks at the first
//!   instant after the gap (once, however many of its times lie in the gap); if it exists twice, it ticks
//!   the first time.
//! - Every hour (`*/15 * * * *`, `0 */2 * * *`) follows the clock: it ticks at each instant at which the
//!   local time matches, in both repeated hours; times that the clock skips are not made up for.

use super::timestamp;
use super::zone::Zone;
use croner::errors::CronError;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp};

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Cron {
    calendar: croner::Cron,
    zone: Zone,
    every_hour: bool,
}

impl Cron {
    pub(super) fn new(written: &str, zone: Zone) -> Result<Self, String> {
        let parser = CronParser::builder()
            .seconds(Seconds::Optional)
            .year(Year::Optional)
            .build();
        let calendar = parser.parse(written).map_err(|e| {
            format!(
                "'{written}' is no cron expression: {}; write minute, hour, day of the month, month and day of the week, such as \"*/5 * * * *\" (every five minutes) or \"30 2 * * MON-FRI\"; seconds may stand in front",
                what(e).trim_end_matches('.')
            )
        })?;
        Ok(Self {
            calendar,
            zone,
            every_hour: every_hour(written),
        })
    }

    pub(super) fn next(&self, after: i64) -> Option<i64> {
        if self.every_hour {
            return self.next_shown(timestamp(after)?);
        }
        let mut local = whole(self.zone.local(after)?)?;
        loop {
            local = self.following(local, false)?;
            let tick = self.zone.instant(local)?;
            // In the second of two repeated hours, the tick of the first one is already past.
            if tick > after {
                return Some(tick);
            }
        }
    }

    pub(super) fn last(&self, until: i64, after: i64) -> Option<i64> {
        if self.every_hour {
            return self.last_shown(timestamp(until)?, after);
        }
        let local = whole(self.zone.local(until)?)?;
        // In the second of two repeated hours, all times of that hour have already occurred.
        let ahead = SignedDuration::from_secs(self.zone.repeated(local).into());
        let mut local = self.preceding(local.checked_add(ahead).ok()?, true)?;
        loop {
            let tick = self.zone.instant(local)?;
            if tick <= until {
                return Some(tick);
            }
            local = self.preceding(local, false)?;
        }
    }

    /// Between two changes of the offset, local time advances like real time.
    fn next_shown(&self, mut at: Timestamp) -> Option<i64> {
        let mut from_here = false;
        loop {
            let offset = self.zone.offset(at);
            let local = self.following(whole(offset.to_datetime(at))?, from_here)?;
            let tick = offset.to_timestamp(local).ok()?;
            match self.zone.next_change(at) {
                Some(change) if tick >= change => (at, from_here) = (change, true),
                _ => return Some(tick.as_millisecond()),
            }
        }
    }

    fn last_shown(&self, mut at: Timestamp, after: i64) -> Option<i64> {
        loop {
            let offset = self.zone.offset(at);
            let local = self.preceding(whole(offset.to_datetime(at))?, true)?;
            let tick = offset.to_timestamp(local).ok()?.as_millisecond();
            let next = timestamp(at.as_millisecond() + 1)?;
            match self.zone.last_change(next).map(Timestamp::as_millisecond) {
                Some(change) if tick < change => {
                    if change <= after {
                        return None;
                    }
                    at = timestamp(change - 1)?;
                }
                _ => return Some(tick),
            }
        }
    }

    /// The first calendar time after `local`, or `local` itself.
    fn following(&self, local: DateTime, itself: bool) -> Option<DateTime> {
        self.calendar.find_next_occurrence(&local, itself).ok()
    }

    /// The last calendar time before `local`, or `local` itself.
    fn preceding(&self, local: DateTime, itself: bool) -> Option<DateTime> {
        self.calendar.find_previous_occurrence(&local, itself).ok()
    }
}

/// The message, without the class of error that `croner` prepends.
fn what(error: CronError) -> String {
    match error {
        CronError::InvalidPattern(what)
        | CronError::IllegalCharacters(what)
        | CronError::ComponentError(what) => what,
        other => other.to_string(),
    }
}

/// Expressions have a resolution of one second.
fn whole(local: DateTime) -> Option<DateTime> {
    local.with().subsec_nanosecond(0).build().ok()
}

/// Whether the hour field begins with a star.
fn every_hour(written: &str) -> bool {
    let fields: Vec<&str> = written.split_whitespace().collect();
    match fields.as_slice() {
        [word] => word.eq_ignore_ascii_case("@hourly"),
        [_, hour, _, _, _] | [_, _, hour, ..] => hour.starts_with(['*', '?']),
        _ => false,
    }
}
