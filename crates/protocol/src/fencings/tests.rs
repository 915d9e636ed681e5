use super::*;

#[test]
fn one_takeover_costs_nothing_and_a_fight_slows_down() {
    let pauses: Vec<u64> = (0..10).map(|n| pause(n).as_secs()).collect();
    assert_eq!(pauses, [0, 0, 1, 2, 4, 8, 16, 32, 60, 60]);
    assert_eq!(pause(usize::MAX), LONGEST);
}

#[test]
fn only_the_last_minutes_count() {
    let now = 1_000_000;
    assert_eq!(
        recent(&[399_999, 400_000, 999_999, 1_000_001], now),
        [400_000, 999_999]
    );
}
