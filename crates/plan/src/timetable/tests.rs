//! Ticks in time zones with clock changes.
//!
//! Berlin, 2026: the clock is put forward on 29 March at 02:00, back on 25 October at 03:00. New York:
//! forward on 8 March at 02:00, back on 1 November at 02:00.

mod refused;

use super::{CatchUp, Missed, Timetable, TimetableSpec};
use jiff::Zoned;
use jiff::tz::{TimeZone, TimeZoneDatabase};

const BERLIN: &str = "Europe/Berlin";
const NEW_YORK: &str = "America/New_York";

fn bare(tz: &str) -> TimetableSpec {
    TimetableSpec {
        every_ms: None,
        cron: None,
        tz: tz.into(),
        start_ms: None,
        catch_up: CatchUp::Latest,
        max_catch_up: 1000,
    }
}

fn cron(written: &str, tz: &str) -> TimetableSpec {
    TimetableSpec {
        cron: Some(written.into()),
        ..bare(tz)
    }
}

fn every(ms: i64, tz: &str) -> TimetableSpec {
    TimetableSpec {
        every_ms: Some(ms),
        ..bare(tz)
    }
}

/// `2026-10-25T02:30+02:00`, or without the offset where the time is unambiguous.
fn at(written: &str, tz: &str) -> i64 {
    let zoned: Zoned = format!("{written}[{tz}]").parse().expect("a time");
    zoned.timestamp().as_millisecond()
}

fn shown(ms: i64, tz: &str) -> String {
    let zone = TimeZone::get(tz).expect("a zone");
    let zoned = super::timestamp(ms).expect("in range").to_zoned(zone);
    zoned.strftime("%m-%d %H:%M %:z").to_string()
}

/// The first `count` ticks after a time.
fn ticks(times: &TimetableSpec, after: &str, count: usize) -> Vec<String> {
    let table = Timetable::new(times).unwrap_or_else(|e| panic!("{e}"));
    let mut now = at(after, &times.tz);
    let ticks = std::iter::from_fn(|| {
        now = table.next(now)?;
        Some(shown(now, &times.tz))
    });
    ticks.take(count).collect()
}

fn check(times: &TimetableSpec, after: &str, expected: &[&str]) {
    assert_eq!(ticks(times, after, expected.len()), expected, "{times:?}");
}

#[test]
fn a_time_that_does_not_exist_is_the_first_instant_after_the_gap() {
    let daily = cron("30 2 * * *", BERLIN);
    check(
        &daily,
        "2026-03-27T12:00",
        &[
            "03-28 02:30 +01:00",
            "03-29 03:00 +02:00",
            "03-30 02:30 +02:00",
        ],
    );
    let daily = cron("30 2 * * *", NEW_YORK);
    check(
        &daily,
        "2026-03-07T12:00",
        &["03-08 03:00 -04:00", "03-09 02:30 -04:00"],
    );
    // The hour that Berlin skips exists in other zones.
    let utc = cron("30 1 * * *", "UTC");
    check(
        &utc,
        "2026-03-28T12:00",
        &["03-29 01:30 +00:00", "03-30 01:30 +00:00"],
    );
}

#[test]
fn all_times_in_the_gap_are_one_tick() {
    let often = cron("*/20 2 * * *", BERLIN);
    check(
        &often,
        "2026-03-28T12:00",
        &[
            "03-29 03:00 +02:00",
            "03-30 02:00 +02:00",
            "03-30 02:20 +02:00",
        ],
    );
    // A tick at the end of the gap is not emitted twice.
    let both = cron("0,30 2-3 * * *", BERLIN);
    check(
        &both,
        "2026-03-28T12:00",
        &[
            "03-29 03:00 +02:00",
            "03-29 03:30 +02:00",
            "03-30 02:00 +02:00",
        ],
    );
}

#[test]
fn a_time_that_exists_twice_is_the_first_one() {
    let daily = cron("30 2 * * *", BERLIN);
    check(
        &daily,
        "2026-10-24T12:00",
        &["10-25 02:30 +02:00", "10-26 02:30 +01:00"],
    );
    // After the first of the two instants, the second one is no tick.
    check(&daily, "2026-10-25T02:30+02:00", &["10-26 02:30 +01:00"]);
    check(&daily, "2026-10-25T02:10+01:00", &["10-26 02:30 +01:00"]);
    let often = cron("*/20 2 * * *", BERLIN);
    check(
        &often,
        "2026-10-24T12:00",
        &[
            "10-25 02:00 +02:00",
            "10-25 02:20 +02:00",
            "10-25 02:40 +02:00",
            "10-26 02:00 +01:00",
        ],
    );
    let both = cron("30 2-3 * * *", BERLIN);
    check(
        &both,
        "2026-10-25T00:00",
        &["10-25 02:30 +02:00", "10-25 03:30 +01:00"],
    );
    let daily = cron("30 1 * * *", NEW_YORK);
    check(
        &daily,
        "2026-10-31T12:00",
        &["11-01 01:30 -04:00", "11-02 01:30 -05:00"],
    );
}

