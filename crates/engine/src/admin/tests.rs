//! Every endpoint through a real request on loopback.

mod access;
mod client_metrics;
mod control;
mod endpoints;
mod exposition;
pub(crate) mod fixture;
mod fuzz;
mod kafka_streams;
mod locks;
mod trouble;
mod user_code;

use super::{ENDPOINTS, bind};
use crate::admin::status::{CommitStatus, RestoreProgress};
use fixture::{MONOTONIC_MS, NOW_MS, Port, Still, partition, plan};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_core::{Datum, Error, NodeId, Offset, Origin, Partition, RocksDbOptions, SourceId};
use stoatflow_operators::current_call::{note_record, watch_thread, within};
use stoatflow_protocol::{CommitStep, Lifecycle};

#[test]
fn live_until_it_failed() {
    let port = Port::open();
    assert_eq!(port.get("/health/live").0, 200);
    port.status
        .failed(&Error::missing_topic("there is no topic lines"));
    port.enter(&[Lifecycle::Starting]);
    assert_eq!(port.get("/health/live").0, 200, "only the state counts");
    port.enter(&[Lifecycle::Failed]);
    let (code, body) = port.get("/health/live");
    assert_eq!((code, &body["live"]), (503, &json!(false)));
    assert_eq!(body["error"]["kind"], "missing_topic");
}

#[test]
fn every_reason_for_not_being_ready_has_a_next_step() {
    let port = Port::open();
    let unready = |reason: &str, detail: &str| {
        let (code, body) = port.get("/health/ready");
        assert_eq!(
            (code, &body["ready"], &body["reason"]),
            (503, &json!(false), &json!(reason)),
            "{body}"
        );
        assert!(body["detail"].as_str().unwrap().contains(detail), "{body}");
        assert!(!body["next_step"].as_str().unwrap().is_empty(), "{body}");
        body
    };
    unready("not_running", "CREATED");
    port.enter(&[Lifecycle::Starting, Lifecycle::Restoring]);
    port.status.restoring(RestoreProgress {
        rebuilt: None,
        store: "counts".to_owned(),
        total: 200,
        done: 50,
        complete: false,
    });
    let body = unready(
        "restoring",
        "0 of 1 stores are restored, 50 of 200 changelog records",
    );
    assert_eq!(
        body["restore"][0],
        json!({ "store": "counts", "total": 200, "done": 50, "complete": false })
    );
    port.enter(&[Lifecycle::Running]);
    port.status
        .progress_ms
        .store(MONOTONIC_MS - 30_001, Relaxed);
    unready("stalled", "30.0 s");
    port.status
        .progress_ms
        .store(MONOTONIC_MS - 30_000, Relaxed);
    let (code, body) = port.get("/health/ready");
    assert_eq!((code, &body["ready"]), (200, &json!(true)));
    port.status
        .failed(&Error::user("it raised").hint("fix app.py"));
    port.enter(&[Lifecycle::Failed]);
    assert_eq!(unready("failed", "it raised")["next_step"], "fix app.py");
}

