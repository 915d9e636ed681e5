use super::*;

#[test]
fn a_broker_that_is_slow_gets_more_time() {
    let mut wait = AnswerTimeout::new(Duration::from_secs(10));
    let mut waits = Vec::new();
    for _ in 0..6 {
        waits.push(wait.time().as_secs());
        wait.missed();
    }
    assert_eq!(waits, [10, 20, 40, 80, 80, 80]);
    wait.answered();
    assert_eq!(wait.time().as_secs(), 10);
}
