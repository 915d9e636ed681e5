//! Parsing of the variable. Tests of whole engines check that every place is reached.

use super::*;
use stoatflow_core::ErrorKind;

#[test]
fn every_place_has_a_name_of_its_own() {
    for (place, name) in FAILPOINT_NAMES {
        assert_eq!(place.name(), *name);
        assert!(Failpoints::parse(&format!("{name}=kill")).is_ok());
    }
    let names: std::collections::BTreeSet<_> =
        FAILPOINT_NAMES.iter().map(|(_, name)| name).collect();
    assert_eq!(names.len(), FAILPOINT_NAMES.len());
    // The last variant is in the table too.
    assert_eq!(Failpoint::ObserveEnds as usize + 1, FAILPOINT_NAMES.len());
}

#[test]
fn nothing_is_armed_by_nothing() {
    for text in ["", " ", ","] {
        assert!(Failpoints::parse(text).unwrap().0.is_none());
    }
}

#[test]
fn a_fault_strikes_at_its_meeting_only() {
    let points = Failpoints::parse("lane.seal=error@3, lane.barrier=error").unwrap();
    let meet = |place| points.reach(place).map_err(|e| e.kind());
    assert_eq!(meet(Failpoint::LaneSeal), Ok(()));
    assert_eq!(meet(Failpoint::LaneBarrier), Err(ErrorKind::Unavailable));
    assert_eq!(meet(Failpoint::LaneSeal), Ok(()));
    assert_eq!(meet(Failpoint::CommitBeforeFlush), Ok(()));
    // Copies count together, because all parts of a run share the armed failpoints.
    assert!(points.clone().reach(Failpoint::LaneSeal).is_err());
    assert_eq!(meet(Failpoint::LaneSeal), Ok(()));
    assert_eq!(meet(Failpoint::LaneBarrier), Ok(()));
}

#[test]
fn faults_are_read() {
    assert_eq!("kill".parse(), Ok(FailpointAction::Kill(Duration::ZERO)));
    assert_eq!(
        "kill:70".parse(),
        Ok(FailpointAction::Kill(Duration::from_micros(70)))
    );
    assert_eq!("stop".parse(), Ok(FailpointAction::Stop));
    assert_eq!(
        "sleep:9".parse(),
        Ok(FailpointAction::Sleep(Duration::from_millis(9)))
    );
    for wrong in ["", "die", "kill:", "kill:soon", "sleep", "stop:1"] {
        assert_eq!(wrong.parse::<FailpointAction>(), Err(()), "{wrong}");
    }
}

#[test]
fn unknown_names_are_refused_with_the_known_ones() {
    for wrong in [
        "commit.before-flsh=kill",
        "lane.seal",
        "lane.seal=die",
        "lane.seal=kill@0",
        "lane.seal=kill@x",
    ] {
        let error = Failpoints::parse(wrong).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        let text = error.to_string();
        assert!(text.contains(wrong), "{text}");
        for (_, name) in FAILPOINT_NAMES {
            assert!(text.contains(name), "{text} lacks {name}");
        }
        assert!(text.contains("sleep:MILLISECONDS"), "{text}");
    }
}
