use super::*;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[test]
fn only_a_broker_that_is_away_is_tried_again() {
    let mut restarts = Restarts::new(3, secs(60));
    for kind in [
        ErrorKind::Fenced,
        ErrorKind::UnknownOutcome,
        ErrorKind::User,
        ErrorKind::DiskFull,
        ErrorKind::Internal,
    ] {
        assert_eq!(restarts.next(kind, secs(1)), None, "{kind:?}");
    }
    assert!(restarts.next(ErrorKind::Unavailable, secs(1)).is_some());
}

#[test]
fn pauses_grow_and_the_number_is_bounded() {
    let mut restarts = Restarts::new(9, secs(600));
    let pauses: Vec<_> = (0..10)
        .map_while(|at| restarts.next(ErrorKind::Unavailable, secs(at)))
        .map(|pause| pause.as_millis())
        .collect();
    assert_eq!(
        pauses,
        [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]
    );
}

#[test]
fn old_restarts_do_not_count() {
    let mut restarts = Restarts::new(1, secs(60));
    assert!(restarts.next(ErrorKind::Unavailable, secs(0)).is_some());
    assert!(restarts.next(ErrorKind::Unavailable, secs(60)).is_none());
    let pause = restarts.next(ErrorKind::Unavailable, secs(61));
    assert_eq!(pause, Some(Duration::from_millis(100)), "as the first time");
}

#[test]
fn none_are_allowed_with_zero() {
    assert_eq!(
        Restarts::new(0, secs(60)).next(ErrorKind::Unavailable, secs(1)),
        None
    );
}

#[test]
fn a_run_is_replaced_when_the_user_asks_for_it_and_not_too_often() {
    let mut restarts = Restarts::new(2, Duration::from_secs(10));
    let now = Duration::from_secs(1);
    assert_eq!(restarts.next(ErrorKind::User, now), None);
    assert_eq!(restarts.again(now), Some(FIRST_PAUSE));
    assert_eq!(restarts.again(now), Some(FIRST_PAUSE * 2));
    assert_eq!(restarts.again(now), None);
    assert!(may_replace(ErrorKind::User) && !may_replace(ErrorKind::Fenced));
    assert!(!may_replace(ErrorKind::UnknownOutcome) && !may_replace(ErrorKind::Stalled));
}
