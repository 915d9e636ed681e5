use super::{Label, STICKY_BATCH_BYTES, StickyPartitioner, of_stick};

#[test]
fn a_label_goes_through_the_client_and_back() {
    for (topic, stick) in [(0, 0), (1, u32::MAX), (u32::MAX, 0), (7, 1 << 31)] {
        let label = Label { topic, stick };
        assert_eq!(Label::unpack(label.pack()), label);
    }
}

#[test]
fn a_stick_is_left_by_bytes() {
    let mut sticks = StickyPartitioner::new();
    let first = sticks.take(STICKY_BATCH_BYTES - 1);
    assert_eq!(sticks.take(1), first);
    assert_eq!(sticks.take(10 * STICKY_BATCH_BYTES), first.wrapping_add(1));
    assert_eq!(
        sticks.take(1),
        first.wrapping_add(2),
        "a large one is alone"
    );
    assert_eq!(sticks.take(1), first.wrapping_add(2));
}

#[test]
fn sticks_begin_anywhere() {
    let begun: std::collections::BTreeSet<_> = (0..64)
        .map(|_| StickyPartitioner::new().take(0) % 4)
        .collect();
    assert_eq!(begun.len(), 4, "{begun:?}");
}

#[test]
fn sticks_go_round_and_pass_partitions_without_a_leader() {
    let all = |p: u32| of_stick(p, 3, |_| true);
    assert_eq!([0, 1, 2, 3, 4].map(all), [0, 1, 2, 0, 1]);
    assert!((0..3).contains(&all(u32::MAX)));
    let some = |p: u32| of_stick(p, 3, |p| p == 1);
    assert_eq!([0, 1, 2].map(some), [1, 1, 1]);
    assert_eq!(of_stick(5, 3, |_| false), 2, "then it waits there");
    assert_eq!(of_stick(5, 0, |_| true), 0);
}
