//! A reader's position and a writer's acknowledged offsets.

use super::stage::{Stage, WAIT, commit, numbered, promise, read, record, silence, until, values};
use crate::Broker;
use stoatflow_core::{Offset, Partition, Result, TopicPartition};

/// A reader's position reaches the stable end though the last records there were aborted, and at once in
/// an empty partition.
pub fn positions_pass_an_aborted_tail(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "tail");
    let topic = stage.topic("t", 2)?;
    let parts = [
        TopicPartition::new(topic.clone(), 0),
        TopicPartition::new(topic.clone(), 1),
    ];
    let mut producer = stage.transactional("p")?;
    commit(producer.as_mut(), numbered(&topic, 0, "good", 10))?;
    producer.begin()?;
    producer.send(&mut numbered(&topic, 0, "bad", 5))?;
    producer.flush(WAIT)?;
    producer.abort(WAIT)?;
    let (mut producer, ends) = stage.settled(producer, "p", &parts)?;
    let mut reader = stage.reader(&parts)?;
    let mut seen = Vec::new();
    until(reader.as_mut(), &mut seen, |reader, _| {
        reader.positions() == ends
    })?;
    promise!(
        seen.len() == 10,
        "10 records were committed, {} came: {:?}",
        seen.len(),
        values(&seen)
    );
    // Reading continues from that position.
    commit(producer.as_mut(), numbered(&topic, 0, "more", 3))?;
    let more = read(reader.as_mut(), 3)?;
    promise!(
        values(&more) == ["more0", "more1", "more2"],
        "after the tail came {:?}",
        values(&more)
    );
    let mut again = broker.consumer(&stage.name("again"), 1)?;
    again.assign(&[(parts[0].clone(), ends[0])])?;
    let resumed = read(again.as_mut(), 3)?;
    promise!(
        values(&resumed) == values(&more),
        "resuming at the stable end gave {:?}",
        values(&resumed)
    );
    Ok(())
}

/// A paused slot returns no records, the others go on; after a resume it continues without loss or
/// repetition.
pub fn pause_holds_and_loses_nothing(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "pause");
    let topic = stage.topic("t", 2)?;
    let mut producer = stage.transactional("p")?;
    let mut both = numbered(&topic, 0, "a", 300);
    both.extend(numbered(&topic, 1, "b", 300));
    commit(producer.as_mut(), both)?;
    let parts = [
        TopicPartition::new(topic.clone(), 0),
        TopicPartition::new(topic, 1),
    ];
    let mut reader = stage.reader(&parts)?;
    let mut seen = Vec::new();
    // Paused again and again while the client holds fetched records.
    for round in 0..6 {
        let held = round % 2;
        reader.pause(&[held], true)?;
        let before = seen.len();
        reader.poll(40, WAIT, &mut seen)?;
        promise!(
            seen.len() - before <= 40,
            "'poll' gave more than it was asked for"
        );
        promise!(
            seen[before..].iter().all(|r| r.slot != held),
            "a paused slot gave records"
        );
        reader.pause(&[held], false)?;
    }
    until(reader.as_mut(), &mut seen, |_, seen| seen.len() >= 600)?;
    for (slot, prefix) in [(0, "a"), (1, "b")] {
        let part: Vec<_> = seen.iter().filter(|r| r.slot == slot).cloned().collect();
        let expected: Vec<_> = (0..300).map(|n| format!("{prefix}{n}")).collect();
        promise!(
            values(&part) == expected,
            "pausing lost, repeated or mixed records of slot {slot}: {:?}",
            values(&part)
        );
    }
    promise!(
        reader.pause(&[9], true).is_err(),
        "pausing a slot that is not assigned went well"
    );
    Ok(())
}

/// The same for a reader that had reached the end before it was paused.
pub fn pause_at_the_end_loses_nothing(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "pauseend");
    let topic = stage.topic("t", 1)?;
    let part = TopicPartition::new(topic.clone(), 0);
    let mut producer = stage.plain("p")?;
    let mut reader = stage.reader(std::slice::from_ref(&part))?;
    let mut seen = Vec::new();
    for round in 0..4 {
        reader.pause(&[0], true)?;
        producer.send(&mut vec![record(&topic, Some(0), None, &round.to_string())])?;
        producer.flush(WAIT)?;
        silence(reader.as_mut(), "the slot is paused")?;
        reader.pause(&[0], false)?;
        let end = Offset(
            broker.ranges(std::slice::from_ref(&part), WAIT)?[0]
                .stable_end
                .0,
        );
        until(reader.as_mut(), &mut seen, |reader, _| {
            reader.positions() == [end]
        })?;
        let expected: Vec<_> = (0..=round).map(|n| n.to_string()).collect();
        promise!(
            values(&seen) == expected,
            "after pause {round} at the end there are {:?}",
            values(&seen)
        );
        // The reader reaches the very end and learns so before it is paused again.
        silence(reader.as_mut(), "all has been read")?;
    }
    Ok(())
}