#[test]
fn topology_shows_the_graph_and_the_text() {
    let port = Port::running();
    port.status.nodes[1].store(7, Relaxed);
    port.status.node_times[1].store(1_500_000_000, Relaxed);
    port.status.dropped("by-word", "null_key", 3);
    let (code, body) = port.get("/topology");
    assert_eq!(code, 200);
    assert_eq!(body["nodes"].as_array().unwrap().len(), 5);
    assert_eq!(
        (&body["nodes"][1]["records"], &body["nodes"][1]["foreign"]),
        (&json!(7), &json!(true))
    );
    assert_eq!(body["nodes"][0]["busy_seconds"], 0.0);
    assert_eq!(body["nodes"][1]["busy_seconds"], 1.5);
    assert_eq!(body["nodes"][3]["store"], "counts");
    assert_eq!(body["nodes"][4]["topics"], json!(["word-counts"]));
    let edges = body["edges"].as_array().unwrap();
    assert_eq!(
        edges
            .iter()
            .filter(|e| e["exchange"] == json!(true))
            .collect::<Vec<_>>(),
        [&json!({ "from": 2, "to": 3, "exchange": true, "lookup": false })]
    );
    assert_eq!(edges.len(), 4);
    assert_eq!(body["stages"][1]["nodes"], json!([3, 4]));
    assert_eq!(
        body["stores"][0]["changelog"],
        "word-count-counts-changelog"
    );
    assert_eq!(body["stores"][0]["rocksdb"], Value::Null);
    let kept = [("counts".to_owned(), RocksDbOptions::default())];
    port.status.set_rocksdb(kept.into());
    assert_eq!(
        port.get("/topology").1["stores"][0]["rocksdb"],
        json!({ "compression": "lz4", "block_size": 4096, "bloom_bits": 10, "compaction": "level", "cache_size": null })
    );
    assert_eq!(
        body["dropped"],
        json!([{ "node": "by-word", "reason": "null_key", "count": 3 }])
    );
    assert_eq!(body["description"], plan().description);
    let (code, head, text) = port.ask("GET", "/topology?format=text");
    assert_eq!((code, text), (200, plan().description));
    assert!(head.contains("content-type: text/plain"), "{head}");
    assert_eq!(port.get("/topology?format=xml").0, 400);
}

