use super::*;

#[test]
fn the_last_lane_completes_each_stage_once() {
    let alignment = Alignment::new(3, 2);
    for tick in 0..5 {
        for stage in [StageId(0), StageId(1)] {
            assert!(!alignment.arrive(tick, stage));
            assert!(!alignment.arrive(tick, stage));
            assert!(alignment.arrive(tick, stage));
        }
    }
    assert_eq!(alignment.arrivals(), vec![0, 0]);
}

#[test]
fn a_fast_lane_may_be_ticks_ahead() {
    let alignment = Alignment::new(2, 1);
    assert!(!alignment.arrive(1, StageId(0)));
    assert!(!alignment.arrive(2, StageId(0)));
    assert!(!alignment.arrive(3, StageId(0)));
    assert!(alignment.arrive(1, StageId(0)));
    assert!(alignment.arrive(2, StageId(0)));
    assert_eq!(alignment.arrivals(), vec![1]);
    assert!(alignment.arrive(3, StageId(0)));
}

#[test]
fn the_broken_one_opens_early() {
    let alignment = Alignment::broken_unaligned(2, 1);
    assert!(alignment.arrive(0, StageId(0)));
    assert!(!alignment.arrive(0, StageId(0)));
}
