//! The text for scrapers: valid, complete, and without duplicate samples.

use super::fixture::{MONOTONIC_MS, NOW_MS};
use super::fixture::{Port, Still, options, partition, plan};
use crate::admin::metrics::Exposition;
use crate::admin::status::{CommitStatus, RestoreProgress, Status, StepStatus};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_core::{SourceId, Timestamp};
use stoatflow_operators::{AsyncUdf, Call, CallQueue, CallsInFlight, Cost, ForeignCode, Udf};
use stoatflow_plan::{Function, Op};
use stoatflow_protocol::Lifecycle;

/// Parses OpenMetrics text strictly: families are declared, no sample occurs twice, and there is an end
/// mark.
pub(super) fn samples(text: &str) -> Vec<(String, f64)> {
    assert!(text.ends_with("# EOF\n"), "it must say where it ends");
    let mut types = std::collections::HashMap::new();
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for line in text.lines().filter(|l| *l != "# EOF") {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(
                types.insert(name.to_owned(), kind.to_owned()).is_none(),
                "{name} is declared twice"
            );
        } else if let Some(rest) = line.strip_prefix("# HELP ") {
            assert!(
                rest.split_once(' ')
                    .is_some_and(|(_, help)| !help.is_empty()),
                "{line}"
            );
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let suffixes = ["", "_total", "_info", "_bucket", "_sum", "_count"];
            let known = suffixes.iter().any(|suffix| {
                let kind = name
                    .strip_suffix(suffix)
                    .and_then(|family| types.get(family));
                matches!(
                    (*suffix, kind.map(String::as_str)),
                    ("", Some("gauge"))
                        | ("_total", Some("counter"))
                        | ("_info", Some("info"))
                        | ("_bucket" | "_sum" | "_count", Some("histogram"))
                )
            });
            assert!(known, "{series} belongs to no declared family");
            assert!(
                seen.insert(series.to_owned()),
                "{series} stands there twice"
            );
            all.push((series.to_owned(), value.parse().unwrap()));
        }
    }
    all
}

