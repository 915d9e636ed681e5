use super::*;

#[test]
fn a_place_has_a_number_and_a_task() {
    let order = Order::new(7, Task(3));
    assert_eq!((order.number(), order.task()), (7, Task(3)));
    let other = order.in_task(Task(9));
    assert_eq!((other.number(), other.task()), (7, Task(9)));
    assert_eq!(order, other, "the task plays no part in the order");
    let most = Order::new((1 << 48) - 1, Task(u16::MAX));
    assert_eq!(
        (most.number(), most.task()),
        ((1 << 48) - 1, Task(u16::MAX))
    );
}

#[test]
fn children_come_in_the_order_in_which_they_were_made() {
    let parent = Order::new(5, Task(0));
    let ordinals = [
        0,
        1,
        2,
        4,
        5,
        20,
        21,
        276,
        277,
        300,
        65_812,
        65_813,
        1_000_000,
        u64::from(u32::MAX),
    ];
    for pair in ordinals.windows(2) {
        let (one, two) = (parent.child(pair[0]), parent.child(pair[1]));
        assert!(one < two, "{pair:?}");
        // Anything derived from the first record comes before anything derived from the second.
        assert!(one.child(1_000) < two, "{pair:?}");
        assert!(one.child(1_000).child(3) < two.child(0), "{pair:?}");
    }
    assert!(parent.child(1_000_000) < Order::new(6, Task(0)));
}

#[test]
fn a_path_is_long_enough_for_what_topologies_do() {
    let mut order = Order::new(1, Task(0));
    for _ in 0..20 {
        order = order.child(0).child(0);
    }
    assert!(
        order < order.child(1),
        "twenty exchanges of one record each"
    );
    let words = Order::new(1, Task(0))
        .child(0)
        .child(5_000)
        .child(0)
        .child(5_000);
    assert!(words < words.child(1));
}

const EPOCH: End = End {
    first: 100,
    end: 1_000,
};

#[test]
fn held_records_keep_the_order_of_their_origins() {
    let held = |number, path: u64| Order::new(number, Task(4)).child(path).at_end(EPOCH, 0);
    assert!(held(101, 0) < held(102, 0));
    assert!(held(101, 0) < held(101, 1));
    assert!(held(101, 3) < held(102, 0));
    assert!(held(999, 20) < Order::new(1_001, Task(0)));
    assert_eq!(
        (held(101, 0).number(), held(101, 0).task()),
        (1_000, Task(4))
    );
    // Records that were held for more than an epoch.
    assert!(held(7, 3) < held(8, 0));
    assert!(held(8, 0) < held(101, 0));
    assert!(held(0, 0) < held(1, 0));
}

#[test]
fn records_of_an_earlier_part_follow_direct_ones() {
    let first = |number| {
        Order::new(number, Task(0))
            .at_end(EPOCH, 0)
            .child(0)
            .child(1)
    };
    let direct = Order::new(999, Task(0)).at_end(EPOCH, 4);
    let (early, late) = (first(200).at_end(EPOCH, 4), first(300).at_end(EPOCH, 4));
    assert!(direct < early);
    assert!(early < late, "and keeps its order");
    let other_part = Order::new(200, Task(0)).at_end(EPOCH, 2).at_end(EPOCH, 4);
    assert!(late < other_part);
    assert_eq!(late.number(), 1_004);
    // There is room in the path for records derived from them.
    assert!(late < late.child(1) && late.child(1) < late.child(2));
}
