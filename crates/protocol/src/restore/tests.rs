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
