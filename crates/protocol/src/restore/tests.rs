use super::*;
use stoatflow_core::ErrorKind;

fn decide(stored: Option<i64>, begin: i64, end: i64) -> Result<RestorePlan> {
    RestoreFacts {
        stored: stored.map(Offset),
        begin: Offset(begin),
        stable_end: Offset(end),
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
        RestorePlan::WipeThenCold(Offset(5))
    );
    let error = decide(Some(10), 0, 9).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert!(error.to_string().contains("'counts'"));
}

#[test]
fn damage_is_thrown_away_only_if_that_is_declared_and_nothing_is_lost_by_it() {
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
