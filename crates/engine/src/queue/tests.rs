use super::*;

fn input(epoch: u64, bytes: i64) -> Item {
    Item::Input {
        epoch: Epoch(epoch),
        batch: Vec::new(),
        bytes,
    }
}

fn taken(queue: &LaneQueue, epoch: u64) -> Option<i64> {
    queue.take_input_of(Epoch(epoch)).map(|(_, bytes)| bytes)
}

#[test]
fn records_of_an_epoch_are_taken_up_to_its_barrier() {
    let queue = LaneQueue::default();
    queue.push(input(1, 10));
    queue.push(input(1, 11));
    queue.push(Item::Barrier {
        epoch: Epoch(1),
        stage: StageId(0),
        watermark: -1,
    });
    queue.push(input(2, 20));
    let all = [1, 1, 1, 2].map(|epoch| taken(&queue, epoch));
    assert_eq!(all, [Some(10), Some(11), None, None], "nothing passes it");
    assert!(matches!(queue.take_front(), Some(Item::Barrier { .. })));
    assert_eq!([1, 2].map(|epoch| taken(&queue, epoch)), [None, Some(20)]);
}
