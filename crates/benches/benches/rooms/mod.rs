//! The rooms on the hot path (intake, lanes, commit), each with its work queued.
//!
//! A [`BenchEngine`] is a whole engine on an in-memory broker and disk, of which one room runs at a
//! time. Two benches use it: one measures time (`hot_rooms`), one counts instructions (`instructions`).
//! The work is the same in every run.

#![allow(dead_code, unused_imports, reason = "each bench takes what it needs")]

mod jobs;
mod state;

use bytes::Bytes;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{ManualClock, Offset, Settings, Timestamp};
use stoatflow_engine::runtime::inline::Turn;
use stoatflow_engine::startup::EngineSpec;
use stoatflow_engine::{Components, Inline};
use stoatflow_log::{Broker, ConsumerRecord, NewTopic};
use stoatflow_operators::ForeignCode;
use stoatflow_sim::SimBroker;
use stoatflow_state::memory::MemoryBackend;

pub use jobs::{ORDERS, WORDS, WORDS_PER_LINE};
pub use state::{KEYS, Overlay};

/// Records queued for a room.
pub const RECORDS: usize = 4_096;
/// Partitions of the input, read in turn.
const PARTITIONS: u32 = 8;

/// See the module.
pub struct BenchEngine {
    engine: Inline,
    batch: Vec<ConsumerRecord>,
}

impl BenchEngine {
    /// A job of [`jobs`] whose records are fetched, but not admitted yet.
    pub fn read(job: &jobs::Job, lanes: u32) -> Self {
        let broker = SimBroker::new();
        let topics: Vec<_> = ["in", "out"].map(topic).into();
        let patience = Duration::from_secs(1);
        broker.create_topics(&topics, patience).expect("topics");
        let plan = stoatflow_plan::compile(job.plan().as_bytes()).expect("a plan");
        let settings = Settings::from_pairs(&[
            ("application.id".into(), "floor".into()),
            ("bootstrap.servers".into(), "embedded:".into()),
            ("lanes.count".into(), lanes.into()),
        ]);
        let settings = Settings {
            state_dir: PathBuf::new(),
            ..settings.expect("settings")
        };
        let spec = EngineSpec {
            plan: Arc::new(plan),
            foreign: Arc::new(ForeignCode::default()),
            settings: Arc::new(settings),
            components: Components {
                clock: Arc::new(ManualClock::new(Timestamp(0))),
                backend: Some(Arc::new(MemoryBackend::new(true))),
                ..Components::new(Arc::new(broker))
            },
        };
        let batch = job.values().enumerate().map(fetched).collect();
        let engine = Inline::start(&spec).expect("an engine on a fresh broker");
        let mut bench = Self { engine, batch };
        bench.warm_up();
        bench
    }

    /// The in-flight budget begins small: it grows with every barrier, since none takes any time here.
    fn warm_up(&mut self) {
        for _ in 0..30 {
            self.engine.parts().intake.dispatch().barrier();
            self.run_lanes();
            self.commit();
            self.engine.parts().intake.dispatch().admit();
        }
    }

    /// The same, with the records queued for the lanes.
    pub fn admitted(job: &jobs::Job, lanes: u32) -> Self {
        let mut bench = Self::read(job, lanes);
        bench.dispatch();
        bench
    }

    /// The same, after the lanes: the epoch is sealed, nothing of it is on the broker.
    pub fn sealed(job: &jobs::Job, lanes: u32) -> Self {
        let mut bench = Self::admitted(job, lanes);
        bench.run_lanes();
        bench.engine.parts().intake.dispatch().barrier();
        bench.run_lanes();
        bench
    }

    /// Dispatches all fetched records to the lanes.
    pub fn dispatch(&mut self) {
        let dispatch = self.engine.parts().intake.dispatch();
        dispatch.accept(&mut self.batch, &mut Vec::new());
        dispatch.check_lagging(|_| true);
        dispatch.admit();
        let admitted: i64 = dispatch.positions().map(|(next, _)| next.0).sum();
        assert_eq!(admitted, RECORDS as i64, "there is room for all of them");
    }

    /// Runs the lanes in turns until none has anything to do.
    pub fn run_lanes(&mut self) {
        let lanes = self.engine.parts().lanes.len();
        loop {
            let mut moved = false;
            for lane in 0..lanes {
                moved |= self.take(Turn::Lane(lane));
            }
            if !moved {
                break;
            }
        }
    }

    /// Commits: outputs, changelog, offsets, the broker's answer, and the disk.
    pub fn commit(&mut self) {
        assert!(self.take(Turn::Commit), "an epoch to commit");
        while self.take(Turn::Commit) {}
    }

    fn take(&mut self, turn: Turn) -> bool {
        self.engine.take(turn).expect("a room that works")
    }
}

fn topic(name: &str) -> NewTopic {
    NewTopic {
        name: name.to_owned(),
        partitions: i32::try_from(PARTITIONS).expect("a few"),
        replication: 1,
        config: Vec::new(),
    }
}

fn fetched((at, value): (usize, Bytes)) -> ConsumerRecord {
    let at = u32::try_from(at).expect("not so many");
    ConsumerRecord {
        slot: at % PARTITIONS,
        offset: Offset(i64::from(at / PARTITIONS)),
        timestamp: Timestamp(i64::from(at)),
        key: Some(Bytes::from(format!("user-{:04}", at % 1_000))),
        value: Some(value),
        headers: None,
        number: 0,
    }
}