#[test]
fn metrics_are_valid_and_complete() {
    let port = Port::running();
    let status = &port.status;
    status.broker_throttle_ms.store(1500, Relaxed);
    status.records_in.store(11, Relaxed);
    status.in_flight_budget_bytes.store(4096, Relaxed);
    status.nodes[1].store(5, Relaxed);
    status.lanes[1].queued_bytes.store(99, Relaxed);
    status.lanes[0].busy_ns.store(1_500_000_000, Relaxed);
    status.dropped("by-word", "null_key", 3);
    status.late("lines", "drop", 4);
    status.late("lines", "grace", 5);
    status.late("lines", "drop", 2);
    status.report_partitions(vec![partition(0, 10, 30, NOW_MS), partition(1, 0, 0, -1)]);
    status.restoring(RestoreProgress {
        rebuilt: None,
        store: "counts".to_owned(),
        total: 200,
        done: 200,
        complete: true,
    });
    status.committed(CommitStatus {
        epoch: 1,
        records: 10,
        commit_us: 2_000_000,
        at_ms: NOW_MS - 500,
        steps: vec![StepStatus {
            step: "flush".to_owned(),
            us: 1_250_000,
        }],
        ..CommitStatus::default()
    });
    let now = Timestamp(NOW_MS);
    status.committed_record_of(Timestamp(NOW_MS - 1_500), now);
    status.committed_record_of(Timestamp(NOW_MS + 1_500), now);
    let (code, head, text) = port.ask("GET", "/metrics");
    assert_eq!(code, 200);
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    let samples = samples(&text);
    let value = |name: &str, labels: &[&str]| {
        let mut found = samples.iter().filter(|(series, _)| {
            series.split('{').next() == Some(name) && labels.iter().all(|l| series.contains(l))
        });
        let (series, value) = found
            .next()
            .unwrap_or_else(|| panic!("{name} {labels:?} is missing in\n{text}"));
        assert!(found.next().is_none(), "{name} {labels:?} is ambiguous");
        assert!(
            name.starts_with("process_") || series.contains("application_id=\"word-count\""),
            "{series}"
        );
        *value
    };
    let close = |a: f64, b: f64| assert!((a - b).abs() <= b.abs() / 500.0, "{a} is not {b}");
    close(value("stoatflow_records_in_total", &[]), 11.0);
    close(value("stoatflow_records_committed_total", &[]), 10.0);
    close(value("stoatflow_broker_throttle_seconds_total", &[]), 1.5);
    close(
        value(
            "stoatflow_node_records_total",
            &["node=\"split \\\"words\\\"\"", "op=\"flat_map_values\""],
        ),
        5.0,
    );
    close(value("stoatflow_lane_queue_bytes", &["lane=\"1\""]), 99.0);
    close(
        value("stoatflow_lane_busy_seconds_total", &["lane=\"0\""]),
        1.5,
    );
    close(
        value(
            "stoatflow_commit_duration_quantile_seconds",
            &["quantile=\"0.99\""],
        ),
        2.0,
    );
    close(
        value(
            "stoatflow_partition_lag",
            &["topic=\"lines\"", "partition=\"0\""],
        ),
        20.0,
    );
    close(
        value(
            "stoatflow_partition_stream_time_seconds",
            &["application_id"],
        ),
        1_700_000_100.0,
    );
    close(
        value(
            "stoatflow_late_records_total",
            &["topic=\"lines\"", "policy=\"drop\""],
        ),
        6.0,
    );
    close(
        value(
            "stoatflow_dropped_records_total",
            &["node=\"by-word\"", "reason=\"null_key\""],
        ),
        3.0,
    );
    close(
        value("stoatflow_restore_records_done", &["store=\"counts\""]),
        200.0,
    );
    close(value("stoatflow_state", &["state=\"RUNNING\""]), 1.0);
    close(value("stoatflow_state", &["state=\"STOPPED\""]), 0.0);
    close(value("stoatflow_ready", &[]), 1.0);
    close(value("stoatflow_not_ready", &["reason=\"stalled\""]), 0.0);
    close(value("stoatflow_time_by_watermark", &[]), 0.0);
    close(value("stoatflow_start_time_seconds", &[]), 1_700_000_100.0);
    close(value("stoatflow_in_flight_budget_bytes", &[]), 4096.0);
    close(
        value("stoatflow_in_flight_max_bytes", &[]),
        f64::from(16 << 20),
    );
    close(
        value("stoatflow_last_commit_timestamp_seconds", &[]),
        1_700_000_099.5,
    );
    let within = |bound: &str| {
        let le = format!("le=\"{bound}\"");
        value("stoatflow_commit_duration_seconds_bucket", &[&le])
    };
    close(within("1.0"), 0.0);
    close(within("2.5"), 1.0);
    close(within("+Inf"), 1.0);
    close(value("stoatflow_commit_duration_seconds_sum", &[]), 2.0);
    close(value("stoatflow_commit_duration_seconds_count", &[]), 1.0);
    close(
        value(
            "stoatflow_commit_phase_duration_seconds_count",
            &["phase=\"align\""],
        ),
        1.0,
    );
    let flushed = ["phase=\"flush\"", "le=\"2.5\""];
    close(
        value("stoatflow_commit_phase_duration_seconds_bucket", &flushed),
        1.0,
    );
    close(
        value(
            "stoatflow_commit_phase_duration_seconds_sum",
            &["phase=\"flush\""],
        ),
        1.25,
    );
    close(value("stoatflow_record_latency_seconds_sum", &[]), 1.5);
    let old = ["le=\"1.0\""];
    close(value("stoatflow_record_latency_seconds_bucket", &old), 1.0);
    close(value("stoatflow_record_latency_seconds_count", &[]), 2.0);
    let room = value("stoatflow_state_disk_size_bytes", &[]);
    assert!(value("stoatflow_state_disk_free_bytes", &[]) <= room && room > 1e6);
    close(value("stoatflow_build_info", &["version=\"1.2.3\""]), 1.0);
    if cfg!(target_os = "linux") {
        assert!(value("process_resident_memory_bytes", &[]) > 1e5);
        assert!(value("process_cpu_seconds_total", &[]) >= 0.0);
        assert!(value("process_start_time_seconds", &[]) > 1.7e9);
        let open = value("process_open_fds", &[]);
        assert!(open >= 3.0 && open <= value("process_max_fds", &[]));
    }
}

