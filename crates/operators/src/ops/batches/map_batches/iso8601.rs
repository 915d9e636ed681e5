//! Times and dates as text (ISO 8601), both ways.
//!
//! Takes text and returns a number in Arrow's unit, and the other way round. A column with a time zone
//! holds instants: its texts include the offset from UTC. A column without one holds local times: its
//! texts have no offset. Never guesses a zone.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use stoatflow_plan::TimeUnit;

const NANOS: i128 = 1_000_000_000;

/// Nanoseconds of a unit.
const fn nanos(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => NANOS,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1000,
        TimeUnit::Nanosecond => 1,
    }
}

/// Days since 1970.
pub(super) fn days(text: &str) -> Option<i32> {
    let date: Date = text.parse().ok()?;
    // A text with a time of day is not a date.
    (text.len() == date.to_string().len()).then_some(())?;
    let midnight = date.to_zoned(TimeZone::UTC).ok()?.timestamp();
    i32::try_from(midnight.as_second().div_euclid(86_400)).ok()
}

/// Units since 1970; `None` if the text is not a time, or finer than the unit.
pub(super) fn time(text: &str, unit: TimeUnit, zoned: bool) -> Option<i64> {
    let instant: Timestamp = if zoned {
        text.parse().ok()?
    } else {
        let shown: DateTime = text.parse().ok()?;
        shown.to_zoned(TimeZone::UTC).ok()?.timestamp()
    };
    let (since, unit) = (instant.as_nanosecond(), nanos(unit));
    (since % unit == 0).then_some(())?;
    i64::try_from(since / unit).ok()
}

/// As text: `2026-01-31T12:00:00.5Z`, without the `Z` if there is no zone. `None`: beyond the year 9999.
pub(super) fn shown(units: i64, unit: TimeUnit, zoned: bool) -> Option<String> {
    let instant = Timestamp::from_nanosecond(i128::from(units) * nanos(unit)).ok()?;
    Some(if zoned {
        instant.to_string()
    } else {
        instant.to_zoned(TimeZone::UTC).datetime().to_string()
    })
}

/// A day as text.
pub(super) fn shown_day(days: i64) -> Option<String> {
    let instant = Timestamp::from_second(days.checked_mul(86_400)?).ok()?;
    Some(instant.to_zoned(TimeZone::UTC).date().to_string())
}