#[test]
fn state_keeps_history_and_error() {
    let port = Port::running();
    port.status.failed(&Error::disk_full("no space"));
    let (code, body) = port.get("/state");
    assert_eq!(
        (code, &body["state"], &body["version"]),
        (200, &json!("RUNNING"), &json!("1.2.3"))
    );
    let names: Vec<_> = body["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|h| h["state"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["STARTING", "RESTORING", "RUNNING"]);
    assert_eq!(body["error"]["kind"], "disk_full");
    assert_eq!(body["ready"], json!({ "ready": true }));
}

#[test]
fn watermarks_ignore_partitions_without_time() {
    let port = Port::running();
    assert_eq!(port.get("/watermarks").1["minimum"], Value::Null);
    port.status.report_partitions(vec![
        partition(0, 10, 30, NOW_MS - 500),
        partition(1, 0, 0, -1),
        partition(2, 9, 5, NOW_MS),
    ]);
    let (code, body) = port.get("/watermarks");
    assert_eq!(
        (code, &body["minimum"], &body["behind_ms"]),
        (200, &json!(NOW_MS - 500), &json!(500))
    );
    assert_eq!(
        (&body["lag"], &body["partitions"][2]["lag"]),
        (&json!(20), &json!(0)),
        "an end that was read earlier is no negative lag"
    );
    assert_eq!(body["partitions"][1]["stream_time"], Value::Null);
    assert_eq!(body["late"], json!([]));
    port.status.late("lines", "dlq", 2);
    assert_eq!(
        port.get("/watermarks").1["late"],
        json!([{"topic": "lines", "policy": "dlq", "count": 2}])
    );
}

#[test]
fn the_partition_that_holds_back_the_watermark_is_reported() {
    let port = Port::running();
    let body = port.get("/watermarks").1;
    assert_eq!(
        (&body["application"], &body["lag_ms"], &body["semantics"]),
        (&Value::Null, &Value::Null, &json!("stream-time"))
    );
    let mut ahead = partition(0, 10, 30, NOW_MS);
    ahead.group = Some("g".into());
    ahead.waits = true;
    let mut behind = partition(1, 10, 30, NOW_MS - 900);
    behind.holds_back = true;
    port.status
        .report_partitions(vec![ahead, behind, partition(2, 0, 0, -1)]);
    port.status.watermark.store(NOW_MS - 1_000, Relaxed);
    port.status.by_watermark.store(true, Relaxed);
    let body = port.get("/watermarks").1;
    assert_eq!(
        (&body["application"], &body["lag_ms"], &body["semantics"]),
        (&json!(NOW_MS - 1_000), &json!(1_000), &json!("watermark"))
    );
    let of = |at: usize, field: &str| body["partitions"][at][field].clone();
    assert_eq!(
        [of(0, "watermark"), of(0, "highest"), of(0, "lag_ms")],
        [json!(NOW_MS - 100), json!(NOW_MS), json!(100)]
    );
    assert_eq!(
        [of(0, "group"), of(0, "aligned_wait"), of(0, "holds_back")],
        [json!("g"), json!(true), json!(false)]
    );
    assert_eq!(
        [of(1, "strategy"), of(1, "idle"), of(1, "holds_back")],
        [json!("bounded(100 ms)"), json!(false), json!(true)]
    );
    assert_eq!(
        [of(2, "watermark"), of(2, "lag_ms"), of(2, "idle")],
        [Value::Null, Value::Null, json!(true)]
    );
    assert_eq!(
        port.get("/state").1["watermark"],
        json!({
            "application": NOW_MS - 1_000,
            "semantics": "watermark",
            "held_by": [{"topic": body["partitions"][1]["topic"], "partition": 1, "watermark": of(1, "watermark")}],
        })
    );
    let metrics = port.ask("GET", "/metrics").2;
    let has = |sample: &str| {
        let found = metrics.lines().any(|line| line.ends_with(sample));
        assert!(found, "{sample} is not in {metrics}");
    };
    let labels = |topic: &str, at: u8| format!("topic=\"{topic}\",partition=\"{at}\"");
    has("stoatflow_watermark_lag_ms{application_id=\"word-count\"} 1000");
    has(&format!("{}}} {}", labels("lines", 1), NOW_MS - 1_000));
    has(&format!("{}}} 1000", labels("lines", 1)));
    has(&format!("{}}} 1", labels("lines", 1)));
}

#[test]
fn top_ranks_what_keeps_it_busy() {
    let port = Port::running();
    let lane = &port.status.lanes[1];
    // The lane is in a batch that began 9 s ago. The clock of this test stands still: no time passes
    // between samples, so all rates are 0.
    lane.busy_since_ms.store(MONOTONIC_MS - 9000, Relaxed);
    let now = Duration::from_millis(MONOTONIC_MS);
    for _ in 0..3 {
        let mut keys = lane.hot_keys.lock();
        keys.count(NodeId(0), &Datum::text("DE"), now);
    }
    port.status.dropped("counts", "late", 7);
    let (code, body) = port.get("/top");
    assert_eq!(code, 200);
    assert_eq!(body["lanes"].as_array().unwrap().len(), 2);
    assert_eq!(
        body["keys"],
        json!([{"node": plan().nodes[0].name, "key": "DE", "share": 1.0, "lane": 1, "sampled": 3}])
    );
    let stores = body["stores"].as_array().unwrap();
    assert_eq!(
        (&stores[0]["store"], &stores[0]["disk_bytes"]),
        (&json!("large"), &json!(4_096))
    );
    assert_eq!(body["drops"][0]["total"], json!(7));
    assert_eq!(
        port.get("/top?limit=1").1["stores"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    for wrong in ["seconds=0", "limit=0", "limit=-1", "seconds=x"] {
        assert_eq!(port.get(&format!("/top?{wrong}")).0, 400, "{wrong}");
    }
}

#[test]
fn stores_and_rocksdb_have_metrics() {
    let metrics = Port::running().ask("GET", "/metrics").2;
    let labels = "application_id=\"word-count\"";
    for sample in [
        &format!("stoatflow_store_keys{{{labels},store=\"large\"}} 9"),
        &format!("stoatflow_store_disk_bytes{{{labels},store=\"large\"}} 4096"),
        &format!("stoatflow_rocksdb_block_reads_total{{{labels},result=\"hit\"}} 90"),
    ] {
        assert!(
            metrics.lines().any(|line| line == sample.as_str()),
            "{sample} is not in {metrics}"
        );
    }
}

#[test]
fn threads_show_a_lane_that_never_returns() {
    let port = Port::running();
    let lane = &port.status.lanes[1];
    lane.busy_since_ms.store(MONOTONIC_MS - 9000, Relaxed);
    lane.busy_ns.store(2_000_000_000, Relaxed);
    lane.stage_plus_one.store(2, Relaxed);
    lane.queued_items.store(4, Relaxed);
    let (code, body) = port.get("/debug/threads");
    assert_eq!(code, 200);
    assert_eq!(
        (&body["lanes"][0]["state"], &body["lanes"][0]["stage"]),
        (&json!("idle"), &Value::Null)
    );
    let busy = &body["lanes"][1];
    assert_eq!(
        (&busy["state"], &busy["for_ms"], &busy["busy_ms"]),
        (&json!("working"), &json!(9000), &json!(11_000))
    );
    assert_eq!(
        (&busy["stage"], &busy["queued_items"]),
        (&json!(1), &json!(4))
    );
    if cfg!(target_os = "linux") {
        let threads = body["threads"].as_array().unwrap();
        assert!(
            threads
                .iter()
                .any(|t| t["name"].as_str().unwrap().starts_with("tokio")),
            "{threads:?}"
        );
    }
}

#[test]
fn threads_show_the_record_that_a_function_has_got() {
    let port = Port::running();
    let at = &port.status.lanes[1].current_call;
    at.begin();
    let origin = Origin {
        source: SourceId(0),
        topic: 0,
        partition: Partition(3),
        offset: Offset(5_000_000_000),
        ..Origin::default()
    };
    let call = |body: &Value, lane: usize| body["lanes"][lane]["call"].clone();
    let (inside, after) = std::thread::scope(|scope| {
        let asks = || {
            watch_thread(Arc::clone(at), Arc::new(Still));
            note_record(&origin);
            let inside = within(7, true, || port.get("/debug/threads").1);
            (inside, port.get("/debug/threads").1)
        };
        #[allow(clippy::disallowed_methods)] // a lane's thread
        scope.spawn(asks).join().unwrap()
    });
    let wanted = json!({
        "function": "?", "node": null, "topic": "lines", "partition": 3, "offset": 5_000_000_000_i64, "for_ms": 0,
    });
    assert_eq!((call(&inside, 1), call(&inside, 0)), (wanted, Value::Null));
    assert_eq!(call(&after, 1), Value::Null);
    let shown = port
        .status
        .thread_activity("stoatflow-lane-1", 0)
        .to_string();
    assert_eq!(shown, "stoatflow-lane-1");
}

#[test]
fn a_stalled_application_is_not_alive() {
    let port = Port::running();
    assert_eq!(port.get("/health/live").0, 200);
    port.status.stalled.store(true, Relaxed);
    let (code, body) = port.get("/health/live");
    assert_eq!((code, &body["live"]), (503, &json!(false)));
}

#[test]
fn barriers_show_the_commit_under_way_and_those_before() {
    let port = Port::running();
    port.status.with_barrier(|b| {
        b.open_epoch = 9;
        b.in_flight = Some(8);
        b.step = Some("flush".to_owned());
        b.arrivals = vec![2, 1];
    });
    for epoch in 1..=100 {
        let mut commit = CommitStatus {
            epoch,
            align_us: 1000,
            ..CommitStatus::default()
        };
        for (step, us) in [
            (CommitStep::Changelog, 300),
            (CommitStep::Flush, 500),
            (CommitStep::Offsets, 400),
            (CommitStep::Commit, 800),
            (CommitStep::Apply, 3000),
        ] {
            commit.took(step, us);
        }
        port.status.committed(commit);
    }
    let (code, body) = port.get("/debug/barriers");
    assert_eq!(code, 200);
    assert_eq!(
        (&body["open_epoch"], &body["in_flight"], &body["step"]),
        (&json!(9), &json!(8), &json!("flush"))
    );
    assert_eq!(
        (&body["arrivals"], &body["lanes"], &body["commits"]),
        (&json!([2, 1]), &json!(2), &json!(100))
    );
    let recent = body["recent"].as_array().unwrap();
    assert_eq!((recent.len(), &recent[63]["epoch"]), (64, &json!(100)));
    let last = &recent[63];
    let times = [
        "align_us",
        "flush_us",
        "offsets_us",
        "commit_us",
        "apply_us",
    ];
    assert_eq!(
        times.map(|name| last[name].as_u64().unwrap()),
        [1000, 800, 400, 2000, 3000]
    );
    let median = body["quantiles_us"]["p50"].as_u64().unwrap();
    assert!((5990..=6010).contains(&median), "{median}");
}

#[test]
fn the_page_needs_no_other_host() {
    let port = Port::running();
    let (code, head, page) = port.ask("GET", "/");
    assert_eq!(code, 200);
    assert!(
        head.contains("content-type: text/html; charset=utf-8"),
        "{head}"
    );
    assert!(head.contains("default-src 'none'"), "{head}");
    for outside in [
        "http:", "https:", "\"//", "'//", "src=", "@import", "url(", "<link", "import(",
    ] {
        assert!(
            !page.contains(outside),
            "the page refers to something outside: {outside}"
        );
    }
    assert!(page.len() < 300_000, "the page has {} bytes", page.len());
    assert!(page.contains("<html lang=\"en\">") && page.trim_end().ends_with("</html>"));
    for asked in [
        "/topology",
        "/debug/barriers",
        "/debug/threads",
        "/watermarks",
        "/state",
    ] {
        assert!(
            page.contains(&format!("\"{asked}\"")),
            "the page does not poll {asked}"
        );
    }
}

#[test]
fn config_is_shown_as_it_was_given() {
    assert_eq!(
        Port::open().get("/config"),
        (200, json!({ "application.id": "word-count" }))
    );
}

#[test]
fn unknown_paths_list_the_endpoints_and_each_of_them_answers() {
    let port = Port::running();
    let (code, body) = port.get("/metricz");
    assert_eq!(code, 404);
    assert!(
        body["detail"].as_str().unwrap().contains("/metricz"),
        "{body}"
    );
    let read_listing = body["endpoints"].as_object().unwrap();
    assert_eq!(read_listing.len(), ENDPOINTS.len());
    for (path, what) in read_listing {
        let changes = what.as_str().unwrap().starts_with("POST");
        let (get, post) = if changes { (405, 409) } else { (200, 405) };
        assert_eq!(port.ask("GET", path).0, get, "{path}");
        assert_eq!(port.ask("POST", path).0, post, "{path}");
    }
}

#[test]
fn every_endpoint_is_described() {
    let (code, described) = Port::open().get("/openapi.json");
    assert_eq!(
        (code, &described["info"]["version"]),
        (200, &json!("1.2.3"))
    );
    let paths = described["paths"].as_object().unwrap();
    for (path, what) in ENDPOINTS {
        let method = if what.starts_with("POST") {
            "post"
        } else {
            "get"
        };
        assert!(paths[*path][method].is_object(), "{method} {path}");
    }
    // Besides them, the entries of a store, a key, and the changes.
    assert_eq!(paths.len(), ENDPOINTS.len() + 3);
}

#[test]
fn stop_frees_the_address() {
    let port = Port::running();
    let address = port.address.to_string();
    let refused = bind(&address).unwrap_err();
    assert_eq!(refused.kind().name(), "config");
    let text = refused.to_string();
    assert!(
        text.contains(&address) && text.contains("admin.listen") && text.contains("in use"),
        "{text}"
    );
    port.stop.send(true).unwrap();
    let Port { runtime, .. } = port;
    let freed = (0..6_000).any(|_| {
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(10)).await });
        bind(&address).is_ok()
    });
    assert!(freed, "the port is still held");
}

#[test]
fn without_a_host_it_is_loopback() {
    for listen in ["0", ":0", " 127.0.0.1:0 ", "localhost:0"] {
        assert!(
            bind(listen)
                .unwrap()
                .local_addr()
                .unwrap()
                .ip()
                .is_loopback(),
            "{listen}"
        );
    }
    for wrong in ["nonsense", "127.0.0.1", "192.0.2.1:0"] {
        let error = bind(wrong).unwrap_err();
        assert_eq!(error.kind().name(), "config", "{wrong}");
        assert!(
            error.to_string().contains(wrong) && error.next_step().contains("admin.listen"),
            "{error}"
        );
    }
}

#[test]
fn info_says_what_runs_and_for_how_long() {
    let (code, body) = Port::open().get("/info");
    assert_eq!(code, 200);
    assert_eq!(body["application_id"], "word-count");
    assert_eq!(body["version"], "1.2.3");
    assert_eq!(body["started_at_ms"], NOW_MS);
    assert_eq!(body["uptime_ms"], 0, "this clock stands still");
    assert_eq!(body["host"], "here");
}