#[test]
fn one_reason_at_most_says_why_it_is_not_ready() {
    let port = Port::open();
    let not_ready = || -> Vec<String> {
        let all = samples(&port.ask("GET", "/metrics").2);
        let of = |name: &str| -> Vec<_> {
            let found = all.iter().filter(|(series, _)| series.starts_with(name));
            found.cloned().collect()
        };
        let reasons = of("stoatflow_not_ready{");
        assert_eq!(reasons.len(), 8);
        let given: Vec<_> = reasons.into_iter().filter(|(_, on)| *on > 0.5).collect();
        let (code, body) = port.get("/health/ready");
        let ready = of("stoatflow_ready{")[0].1 > 0.5;
        assert_eq!((ready, given.len()), (code == 200, usize::from(!ready)));
        let word = |series: String| -> String {
            let rest = series.split_once("reason=\"").unwrap().1;
            rest.split('"').next().unwrap().to_owned()
        };
        let words: Vec<_> = given.into_iter().map(|(series, _)| word(series)).collect();
        if !ready {
            assert_eq!(body["reason"], words[0]);
        }
        words
    };
    assert_eq!(not_ready(), ["not_running"]);
    for state in [Lifecycle::Starting, Lifecycle::Restoring] {
        port.enter(&[state]);
        port.status.broker_is_silent(Duration::ZERO);
        assert_eq!(not_ready(), ["broker_away"]);
        // A restart doesn't reset it.
        port.status.reset_for_restart();
        assert_eq!(not_ready(), ["broker_away"]);
        port.status.broker_answers();
        let then = match state {
            Lifecycle::Restoring => "restoring",
            _ => "not_running",
        };
        assert_eq!(not_ready(), [then]);
    }
    port.enter(&[Lifecycle::Running]);
    port.status.progress_ms.store(MONOTONIC_MS, Relaxed);
    assert!(not_ready().is_empty());
    port.enter(&[Lifecycle::Paused]);
    assert_eq!(not_ready(), ["paused"]);
    port.enter(&[Lifecycle::Running]);
    port.status.progress_ms.store(0, Relaxed);
    assert_eq!(not_ready(), ["stalled"]);
    port.status.broker_is_silent(Duration::ZERO);
    assert_eq!(not_ready(), ["broker_away"]);
    port.enter(&[Lifecycle::Failed]);
    assert_eq!(not_ready(), ["failed"]);
}

#[test]
fn the_older_text_has_the_same_samples() {
    let port = Port::running();
    let (code, head, plain) = port.ask_with(
        "GET",
        "/metrics",
        "Host: localhost\r\nAccept: text/plain\r\n",
    );
    assert_eq!(code, 200);
    assert!(
        head.contains("content-type: text/plain; version=0.0.4"),
        "{head}"
    );
    let open = port.ask("GET", "/metrics").2;
    let names = |text: &str| -> Vec<String> {
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        samples
            .map(|line| line.rsplit_once(' ').unwrap().0.to_owned())
            .collect()
    };
    assert_eq!(names(&plain), names(&open));
    assert!(plain.contains("# TYPE stoatflow_records_in_total counter\n"));
}

#[test]
fn two_nodes_of_one_name_do_not_spoil_the_scrape() {
    let mut plan = plan();
    plan.nodes[2].name = "lines-source".to_owned();
    plan.nodes[2].op = Op::Source {
        source: SourceId(0),
    };
    let status = Arc::new(Status::new("word-count", Arc::new(plan), 1));
    status.nodes[0].store(2, Relaxed);
    status.nodes[2].store(3, Relaxed);
    let text = Exposition::new(status, Arc::new(Still), &options("off"))
        .text()
        .unwrap();
    let found: Vec<_> = samples(&text)
        .into_iter()
        .filter(|(series, _)| series.contains("node=\"lines-source\""))
        .collect();
    assert_eq!(found.len(), 1);
    assert!((found[0].1 - 5.0).abs() < f64::EPSILON);
}

