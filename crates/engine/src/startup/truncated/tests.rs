use super::*;

fn reached(partition: i32, offset: i64) -> Reached {
    Reached {
        partition: TopicPartition::new("orders", partition),
        offset: Offset(offset),
        leader_epoch: 5,
    }
}

#[test]
fn an_epoch_that_ends_before_the_offset_is_a_loss() {
    let all = [reached(0, 100), reached(1, 100), reached(2, 100)];
    let truncated = |ends: &[Option<i64>]| {
        let ends: Vec<_> = ends.iter().map(|end| end.map(Offset)).collect();
        first_truncated(&all, &ends).map(|(r, end)| (r.partition.partition.0, end.0))
    };
    assert_eq!(truncated(&[Some(100), Some(140), None]), None);
    assert_eq!(truncated(&[Some(100), Some(80), Some(70)]), Some((1, 80)));
    assert_eq!(truncated(&[]), None, "a client that can't ask");
}

#[test]
fn the_message_names_the_partition_and_the_next_step() {
    let error = truncated("billing", &reached(3, 100), Offset(80));
    let said = error.to_string();
    for part in ["orders-3", "offset 100", "epoch 5", "ends at 80"] {
        assert!(said.contains(part), "{part} is missing in: {said}");
    }
    let hint = error.given_hint().unwrap_or_default();
    assert!(
        hint.contains("--topic orders:3 --reset-offsets --to-offset 80"),
        "{hint}"
    );
}
