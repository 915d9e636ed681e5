use super::*;
use crate::ProducerRecord;
use crate::kafka::native::records::batch_writer::{BatchWriter, Identity, TRANSACTIONAL};
use crate::kafka::native::records::compression::Compression;
use kafka_protocol::messages::metadata_response::{
    MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{BrokerId, TopicName};
use kafka_protocol::protocol::StrBytes;
use stoatflow_core::Timestamp;

const PORTION: FetchLimits = FetchLimits {
    all: 4_000,
    each: 1_000,
};
const NOW: Duration = Duration::from_secs(100);

/// Partitions of a topic, all led by broker 1.
fn slots(count: i32) -> FetchStates {
    let parts: Vec<_> = (0..count)
        .map(|p| (TopicPartition::new("t", p), Offset(0)))
        .collect();
    let mut slots = FetchStates::new(&parts);
    assert!(slots.is_unled());
    let learned = slots.learn(&led(count, 7));
    assert!(learned.missing.is_empty() && learned.replaced.is_empty());
    assert_eq!(slots.leaders(), [1]);
    slots
}

fn led(count: i32, id: u8) -> MetadataResponse {
    let id = format!("00000000-0000-0000-0000-00000000000{id}");
    let id = id.parse().unwrap();
    let part = |p| {
        MetadataResponsePartition::default()
            .with_partition_index(p)
            .with_leader_id(BrokerId(1))
            .with_leader_epoch(2)
    };
    let topic = MetadataResponseTopic::default()
        .with_name(Some(TopicName::from(StrBytes::from_static_str("t"))))
        .with_partitions((0..count).map(part).collect());
    MetadataResponse::default().with_topics(vec![topic.with_topic_id(id)])
}

/// `count` records of 100 bytes, from an offset on.
fn records(from: i64, count: u8) -> Bytes {
    let mut batch = BatchWriter::new(Vec::new(), Compression::default());
    for n in 0..count {
        batch.append(&ProducerRecord {
            topic: "t".into(),
            partition: None,
            key: None,
            value: Some(vec![n; 100].into()),
            timestamp: Timestamp(1),
            headers: None,
        });
    }
    batch.seal(Identity { id: 1, epoch: 0 }, TRANSACTIONAL, 0);
    let mut bytes = batch.bytes().to_vec();
    bytes[..8].copy_from_slice(&from.to_be_bytes());
    bytes.into()
}

fn came(slots: &mut FetchStates, at: usize, count: u8) {
    let slot = &mut slots.all[at];
    slot.asked = slot.from;
    let bytes = records(slot.from, count);
    let end = slot.from + i64::from(count);
    slot.store_records(end, bytes, Vec::new(), NOW).unwrap();
}

fn asked(slots: &mut FetchStates) -> (Vec<i32>, Duration) {
    let FetchPlan { wanted, max_wait } = slots.plan_fetch(1, PORTION, NOW);
    let mut parts: Vec<_> = wanted.iter().map(|w| w.partition).collect();
    parts.sort_unstable();
    (parts, max_wait)
}

#[test]
fn a_partition_is_asked_for_when_little_of_it_is_left() {
    let mut slots = slots(3);
    assert_eq!(asked(&mut slots), (vec![0, 1, 2], MAX_WAIT));
    came(&mut slots, 0, 8);
    assert_eq!(asked(&mut slots), (vec![1, 2], FULL));
    assert!(!slots.all[0].has_caught_up(), "it is not given yet");
    let (given, unreadable) = slots.deliver(4, |_, _| Ok(()));
    assert_eq!((given, unreadable), (4, None));
    assert_eq!(asked(&mut slots), (vec![0, 1, 2], MAX_WAIT));
    slots.all[1].paused = true;
    assert_eq!(asked(&mut slots), (vec![0, 2], PAUSED), "it may go on soon");
    slots.all[0].paused = true;
    slots.all[1].paused = false;
    assert_eq!(
        asked(&mut slots),
        (vec![1, 2], MAX_WAIT),
        "it has enough for a start"
    );
    slots.all[0].paused = false;
    assert_eq!(slots.deliver(9, |_, _| Ok(())).0, 4);
    assert!(slots.all[0].has_caught_up());
    assert_eq!(slots.all[0].position, 8);
}

#[test]
fn another_one_is_first_each_time() {
    let mut slots = slots(3);
    let first = |slots: &mut FetchStates| slots.plan_fetch(1, PORTION, NOW).wanted[0].partition;
    assert_eq!([(); 4].map(|()| first(&mut slots)), [0, 1, 2, 0]);
}

#[test]
fn many_partitions_take_no_more_memory_than_few() {
    let mut slots = slots(100);
    let mut round = 0;
    while round < 100 {
        let (parts, _) = asked(&mut slots);
        if parts.is_empty() {
            break;
        }
        came(&mut slots, usize::try_from(parts[0]).unwrap(), 9);
        round += 1;
    }
    let here: usize = slots.all.iter().map(FetchState::unread).sum();
    assert!((2 * PORTION.all..3 * PORTION.all).contains(&here), "{here}");
    // Paused partitions don't hold back others.
    for slot in &mut slots.all {
        slot.paused = slot.unread() > 0;
    }
    assert_eq!(asked(&mut slots).0.len(), 100 - round);
}

#[test]
fn an_unreadable_batch_is_fetched_again() {
    let mut slots = slots(1);
    came(&mut slots, 0, 3);
    let mut damaged = records(3, 3).to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    let slot = &mut slots.all[0];
    slot.asked = 3;
    slot.store_records(6, damaged.into(), Vec::new(), NOW)
        .unwrap();
    assert_eq!(slot.from, 6);
    slot.asked = 6;
    let (given, unreadable) = slots.deliver(100, |_, _| Ok(()));
    assert_eq!(given, 0, "those before it are not told apart from it");
    assert!(unreadable.is_some());
    let slot = &slots.all[0];
    assert_eq!((slot.position, slot.from), (3, 3));
    // The answer to an earlier fetch is dropped.
    let late = slots.all[0].store_records(9, records(6, 3), Vec::new(), NOW);
    assert_eq!((late, slots.all[0].from), (Ok(()), 3));
    came(&mut slots, 0, 3);
    assert_eq!(slots.deliver(100, |_, _| Ok(())), (3, None));
}

#[test]
fn a_topic_that_was_made_anew_is_another_one() {
    let mut slots = slots(2);
    slots.lose(1);
    assert!(slots.leaders().is_empty());
    assert_eq!(slots.learn(&led(2, 7)).replaced, Vec::<usize>::new());
    slots.lose(1);
    assert_eq!(slots.learn(&led(1, 8)).replaced, [0]);
    assert!(slots.leaders().is_empty());
    assert_eq!(slots.learn(&led(1, 7)).missing, [(1, 0)]);
}

#[test]
fn a_starved_partition_gets_a_longer_max_wait() {
    let mut slots = slots(1);
    slots.all[0]
        .store_records(9, Bytes::new(), Vec::new(), NOW)
        .unwrap();
    assert_eq!(slots.plan_fetch(1, PORTION, NOW).max_wait, MAX_WAIT);
    let later = NOW + STARVED * 2;
    assert_eq!(slots.plan_fetch(1, PORTION, later).max_wait, FAR);
    came(&mut slots, 0, 1);
    assert_eq!(slots.plan_fetch(1, PORTION, later).max_wait, MAX_WAIT);
}

#[test]
fn retained_records_release_their_response() {
    let mut slots = slots(1);
    let answer = records(0, 9);
    let slot = &mut slots.all[0];
    slot.store_records(9, answer.clone(), Vec::new(), NOW)
        .unwrap();
    assert_eq!(slots.deliver(2, |_, _| Ok(())), (2, None));
    slots.detach();
    assert!(!answer.is_unique(), "it goes on soon");
    slots.all[0].paused = true;
    slots.detach();
    assert!(answer.is_unique());
    slots.all[0].paused = false;
    let mut values = Vec::new();
    let (given, _) = slots.deliver(100, |_, record| {
        values.push(record.value.unwrap()[0]);
        Ok(())
    });
    assert_eq!((given, values), (7, (2..9).collect()));
}

#[test]
fn a_broker_has_given_all_when_each_partition_that_is_read_is_at_its_end() {
    let mut slots = slots(2);
    assert!(!slots.has_all(1), "nobody knows where they end");
    let came = |slots: &mut FetchStates, at: usize, end: i64, count: u8| {
        let taken = slots.all[at].store_records(end, records(0, count), vec![], NOW);
        assert!(taken.is_ok());
    };
    came(&mut slots, 0, 3, 3);
    assert!(!slots.has_all(1), "of the second one nothing is known");
    came(&mut slots, 1, 5, 3);
    assert!(!slots.has_all(1), "two of the second one are to come");
    slots.all[1].paused = true;
    assert!(slots.has_all(1), "they are not to be read");
}

#[test]
fn the_leader_epoch_of_each_position_is_known() {
    let mut slots = slots(1);
    let slot = &mut slots.all[0];
    let batch = |from: i64, epoch: i32| {
        let mut bytes = records(from, 5).to_vec();
        bytes[12..16].copy_from_slice(&epoch.to_be_bytes());
        bytes
    };
    let mut take = |bytes: Vec<u8>| {
        slot.asked = slot.from;
        slot.store_records(1_000, bytes.into(), Vec::new(), NOW)
            .unwrap();
        let at = |offset: i64| slot.epoch_before(offset);
        [0, 1, 5, 6, 10, 11, 15, 16, 20].map(at)
    };
    let (four, six, nine) = (Some(4), Some(6), Some(9));
    assert_eq!(
        take([batch(0, 4), batch(5, 4)].concat()),
        [None, four, four, four, four, four, four, four, four]
    );
    // One answer with the records of two leaders.
    assert_eq!(
        take([batch(10, 6), batch(15, 9)].concat()),
        [None, four, four, four, four, six, six, nine, nine]
    );
    // Records that are fetched again don't repeat their epochs.
    slot.position = 5;
    slot.ask_again();
    slot.asked = slot.from;
    let again = [batch(5, 4), batch(10, 6)].concat();
    slot.store_records(1_000, again.into(), Vec::new(), NOW)
        .unwrap();
    let known = [1, 6, 11].map(|offset| slot.epoch_before(offset));
    assert_eq!(known, [four, four, six]);
    // Only the newest `LEADERS` epochs are remembered.
    for n in 0..100_i64 {
        slot.asked = slot.from;
        let bytes = batch(slot.from, i32::try_from(20 + n).unwrap());
        slot.store_records(1_000, bytes.into(), Vec::new(), NOW)
            .unwrap();
    }
    assert_eq!(slot.epochs.len(), LEADERS);
    assert_eq!(slot.epoch_before(1), None);
    assert_eq!(slot.epoch_before(slot.from), Some(119));
}

/// The marker may be in another answer than the records that it aborts.
#[test]
fn an_unlisted_abort_is_found_across_answers() {
    use crate::kafka::native::tests::mark;
    let mut slots = slots(1);
    came(&mut slots, 0, 3);
    let given = slots.deliver(10, |_, _| Ok(()));
    assert_eq!(given, (3, None));
    let slot = &mut slots.all[0];
    slot.asked = slot.from;
    let marker = mark(Identity { id: 1, epoch: 0 }, false, 3);
    slot.store_records(4, Bytes::from(marker.to_vec()), Vec::new(), NOW)
        .unwrap();
    let given = slots.deliver(10, |_, _| Ok(()));
    assert_eq!(given, (0, Some((0, UnreadableBatch::Unlisted(3)))));
}

/// Some brokers answer with -1 if they can't find out the end in time.
#[test]
fn an_unknown_end_is_no_end() {
    let mut slots = slots(1);
    let slot = &mut slots.all[0];
    slot.store_records(-1, Bytes::new(), Vec::new(), NOW)
        .unwrap();
    assert!(!slot.has_caught_up(), "no end is known");
    slot.store_records(0, Bytes::new(), Vec::new(), NOW)
        .unwrap();
    assert!(slot.has_caught_up());
    slot.store_records(5, Bytes::new(), Vec::new(), NOW)
        .unwrap();
    slot.store_records(-1, Bytes::new(), Vec::new(), NOW)
        .unwrap();
    assert!(!slot.has_caught_up(), "the end that was known is kept");
}
