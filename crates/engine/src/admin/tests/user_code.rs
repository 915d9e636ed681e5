//! What the user's code adds: health checks and metrics.

use super::fixture::{MONOTONIC_MS, Port};
use crate::admin::health_checks::HealthCheck;
use crate::admin::status::{CommitStatus, LaneEnd};
use serde_json::json;
use std::time::Duration;
use stoatflow_core::settings::AdminAccess;
use stoatflow_operators::custom_metrics::{MetricDefinition, MetricKind};
use stoatflow_protocol::{CommitStep, Lifecycle};

const NOW: Duration = Duration::from_millis(MONOTONIC_MS);

fn check(name: &str) -> HealthCheck {
    HealthCheck {
        name: name.to_owned(),
        interval: Duration::from_secs(10),
        timeout: Duration::from_secs(1),
        is_required: true,
    }
}

#[test]
fn readiness_shows_the_last_results_of_health_checks() {
    let port = Port::running();
    let checks = &port.status.health_checks;
    assert!(port.get("/health/ready").1.get("checks").is_none());
    let database = checks.add(check("database"), NOW).unwrap();
    let cache = checks.add(check("cache"), NOW).unwrap();
    let (code, body) = port.get("/health/ready");
    assert_eq!((code, &body["reason"]), (503, &json!("health_check")));
    checks.begin(database, NOW);
    checks.end(database, true, None, NOW);
    // It has hung for two seconds.
    checks.begin(cache, NOW.saturating_sub(Duration::from_secs(2)));
    let (code, body) = port.get("/health/ready");
    assert_eq!(code, 503);
    assert_eq!(body["checks"][0]["status"], "passing");
    assert_eq!(
        (
            &body["checks"][1]["status"],
            &body["checks"][1]["running_ms"]
        ),
        (&json!("timed_out"), &json!(2_000))
    );
    assert!(
        body["detail"]
            .as_str()
            .unwrap()
            .contains("'cache' timed out")
    );
    assert!(!body["next_step"].as_str().unwrap().is_empty());
    assert_eq!(port.get("/health/live").0, 200);
    let metrics = port.ask("GET", "/metrics").2;
    for line in [
        "stoatflow_health_check_passing{application_id=\"word-count\",check=\"database\"} 1",
        "stoatflow_health_check_passing{application_id=\"word-count\",check=\"cache\"} 0",
        "stoatflow_not_ready{application_id=\"word-count\",reason=\"health_check\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} is missing in\n{metrics}");
    }
    let (_, found) = port.get("/doctor");
    let findings = found["findings"].as_array().unwrap();
    assert!(
        findings.iter().any(|found| found["code"] == "health_check"),
        "{found}"
    );
    checks.end(
        cache,
        true,
        None,
        NOW.saturating_sub(Duration::from_millis(1_500)),
    );
    assert_eq!(port.get("/health/ready").0, 200);
}

#[test]
fn other_reasons_come_first() {
    let port = Port::running();
    port.status
        .health_checks
        .add(check("database"), NOW)
        .unwrap();
    port.enter(&[Lifecycle::Paused]);
    assert_eq!(port.get("/health/ready").1["reason"], "paused");
}

#[test]
fn details_of_checks_need_the_token() {
    let port = Port::with(AdminAccess {
        token: Some("0123456789abcdef".to_owned()),
        ..AdminAccess::default()
    });
    port.enter(&[
        Lifecycle::Starting,
        Lifecycle::Restoring,
        Lifecycle::Running,
    ]);
    let checks = &port.status.health_checks;
    let number = checks.add(check("database"), NOW).unwrap();
    checks.end(number, false, Some("secret"), NOW);
    assert!(!port.ask("GET", "/health/ready").2.contains("checks"));
    let authorised = "Host: localhost\r\nAuthorization: Bearer 0123456789abcdef\r\n";
    let (_, _, body) = port.ask_with("GET", "/health/ready", authorised);
    assert!(body.contains("secret"), "{body}");
}

#[test]
fn metrics_of_the_user_are_shown_under_their_names() {
    let port = Port::running();
    let define = |name: &str, kind, labels: &[&str], bounds: &[f64]| {
        let definition = MetricDefinition {
            name: name.to_owned(),
            help: "What \"it\" is".to_owned(),
            kind,
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            bounds: bounds.to_vec(),
            max_series: 1,
        };
        port.status.custom_metrics.define(definition).unwrap()
    };
    let orders = define("orders", MetricKind::Counter, &["shop"], &[]);
    orders.series(vec!["a\"b\n".to_owned()]).add(2.0);
    orders.series(vec!["c".to_owned()]).add(1.0);
    define("unset", MetricKind::Gauge, &[], &[]);
    let wait = define("wait", MetricKind::Histogram, &[], &[0.5]);
    let series = wait.series(Vec::new());
    series.observe(&[0.5], 0.25);
    series.observe(&[0.5], 2.0);
    let (_, _, text) = port.ask("GET", "/metrics");
    for line in [
        "# HELP orders What \\\"it\\\" is\n# TYPE orders counter\n",
        "orders_total{application_id=\"word-count\",shop=\"a\\\"b\\n\"} 2.0\n",
        "orders_total{application_id=\"word-count\",shop=\"_other\"} 1.0\n",
        "stoatflow_custom_metric_overflows_total{application_id=\"word-count\",metric=\"orders\"} 1\n",
        "wait_bucket{application_id=\"word-count\",le=\"0.5\"} 1\n",
        "wait_bucket{application_id=\"word-count\",le=\"+Inf\"} 2\n",
        "wait_sum{application_id=\"word-count\"} 2.25\n",
        "wait_count{application_id=\"word-count\"} 2\n",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    assert!(!text.contains("# TYPE unset "), "it has no value");
    assert!(text.ends_with("# EOF\n"));
    let plain = port
        .ask_with(
            "GET",
            "/metrics",
            "Host: localhost\r\nAccept: text/plain\r\n",
        )
        .2;
    assert!(
        plain.contains("# HELP orders_total What \"it\" is\n"),
        "{plain}"
    );
    let (_, _, theirs) = port.ask("GET", "/metrics?names=kafka-streams");
    assert!(theirs.contains("orders_total{") && theirs.ends_with("# EOF\n"));
}

#[test]
fn barriers_show_steps_and_lanes() {
    let port = Port::running();
    let lane = LaneEnd {
        lane: 1,
        reached_us: 10,
        passed_us: 20,
        aligned_us: 300,
        sealed_us: 310,
    };
    let mut commit = CommitStatus {
        epoch: 7,
        lanes: vec![lane],
        ..CommitStatus::default()
    };
    commit.took(CommitStep::Flush, 500);
    commit.took(CommitStep::Apply, 40);
    port.status.committed(commit);
    let (_, body) = port.get("/debug/barriers");
    let epoch = &body["recent"][0];
    assert_eq!(
        epoch["steps"],
        json!([{ "step": "flush", "us": 500 }, { "step": "apply", "us": 40 }])
    );
    assert_eq!(
        epoch["lanes"],
        json!([{ "lane": 1, "reached_us": 10, "passed_us": 20, "aligned_us": 300, "sealed_us": 310 }])
    );
}
