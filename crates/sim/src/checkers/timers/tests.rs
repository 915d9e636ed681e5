//! The checker must be able to fail.

use super::{Firing, check_firings, check_intervals};
use std::collections::BTreeMap;

fn firing(reported: &str) -> Firing {
    Firing::parse(reported).expect("three parts")
}

/// The error for one timer that is due at 100 and reported this; empty if there is none.
fn error(reported: &[&str], once: bool) -> String {
    error_for_key("k0:b1", reported, once)
}

fn error_for_key(key: &str, reported: &[&str], once: bool) -> String {
    let set = BTreeMap::from([(key.to_owned(), 100)]);
    let firings = reported.iter().map(|reported| firing(reported)).collect();
    let firings = BTreeMap::from([(key.to_owned(), firings)]);
    check_firings(&set, &firings, once)
        .err()
        .unwrap_or_default()
}

const EVENT: &str = "event@100@120";
const PROCESSING: &str = "processing@7@7";

#[test]
fn each_timer_fires_once() {
    assert_eq!(error(&[EVENT, PROCESSING], true), "");
    assert!(error(&[EVENT], true).contains("fired 0 times by processing time"));
    assert!(error(&[PROCESSING], false).contains("fired 0 times by event time"));
    let twice = [EVENT, PROCESSING, "processing@9@9"];
    assert!(error(&twice, true).contains("fired 2 times by processing time"));
    assert_eq!(error(&twice, false), "");
}

#[test]
fn echo_fires_by_event_time_only() {
    assert_eq!(error_for_key("k0:b1!", &[EVENT], true), "");
    assert!(
        error_for_key("k0:b1!", &[EVENT, PROCESSING], false)
            .contains("fired 1 times by processing time")
    );
    assert!(error_for_key("k0:b1!", &[], false).contains("fired 0 times by event time"));
}

#[test]
fn early_timers_are_found() {
    assert!(error(&["event@100@99", PROCESSING], false).contains("before its time"));
    assert!(error(&[EVENT, "processing@7@6"], false).contains("before its time"));
    assert!(error(&["event@200@200", PROCESSING], false).contains("fired for [200]"));
}

#[test]
fn missing_and_unknown_timers_are_found() {
    let set = BTreeMap::from([("k0:b1".to_owned(), 100)]);
    assert!(check_firings(&set, &BTreeMap::new(), false).is_err());
    let firings = BTreeMap::from([("k0:b2".to_owned(), Vec::new())]);
    assert!(check_firings(&BTreeMap::new(), &firings, false).is_err());
}

#[test]
fn ticks_are_regular() {
    assert_eq!(check_intervals(&[200, 400, 600], true), Ok(()));
    assert_eq!(check_intervals(&[200, 400, 200, 400, 600], false), Ok(()));
    for wrong in [
        &[][..],
        &[200, 400, 800],
        &[200, 400, 400],
        &[400, 200],
        &[100, 300],
    ] {
        assert!(check_intervals(wrong, true).is_err(), "{wrong:?}");
    }
    assert!(check_intervals(&[200, 800, 200], false).is_err());
}
