use super::names::{FamilyKind, KAFKA_STREAMS_METRICS};
use super::{KafkaStreams, counted_by_kafka_streams, kafka_streams_state};
use crate::admin::status::{CommitStatus, RestoreProgress, Status};
use crate::admin::tests::fixture::{client_counts, plan};
use crate::admin::top::Sample;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_log::ClientCounts;
use stoatflow_operators::dropped;
use stoatflow_protocol::Lifecycle;
use stoatflow_state::StoreSize;

const NOW_MS: i64 = 1_700_000_100_000;

/// The metrics of an application that has worked for half a minute.
fn written() -> String {
    let status = Arc::new(Status::new("shop", Arc::new(plan()), 2));
    status.set_clients(vec![client_counts(10), of_the_others("admin")]);
    let before = Sample::take(&status, Duration::from_secs(100));
    let producer = of_the_others("producer");
    status.set_clients(vec![client_counts(40), producer, of_the_others("admin")]);
    status.lanes[1].records.store(60, Relaxed);
    status.nodes[0].store(90, Relaxed);
    status.nodes[1].store(500, Relaxed);
    status.records_in.store(90, Relaxed);
    status.records_out.store(30, Relaxed);
    status.changelog_out.store(15, Relaxed);
    status.dropped("by-word", "null_key", 3);
    status.dropped("unique", dropped::DUPLICATE, 100);
    status.restoring(RestoreProgress {
        store: "counts".to_owned(),
        total: 200,
        done: 50,
        ..RestoreProgress::default()
    });
    for (ago_ms, commit_us) in [(90_000, 9_000_000), (9_000, 4_000), (8_000, 12_000)] {
        status.committed(CommitStatus {
            align_us: 1_000_000,
            commit_us,
            apply_us: 1_000,
            at_ms: NOW_MS - ago_ms,
            ..CommitStatus::default()
        });
    }
    let size = StoreSize {
        keys: 9,
        disk_bytes: 4_096,
        memory_bytes: 77,
    };
    let mut registry = Registry::default();
    registry.register_collector(Box::new(KafkaStreams {
        now: Sample::take(&status, Duration::from_secs(130)),
        before: Some(before),
        status,
        stores: vec![("counts".to_owned(), size)],
        version: "1.2.3",
        now_ms: NOW_MS,
    }));
    let mut text = String::new();
    text::encode_registry(&mut text, &registry).unwrap();
    text
}

/// Another client's counts: 20 answers to Produce requests.
fn of_the_others(client: &'static str) -> ClientCounts {
    let mut counts = client_counts(20);
    counts.client = client;
    counts.requests[0].api = "Produce".to_owned();
    counts
}

#[test]
fn all_of_the_table_is_written_and_nothing_else() {
    let text = written();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let written: BTreeMap<String, &str> = types
        .map(|line| {
            let (name, kind) = line.split_once(' ').unwrap();
            let ending = if kind == "counter" { "_total" } else { "" };
            (format!("{name}{ending}"), kind)
        })
        .collect();
    let table = KAFKA_STREAMS_METRICS.iter().map(|metric| {
        let kind = match metric.kind {
            FamilyKind::Counter => "counter",
            FamilyKind::Gauge => "gauge",
        };
        (metric.name.to_owned(), kind)
    });
    assert_eq!(written, table.collect());
    let samples: BTreeSet<_> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.rsplit_once(' ').unwrap().0)
        .collect();
    for metric in KAFKA_STREAMS_METRICS {
        let has = |series: &&str| series.split('{').next() == Some(metric.name);
        // The application reads no partition.
        let wanted = !metric.name.ends_with("records_lag");
        assert_eq!(samples.iter().any(has), wanted, "{}", metric.name);
    }
}

