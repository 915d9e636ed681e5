//! The ticks of a scheduled source.
//!
//! Takes what the user wrote (an interval or a cron expression, a time zone, a start), returns the next
//! tick after an instant, the last one up to an instant, and the ticks that were missed while the engine
//! was down. Ticks depend only on these settings and on the rules of the zone, never on the time of the
//! start, so restarts agree. Owns the rules for daylight saving changes, see `zone` and `cron`.
//! Never reads a clock; it only uses the machine's time zone database (so that a zone that was changed
//! by law changes here too; without one, the built-in database is used).

mod cron;
mod missed;
#[cfg(test)]
mod tests;
mod zone;

pub use missed::Missed;

use cron::Cron;
use jiff::civil::DateTime;
use jiff::{Span, Timestamp};
use serde::{Deserialize, Serialize};
use zone::Zone;

const DAY_MS: i64 = 86_400_000;

/// What happens to ticks that were missed while the application was down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    /// Only the last one is emitted.
    #[default]
    Latest,
    /// All are emitted in order, but not more than the newest `max_catch_up`.
    All,
    /// None is emitted.
    Skip,
}

/// A timetable as the user wrote it; either `every_ms` or `cron` is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimetableSpec {
    /// The interval between ticks.
    #[serde(default)]
    pub every_ms: Option<i64>,
    /// A cron expression: five fields, or six with leading seconds, or seven with trailing years.
    #[serde(default)]
    pub cron: Option<String>,
    /// A zone of the IANA database.
    #[serde(default = "utc")]
    pub tz: String,
    /// The first tick of an interval; a cron expression has no ticks before it.
    #[serde(default)]
    pub start_ms: Option<i64>,
    /// What happens to missed ticks.
    #[serde(default)]
    pub catch_up: CatchUp,
    /// The maximum number of missed ticks.
    #[serde(default = "most")]
    pub max_catch_up: u32,
}

fn utc() -> String {
    "UTC".into()
}

const fn most() -> u32 {
    1000
}

impl TimetableSpec {
    /// A text for `describe()`.
    #[must_use]
    pub fn words(&self) -> String {
        let zone = match self.tz.as_str() {
            "UTC" => String::new(),
            tz => format!(", {tz}"),
        };
        match (&self.every_ms, &self.cron) {
            (Some(every), _) => format!("every {}{zone}", duration(*every)),
            (None, Some(cron)) => format!("cron {cron}{zone}"),
            (None, None) => "never".into(),
        }
    }
}

