//! Transactions: all or nothing.

use super::stage::{Stage, WAIT, commit, numbered, promise, read, record, silence, values};
use crate::{Broker, CommitOutcome, CutEntry};
use stoatflow_core::{Offset, Result, TopicPartition};

/// Records of an open transaction are invisible, acknowledged or not.
pub fn open_transaction_is_invisible(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "open");
    let topic = stage.topic("t", 1)?;
    let mut reader = stage.reader(&[TopicPartition::new(topic.clone(), 0)])?;
    let mut producer = stage.transactional("p")?;
    producer.begin()?;
    producer.send(&mut numbered(&topic, 0, "a", 20))?;
    producer.flush(WAIT)?;
    silence(reader.as_mut(), "the transaction is open")?;
    producer.commit(WAIT)?;
    let seen = read(reader.as_mut(), 20)?;
    promise!(
        seen.len() == 20,
        "20 records were committed, {} came",
        seen.len()
    );
    Ok(())
}

/// Transactions in rapid succession: readers see them, and the group gets its offsets, in their order.
pub fn transactions_follow_one_another(broker: &dyn Broker, tag: &str) -> Result<()> {
    const ROUNDS: i64 = 25;
    let stage = Stage::new(broker, tag, "rapid");
    let (topic, group) = (stage.topic("t", 1)?, stage.name("group"));
    let part = TopicPartition::new(topic.clone(), 0);
    let mut producer = stage.transactional("p")?;
    for round in 1..=ROUNDS {
        let cut = CutEntry {
            partition: part.clone(),
            offset: Offset(round),
            metadata: format!("round {round}"),
        };
        producer.begin()?;
        producer.send(&mut numbered(&topic, 0, &format!("{round}."), 1))?;
        producer.flush(WAIT)?;
        producer.offsets(&group, &[cut], WAIT)?;
        let outcome = producer.commit(WAIT)?;
        promise!(
            outcome == CommitOutcome::Committed,
            "round {round} gave {outcome:?}"
        );
    }
    let expected: Vec<_> = (1..=ROUNDS).map(|round| format!("{round}.0")).collect();
    let seen = values(&stage.all(std::slice::from_ref(&part), expected.len())?);
    promise!(seen == expected, "of {expected:?} came {seen:?}");
    // Opening the successor waits until the broker has completed the transaction, as in a recovery.
    let _successor = stage.transactional("p")?;
    let found = broker.committed(&group, &[part], WAIT)?;
    promise!(
        found[0].as_ref().map(|c| c.offset.0) == Some(ROUNDS),
        "committed are {found:?}"
    );
    Ok(())
}

/// A committed transaction is visible in every partition of every topic it wrote.
pub fn transaction_appears_whole(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "whole");
    let (left, right) = (stage.topic("left", 2)?, stage.topic("right", 2)?);
    let mut producer = stage.transactional("p")?;
    let parts: Vec<_> = [&left, &right]
        .iter()
        .flat_map(|t| (0..2).map(|p| TopicPartition::new((*t).clone(), p)))
        .collect();
    for round in 1..=3 {
        let records = (0..40)
            .map(|n| {
                record(
                    if n < 20 { &left } else { &right },
                    Some(n % 2),
                    Some("k"),
                    "v",
                )
            })
            .collect();
        commit(producer.as_mut(), records)?;
        let seen = stage.all(&parts, 40 * round)?;
        for slot in 0..4 {
            let count = seen.iter().filter(|r| r.slot == slot).count();
            promise!(
                count == 10 * round,
                "after {round} commits partition {} shows {count} records",
                parts[slot as usize]
            );
        }
    }
    Ok(())
}

/// Records of an aborted transaction never appear, and don't hold back later ones.
pub fn aborted_records_never_appear(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "aborted");
    let topic = stage.topic("t", 1)?;
    let mut producer = stage.transactional("p")?;
    for (flush, prefix) in [(true, "flushed"), (false, "unflushed")] {
        producer.begin()?;
        producer.send(&mut numbered(&topic, 0, prefix, 30))?;
        if flush {
            producer.flush(WAIT)?;
        }
        producer.abort(WAIT)?;
    }
    commit(producer.as_mut(), numbered(&topic, 0, "good", 10))?;
    let seen = stage.all(&[TopicPartition::new(topic, 0)], 10)?;
    let expected: Vec<_> = (0..10).map(|n| format!("good{n}")).collect();
    promise!(
        values(&seen) == expected,
        "beside two aborted transactions came {:?}",
        values(&seen)
    );
    Ok(())
}

/// A transaction without records commits, and the producer goes on.
pub fn empty_transaction_commits(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "empty");
    let topic = stage.topic("t", 1)?;
    let mut producer = stage.transactional("p")?;
    commit(producer.as_mut(), Vec::new())?;
    commit(producer.as_mut(), numbered(&topic, 0, "a", 1))?;
    commit(producer.as_mut(), Vec::new())?;
    let seen = stage.all(&[TopicPartition::new(topic, 0)], 1)?;
    promise!(
        values(&seen) == ["a0"],
        "between empty transactions came {:?}",
        values(&seen)
    );
    Ok(())
}

/// In plain mode records are visible once flushed, inside a transaction or outside.
pub fn plain_records_appear_at_flush(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "plain");
    let topic = stage.topic("t", 1)?;
    let mut producer = stage.plain("p")?;
    producer.send(&mut numbered(&topic, 0, "outside", 5))?;
    producer.flush(WAIT)?;
    let parts = [TopicPartition::new(topic.clone(), 0)];
    promise!(
        stage.all(&parts, 5)?.len() == 5,
        "flushed plain records are not visible"
    );
    producer.begin()?;
    producer.send(&mut numbered(&topic, 0, "inside", 5))?;
    producer.flush(WAIT)?;
    promise!(
        stage.all(&parts, 10)?.len() == 10,
        "plain records wait for a commit"
    );
    producer.abort(WAIT)?;
    promise!(
        stage.all(&parts, 10)?.len() == 10,
        "an abort took plain records back"
    );
    Ok(())
}
