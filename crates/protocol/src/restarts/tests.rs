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
fn what_is_long_past_no_longer_counts() {
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
