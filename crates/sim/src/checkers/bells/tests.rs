//! The checker must be able to fail.

use super::{Ring, judge, regular};
use std::collections::BTreeMap;

fn ring(told: &str) -> Ring {
    Ring::parse(told).expect("three parts")
}

/// The error for one timer that is due at 100 and reported this; empty if there is none.
fn said(told: &[&str], once: bool) -> String {
    of("k0:b1", told, once)
}

fn of(bell: &str, told: &[&str], once: bool) -> String {
    let set = BTreeMap::from([(bell.to_owned(), 100)]);
    let rings = told.iter().map(|told| ring(told)).collect();
    let rings = BTreeMap::from([(bell.to_owned(), rings)]);
    judge(&set, &rings, once).err().unwrap_or_default()
}

const EVENT: &str = "event@100@120";
const PROCESSING: &str = "processing@7@7";

#[test]
fn each_timer_once() {
    assert_eq!(said(&[EVENT, PROCESSING], true), "");
    assert!(said(&[EVENT], true).contains("rang 0 times by processing time"));
    assert!(said(&[PROCESSING], false).contains("rang 0 times by event time"));
    let twice = [EVENT, PROCESSING, "processing@9@9"];
    assert!(said(&twice, true).contains("rang 2 times by processing time"));
    assert_eq!(said(&twice, false), "");
}

#[test]
fn an_echo_is_of_event_time() {
    assert_eq!(of("k0:b1!", &[EVENT], true), "");
    assert!(of("k0:b1!", &[EVENT, PROCESSING], false).contains("rang 1 times by processing time"));
    assert!(of("k0:b1!", &[], false).contains("rang 0 times by event time"));
}

#[test]
fn in_its_time() {
    assert!(said(&["event@100@99", PROCESSING], false).contains("before its time"));
    assert!(said(&[EVENT, "processing@7@6"], false).contains("before its time"));
    assert!(said(&["event@200@200", PROCESSING], false).contains("rang for [200]"));
}

#[test]
fn none_is_missing_and_none_invented() {
    let set = BTreeMap::from([("k0:b1".to_owned(), 100)]);
    assert!(judge(&set, &BTreeMap::new(), false).is_err());
    let rings = BTreeMap::from([("k0:b2".to_owned(), Vec::new())]);
    assert!(judge(&BTreeMap::new(), &rings, false).is_err());
}

#[test]
fn ticks_are_regular() {
    assert_eq!(regular(&[200, 400, 600], true), Ok(()));
    assert_eq!(regular(&[200, 400, 200, 400, 600], false), Ok(()));
    for wrong in [
        &[][..],
        &[200, 400, 800],
        &[200, 400, 400],
        &[400, 200],
        &[100, 300],
    ] {
        assert!(regular(wrong, true).is_err(), "{wrong:?}");
    }
    assert!(regular(&[200, 800, 200], false).is_err());
}
