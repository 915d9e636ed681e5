//! One writer per id: the newest.

use super::stage::{Stage, WAIT, commit, fenced, numbered, promise, values};
use crate::{Broker, CutEntry};
use stoatflow_core::{Offset, Result, TopicPartition};

/// Opening a producer fences the older one of the same id, and aborts its open transaction.
pub fn newer_transactional_producer_fences(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "fence");
    let topic = stage.topic("t", 1)?;
    let mut old = stage.transactional("p")?;
    commit(old.as_mut(), numbered(&topic, 0, "old", 2))?;
    old.begin()?;
    old.send(&mut numbered(&topic, 0, "left", 2))?;
    old.flush(WAIT)?;
    let mut new = stage.transactional("p")?;
    fenced(old.commit(WAIT), "commit")?;
    fenced(old.begin(), "begin")?;
    commit(new.as_mut(), numbered(&topic, 0, "new", 2))?;
    let seen = values(&stage.all(&[TopicPartition::new(topic, 0)], 4)?);
    promise!(
        seen == ["old0", "old1", "new0", "new1"],
        "after a take-over came {seen:?}"
    );
    Ok(())
}

/// The open transaction is lost however many transactions the older producer has committed, and in
/// whichever mode the newer one is opened.
pub fn whatever_is_open_is_fenced(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "parity");
    let topic = stage.topic("t", 1)?;
    let mut expected = Vec::new();
    for (commits, plain) in [(0, false), (1, false), (2, true), (3, true)] {
        let id = format!("p{commits}");
        let mut old = stage.transactional(&id)?;
        for _ in 0..commits {
            commit(old.as_mut(), numbered(&topic, 0, &id, 1))?;
            expected.push(format!("{id}0"));
        }
        old.begin()?;
        old.send(&mut numbered(&topic, 0, "left", 1))?;
        old.flush(WAIT)?;
        let new = if plain {
            stage.plain(&id)?
        } else {
            stage.transactional(&id)?
        };
        fenced(old.commit(WAIT), "commit")?;
        fenced(old.begin(), "begin")?;
        drop(new);
    }
    let seen = values(&stage.all(&[TopicPartition::new(topic, 0)], expected.len())?);
    promise!(seen == expected, "of {expected:?} came {seen:?}");
    Ok(())
}

/// The same in plain mode: at the latest when offsets are committed, and those offsets are lost.
pub fn newer_plain_producer_fences(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "plainfence");
    let topic = stage.topic("t", 1)?;
    let group = stage.name("group");
    let part = TopicPartition::new(topic, 0);
    let cut = |offset| {
        [CutEntry {
            partition: part.clone(),
            offset: Offset(offset),
            metadata: String::new(),
        }]
    };
    let mut old = stage.plain("p")?;
    old.begin()?;
    old.offsets(&group, &cut(1), WAIT)?;
    old.commit(WAIT)?;
    let mut new = stage.plain("p")?;
    let stopped = old
        .begin()
        .and_then(|()| old.offsets(&group, &cut(2), WAIT))
        .and_then(|()| old.commit(WAIT));
    fenced(stopped, "begin, offsets, commit")?;
    let found = broker.committed(&group, std::slice::from_ref(&part), WAIT)?;
    promise!(
        found[0].as_ref().map(|c| c.offset.0) == Some(1),
        "an older producer's offsets were taken: {found:?}"
    );
    new.begin()?;
    new.offsets(&group, &cut(3), WAIT)?;
    new.commit(WAIT)?;
    let found = broker.committed(&group, &[part], WAIT)?;
    promise!(
        found[0].as_ref().map(|c| c.offset.0) == Some(3),
        "the newer producer's offsets were refused: {found:?}"
    );
    Ok(())
}

/// If a producer claims that its records are fenced, they are; a transactional one always claims so.
pub fn fenced_sends_are_refused(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "sends");
    let topic = stage.topic("t", 1)?;
    let transactional = stage.transactional("q")?.sends_are_fenced();
    promise!(transactional, "a transaction whose records are not fenced");
    let mut old = stage.plain("p")?;
    if !old.sends_are_fenced() {
        return Ok(());
    }
    let mut new = stage.plain("p")?;
    let sent = old
        .send(&mut numbered(&topic, 0, "old", 2))
        .and_then(|()| old.flush(WAIT));
    fenced(sent, "send, flush")?;
    new.send(&mut numbered(&topic, 0, "new", 2))?;
    new.flush(WAIT)?;
    let seen = values(&stage.all(&[TopicPartition::new(topic, 0)], 2)?);
    promise!(seen == ["new0", "new1"], "a fenced producer wrote {seen:?}");
    Ok(())
}

/// Committing the same offsets again checks the fence: an older producer learns that it is fenced before
/// it commits.
pub fn standing_offsets_ask_for_the_fence(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "ask");
    let topic = stage.topic("t", 1)?;
    let group = stage.name("group");
    let part = TopicPartition::new(topic, 0);
    let standing = [CutEntry {
        partition: part.clone(),
        offset: Offset(1),
        metadata: "standing".into(),
    }];
    let mut old = stage.plain("p")?;
    for _ in 0..3 {
        old.begin()?;
        old.offsets(&group, &standing, WAIT)?;
        old.commit(WAIT)?;
    }
    let new = stage.plain("p")?;
    let told = old
        .begin()
        .and_then(|()| old.offsets(&group, &standing, WAIT));
    fenced(told, "begin, offsets")?;
    drop(new);
    let found = broker.committed(&group, &[part], WAIT)?;
    promise!(
        found[0].as_ref().map(|c| c.metadata.as_str()) == Some("standing"),
        "the offsets became {found:?}"
    );
    Ok(())
}

/// Producers of different ids write side by side.
pub fn ids_do_not_fence_each_other(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "ids");
    let topic = stage.topic("t", 1)?;
    let (mut one, mut two) = (stage.transactional("one")?, stage.transactional("two")?);
    commit(one.as_mut(), numbered(&topic, 0, "one", 1))?;
    commit(two.as_mut(), numbered(&topic, 0, "two", 1))?;
    commit(one.as_mut(), numbered(&topic, 0, "three", 1))?;
    let seen = values(&stage.all(&[TopicPartition::new(topic, 0)], 3)?);
    promise!(seen == ["one0", "two0", "three0"], "two ids wrote {seen:?}");
    Ok(())
}
