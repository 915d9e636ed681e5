//! When brokers are sent fetches, and for how long they are not.

use super::faults::FaultyBroker;
use super::{WAIT, open, reader, written};
use crate::kafka::native::consumer::reader::MAX_FETCH_PAUSE;
use crate::{CommitOutcome, Consumer, Producer};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use stoatflow_core::{Clock, ErrorKind, Offset, SystemClock, TopicPartition};

#[test]
fn caught_up_brokers_are_not_fetched_until_needed() {
    let broker = FaultyBroker::start(1, 0, true);
    let topic: Arc<str> = "rest".into();
    let mut writer = open(&broker, "rest");
    writer.begin().unwrap();
    written(&mut writer, &topic, "one").unwrap();
    assert_eq!(writer.commit(WAIT).unwrap(), CommitOutcome::Committed);

    let mut reader = reader(&broker, 1 << 10);
    reader.place(&[(TopicPartition::new(topic.clone(), 0), Offset(0))]);
    let mut came = Vec::new();
    let clock = SystemClock::new();
    while !reader.caught_up(0) {
        assert!(clock.monotonic() < WAIT);
        reader.poll(10, WAIT / 100, &mut came).unwrap();
    }
    assert_eq!(came.len(), 1);
    let mut asked_in = |time: Duration| {
        let before = broker.kept.lock().fetches;
        let clock = SystemClock::new();
        reader.poll(10, time, &mut came).unwrap();
        // On a slow machine there are fewer fetches, or the poll takes longer.
        let took = clock.monotonic();
        (broker.kept.lock().fetches - before, took)
    };
    // This broker answers at once even if it has no records: without a pause there would be thousands of
    // fetches.
    let often = (0..50).any(|_| {
        let (fetches, took) = asked_in(Duration::from_millis(200));
        let most = u32::try_from(took.as_millis() / 3).unwrap() + 2;
        assert!(fetches <= most, "{fetches} in {took:?}");
        fetches >= 3
    });
    assert!(often, "never asked again in a poll");
    // Polls shorter than the pause: a fetch is sent in time for the end of each. With the pause alone
    // there would be seven, as there are if the broker gets no CPU time.
    let mut most = 0_u32;
    for _ in 0..200 {
        most = most.max((0..20).map(|_| asked_in(Duration::from_millis(1)).0).sum());
        if most >= 15 {
            break;
        }
    }
    assert!(most >= 15, "{most} in 20 polls");
}

/// A deferred reader sends no fetch before its time, and returns what has arrived before it fetches
/// more.
#[test]
fn deferred_fetches_are_sent_once_and_at_the_end() {
    let broker = FaultyBroker::start(1, 0, true);
    let topic: Arc<str> = "later".into();
    let mut writer = open(&broker, "later");
    let mut write = |value: &str| {
        writer.begin().unwrap();
        written(&mut writer, &topic, value).unwrap();
        assert_eq!(writer.commit(WAIT).unwrap(), CommitOutcome::Committed);
    };
    write("one");
    let mut reader = reader(&broker, 1 << 10);
    reader.place(&[(TopicPartition::new(topic.clone(), 0), Offset(0))]);
    let mut came = Vec::new();
    let clock = SystemClock::new();
    while !reader.caught_up(0) {
        reader.poll(10, WAIT / 100, &mut came).unwrap();
    }
    let fetches = || broker.kept.lock().fetches;
    while reader.has_asked() {
        reader.defer_fetch(Some(WAIT));
        (reader.poll(10, Duration::from_millis(1), &mut came)).unwrap();
    }
    write("two");
    came.clear();
    let (before, time) = (fetches(), Duration::from_millis(8));
    let deferred = SystemClock::new();
    reader.defer_fetch(Some(time));
    reader.poll(10, time / 4, &mut came).unwrap();
    // On a slow machine the longest pause may be over: then the fetch is sent, and answered, at once.
    let is_slow = || clock.monotonic() >= MAX_FETCH_PAUSE;
    assert!(fetches() == before || is_slow());
    if came.is_empty() {
        reader.poll(10, WAIT, &mut came).unwrap();
    }
    assert_eq!(came.len(), 1);
    assert!(deferred.monotonic() >= time || is_slow());
    assert_eq!((fetches(), reader.has_asked()), (before + 1, false));
    // However long it is deferred, the broker is asked at least every `MAX_FETCH_PAUSE`.
    write("three");
    reader.defer_fetch(Some(WAIT * 10));
    reader.poll(10, WAIT, &mut came).unwrap();
    assert_eq!(came.len(), 2);
    let usual = reader.usual_answer();
    assert!(
        !usual.is_zero() && usual <= Duration::from_millis(4),
        "{usual:?}"
    );
    // If not everything fits into one answer, its records are returned before the rest is fetched.
    for _ in 0..2 {
        write(&"large".repeat(300));
    }
    came.clear();
    reader.defer_fetch(Some(WAIT * 10));
    reader.poll(10, WAIT, &mut came).unwrap();
    assert_eq!((came.len(), reader.has_asked()), (1, false));
    while came.len() < 2 {
        reader.poll(10, WAIT, &mut came).unwrap();
    }
    assert!(clock.monotonic() < WAIT);
}

