//! What clients count of their requests and connections.

use super::faults::FaultyBroker;
use super::{WAIT, producer, reader_of, record, written};
use crate::kafka::native::NativeConfig;
use crate::{ClientCounts, CommitOutcome, Consumer, Producer, RequestCounts};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Clock, Offset, SystemClock, TopicPartition};

fn counts(config: &NativeConfig) -> ClientCounts {
    config.context.counters.counts("test")
}

fn of(counts: &ClientCounts, api: &str) -> RequestCounts {
    let found = counts.requests.iter().find(|of| of.api == api);
    found.cloned().unwrap_or_default()
}

/// Connections may still be opened by a thread when their client is dropped.
fn all_closed(config: &NativeConfig) -> bool {
    let clock = SystemClock::new();
    while counts(config).connections.open() > 0 && clock.monotonic() < WAIT {
        config
            .context
            .network
            .wait(&mut [], Duration::from_millis(5));
    }
    counts(config).connections.open() == 0
}

#[test]
fn requests_are_counted_as_the_broker_gets_them() {
    let broker = FaultyBroker::start(1, 0, true);
    let bootstrap = format!("127.0.0.1:{}", broker.port);
    let config = NativeConfig::plaintext(&bootstrap);
    let topic: Arc<str> = "counted".into();
    let mut writer = producer(&config, "counted", WAIT);
    writer.open(WAIT).unwrap();
    writer.begin().unwrap();
    written(&mut writer, &topic, &"x".repeat(5_000)).unwrap();
    assert_eq!(writer.commit(WAIT).unwrap(), CommitOutcome::Committed);
    let told = counts(&config);
    let (produce, end) = (of(&told, "Produce"), of(&told, "EndTxn"));
    assert_eq!(produce.sent, u64::from(broker.kept.lock().produces));
    assert_eq!(produce.durations.count(), produce.sent);
    assert_eq!((end.sent, end.durations.count()), (1, 1));
    // 5,000 bytes went there, and a short acknowledgement came back.
    assert!((5_001..5_400).contains(&produce.sent_bytes), "{produce:?}");
    assert!((10..200).contains(&produce.received_bytes), "{produce:?}");
    assert!(!produce.durations.sum.is_zero() && produce.durations.sum < WAIT);
    assert!(told.connections.opened >= 2, "{told:?}");
    assert_eq!(of(&told, "ApiVersions").sent, told.connections.opened);
    let quiet = |of: &RequestCounts| of.unanswered == 0 && of.retried == 0 && of.errors.is_empty();
    assert!(told.requests.iter().all(quiet), "{told:?}");
    assert_eq!((told.connections.failed, told.connections.reopened), (0, 0));

    let read_by = NativeConfig::plaintext(&bootstrap);
    let mut reader = reader_of(&read_by, 1 << 20);
    reader.place(&[(TopicPartition::new(topic, 0), Offset(0))]);
    let mut came = Vec::new();
    while came.is_empty() {
        reader.poll(10, WAIT, &mut came).unwrap();
    }
    let fetch = of(&counts(&read_by), "Fetch");
    // The next fetch is sent before the records of an answer are returned.
    let fetches = u64::from(broker.kept.lock().fetches);
    assert!((fetches..=fetches + 1).contains(&fetch.sent), "{fetch:?}");
    assert!(fetch.received_bytes > 5_000, "{fetch:?}");
    assert!(counts(&config).connections.open() > 0);
    drop((writer, reader));
    // A client that is closed waits for no answer any more: none is missing.
    assert!(all_closed(&config) && all_closed(&read_by));
    assert_eq!(of(&counts(&read_by), "Fetch").unanswered, 0);
    assert_eq!(of(&counts(&config), "Fetch"), RequestCounts::default());
}

#[test]
fn faults_are_counted() {
    let broker = FaultyBroker::start(3, 4, true);
    let config = NativeConfig::plaintext(&format!("127.0.0.1:{}", broker.port));
    let topic: Arc<str> = "faulty".into();
    let mut writer = producer(&config, "faulty", WAIT);
    writer.open(WAIT).unwrap();
    let clock = SystemClock::new();
    let mut told = counts(&config);
    let seen = |told: &ClientCounts| {
        let any = |of: fn(&RequestCounts) -> bool| told.requests.iter().any(of);
        let produce = of(told, "Produce");
        any(|of| !of.errors.is_empty())
            && (produce.unanswered > 0 && produce.retried > 0)
            && any(|of| of.api == "EndTxn" && of.retried > 0)
            && told.connections.reopened > 0
    };
    while !seen(&told) {
        assert!(clock.monotonic() < WAIT, "{told:?}");
        writer.begin().unwrap();
        writer
            .send(&mut vec![record(&topic, 0, b"one".to_vec())])
            .unwrap();
        assert_eq!(writer.commit(WAIT).unwrap(), CommitOutcome::Committed);
        told = counts(&config);
    }
    for of in &told.requests {
        // Those of connections that never opened count as failed connections.
        let answered = of.durations.count() + of.unanswered;
        assert!(of.sent == answered || of.api == "ApiVersions", "{of:?}");
    }
    assert!(told.connections.reopened <= told.connections.opened);
    drop(writer);
    assert!(all_closed(&config), "{:?}", counts(&config));
}

#[test]
fn failed_attempts_are_counted() {
    let broker = FaultyBroker::start(1, 0, true);
    let config = NativeConfig::plaintext(&format!("127.0.0.1:{}", broker.port));
    drop(broker);
    let mut writer = producer(&config, "no-broker", WAIT);
    writer.open(Duration::from_millis(300)).unwrap_err();
    let told = counts(&config);
    assert!(told.connections.failed > 0, "{told:?}");
    assert_eq!((told.connections.opened, told.connections.open()), (0, 0));
}
