//! When a stalled watermark is reported.

use super::*;

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn warnings_come_after_a_minute_and_then_every_ten() {
    let mut standing = StalledWatermark::new(-1, at(0));
    assert_eq!(standing.barrier(-1, 5, at(59)), None);
    assert_eq!(standing.barrier(-1, 5, at(60)), Some((at(60), 10)));
    assert_eq!(standing.barrier(-1, 5, at(659)), None);
    assert_eq!(standing.barrier(-1, 5, at(660)), Some((at(660), 20)));
}

#[test]
fn not_while_it_moves_or_nothing_comes() {
    let mut standing = StalledWatermark::new(-1, at(0));
    for (mark, second) in (1..200).zip(1..) {
        assert_eq!(standing.barrier(mark, 1, at(second)), None);
    }
    assert_eq!(standing.barrier(199, 0, at(500)), None);
    assert_eq!(standing.barrier(199, 1, at(501)), Some((at(302), 1)));
}
