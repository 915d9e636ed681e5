use super::*;
use stoatflow_core::ErrorKind;

fn decide(stored: Option<i64>, begin: i64, end: i64) -> Result<RestorePlan> {
    RestoreFacts {
        stored: stored.map(Offset),
        begin: Offset(begin),
        stable_end: Offset(end),
        markers: 1,
        age: Age::NEVER,
    }
    .decide("counts")
}

#[test]
fn every_case() {
    assert_eq!(decide(None, 0, 0).unwrap(), RestorePlan::Nothing);
    assert_eq!(decide(None, 3, 9).unwrap(), RestorePlan::Cold(Offset(3)));
    assert_eq!(decide(Some(9), 0, 9).unwrap(), RestorePlan::Nothing);
    assert_eq!(
        decide(Some(4), 0, 9).unwrap(),
        RestorePlan::Delta(Offset(4))
    );
    assert_eq!(
        decide(Some(4), 4, 9).unwrap(),
        RestorePlan::Delta(Offset(4))
    );
    assert_eq!(
        decide(Some(4), 5, 9).unwrap(),
        RestorePlan::WipeThenCold(Offset(5), WipeReason::Truncated)
    );
    // An idle partition whose records have all expired on the broker: only the last commit's marker is
    // not applied.
    assert_eq!(decide(Some(8), 9, 9).unwrap(), RestorePlan::Nothing);
    assert_eq!(
        decide(Some(7), 9, 9).unwrap(),
        RestorePlan::WipeThenCold(Offset(9), WipeReason::Truncated)
    );
    let error = decide(Some(10), 0, 9).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert!(error.to_string().contains("'counts'"));
}

#[test]
fn data_older_than_kept_tombstones_is_discarded() {
    const HOUR: i64 = 3_600_000;
    let age = |hours: i64| Age {
        current_at: Some(Timestamp(7 * HOUR)),
        now: Some(Timestamp((7 + hours) * HOUR)),
        kept: Some(Duration::from_secs(86_400)),
    };
    let plan = |stored, age| {
        let facts = RestoreFacts {
            stored: Some(Offset(stored)),
            begin: Offset(2),
            stable_end: Offset(9),
            markers: 1,
            age,
        };
        facts.decide("counts").unwrap()
    };
    let useless = RestorePlan::WipeThenCold(Offset(2), WipeReason::TooOld);
    assert_eq!(plan(4, age(21)), RestorePlan::Delta(Offset(4)));
    assert_eq!(plan(4, age(22)), useless, "within the margin");
    assert_eq!(plan(4, age(30)), useless);
    assert_eq!(plan(4, age(-1)), useless, "a clock that went backwards");
    let unknown = Age {
        current_at: None,
        ..age(0)
    };
    assert_eq!(plan(4, unknown), useless);
    // Nothing was written since, except the marker of its own commit.
    assert_eq!(plan(9, age(900)), RestorePlan::Nothing);
    assert_eq!(plan(8, age(900)), RestorePlan::Delta(Offset(8)));
    assert_eq!(plan(7, age(900)), useless);
    let kept_for_good = Age {
        kept: None,
        ..age(900)
    };
    assert_eq!(plan(4, kept_for_good), RestorePlan::Delta(Offset(4)));
    let at_once = Age {
        kept: Some(Duration::ZERO),
        ..age(0)
    };
    assert_eq!(plan(4, at_once), useless);
}

#[test]
fn damaged_state_is_wiped_only_if_allowed_and_restorable() {
    let found = || Error::state_corrupt("the local state is damaged").hint("delete it");
    on_damage(true, &[], found()).unwrap();
    let refused = on_damage(false, &[], found()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::StateCorrupt);
    assert_eq!(refused.next_step(), "delete it");
    assert_eq!(
        on_damage(false, &["seen"], found())
            .unwrap_err()
            .next_step(),
        "delete it"
    );
    let refused = on_damage(true, &["seen", "sums"], found()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::StateCorrupt);
    assert!(refused.to_string().contains("seen, sums"), "{refused}");
}
