//! Functions of times: milliseconds since 1970, in UTC or a named time zone.
//!
//! Takes whole numbers and texts, returns parts of a calendar, texts, and times. A local time that a
//! change of the clocks skips counts as the time that is later by the skipped span; one that occurs
//! twice counts as its first occurrence. Never reads a clock.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use stoatflow_core::{Datum, Error, Result, Text};
use stoatflow_plan::ScalarFunction;

/// The zone of this name; UTC without one.
pub(super) fn zone(name: Option<&str>) -> Result<TimeZone> {
    match name {
        None | Some("UTC") => Ok(TimeZone::UTC),
        Some(name) => TimeZone::get(name).map_err(|e| {
            Error::topology(format!("there is no time zone {name:?}"))
                .caused_by(e)
                .hint("write a name such as \"UTC\" or \"Europe/Berlin\"")
        }),
    }
}

fn at(ms: i64, zone: &TimeZone) -> Result<Zoned> {
    Timestamp::from_millisecond(ms)
        .map(|time| time.to_zoned(zone.clone()))
        .map_err(|_| outside(&format!("{ms} ms since 1970")))
}

fn outside(what: &str) -> Error {
    Error::user(format!("{what} is outside of the calendar"))
        .hint("times are milliseconds since 1970: seconds must be multiplied by 1000, nanoseconds divided")
}

/// A part of the calendar.
pub(super) fn part(which: ScalarFunction, ms: i64, zone: &TimeZone) -> Result<Datum> {
    let time = at(ms, zone)?;
    Ok(match which {
        ScalarFunction::DtYear => Datum::Int(time.year().into()),
        ScalarFunction::DtMonth => Datum::Int(time.month().into()),
        ScalarFunction::DtDay => Datum::Int(time.day().into()),
        ScalarFunction::DtHour => Datum::Int(time.hour().into()),
        ScalarFunction::DtMinute => Datum::Int(time.minute().into()),
        ScalarFunction::DtSecond => Datum::Int(time.second().into()),
        ScalarFunction::DtMillisecond => Datum::Int(time.millisecond().into()),
        ScalarFunction::DtWeekday => Datum::Int(time.weekday().to_monday_zero_offset().into()),
        ScalarFunction::DtDate => Datum::Str(Text::from(time.date().to_string())),
        _ => {
            let base = time.strftime("%Y-%m-%dT%H:%M:%S");
            let ms = time.millisecond();
            Datum::Str(Text::from(if *zone == TimeZone::UTC {
                format!("{base}.{ms:03}Z")
            } else {
                format!("{base}.{ms:03}{}", time.strftime("%:z"))
            }))
        }
    })
}

/// The time in a form of `strftime`.
pub(super) fn strftime(ms: i64, form: &str, zone: &TimeZone) -> Result<Datum> {
    let time = at(ms, zone)?;
    let text = jiff::fmt::strtime::format(form, &time)
        .map_err(|e| Error::user(format!("a time can't be written as {form:?}")).caused_by(e))?;
    Ok(Datum::Str(Text::from(text)))
}

/// The start of the span that contains a time. Spans begin at 1970 in UTC, with a zone at 1970 of its
/// local time.
pub(super) fn truncate(ms: i64, span: i64, zone: &TimeZone) -> Result<Datum> {
    let down = |ms: i64| {
        ms.div_euclid(span)
            .checked_mul(span)
            .ok_or_else(|| outside(&format!("{ms} ms since 1970")))
    };
    if *zone == TimeZone::UTC {
        return down(ms).map(Datum::Int);
    }
    let time = at(ms, zone)?;
    let offset = i64::from(time.offset().seconds()) * 1000;
    let local = down(ms + offset)?;
    let near = local - offset;
    // If the clocks did not change in between, this is the result.
    if i64::from(at(near, zone)?.offset().seconds()) * 1000 == offset {
        return Ok(Datum::Int(near));
    }
    let civil = at(local, &TimeZone::UTC)?.datetime();
    let start = civil
        .to_zoned(zone.clone())
        .map_err(|_| outside(&civil.to_string()))?;
    Ok(Datum::Int(start.timestamp().as_millisecond()))
}

/// Parses a time to milliseconds since 1970; smaller units are cut off.
pub(super) fn parse(text: &str, zone: &TimeZone) -> Option<i64> {
    let time = match text.parse::<Timestamp>() {
        Ok(time) => time,
        Err(_) => text
            .parse::<DateTime>()
            .ok()?
            .to_zoned(zone.clone())
            .ok()?
            .timestamp(),
    };
    i64::try_from(time.as_nanosecond().div_euclid(1_000_000)).ok()
}
