//! Topics: created once, found by name.

use super::stage::{Stage, WAIT, commit, numbered, promise, record, values};
use crate::{Broker, NewTopic};
use std::sync::Arc;
use stoatflow_core::{ErrorKind, Offset, Result, TopicPartition};

/// Creating a topic that exists leaves it as it is; a missing one is `None`; answers are in the order
/// asked.
pub fn topics_are_made_once(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "make");
    let (one, two, none) = (stage.name("one"), stage.name("two"), stage.name("none"));
    let topic = |name: &str, partitions| NewTopic {
        name: name.to_owned(),
        partitions,
        replication: -1,
        config: vec![("cleanup.policy".to_owned(), "compact".to_owned())],
    };
    broker.create_topics(&[topic(&one, 3)], WAIT)?;
    broker.create_topics(&[topic(&one, 5), topic(&two, 2)], WAIT)?;
    broker.create_topics(&[topic(&two, 2)], WAIT)?;
    broker.create_topics(&[], WAIT)?;
    let found = broker.topics(&[&two, &none, &one], WAIT)?;
    let found: Vec<_> = found
        .iter()
        .map(|t| t.as_ref().map(|t| (t.name.to_string(), t.partitions)))
        .collect();
    promise!(
        found == [Some((two.clone(), 2)), None, Some((one.clone(), 3))],
        "the topics are {found:?}"
    );
    let names = broker.topic_names(WAIT)?;
    for name in [&one, &two] {
        promise!(
            names.iter().any(|n| **n == **name),
            "{name} is not among all topics"
        );
    }
    promise!(names.is_sorted(), "the names of topics are in no order");
    Ok(())
}

/// A deleted topic is missing, deleting one that doesn't exist is no error, one created again is empty;
/// others are untouched.
pub fn topics_are_deleted(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "delete");
    let (gone, kept) = (stage.topic("gone", 2)?, stage.topic("kept", 1)?);
    let none = stage.name("none");
    let part = |topic: &Arc<str>, p| TopicPartition::new(topic.clone(), p);
    let mut producer = stage.transactional("p")?;
    for topic in [&gone, &kept] {
        commit(producer.as_mut(), numbered(topic, 0, "old", 5))?;
    }
    let (producer, _) = stage.settled(producer, "p", &[part(&gone, 0), part(&kept, 0)])?;
    drop(producer);
    broker.delete_topics(&[&gone, &none, &gone], WAIT)?;
    let found = broker.topics(&[&gone, &kept, &none], WAIT)?;
    promise!(
        found[0].is_none() && found[1].is_some() && found[2].is_none(),
        "after '{gone}' was deleted the topics are {found:?}"
    );
    let named = broker.topic_names(WAIT)?;
    promise!(
        !named.contains(&gone) && named.contains(&kept),
        "after '{gone}' was deleted the names are {named:?}"
    );
    let ranges = broker.ranges(&[part(&gone, 0)], WAIT);
    promise!(
        ranges
            .as_ref()
            .is_err_and(|e| e.kind() == ErrorKind::MissingTopic),
        "ranges of a deleted topic are {ranges:?}"
    );
    broker.delete_topics(&[&gone, &none], WAIT)?;
    broker.delete_topics(&[], WAIT)?;
    let left = stage.all(&[part(&kept, 0)], 5)?.len();
    promise!(left == 5, "{left} of 5 records of another topic are left");
    let again = stage.topic("gone", 3)?;
    let parts: Vec<_> = (0..3).map(|p| part(&again, p)).collect();
    let ends = broker.ranges(&parts, WAIT)?;
    promise!(
        ends.iter()
            .all(|r| (r.begin, r.stable_end) == (Offset(0), Offset(0))),
        "a topic that was made again has the ranges {ends:?}"
    );
    let mut producer = stage.transactional("p")?;
    commit(producer.as_mut(), numbered(&again, 0, "new", 2))?;
    let read = stage.all(&parts, 2)?;
    promise!(
        values(&read) == ["new0", "new1"] && read[0].offset == Offset(0),
        "a topic that was made again holds {read:?}"
    );
    Ok(())
}

/// Writing to a topic that doesn't exist is refused with its name, and doesn't create it.
pub fn a_missing_topic_is_named(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "missing");
    let name = stage.name("none");
    let mut producer = stage.transactional("p")?;
    producer.begin()?;
    let refused = producer
        .send(&mut vec![record(
            &name.as_str().into(),
            None,
            Some("k"),
            "v",
        )])
        .and_then(|()| producer.flush(WAIT));
    match refused {
        Err(e) if e.kind() == ErrorKind::MissingTopic && e.to_string().contains(&name) => {}
        other => promise!(
            false,
            "writing to the missing topic '{name}' gave {other:?}"
        ),
    }
    producer.abort(WAIT)?;
    promise!(
        broker.topics(&[&name], WAIT)? == [None],
        "writing to a missing topic made it"
    );
    let ranges = broker.ranges(&[TopicPartition::new(name.as_str(), 0)], WAIT);
    promise!(
        ranges
            .as_ref()
            .is_err_and(|e| e.kind() == ErrorKind::MissingTopic),
        "ranges of a missing topic are {ranges:?}"
    );
    Ok(())
}

/// The stable end moves with commits only.
pub fn ranges_follow_commits(broker: &dyn Broker, tag: &str) -> Result<()> {
    let stage = Stage::new(broker, tag, "ranges");
    let topic = stage.topic("t", 2)?;
    let parts = [
        TopicPartition::new(topic.clone(), 1),
        TopicPartition::new(topic.clone(), 0),
    ];
    let ends = || -> Result<Vec<(Offset, Offset)>> {
        Ok(broker
            .ranges(&parts, WAIT)?
            .iter()
            .map(|r| (r.begin, r.stable_end))
            .collect())
    };
    let zero = (Offset(0), Offset(0));
    promise!(
        ends()? == [zero, zero],
        "an empty topic has the ranges {:?}",
        ends()?
    );
    let mut producer = stage.transactional("p")?;
    producer.begin()?;
    producer.send(&mut numbered(&topic, 0, "a", 5))?;
    producer.flush(WAIT)?;
    promise!(
        ends()? == [zero, zero],
        "an open transaction moved the stable end: {:?}",
        ends()?
    );
    producer.commit(WAIT)?;
    stage.all(&parts, 5)?;
    let after = ends()?;
    promise!(
        after[0] == zero,
        "a partition nobody wrote to moved: {after:?}"
    );
    // A broker may count its commit marker.
    promise!(
        (5..=6).contains(&after[1].1.0),
        "5 records were committed, the stable end is {:?}",
        after[1]
    );
    commit(producer.as_mut(), numbered(&topic, 0, "b", 5))?;
    stage.all(&parts, 10)?;
    promise!(
        ends()?[1].1 > after[1].1,
        "a commit did not move the stable end"
    );
    Ok(())
}
