//! Metrics under Kafka Streams' names, through real requests.

use super::fixture::{NOW_MS, Port, partition};
use std::sync::atomic::Ordering::Relaxed;

#[test]
fn names_of_kafka_streams_are_asked_for() {
    let port = Port::running();
    port.status.records_in.store(11, Relaxed);
    port.status
        .report_partitions(vec![partition(0, 10, 30, NOW_MS)]);
    let text = port.ask("GET", "/metrics?names=kafka-streams").2;
    let has = |sample: &str| {
        let found = text.lines().any(|line| line == sample);
        assert!(found, "{sample} is not in\n{text}");
    };
    has("kafka_streams_stream_metrics{client_id=\"word-count\",state=\"RUNNING\"} 1.0");
    has(
        "kafka_consumer_consumer_fetch_manager_metrics_records_consumed_total{client_id=\"word-count\"} 11",
    );
    // The position is 5 past the committed offset, so the lag is 15.
    let of = "client_id=\"word-count\",topic=\"lines\",partition=\"0\"";
    has(&format!(
        "kafka_consumer_consumer_fetch_manager_metrics_records_lag{{{of}}} 15.0"
    ));
    let is_ours = |line: &str| line.starts_with("stoatflow_");
    assert!(!text.lines().any(is_ours), "twice would be one too many");
    assert!(text.ends_with("# EOF\n"));
    let plain = port.ask_with(
        "GET",
        "/metrics?names=kafka-streams",
        "Host: localhost\r\nAccept: text/plain\r\n",
    );
    assert!(plain.2.contains(
        "# TYPE kafka_consumer_consumer_fetch_manager_metrics_records_consumed_total counter"
    ));
    assert_eq!(
        port.ask("GET", "/metrics?names=stoatflow").2.lines().next(),
        port.ask("GET", "/metrics").2.lines().next()
    );
    let (code, head, body) = port.ask("GET", "/metrics?names=java");
    assert_eq!(code, 400);
    assert!(head.contains("application/problem+json"), "{head}");
    assert!(body.contains("?names=kafka-streams"), "{body}");
    assert_eq!(
        port.ask("GET", "/metrics?debug=1").0,
        200,
        "scrapers may add parameters"
    );
}