#[derive(Debug)]
struct Counted(&'static str);

impl Udf for Counted {
    fn name(&self) -> &str {
        self.0
    }

    fn cost(&self) -> Option<Cost> {
        Some(Cost {
            calls: 3,
            inside: Duration::from_millis(1_500),
            waiting: Duration::from_millis(250),
        })
    }

    fn scope(&self, body: &mut dyn FnMut()) {
        body();
    }
}

#[test]
fn functions_tell_their_cost_by_node() {
    let mut plan = plan();
    // The same line of code twice in a node, and one function in two nodes: neither may produce
    // duplicate samples.
    plan.nodes[0].op = Op::Split {
        functions: vec![Function::Udf(1), Function::Udf(2), Function::Udf(0)],
    };
    let udfs = ["app.py:12 split", "app.py:9 is_it", "app.py:9 is_it"];
    let foreign = ForeignCode {
        udfs: udfs
            .map(|name| Arc::new(Counted(name)) as Arc<dyn Udf>)
            .into(),
        ..ForeignCode::default()
    };
    let status = Status::new("word-count", Arc::new(plan), 1).calling(&foreign);
    assert_eq!(status.calls.spent().len(), 3);
    let text = Exposition::new(Arc::new(status), Arc::new(Still), &options("off"))
        .text()
        .unwrap();
    let of = |name: &str| -> Vec<f64> {
        let found = samples(&text).into_iter();
        found
            .filter(|(series, _)| series.starts_with(&format!("stoatflow_function_{name}_total{{")))
            .map(|(series, value)| {
                assert!(series.contains("node=\"lines-source\""), "{series}");
                value
            })
            .collect()
    };
    let mut calls = of("calls");
    calls.sort_by(f64::total_cmp);
    assert_eq!(calls, [3.0, 6.0]);
    assert!((of("seconds").iter().sum::<f64>() - 4.5).abs() < 1e-9);
    assert!((of("wait_seconds").iter().sum::<f64>() - 0.75).abs() < 1e-9);
}

#[derive(Debug, Default)]
struct Awaited(Arc<CallsInFlight>);

impl AsyncUdf for Awaited {
    fn name(&self) -> &str {
        "app.py:12 fetch"
    }

    fn in_flight(&self) -> &Arc<CallsInFlight> {
        &self.0
    }

    fn cost(&self) -> Option<Cost> {
        Some(Cost {
            calls: 1,
            inside: Duration::from_millis(500),
            waiting: Duration::ZERO,
        })
    }

    fn begin(&self, _calls: Vec<Call>, _queue: &Arc<CallQueue>) {}

    fn cancel(&self, _queue: &CallQueue) {}
}

#[test]
fn async_functions_tell_what_becomes_of_their_calls() {
    let mut plan = plan();
    plan.nodes[0].op = Op::Split {
        functions: vec![Function::Udf(0), Function::Udf(1)],
    };
    let awaited = [Awaited::default(), Awaited::default()];
    for fetch in &awaited {
        let tally = &fetch.0.tally;
        tally.begin_awaited();
        tally.failed();
        tally.timed_out();
        tally.retried();
        tally.retried();
    }
    let numbered = (0..).zip(awaited);
    let foreign = ForeignCode {
        udfs: ["app.py:12 fetch"; 2]
            .map(|name| Arc::new(Counted(name)) as Arc<dyn Udf>)
            .into(),
        calls: numbered
            .map(|(number, fetch)| (number, Arc::new(fetch) as Arc<dyn AsyncUdf>))
            .collect(),
        ..ForeignCode::default()
    };
    let status = Status::new("word-count", Arc::new(plan), 1).calling(&foreign);
    let shown = serde_json::to_value(&status.calls.spent()[0]).unwrap();
    let wanted = serde_json::json!({
        "under_way": 1, "parked": 0, "failed": 1, "timed_out": 1, "retried": 2
    });
    assert_eq!((&shown["async"], &shown["calls"]), (&wanted, &4.into()));
    let text = Exposition::new(Arc::new(status), Arc::new(Still), &options("off"))
        .text()
        .unwrap();
    let samples = samples(&text);
    let of = |name: &str| {
        let found = samples.iter().filter(|(series, _)| {
            series.starts_with(&format!("stoatflow_{name}{{"))
                && series.contains("function=\"app.py:12 fetch\"")
        });
        found.map(|(_, value)| *value).sum::<f64>()
    };
    let close = |name: &str, wanted: f64| {
        assert!((of(name) - wanted).abs() < 1e-9, "{name}: {}", of(name));
    };
    close("async_calls_under_way", 2.0);
    close("async_calls_parked", 0.0);
    close("async_calls_failed_total", 2.0);
    close("async_calls_timed_out_total", 2.0);
    close("async_calls_retried_total", 4.0);
    // Of each function, three calls that lanes waited for, and one that they didn't.
    close("function_calls_total", 8.0);
    close("function_seconds_total", 4.0);
}
