//! Chooses the next step, how far the clock moves, and the settings of each engine.
//!
//! All choices come from the seed. Each run has its own weights: some starve the lanes, some the commit,
//! some advance the clock in leaps.

use crate::rng::SimRng;
use crate::workload::{APPLICATION, Job};
use std::path::PathBuf;
use std::time::Duration;
use stoatflow_core::Settings;
use stoatflow_core::settings::{AdminAccess, BrokerAddress, StoreBackend};
use stoatflow_engine::runtime::inline::Turn;

/// The next step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// A turn of the engine's intake, a lane or the commit.
    Turn(Turn),
    /// The clock advances.
    Advance(Duration),
    /// The feeder writes to the input topics.
    Feed,
    /// The log cleaner runs over the changelogs.
    Compact,
    /// The process dies.
    Crash,
    /// The process is asked to stop; it starts again with other lanes.
    Stop,
    /// A second instance starts: on the same machine, or (`true`) on another one.
    TakeOver(bool),
}

/// The weights of one run.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    rng: SimRng,
    intake: u64,
    lanes: u64,
    commit: u64,
    world: u64,
    max_lanes: u64,
    commit_interval: u64,
    in_flight: usize,
    max_idle: u64,
    cache: usize,
}

impl Schedule {
    /// The weights of a seed.
    pub fn new(mut rng: SimRng) -> Self {
        let in_flight = [600, 3_000, 20_000, 1 << 20][rng.index(4)];
        Self {
            intake: rng.between(1, 6),
            lanes: rng.between(1, 16),
            commit: rng.between(1, 6),
            world: rng.between(1, 4),
            max_lanes: rng.between(1, 7),
            commit_interval: rng.between(1, 100),
            max_idle: [0, 0, 5, 40][rng.index(4)],
            cache: [0, 40_000, 64 << 20][rng.index(3)],
            in_flight,
            rng,
        }
    }

    /// Its random numbers, for other choices.
    pub fn rng(&mut self) -> &mut SimRng {
        &mut self.rng
    }

    /// The next move of an engine with this many lanes, or of its environment.
    pub fn next(&mut self, lanes: usize) -> Move {
        match self.rng.below(1000) {
            0..=3 => Move::Crash,
            4..=7 => Move::Stop,
            8..=10 => Move::TakeOver(self.rng.chance(5000)),
            11..=14 => Move::Compact,
            _ => match self.rng.below(10 + self.world) {
                0..=9 => Move::Turn(self.next_turn(lanes)),
                _ if self.rng.chance(5000) => Move::Feed,
                _ => Move::Advance(self.clock_step()),
            },
        }
    }

    /// The next turn of an engine.
    pub fn next_turn(&mut self, lanes: usize) -> Turn {
        let drawn = self.rng.below(self.intake + self.lanes + self.commit);
        if drawn < self.intake {
            Turn::Intake
        } else if drawn < self.intake + self.commit {
            Turn::Commit
        } else {
            Turn::Lane(self.rng.index(lanes))
        }
    }

    fn clock_step(&mut self) -> Duration {
        Duration::from_millis(match self.rng.below(40) {
            0 => self.rng.between(1_000, 7_000),
            1..=8 => self.rng.between(20, 200),
            _ => self.rng.between(1, 20),
        })
    }

    /// Settings of the next start; lanes and batches differ from start to start.
    pub fn settings(&mut self, job: &Job) -> Settings {
        let lanes = u32::try_from(self.rng.between(1, self.max_lanes)).unwrap_or(1);
        Settings {
            application_id: APPLICATION.into(),
            broker: BrokerAddress::Embedded(None),
            guarantee: job.guarantee,
            commit_interval: Duration::from_millis(self.commit_interval),
            commit_min_interval: Duration::from_millis(self.commit_interval.min(5)),
            commit_timeout: Duration::from_secs(5),
            lanes,
            batch_max_records: [1, 2, 7, 50][self.rng.index(4)],
            state_dir: PathBuf::new(),
            state_memory_max_bytes: self.cache,
            rebuild_damaged_state: false,
            restart_max: 0,
            restart_window: Duration::from_secs(1),
            metadata_max_age: Duration::from_secs(60),
            store_backend: StoreBackend::Memory,
            rocksdb: stoatflow_core::RocksDbOptions::default(),
            in_flight_max_bytes: self.in_flight,
            cache_max_bytes: if job.cached { 1 << 20 } else { 0 },
            emit_at_barrier: false,
            streams_letter_headers: false,
            window_emit_interval: None,
            join_emit_interval: None,
            window_changelog_retention: Duration::ZERO,
            max_task_idle: Some(Duration::from_millis(self.max_idle)),
            max_timestamp_ahead: None,
            time_by_watermark: job.by_watermark,
            watermark_default: job.watermark(),
            reset_to_earliest: true,
            changelog_partitions: job.changelog_partitions,
            reuse_source_topics: job.reuses_source_topics(),
            single_store_self_join: false,
            replication_factor: -1,
            broker_wait: Duration::from_secs(3),
            transaction_timeout: Duration::from_secs(60),
            shutdown_timeout: Duration::from_secs(10),
            stall_timeout: None,
            admin_listen: None,
            admin: AdminAccess::default(),
            ensure_explicit_naming: true,
            default_key_serde: None,
            default_value_serde: None,
            default_key_entries: None,
            default_value_entries: None,
            default_timestamp: None,
            changelog_config: std::collections::BTreeMap::new(),
            notes: Vec::new(),
            client_properties: Vec::new(),
            handlers: stoatflow_core::Handlers::default(),
        }
    }
}
