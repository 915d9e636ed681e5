//! The rooms on the hot path, each with its work in front of it.
//!
//! A floor is a whole engine on a broker and a disk in memory, one room at a time. Two benches take
//! their turns here: one looks at the clock (`hot_rooms`), one counts instructions
//! (`instructions`). All work is the same in every run.

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
use stoatflow_operators::Foreign;
use stoatflow_sim::SimBroker;
use stoatflow_state::memory::MemoryBackend;

pub use jobs::{ORDERS, WORDS, WORDS_PER_LINE};
pub use state::{KEYS, Overlay};

/// Records in front of a room.
pub const RECORDS: usize = 4_096;
/// Of the input, read in turn.
const PARTITIONS: u32 = 8;

/// See the module.
pub struct Floor {
    engine: Inline,
    batch: Vec<ConsumerRecord>,
}

impl Floor {
    /// A job of [`jobs`] whose records are read, and not admitted yet.
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
            foreign: Arc::new(Foreign::default()),
            settings: Arc::new(settings),
            components: Components {
                clock: Arc::new(ManualClock::new(Timestamp(0))),
                backend: Some(Arc::new(MemoryBackend::new(true))),
                ..Components::new(Arc::new(broker))
            },
        };
        let batch = job.values().enumerate().map(fetched).collect();
        let engine = Inline::start(&spec).expect("an engine on a fresh broker");
        let mut floor = Self { engine, batch };
        floor.warm_up();
        floor
    }

    /// How much may be in flight begins small: with every barrier that takes no time it grows.
    fn warm_up(&mut self) {
        for _ in 0..30 {
            self.engine.parts().intake.dispatch().barrier();
            self.walk_lanes();
            self.commit();
            self.engine.parts().intake.dispatch().admit();
        }
    }

    /// The same, in front of the lanes.
    pub fn admitted(job: &jobs::Job, lanes: u32) -> Self {
        let mut floor = Self::read(job, lanes);
        floor.dispatch();
        floor
    }

    /// The same, behind the lanes: the epoch is over, nothing of it is on the broker.
    pub fn sealed(job: &jobs::Job, lanes: u32) -> Self {
        let mut floor = Self::admitted(job, lanes);
        floor.walk_lanes();
        floor.engine.parts().intake.dispatch().barrier();
        floor.walk_lanes();
        floor
    }

    /// Everything that was read goes to the lanes.
    pub fn dispatch(&mut self) {
        let dispatch = self.engine.parts().intake.dispatch();
        dispatch.accept(&mut self.batch, &mut Vec::new());
        dispatch.check_lagging(|_| true);
        dispatch.admit();
        let admitted: i64 = dispatch.positions().map(|(next, _)| next.0).sum();
        assert_eq!(admitted, RECORDS as i64, "there is room for all of them");
    }

    /// Lanes take turns until none has anything to do.
    pub fn walk_lanes(&mut self) {
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

    /// Outputs, changelog, offsets, the broker's word, and the disk.
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
