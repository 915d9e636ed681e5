//! Metrics of the Kafka clients.

use super::exposition::samples;
use super::fixture::Port;

#[test]
fn clients_are_written_by_role_and_api() {
    let port = Port::running();
    let text = port.ask("GET", "/metrics").2;
    let samples = samples(&text);
    let value = |name: &str, label: &str| {
        let found = samples.iter().find(|(series, _)| {
            series.starts_with(&format!("stoatflow_client_{name}{{")) && series.contains(label)
        });
        let (series, value) = found.unwrap_or_else(|| panic!("{name} {label} is not in\n{text}"));
        assert!(series.contains("client=\"consumer\""), "{series}");
        *value
    };
    let api = "api=\"Fetch\"";
    for (name, label, wanted) in [
        ("requests_total", api, 9.0),
        ("request_duration_seconds_count", api, 7.0),
        ("request_duration_seconds_sum", api, 0.014),
        ("request_duration_seconds_bucket", "le=\"0.001\"", 0.0),
        ("request_duration_seconds_bucket", "le=\"0.005\"", 7.0),
        ("request_duration_seconds_bucket", "le=\"+Inf\"", 7.0),
        ("requests_unanswered_total", api, 1.0),
        ("retries_total", api, 3.0),
        ("errors_total", "error=\"NOT_LEADER_OR_FOLLOWER\"", 1.0),
        ("throttle_seconds_total", api, 0.25),
        ("sent_bytes_total", api, 700.0),
        ("received_bytes_total", api, 7_000.0),
        ("connections", "", 3.0),
        ("connections_opened_total", "", 5.0),
        ("connections_failed_total", "", 4.0),
        ("connections_closed_total", "", 2.0),
        ("reconnects_total", "", 1.0),
    ] {
        let found = value(name, label);
        assert!((found - wanted).abs() < 1e-9, "{name} is {found}");
    }
}
