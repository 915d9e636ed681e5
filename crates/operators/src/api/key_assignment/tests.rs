use super::*;

#[test]
fn keys_of_a_task_share_a_lane() {
    let keys: Vec<String> = (0..500).map(|n| format!("key-{n}")).collect();
    let of = |lane| KeyAssignment {
        by_task: Some(6),
        ..KeyAssignment::new(lane, 4)
    };
    let mut lanes = [0; 4];
    for key in &keys {
        let key = key.as_bytes();
        let owners: Vec<u32> = (0..4).filter(|lane| of(*lane).owns(key)).collect();
        assert_eq!(owners, [of(0).lane_of(key)]);
        let task = Task::of(partition_of(key, 6));
        assert!(of(owners[0]).owns_task(task));
        lanes[owners[0] as usize] += 1;
    }
    // Six tasks, four lanes: at least two of them have something to do.
    assert!(
        lanes.iter().filter(|keys| **keys > 0).count() > 1,
        "{lanes:?}"
    );
    assert!(of(3).has_whole_tasks());
}

#[test]
fn keys_are_spread_one_by_one() {
    let assignment = KeyAssignment::new(1, 4);
    assert!(assignment.owns(b"a") == (jump_hash(key_hash(b"a"), 4) == 1));
    assert!(!assignment.has_whole_tasks());
    assert!((0..9).all(|task| !assignment.owns_task(Task(task))));
    let alone = KeyAssignment::new(0, 1);
    assert!(alone.owns(b"a") && alone.has_whole_tasks() && alone.owns_task(Task(7)));
}
