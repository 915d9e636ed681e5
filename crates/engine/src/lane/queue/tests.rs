use super::*;

fn input(epoch: u64, bytes: i64) -> LaneItem {
    LaneItem::Input {
        epoch: Epoch(epoch),
        batch: Dispatched {
            bytes,
            ..Dispatched::default()
        },
    }
}

fn taken(queue: &LaneQueue, epoch: u64) -> Option<i64> {
    queue.take_input_of(Epoch(epoch)).map(|batch| batch.bytes)
}

#[test]
fn records_are_taken_up_to_a_tick() {
    let queue = LaneQueue::default();
    queue.push(input(1, 10));
    queue.push(input(1, 11));
    queue.push(LaneItem::Tick {
        epoch: Epoch(1),
        stage: StageId(0),
        mark: TickEnd {
            tick: 1,
            barrier: None,
        },
        steps: None,
    });
    queue.push(input(2, 20));
    let all = [1, 1, 1, 2].map(|epoch| taken(&queue, epoch));
    assert_eq!(all, [Some(10), Some(11), None, None], "nothing passes it");
    assert!(matches!(
        queue.take_dispatched(),
        Some(LaneItem::Tick { .. })
    ));
    assert_eq!([1, 2].map(|epoch| taken(&queue, epoch)), [None, Some(20)]);
}