#[test]
fn numbers_are_those_of_the_last_minute() {
    let text = written();
    let value = |series: &str| -> f64 {
        let found = text.lines().find_map(|line| line.strip_prefix(series));
        let found = found.unwrap_or_else(|| panic!("{series} is not in\n{text}"));
        found.trim().parse().unwrap()
    };
    let close = |series: &str, wanted: f64| {
        let found = value(&format!("kafka_{series}"));
        assert!(
            (found - wanted).abs() < 1e-9,
            "{series} is {found}, not {wanted}"
        );
    };
    let lane = "{thread_id=\"shop-lane-1\"}";
    close(
        &format!("streams_stream_thread_metrics_process_total{lane}"),
        60.0,
    );
    close(
        &format!("streams_stream_thread_metrics_process_rate{lane}"),
        2.0,
    );
    let commit = "{thread_id=\"shop-commit\"}";
    close(
        &format!("streams_stream_thread_metrics_commit_total{commit}"),
        3.0,
    );
    close(
        &format!("streams_stream_thread_metrics_commit_rate{commit}"),
        0.1,
    );
    // Without the time spent waiting for lanes, and without the commit of a minute and a half ago.
    close(
        &format!("streams_stream_thread_metrics_commit_latency_avg{commit}"),
        9.0,
    );
    close(
        &format!("streams_stream_thread_metrics_commit_latency_max{commit}"),
        13.0,
    );
    close("streams_stream_task_metrics_dropped_records_total ", 3.0);
    close("streams_stream_task_metrics_dropped_records_rate ", 0.1);
    close(
        "streams_stream_task_metrics_restore_remaining_records_total ",
        150.0,
    );
    let source = "{processor_node_id=\"lines-source\"}";
    close(
        &format!("streams_stream_processor_node_metrics_process_total{source}"),
        90.0,
    );
    close(
        &format!("streams_stream_processor_node_metrics_process_rate{source}"),
        3.0,
    );
    assert!(!text.contains("split"), "only source nodes");
    let store = "{rocksdb_state_id=\"counts\"}";
    close(
        &format!("streams_stream_state_metrics_estimate_num_keys{store}"),
        9.0,
    );
    close(
        &format!("streams_stream_state_metrics_live_sst_files_size{store}"),
        4_096.0,
    );
    close(
        &format!("streams_stream_state_metrics_cur_size_all_mem_tables{store}"),
        77.0,
    );
    close(
        "consumer_consumer_fetch_manager_metrics_records_consumed_rate ",
        3.0,
    );
    close("producer_producer_metrics_record_send_total ", 45.0);
    close("producer_producer_metrics_record_send_rate ", 1.5);
    // 30 more fetches of 2 ms in half a minute, and what was there before it.
    let consumer = "consumer_consumer_metrics";
    close(&format!("{consumer}_request_total "), 42.0);
    close(&format!("{consumer}_request_rate "), 1.0);
    close(&format!("{consumer}_outgoing_byte_total "), 4_000.0);
    close(&format!("{consumer}_outgoing_byte_rate "), 100.0);
    close(&format!("{consumer}_incoming_byte_rate "), 1_000.0);
    close(&format!("{consumer}_connection_count "), 3.0);
    close(&format!("{consumer}_connection_creation_total "), 5.0);
    close(&format!("{consumer}_connection_close_total "), 2.0);
    let fetches = "consumer_consumer_fetch_manager_metrics_fetch";
    close(&format!("{fetches}_total "), 42.0);
    close(&format!("{fetches}_rate "), 1.0);
    close(&format!("{fetches}_latency_avg "), 2.0);
    close("producer_producer_metrics_request_latency_avg ", 2.0);
    close("producer_producer_metrics_request_total ", 22.0);
    close("admin_client_admin_client_metrics_request_total ", 22.0);
    close("admin_client_admin_client_metrics_request_rate ", 0.0);
}

#[test]
fn without_a_commit_a_latency_is_no_number() {
    let status = Arc::new(Status::new("shop", Arc::new(plan()), 1));
    let mut registry = Registry::default();
    registry.register_collector(Box::new(KafkaStreams {
        now: Sample::take(&status, Duration::from_secs(1)),
        before: None,
        status,
        stores: Vec::new(),
        version: "1.2.3",
        now_ms: NOW_MS,
    }));
    let mut text = String::new();
    text::encode_registry(&mut text, &registry).unwrap();
    let name = "kafka_streams_stream_thread_metrics_commit_latency_";
    for of in ["avg", "max"] {
        assert!(
            text.contains(&format!("{name}{of}{{thread_id=\"shop-commit\"}} NaN")),
            "{text}"
        );
    }
    assert!(
        !text.contains("\nkafka_consumer_consumer_metrics_request_total"),
        "a client that doesn't count has no samples: {text}"
    );
    assert!(
        text.contains("alive_stream_threads 0.0"),
        "it was not started: {text}"
    );
}

#[test]
fn states_and_drops_are_theirs() {
    let numbers: Vec<_> = Lifecycle::ALL
        .map(|state| kafka_streams_state(state).0)
        .to_vec();
    assert_eq!(numbers, [0, 1, 1, 2, 2, 3, 4, 6]);
    assert!(counted_by_kafka_streams(dropped::NULL_KEY) && counted_by_kafka_streams(dropped::LATE));
    assert!(!counted_by_kafka_streams(dropped::DUPLICATE));
}
