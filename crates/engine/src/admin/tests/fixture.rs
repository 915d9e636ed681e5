//! A running port over a word count that doesn't process anything, and a client that writes HTTP by
//! hand.

use crate::admin::status::{PartitionStatus, Status};
use crate::admin::target::AdminTarget;
use crate::admin::{AdminOptions, AdminView, serve};
use crate::query::{CommittedSnapshot, FollowSpec, Follower};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use stoatflow_core::settings::AdminAccess;
use stoatflow_core::{
    Clock, Error, NodeId, Offset, Result, SinkId, SourceId, StageId, StoreId, Timestamp,
    TopicPartition,
};
use stoatflow_log::{ClientCounts, ConnectionCounts, RequestCounts, RequestDurations};
use stoatflow_operators::ForeignCode;
use stoatflow_plan::{
    Delivery, Function, Op, PhysicalNode, PhysicalPlan, SerdeSpec, Sink, Source, Stage, Store,
    StoreKind, TimestampExtractor,
};
use stoatflow_protocol::Lifecycle;
use stoatflow_state::{DatabaseFigures, StoreSize};

/// A clock that stands still, so that answers can be compared.
#[derive(Debug)]
pub(crate) struct Still;

pub(super) const NOW_MS: i64 = 1_700_000_100_000;
pub(super) const MONOTONIC_MS: u64 = 60_000;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp(NOW_MS)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(MONOTONIC_MS)
    }
}

pub(super) fn serde(name: &str) -> SerdeSpec {
    SerdeSpec::Builtin(name.to_owned())
}

pub(super) fn node(id: u32, name: &str, stage: u16, op: Op, children: &[u32]) -> PhysicalNode {
    PhysicalNode {
        id: NodeId(id),
        name: name.to_owned(),
        stage: StageId(stage),
        op,
        children: children.iter().map(|&c| NodeId(c)).collect(),
        fork: Delivery::Batch,
        foreign: id == 1,
        line: Some("app.py:12".to_owned()),
        idle: None,
        on_error: None,
    }
}

/// Word count: a source, a function, an exchange, a count and a sink.
pub(crate) fn plan() -> PhysicalPlan {
    let stage = |id, nodes: &[u32]| Stage {
        id: StageId(id),
        nodes: nodes.iter().map(|&n| NodeId(n)).collect(),
        foreign: id == 0,
        independent_entries: true,
        meeting: vec![],
    };
    let exchange = Op::Exchange {
        to: vec![NodeId(3)],
        stage: StageId(1),
        key: serde("string"),
        keep_null: false,
        ahead: false,
    };
    PhysicalPlan {
        sources: vec![Source {
            id: SourceId(0),
            name: "lines-source".to_owned(),
            topics: vec!["lines".to_owned()],
            pattern: None,
            timestamp: TimestampExtractor::FailOnInvalid,
            watermark: None,
            global: false,
            key: serde("string"),
            value: serde("string"),
            reset: None,
            entry: NodeId(0),
            late: stoatflow_core::Late::Grace,
            answers: false,
        }],
        sinks: vec![Sink {
            id: SinkId(0),
            name: "counts-sink".to_owned(),
            topic: Some("word-counts".to_owned()),
            topic_function: None,
            partitioner: None,
            partitioner_with_headers: false,
            key: serde("string"),
            value: serde("int64"),
            key_as_read: false,
            value_as_read: false,
        }],
        stores: vec![Store {
            cached: true,
            upstream_topics: vec!["lines".to_owned()],
            ..Store::new(
                "counts",
                StoreKind::TimestampedKeyValue,
                serde("string"),
                serde("int64"),
            )
        }],
        clocks: Vec::new(),
        processors: Vec::new(),
        nodes: vec![
            node(
                0,
                "lines-source",
                0,
                Op::Source {
                    source: SourceId(0),
                },
                &[1],
            ),
            node(
                1,
                "split \"words\"",
                0,
                Op::FlatMapValues {
                    function: Function::Udf(0),
                    with_key: false,
                },
                &[2],
            ),
            node(2, "by-word", 0, exchange, &[]),
            node(
                3,
                "counts-node",
                1,
                Op::Count {
                    store: StoreId(0),
                    key: serde("string"),
                    old: false,
                },
                &[4],
            ),
            node(4, "counts-sink", 1, Op::Sink { sink: SinkId(0) }, &[]),
        ],
        stages: vec![stage(0, &[0, 1, 2]), stage(1, &[3, 4])],
        handlers: stoatflow_core::Handlers::default(),
        functions: vec!["app.py:12 split".to_owned()],
        description: "Topologies:\n   Sub-topology: 0\n".to_owned(),
        with_window_boundary: None,
    }
}

/// A consumer after this many fetches: each took 2 ms, and the last one was refused.
pub(crate) fn client_counts(fetches: u64) -> ClientCounts {
    let request = RequestCounts {
        api: "Fetch".to_owned(),
        sent: fetches + 2,
        unanswered: 1,
        retried: 3,
        sent_bytes: fetches * 100,
        received_bytes: fetches * 1_000,
        throttled: Duration::from_millis(250),
        errors: vec![("NOT_LEADER_OR_FOLLOWER".to_owned(), 1)],
        durations: RequestDurations {
            buckets: vec![
                (Some(Duration::from_millis(1)), 0),
                (Some(Duration::from_millis(5)), fetches),
                (None, 0),
            ],
            sum: Duration::from_millis(2) * u32::try_from(fetches).unwrap(),
        },
    };
    ClientCounts {
        client: "consumer",
        connections: ConnectionCounts {
            opened: 5,
            failed: 4,
            closed: 2,
            reopened: 1,
        },
        requests: vec![request],
    }
}