#[test]
fn every_hour_goes_on_with_the_clock() {
    let half = cron("*/30 * * * *", BERLIN);
    check(
        &half,
        "2026-10-25T01:45",
        &[
            "10-25 02:00 +02:00",
            "10-25 02:30 +02:00",
            "10-25 02:00 +01:00",
            "10-25 02:30 +01:00",
            "10-25 03:00 +01:00",
        ],
    );
    check(
        &half,
        "2026-03-29T01:00",
        &[
            "03-29 01:30 +01:00",
            "03-29 03:00 +02:00",
            "03-29 03:30 +02:00",
        ],
    );
    // Nothing is made up for: it ticks at half past, and there is no half past two.
    let past = cron("30 * * * *", BERLIN);
    check(
        &past,
        "2026-03-29T01:00",
        &["03-29 01:30 +01:00", "03-29 03:30 +02:00"],
    );
    let second = cron("15 */2 * * *", BERLIN);
    check(
        &second,
        "2026-10-25T00:30",
        &[
            "10-25 02:15 +02:00",
            "10-25 02:15 +01:00",
            "10-25 04:15 +01:00",
        ],
    );
    check(&second, "2026-03-29T00:30", &["03-29 04:15 +02:00"]);
    for hourly in ["0 * * * *", "@hourly", "0 0 * * * *", "0 0 * * * * *"] {
        let hourly = cron(hourly, NEW_YORK);
        check(
            &hourly,
            "2026-11-01T00:30",
            &[
                "11-01 01:00 -04:00",
                "11-01 01:00 -05:00",
                "11-01 02:00 -05:00",
            ],
        );
        check(
            &hourly,
            "2026-03-08T00:30",
            &["03-08 01:00 -05:00", "03-08 03:00 -04:00"],
        );
    }
}

#[test]
fn cron_says_days_and_seconds_too() {
    let weekdays = cron("0 9 * * MON-FRI", BERLIN);
    check(
        &weekdays,
        "2026-01-02T08:00",
        &["01-02 09:00 +01:00", "01-05 09:00 +01:00"],
    );
    let last = cron("0 0 L * *", BERLIN);
    check(
        &last,
        "2026-01-15T00:00",
        &[
            "01-31 00:00 +01:00",
            "02-28 00:00 +01:00",
            "03-31 00:00 +02:00",
        ],
    );
    // With both days restricted, either one matches, as in Vixie's cron.
    let either = cron("0 0 13 * FRI", "UTC");
    check(
        &either,
        "2026-02-01T00:00",
        &[
            "02-06 00:00 +00:00",
            "02-13 00:00 +00:00",
            "02-20 00:00 +00:00",
        ],
    );
    let table = Timetable::new(&cron("*/10 * * * * *", "UTC")).unwrap();
    assert_eq!(table.next(1), Some(10_000));
    assert_eq!(table.next(9_999), Some(10_000));
    assert_eq!(table.next(10_000), Some(20_000));
    assert_eq!(table.last(10_001, 0), Some(10_000));
    assert_eq!(table.last(9_999, 0), None);
}

#[test]
fn an_interval_lies_on_a_grid_of_time() {
    let table = Timetable::new(&every(30_000, "UTC")).unwrap();
    assert_eq!(table.next(-1), Some(0));
    assert_eq!(table.next(0), Some(30_000));
    assert_eq!(table.next(59_999), Some(60_000));
    assert_eq!(table.last(59_999, 0), Some(30_000));
    assert_eq!(table.last(59_999, 30_000), None);
    // It counts real time, not local time.
    let quarter = every(6 * 3_600_000, BERLIN);
    check(
        &quarter,
        "2026-01-01T00:30",
        &["01-01 06:00 +01:00", "01-01 12:00 +01:00"],
    );
    check(
        &quarter,
        "2026-07-01T00:30",
        &["07-01 01:00 +02:00", "07-01 07:00 +02:00"],
    );
    let started = TimetableSpec {
        start_ms: Some(1_007),
        ..every(10, "UTC")
    };
    let table = Timetable::new(&started).unwrap();
    assert_eq!(table.next(0), Some(1_007));
    assert_eq!(table.next(1_007), Some(1_017));
    assert_eq!(table.last(1_006, 0), None);
}

#[test]
fn whole_days_keep_the_time_of_the_day() {
    let daily = every(86_400_000, BERLIN);
    check(
        &daily,
        "2026-03-28T12:00",
        &["03-29 00:00 +01:00", "03-30 00:00 +02:00"],
    );
    check(
        &daily,
        "2026-10-24T12:00",
        &["10-25 00:00 +02:00", "10-26 00:00 +01:00"],
    );
    // 1970 began on a Thursday.
    check(
        &every(7 * 86_400_000, BERLIN),
        "2026-03-20T00:00",
        &["03-26 00:00 +01:00", "04-02 00:00 +02:00"],
    );
    let mondays = TimetableSpec {
        start_ms: Some(at("2026-01-05T09:00", BERLIN)),
        ..every(7 * 86_400_000, BERLIN)
    };
    check(
        &mondays,
        "2025-01-01T00:00",
        &["01-05 09:00 +01:00", "01-12 09:00 +01:00"],
    );
    check(&mondays, "2026-03-24T00:00", &["03-30 09:00 +02:00"]);
    // The clock skips midnight.
    check(
        &every(86_400_000, "America/Sao_Paulo"),
        "2018-11-02T12:00",
        &[
            "11-03 00:00 -03:00",
            "11-04 01:00 -02:00",
            "11-05 00:00 -02:00",
        ],
    );
    // The clock skips a whole day.
    check(
        &every(86_400_000, "Pacific/Apia"),
        "2011-12-28T12:00",
        &[
            "12-29 00:00 -10:00",
            "12-31 00:00 +14:00",
            "01-01 00:00 +14:00",
        ],
    );
}