/// A reader has caught up when it has returned the last record it knows of, and not before: neither
/// while it knows nothing, nor in the middle of a backlog. Control records at the end count as read.
pub fn a_reader_knows_whether_it_has_caught_up(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "caughtup");
    let topic = stage.topic("t", 4)?;
    let parts: Vec<_> = (0..4)
        .map(|p| TopicPartition::new(topic.clone(), p))
        .collect();
    // One partition each: a backlog, an aborted tail, an open transaction, empty.
    let mut producer = stage.transactional("p")?;
    let mut records = numbered(&topic, 0, "a", 500);
    records.extend(numbered(&topic, 1, "b", 5));
    records.extend(numbered(&topic, 2, "c", 5));
    commit(producer.as_mut(), records)?;
    producer.begin()?;
    producer.send(&mut numbered(&topic, 1, "bad", 5))?;
    producer.flush(WAIT)?;
    producer.abort(WAIT)?;
    let (mut producer, _) = stage.settled(producer, "p", &parts)?;
    producer.begin()?;
    producer.send(&mut numbered(&topic, 2, "later", 5))?;
    producer.flush(WAIT)?;

    let mut reader = stage.reader(&parts)?;
    promise!(
        (0..3).all(|slot| !reader.caught_up(slot)),
        "a reader that has read nothing says that it has caught up"
    );
    let mut seen = Vec::new();
    for _ in 0..1000 {
        reader.poll(40, WAIT, &mut seen)?;
        let of = |slot| seen.iter().filter(|r| r.slot == slot).count();
        for (slot, all) in [(0, 500), (1, 5), (2, 5)] {
            promise!(
                of(slot) == all || !reader.caught_up(slot),
                "slot {slot} has caught up, and {} of {all} records have come",
                of(slot)
            );
        }
        if seen.len() >= 510 {
            break;
        }
    }
    until(reader.as_mut(), &mut seen, |reader, _| {
        (0..4).all(|slot| reader.caught_up(slot))
    })?;
    promise!(seen.len() == 510, "{} of 510 records came", seen.len());
    producer.commit(WAIT)?;
    until(reader.as_mut(), &mut seen, |_, seen| seen.len() >= 515)?;
    until(reader.as_mut(), &mut seen, |reader, _| {
        (0..4).all(|slot| reader.caught_up(slot))
    })?;
    promise!(
        seen.len() == 515 && !reader.caught_up(4),
        "{} records came, and of a slot that is not assigned nothing is known",
        seen.len()
    );
    Ok(())
}

/// Acknowledged offsets are one past the last record of each partition, as a reader finds it. For topics
/// that were not named, the producer may remember them or not.
pub fn acknowledged_offsets_are_the_logs(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "acked");
    let (kept, other) = (stage.topic("kept", 3)?, stage.topic("other", 1)?);
    let written = |round: usize| if round == 1 { 0 } else { 4 + round };
    let mut producer = stage.transactional("p")?;
    producer.remember(std::slice::from_ref(&kept));
    promise!(
        producer.acknowledged(&kept).is_empty(),
        "offsets were acknowledged before anything was sent"
    );
    for round in 0..3 {
        // A producer may have several connections, and one of them may write nothing for a partition in
        // a round.
        let mut records = numbered(&kept, 0, "a", written(round));
        if round > 0 {
            records.extend(numbered(&kept, 2, "c", 2));
        }
        records.extend(numbered(&other, 0, "o", 3));
        producer.begin()?;
        producer.send(&mut records)?;
        producer.flush(WAIT)?;
        let flushed = producer.acknowledged(&kept);
        producer.commit(WAIT)?;
        let acknowledged = producer.acknowledged(&kept);
        promise!(
            flushed == acknowledged,
            "a commit moved acknowledged offsets from {flushed:?} to {acknowledged:?}"
        );
        let mut expected = Vec::new();
        for (p, count) in [(0, (0..=round).map(written).sum()), (1, 0), (2, 2 * round)] {
            let seen = stage.all(&[TopicPartition::new(kept.clone(), p)], count)?;
            expected.extend(
                seen.last()
                    .map(|last| (Partition(p), Offset(last.offset.0 + 1))),
            );
        }
        promise!(
            acknowledged == expected,
            "acknowledged are {acknowledged:?}, a reader finds {expected:?}"
        );
    }
    Ok(())
}