/// An application without state.
#[derive(Debug, Default)]
pub(super) struct NoState {
    /// Whether it can be paused: otherwise nothing runs.
    pub(super) runs: bool,
    pub(super) paused: AtomicBool,
}

impl AdminTarget for NoState {
    fn snapshot(&self, _store: Option<&str>) -> Result<CommittedSnapshot> {
        Err(Error::config("nothing runs"))
    }

    fn follow(&self, _store: &Store, _spec: &FollowSpec) -> Result<Follower> {
        Err(Error::config("nothing runs"))
    }

    fn is_committed(&self, _wanted: &[(TopicPartition, Offset)]) -> Result<bool> {
        Err(Error::config("nothing runs"))
    }

    fn store_sizes(&self) -> Result<Vec<(String, StoreSize)>> {
        let size = |keys, disk_bytes| StoreSize {
            keys,
            disk_bytes,
            memory_bytes: 0,
        };
        Ok(vec![
            ("small".to_owned(), size(3, 10)),
            ("large".to_owned(), size(9, 4_096)),
        ])
    }

    fn database(&self) -> Result<Option<DatabaseFigures>> {
        Ok(Some(DatabaseFigures {
            cache_hits: 90,
            cache_misses: 10,
            ..DatabaseFigures::default()
        }))
    }

    fn set_paused(&self, paused: bool) -> Result<()> {
        if !self.runs {
            return Err(Error::config("nothing runs"));
        }
        self.paused.store(paused, Relaxed);
        Ok(())
    }

    fn is_paused(&self) -> Result<bool> {
        Ok(self.paused.load(Relaxed))
    }

    fn client_counts(&self) -> Result<Vec<ClientCounts>> {
        Ok(vec![client_counts(7)])
    }

    fn foreign(&self) -> Result<Arc<ForeignCode>> {
        Ok(Arc::default())
    }
}

/// A port that serves until it is dropped.
pub(super) struct Port {
    pub(super) status: Arc<Status>,
    pub(super) address: SocketAddr,
    pub(super) stop: tokio::sync::watch::Sender<bool>,
    pub(super) runtime: tokio::runtime::Runtime,
}

pub(super) fn options(listen: &str) -> AdminOptions {
    AdminOptions {
        listen: listen.to_owned(),
        access: AdminAccess::default(),
        stall_after: Duration::from_secs(30),
        in_flight_max_bytes: 16 << 20,
        state_dir: std::env::temp_dir(),
        version: "1.2.3",
    }
}

impl Port {
    pub(super) fn open() -> Self {
        Self::with(AdminAccess::default())
    }

    pub(super) fn with(access: AdminAccess) -> Self {
        Self::of(access, Arc::new(NoState::default()))
    }

    pub(super) fn of(access: AdminAccess, target: Arc<dyn AdminTarget>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let status = Arc::new(Status::new("word-count", Arc::new(plan()), 2));
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let settings = json!({ "application.id": "word-count" });
        let address = serve(
            runtime.handle(),
            AdminOptions {
                access,
                ..options("127.0.0.1:0")
            },
            Arc::clone(&status),
            Arc::new(Still),
            AdminView {
                settings,
                info: json!({ "host": "here" }),
            },
            target,
            stopped,
        )
        .unwrap();
        assert!(!address.encrypted);
        let address = address.socket;
        Self {
            status,
            address,
            stop,
            runtime,
        }
    }

    /// Enters states one after another.
    pub(super) fn enter(&self, states: &[Lifecycle]) {
        for &state in states {
            assert!(
                self.status.enter(state, Timestamp(NOW_MS)),
                "{state:?} may not follow"
            );
        }
    }

    pub(super) fn running() -> Self {
        let port = Self::open();
        port.enter(&[
            Lifecycle::Starting,
            Lifecycle::Restoring,
            Lifecycle::Running,
        ]);
        port.status.progress_ms.store(MONOTONIC_MS - 1000, Relaxed);
        port
    }

    pub(super) fn ask(&self, method: &str, path: &str) -> (u16, String, String) {
        self.ask_with(method, path, "Host: localhost\r\n")
    }

    /// With these lines in the request's head.
    pub(super) fn ask_with(&self, method: &str, path: &str, head: &str) -> (u16, String, String) {
        self.send(&format!(
            "{method} {path} HTTP/1.1\r\n{head}Connection: close\r\n\r\n"
        ))
    }

    /// Sends any text; the code 0 means that the connection was closed without an answer.
    pub(super) fn send(&self, text: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        // A port that refuses early doesn't read the rest.
        let _unread = stream.write_all(text.as_bytes());
        let mut bytes = Vec::new();
        let _reset = stream.read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            return (0, String::new(), text);
        };
        (
            head.split(' ').nth(1).unwrap().parse().unwrap(),
            head.to_ascii_lowercase(),
            body.to_owned(),
        )
    }

    pub(super) fn get(&self, path: &str) -> (u16, Value) {
        let (code, head, body) = self.ask("GET", path);
        assert!(
            head.contains("content-type: application/json")
                || head.contains("content-type: application/problem+json"),
            "{path}: {head}"
        );
        assert!(head.contains("cache-control: no-store"), "{path}: {head}");
        (code, serde_json::from_str(&body).unwrap())
    }
}

pub(crate) fn partition(
    partition: i32,
    committed: i64,
    end: i64,
    stream_time: i64,
) -> PartitionStatus {
    PartitionStatus {
        held_back: None,
        topic: "lines".to_owned(),
        partition,
        position: committed + 5,
        committed,
        end,
        stream_time,
        watermark: if stream_time < 0 {
            -1
        } else {
            stream_time - 100
        },
        strategy: "bounded(100 ms)".into(),
        group: None,
        idle: stream_time < 0,
        waits: false,
        holds_back: false,
    }
}