#[test]
fn back_and_forth_agree_around_every_change() {
    let tables = [
        cron("30 2 * * *", BERLIN),
        cron("*/20 1-3 * * *", BERLIN),
        cron("*/7 * * * *", BERLIN),
        cron("15 */2 * * *", BERLIN),
        cron("*/20 1-3 * * *", NEW_YORK),
        cron("@hourly", NEW_YORK),
        cron("0 0 * * *", "America/Sao_Paulo"),
        // The clock changes by half an hour.
        cron("*/10 1,2 * * *", "Australia/Lord_Howe"),
        cron("*/10 * * * *", "Australia/Lord_Howe"),
        every(86_400_000, NEW_YORK),
        every(45 * 60_000, NEW_YORK),
    ];
    for times in &tables {
        let table = Timetable::new(times).unwrap();
        let zone = TimeZone::get(&times.tz).unwrap();
        let year = at("2018-01-01T00:00", &times.tz);
        let changes: Vec<i64> = zone
            .following(super::timestamp(year).unwrap())
            .take(4)
            .map(|change| change.timestamp().as_millisecond())
            .collect();
        assert!(changes.len() >= 3, "{times:?}");
        for change in changes {
            let (from, to) = (change - 30 * 3_600_000, change + 30 * 3_600_000);
            let mut found = Vec::new();
            let mut now = from;
            while let Some(next) = table.next(now).filter(|next| *next <= to) {
                assert!(next > now, "{times:?}: {next} after {now}");
                found.push(next);
                now = next;
            }
            // Also at times that are not whole minutes.
            for now in (from..to).step_by(7 * 60_000 + 1) {
                let expected = found.iter().rev().find(|tick| **tick <= now);
                assert_eq!(
                    table.last(now, from),
                    expected.copied(),
                    "{times:?} at {now}"
                );
                let expected = found.iter().find(|tick| **tick > now).copied();
                let next = table.next(now).filter(|next| *next <= to);
                assert_eq!(next, expected, "{times:?} at {now}");
            }
            for &tick in &found {
                assert_eq!(table.last(tick, from), Some(tick), "{times:?}");
                assert_eq!(table.next(tick - 1), Some(tick), "{times:?}");
            }
        }
    }
}

fn missed(times: &TimetableSpec, catch_up: CatchUp, most: u32, after: i64, until: i64) -> Missed {
    let times = TimetableSpec {
        catch_up,
        max_catch_up: most,
        ..times.clone()
    };
    Timetable::new(&times).unwrap().missed(&times, after, until)
}

#[test]
fn missed_ticks_are_counted() {
    for times in [every(100, "UTC"), cron("* * * * * *", "UTC")] {
        let step = if times.cron.is_some() { 1000 } else { 100 };
        let look = |catch_up, most| missed(&times, catch_up, most, 2 * step, 8 * step + 1);
        let ticks = |which: &[i64]| which.iter().map(|n| n * step).collect::<Vec<_>>();
        for (catch_up, most, made, left_out) in [
            (CatchUp::Latest, 1000, ticks(&[8]), 0),
            (CatchUp::Skip, 1000, ticks(&[]), 0),
            (CatchUp::All, 1000, ticks(&[3, 4, 5, 6, 7, 8]), 0),
            (CatchUp::All, 2, ticks(&[7, 8]), 4),
            (CatchUp::All, 0, ticks(&[]), 6),
        ] {
            let expected = Missed {
                ticks: made,
                left_out,
            };
            assert_eq!(look(catch_up, most), expected, "{times:?} {catch_up:?}");
        }
    }
}

#[test]
fn a_year_away_takes_no_time() {
    let year = 365 * 86_400_000;
    let begin = at("2026-01-01T00:00", "UTC");
    let found = missed(&every(1, "UTC"), CatchUp::All, 3, begin, begin + year);
    assert_eq!(
        found.ticks,
        [begin + year - 2, begin + year - 1, begin + year]
    );
    assert_eq!(found.left_out, year.unsigned_abs() - 3);
    let found = missed(
        &cron("* * * * * *", BERLIN),
        CatchUp::All,
        2,
        begin,
        begin + year,
    );
    assert_eq!(found.ticks, [begin + year - 1000, begin + year]);
    assert_eq!(found.left_out, 10_000);
}

#[test]
fn zones_are_built_in_for_machines_without_any() {
    assert!(TimeZoneDatabase::bundled().get(BERLIN).is_ok());
}
