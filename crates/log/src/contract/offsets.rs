//! Committed positions: with their transaction, or not at all.

use super::stage::{Stage, WAIT, commit, numbered, promise};
use crate::{Broker, CutEntry, Producer};
use stoatflow_core::{ErrorKind, Offset, Result, Timestamp, TopicPartition};

fn cut(parts: &[TopicPartition], offset: i64, metadata: &str) -> Vec<CutEntry> {
    parts
        .iter()
        .map(|p| CutEntry {
            partition: p.clone(),
            offset: Offset(offset + i64::from(p.partition.0)),
            metadata: metadata.to_owned(),
        })
        .collect()
}

fn hold(
    stage: &Stage<'_>,
    parts: &[TopicPartition],
    expected: Option<(i64, &str)>,
    when: &str,
) -> Result<()> {
    let found = stage.broker.committed(&stage.name("group"), parts, WAIT)?;
    promise!(
        found.len() == parts.len(),
        "'committed' gave {} answers for {} partitions",
        found.len(),
        parts.len()
    );
    for (part, found) in parts.iter().zip(found) {
        let found = found.as_ref().map(|c| (c.offset.0, c.metadata.as_str()));
        let expected =
            expected.map(|(offset, metadata)| (offset + i64::from(part.partition.0), metadata));
        promise!(
            found == expected,
            "{when}, {part} is committed at {found:?} instead of {expected:?}"
        );
    }
    Ok(())
}

fn offsets_follow_commits(stage: &Stage<'_>, producer: &mut dyn Producer) -> Result<()> {
    let topic = stage.topic("t", 3)?;
    let parts: Vec<_> = (0..3)
        .map(|p| TopicPartition::new(topic.clone(), p))
        .collect();
    let group = stage.name("group");
    hold(stage, &parts, None, "before anything")?;
    producer.begin()?;
    producer.send(&mut numbered(&topic, 0, "a", 3))?;
    producer.flush(WAIT)?;
    producer.offsets(&group, &cut(&parts, 7, "lost"), WAIT)?;
    producer.abort(WAIT)?;
    hold(stage, &parts, None, "after an abort")?;
    producer.begin()?;
    producer.offsets(&group, &cut(&parts, 10, "wm=1700000000000"), WAIT)?;
    producer.commit(WAIT)?;
    hold(
        stage,
        &parts,
        Some((10, "wm=1700000000000")),
        "after a commit",
    )?;
    producer.begin()?;
    producer.offsets(&group, &cut(&parts[..2], 20, ""), WAIT)?;
    producer.commit(WAIT)?;
    hold(stage, &parts[..2], Some((20, "")), "after a second commit")?;
    hold(
        stage,
        &parts[2..],
        Some((10, "wm=1700000000000")),
        "after a commit of others",
    )
}

/// Positions and their metadata become visible with the commit, never with an abort.
pub fn offsets_only_with_commit(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "offsets");
    let mut producer = stage.transactional("p")?;
    offsets_follow_commits(&stage, producer.as_mut())
}

/// The same through the transaction of a plain producer.
pub fn plain_offsets_only_with_commit(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "plainoffsets");
    let mut producer = stage.plain("p")?;
    offsets_follow_commits(&stage, producer.as_mut())
}

/// Pending offsets of a fenced producer are dropped, and don't block readers of committed offsets.
pub fn offsets_of_a_fenced_producer_never_appear(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "pending");
    let topic = stage.topic("t", 1)?;
    let parts = [TopicPartition::new(topic.clone(), 0)];
    let group = stage.name("group");
    let mut old = stage.transactional("p")?;
    old.begin()?;
    old.offsets(&group, &cut(&parts, 5, "kept"), WAIT)?;
    old.commit(WAIT)?;
    old.begin()?;
    old.send(&mut numbered(&topic, 0, "pending", 3))?;
    old.flush(WAIT)?;
    old.offsets(&group, &cut(&parts, 6, "pending"), WAIT)?;
    let _new = stage.transactional("p")?;
    hold(&stage, &parts, Some((5, "kept")), "after a take-over")?;
    promise!(
        stage.all(&parts, 0)?.is_empty(),
        "records of a fenced producer became visible"
    );
    Ok(())
}

/// The first record that is not older than a time, whatever follows it; none if all are older or not
/// visible yet.
pub fn offsets_are_found_by_time(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "bytime");
    let topic = stage.topic("t", 2)?;
    let parts = [1, 0].map(|p| TopicPartition::new(topic.clone(), p));
    let since = |at: i64| broker.offsets_for_times(&parts, Timestamp(at), WAIT);
    let none = since(0)?;
    promise!(
        none == [None, None],
        "an empty topic has records of any time: {none:?}"
    );
    let base = 1_700_000_000_000;
    // A transaction marker has an offset and a timestamp of its own: Kafka may answer with it.
    let past_all = |found: Option<Offset>| found.is_none_or(|at| at.0 >= 4);
    let timed = |times: &[i64]| {
        let mut records = numbered(&topic, 0, "v", times.len());
        for (record, at) in records.iter_mut().zip(times) {
            record.timestamp = Timestamp(base + at);
        }
        records
    };
    let mut producer = stage.transactional("p")?;
    commit(producer.as_mut(), timed(&[10, 30, 20, 40]))?;
    let (mut producer, _) = stage.settled(producer, "p", &parts)?;
    for (at, expected) in [
        (i64::MIN, Some(0)),
        (-1, Some(0)),
        (0, Some(0)),
        (base, Some(0)),
        (base + 10, Some(0)),
        (base + 11, Some(1)),
        (base + 25, Some(1)),
        (base + 31, Some(3)),
        (base + 40, Some(3)),
        (base + 41, None),
    ] {
        let found = since(at)?;
        let as_expected = match expected {
            Some(offset) => found[1] == Some(Offset(offset)),
            None => past_all(found[1]),
        };
        promise!(
            found[0].is_none() && as_expected,
            "the first records since {at} are at {found:?}, not at {expected:?} of the second"
        );
    }
    producer.begin()?;
    producer.send(&mut timed(&[100]))?;
    producer.flush(WAIT)?;
    let found = since(base + 100)?;
    promise!(
        past_all(found[1]),
        "a record of an open transaction stands for a time at {found:?}"
    );
    producer.abort(WAIT)?;
    let missing = TopicPartition::new(stage.name("missing").as_str(), 0);
    let found = broker.offsets_for_times(&[missing], Timestamp(0), WAIT);
    promise!(
        found
            .as_ref()
            .is_err_and(|e| e.kind() == ErrorKind::MissingTopic),
        "a topic that does not exist gave {found:?} instead of MissingTopic"
    );
    Ok(())
}