/// A duration in the largest unit that divides it.
fn duration(ms: i64) -> String {
    let units = [(DAY_MS, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    match units.iter().find(|(unit, _)| ms % unit == 0) {
        Some((unit, name)) => format!("{}{name}", ms / unit),
        None => format!("{ms}ms"),
    }
}

#[derive(Clone, Debug)]
enum When {
    /// At a fixed interval of real time, whatever local clocks show.
    Every {
        anchor: i64,
        step: i64,
    },
    /// Every so many days, at the same local time.
    Days {
        zone: Zone,
        first: DateTime,
        days: i64,
    },
    Cron(Box<Cron>),
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Timetable {
    when: When,
    /// There are no ticks before it.
    start: i64,
}

impl Timetable {
    /// Parses and checks the settings.
    ///
    /// # Errors
    /// What is wrong, and what to write instead.
    pub fn new(times: &TimetableSpec) -> Result<Self, String> {
        let zone = Zone::get(&times.tz)?;
        let when = match (times.every_ms, &times.cron) {
            (Some(_), Some(_)) => {
                return Err("it has an interval and a cron expression; write every= or cron=, or two sources and merge()".into());
            }
            (None, None) => {
                return Err("it never ticks: write every=\"30s\" or cron=\"*/5 * * * *\"".into());
            }
            (Some(every), None) => Self::every(every, times.start_ms, zone)?,
            (None, Some(cron)) => When::Cron(Box::new(Cron::new(cron, zone)?)),
        };
        let table = Self {
            when,
            start: times.start_ms.unwrap_or(i64::MIN + 1),
        };
        // An expression may name days that don't exist.
        if times.cron.is_some() && table.next(times.start_ms.unwrap_or(0)).is_none() {
            let cron = times.cron.as_deref().unwrap_or_default();
            return Err(format!(
                "the cron expression '{cron}' never comes to pass (the 30th of February?); mend its days, months or years"
            ));
        }
        Ok(table)
    }

    fn every(every: i64, start: Option<i64>, zone: Zone) -> Result<When, String> {
        if every < 1 {
            return Err(format!(
                "every must be at least a millisecond, not {every} ms; write for example every=\"30s\""
            ));
        }
        let first = match start {
            Some(start) => zone.local(start),
            None => Some(DateTime::constant(1970, 1, 1, 0, 0, 0, 0)),
        };
        let first =
            first.ok_or("start is out of range: write a time between the years 1 and 9999")?;
        if every % DAY_MS == 0 {
            return Ok(When::Days {
                zone,
                first,
                days: every / DAY_MS,
            });
        }
        let anchor = start.or_else(|| zone.instant(first));
        Ok(When::Every {
            anchor: anchor.unwrap_or(0),
            step: every,
        })
    }

    /// The first tick after an instant; `None` if there is none.
    #[must_use]
    pub fn next(&self, after: i64) -> Option<i64> {
        let after = after.max(self.start - 1);
        match &self.when {
            When::Every { anchor, step } => Some(grid(*anchor, *step, after) + step),
            When::Days { zone, first, days } => {
                let around = days_since(zone, *first, after)?.div_euclid(*days);
                let nth = |n: i64| zone.instant(add_days(*first, n * days)?);
                // A zone may skip a day when it moves across the date line.
                (around - 1..=around + 3)
                    .filter_map(nth)
                    .find(|tick| *tick > after)
            }
            When::Cron(cron) => cron.next(after),
        }
    }

    /// The last tick in `(after, until]`.
    #[must_use]
    pub fn last(&self, until: i64, after: i64) -> Option<i64> {
        let after = after.max(self.start - 1);
        let found = match &self.when {
            When::Every { anchor, step } => Some(grid(*anchor, *step, until)),
            When::Days { zone, first, days } => {
                let around = days_since(zone, *first, until)?.div_euclid(*days);
                let nth = |n: i64| zone.instant(add_days(*first, n * days)?);
                (around - 2..=around + 1)
                    .rev()
                    .filter_map(nth)
                    .find(|tick| *tick <= until)
            }
            When::Cron(cron) => cron.last(until, after),
        };
        found.filter(|tick| *tick > after)
    }

    /// The number of ticks in `(after, until]`; `None` if they would have to be counted one by one.
    fn between(&self, after: i64, until: i64) -> Option<u64> {
        let When::Every { anchor, step } = &self.when else {
            return None;
        };
        let after = after.max(self.start - 1);
        let count = grid(*anchor, *step, until) - grid(*anchor, *step, after);
        u64::try_from(count / step).ok()
    }
}

/// The last grid point up to an instant.
const fn grid(anchor: i64, step: i64, until: i64) -> i64 {
    anchor + (until - anchor).div_euclid(step) * step
}

fn days_since(zone: &Zone, first: DateTime, at: i64) -> Option<i64> {
    let local = zone.local(at)?;
    Some(local.date().duration_since(first.date()).as_hours() / 24)
}

fn add_days(first: DateTime, days: i64) -> Option<DateTime> {
    first.checked_add(Span::new().try_days(days).ok()?).ok()
}

/// An instant as a `jiff` timestamp.
fn timestamp(ms: i64) -> Option<Timestamp> {
    Timestamp::from_millisecond(ms).ok()
}