/// With the same leader, epoch and offsets, nothing but the topic's id tells it from the old one.
#[test]
fn a_topic_that_was_created_again_is_not_read() {
    let broker = FaultyBroker::start(1, 0, true);
    let topic: Arc<str> = "again".into();
    let mut writer = open(&broker, "again");
    let mut write = |value: &str| {
        writer.begin().unwrap();
        written(&mut writer, &topic, value).unwrap();
        assert_eq!(writer.commit(WAIT).unwrap(), CommitOutcome::Committed);
    };
    write("old");
    let mut reader = reader(&broker, 1 << 10);
    reader.place(&[(TopicPartition::new(topic.clone(), 0), Offset(0))]);
    let (mut came, clock) = (Vec::new(), SystemClock::new());
    while came.is_empty() {
        reader.poll(10, WAIT / 100, &mut came).unwrap();
    }
    *broker.kept.lock().recreated.get_mut("again").unwrap() += 1;
    write("new");
    let error = loop {
        match reader.poll(10, WAIT / 100, &mut came) {
            Ok(()) => assert!(clock.monotonic() < WAIT),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
    let words = "again-0 was deleted while it was read, and another topic has its name now";
    assert!(error.to_string().contains(words), "{error}");
    assert_eq!(came.len(), 1, "nothing of the new topic");
}

/// The usual time is that of the broker's answers, not the time in which nothing was written or polled.
#[test]
fn how_long_answers_take_is_what_records_took_to_come() {
    let broker = FaultyBroker::start(1, 0, true);
    let topic: Arc<str> = "usual".into();
    let mut writer = open(&broker, "usual");
    let mut write = || {
        writer.begin().unwrap();
        written(&mut writer, &topic, "value").unwrap();
        assert_eq!(writer.commit(WAIT).unwrap(), CommitOutcome::Committed);
    };
    write();
    let mut reader = reader(&broker, 1 << 10);
    reader.place(&[(TopicPartition::new(topic.clone(), 0), Offset(0))]);
    let mut came = Vec::new();
    while came.is_empty() || !reader.caught_up(0) {
        reader.poll(10, WAIT / 100, &mut came).unwrap();
    }
    let usual = reader.usual_answer();
    assert!(!usual.is_zero());
    (reader.poll(10, Duration::from_millis(30), &mut came)).unwrap();
    assert_eq!(reader.usual_answer(), usual, "answers without records");
    // Fetched, and polled much later.
    let (_held, never) = channel::<()>();
    for round in 0..20 {
        write();
        while !reader.has_asked() && came.len() == round + 1 {
            reader.poll(10, Duration::ZERO, &mut came).unwrap();
        }
        never.recv_timeout(Duration::from_millis(20)).unwrap_err();
        while came.len() < round + 2 {
            reader.poll(10, WAIT / 100, &mut came).unwrap();
        }
    }
    let usual = reader.usual_answer();
    assert!(usual <= Duration::from_millis(4), "{usual:?}");
}
