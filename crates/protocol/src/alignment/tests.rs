use super::*;

#[test]
fn the_last_lane_completes_each_stage_once() {
    let alignment = Alignment::new(3, 2);
    for epoch in 0..5 {
        for stage in [StageId(0), StageId(1)] {
            assert!(!alignment.arrive(Epoch(epoch), stage));
            assert!(!alignment.arrive(Epoch(epoch), stage));
            assert!(alignment.arrive(Epoch(epoch), stage));
        }
    }
    assert_eq!(alignment.arrivals(), vec![0, 0]);
}

#[test]
fn the_broken_one_opens_early() {
    let alignment = Alignment::broken_unaligned(2, 1);
    assert!(alignment.arrive(Epoch(0), StageId(0)));
    assert!(!alignment.arrive(Epoch(0), StageId(0)));
}
