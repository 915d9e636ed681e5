//! The engine's work: topologies as logical plans, and difficult inputs.
//!
//! Takes a seed; returns a [`Job`]: a compiled plan of one to five parts, and input records with skewed
//! keys, null keys, null values and timestamps out of order. [`crate::checkers`] knows the expected
//! results.

pub(crate) mod async_calls;
pub(crate) mod bank;
pub(crate) mod batches;
pub(crate) mod indexes;
mod input;
pub(crate) mod late_records;
pub(crate) mod lookups;
pub(crate) mod offloads;
mod plan;
pub(crate) mod timers;
mod udf;

/// The functions as plain Rust, for the model.
pub(crate) mod functions {
    pub(crate) use super::input::FINAL_KEY;
    pub(crate) use super::plan::{GRACE_MS, REACH_MS, SIZE_MS};
    pub(crate) use super::udf::{bucket, group, half, pair, tally, twin, words};
}

use crate::async_service::AsyncService;
use crate::rng::SimRng;
use async_calls::CallSettings;
use indexes::SimIndex;
use offloads::OffloadSettings;
use std::collections::BTreeMap;
use std::sync::Arc;
use stoatflow_core::settings::WatermarkDefault;
use stoatflow_core::{Guarantee, Result};
use stoatflow_log::ProducerRecord;
use stoatflow_operators::{AsyncUdf, ForeignCode};
use stoatflow_plan::PhysicalPlan;
use stoatflow_state::Layout;

/// The application id, which is also the name of the group and the transactional id.
pub(crate) const APPLICATION: &str = "sim";

/// One piece of topology with topics and stores of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Word count; `true` with native expressions, else with functions.
    Words(bool),
    /// Word count, and how many words reached each count: two exchanges.
    Counts,
    /// Sums by bucket, and the greatest sum of each half: two exchanges.
    Sums,
    /// A table.
    Rows,
    /// The last value of each group: shows the order of the input.
    Latest,
    /// Counts in windows, each emitted once when the window closes: by the aggregation itself, or
    /// (`true`) by a suppression after it.
    Windows(bool),
    /// Left join of two halves of a stream; the joiner may be async.
    Pairs(Option<CallSettings>),
    /// Join of two tables by a foreign key; the joiner may be async.
    Foreign(Option<CallSettings>),
    /// Join of two tables whose updates come from different stages: once materialized, and once counted
    /// directly.
    Joined,
    /// Timers of a processor by event time and by the clock; `true` adds a scheduled source. (Without
    /// it, only the timers themselves wake an engine that has read everything.)
    Timers(bool),
    /// Transfers between accounts that all lanes share.
    Bank,
    /// An async function.
    AsyncCalls(CallSettings),
    /// A function of whole batches, of at most `rows` rows, after at most `wait_ms` milliseconds.
    Batches { rows: u32, wait_ms: i64 },
    /// Late records that go to a dead letter topic.
    LateRecords,
    /// Records that are parked until a worker has answered.
    Offloads(OffloadSettings),
    /// Left join of a stream with a table by an async joiner.
    Lookups(CallSettings),
    /// Counts by a new key in windows without grace: which records are late depends on the order of the
    /// input and on nothing else.
    Races,
}

impl Part {
    pub fn input(self) -> &'static str {
        self.inputs()[0]
    }

    /// All topics that the feeder writes to.
    pub fn inputs(self) -> &'static [&'static str] {
        match self {
            Self::Words(_) => &["words"],
            Self::Counts => &["lines"],
            Self::Sums => &["numbers"],
            Self::Rows => &["rows"],
            Self::Latest => &["moves"],
            Self::Windows(_) => &["clicks"],
            Self::Pairs(_) => &["halves"],
            Self::Foreign(_) => &["orders", "goods"],
            Self::Joined => &["plans", "visits"],
            Self::Timers(_) => &["bells"],
            Self::Bank => &["bank"],
            Self::AsyncCalls(_) => &["asks"],
            Self::Batches { .. } => &["lots"],
            Self::LateRecords => &["tardy"],
            Self::Offloads(_) => &[offloads::RECORDS],
            Self::Lookups(_) => &[lookups::RECORDS, lookups::ROWS],
            Self::Races => &["races"],
        }
    }

    /// All topics that the engine reads; a worker may write to one of them.
    pub fn sources(self) -> impl Iterator<Item = &'static str> {
        let answers = matches!(self, Self::Offloads(_)).then_some(offloads::ANSWERS);
        self.inputs().iter().copied().chain(answers)
    }

    /// All output topics.
    pub fn outputs(self) -> Vec<&'static str> {
        match self {
            Self::Windows(_) => vec!["clicks-out"],
            Self::Races => vec!["races-out"],
            Self::Pairs(_) => vec!["pairs-out"],
            Self::Foreign(_) => vec!["orders-out"],
            Self::Joined => vec!["planned-out", "tally-out"],
            Self::Timers(true) => vec!["bells-out", timers::TICKS],
            Self::Timers(false) => vec!["bells-out"],
            Self::Bank => vec!["bank-out"],
            Self::AsyncCalls(_) => vec!["asks-out", async_calls::DEAD_LETTERS],
            Self::Batches { .. } => vec!["lots-out", batches::DEAD_LETTERS],
            Self::LateRecords => vec!["tardy-out", late_records::DEAD_LETTERS],
            Self::Offloads(_) => vec![
                offloads::RESULTS,
                offloads::REQUESTS,
                offloads::FAILED,
                offloads::UNANSWERED,
            ],
            Self::Lookups(_) => vec![lookups::RESULTS, lookups::DEAD_LETTERS],
            _ => self.tables().iter().map(|t| t.0).collect(),
        }
    }

    /// Whether results are emitted when time closes them. They are only predictable if the input has one
    /// order, or if time is the watermark.
    pub fn is_timed(self) -> bool {
        matches!(self, Self::Windows(_) | Self::Pairs(_))
    }

    /// Whether it waits for event time; then it gets final records that advance the time.
    pub fn waits_for_time(self) -> bool {
        self.is_timed() || self.has_timers()
    }

    /// Whether its processor uses timers.
    pub fn has_timers(self) -> bool {
        matches!(self, Self::Timers(_) | Self::Bank)
    }

    /// Whether it keeps no table, and all of its values are distinct.
    pub fn is_stateless(self) -> bool {
        matches!(
            self,
            Self::AsyncCalls(_) | Self::Batches { .. } | Self::LateRecords | Self::Offloads(_)
        )
    }

    /// Whether its records must have keys. (A left join emits a record without a key as it is, so such
    /// records can't be told apart. A timer needs a key. An offload needs one too; if a function
    /// substitutes for errors of the worker, there is no handler for records without a key. The model of
    /// races only covers records with one.)
    pub fn needs_keys(self) -> bool {
        match self {
            Self::Pairs(_) | Self::Timers(_) | Self::Bank | Self::Races => true,
            Self::Offloads(settings) => settings.substitute,
            _ => false,
        }
    }

    /// Whether one of its topics is a table, whose order is the order of its partition.
    pub fn has_tables(self) -> bool {
        matches!(
            self,
            Self::Rows | Self::Foreign(_) | Self::Joined | Self::Lookups(_)
        )
    }

    /// How its async joiner is called, if it has one.
    pub fn joiner_settings(self) -> Option<CallSettings> {
        match self {
            Self::Pairs(settings) | Self::Foreign(settings) => settings,
            Self::Lookups(settings) => Some(settings),
            _ => None,
        }
    }

    /// Output topic and store of each table whose output is its updates.
    pub fn tables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Words(_) => &[("words-out", "words-store")],
            Self::Counts => &[
                ("firsts-out", "firsts-store"),
                ("seconds-out", "seconds-store"),
            ],
            Self::Sums => &[("sums-out", "sums-store"), ("tops-out", "tops-store")],
            Self::Rows => &[("rows-out", "rows-store")],
            Self::Latest => &[("latest-out", "latest-store")],
            _ => &[],
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Job {
    pub parts: Vec<Part>,
    pub plan: Arc<PhysicalPlan>,
    foreign: Arc<ForeignCode>,
    pub guarantee: Guarantee,
    pub cached: bool,
    /// Whether time is the watermark.
    pub by_watermark: bool,
    /// The indexes of its tables.
    pub indexes: Vec<SimIndex>,
    /// Input and output topics with their numbers of partitions.
    pub topics: BTreeMap<&'static str, i32>,
    pub changelog_partitions: i32,
    /// Input records in the order in which they are sent.
    pub inputs: Vec<ProducerRecord>,
}

impl Job {
    /// The job of a seed.
    ///
    /// # Errors
    /// Errors of the plan's compiler.
    pub fn new(rng: &mut SimRng) -> Result<Self> {
        let mut all = [
            Part::Words(rng.chance(5000)),
            Part::Counts,
            Part::Sums,
            Part::Rows,
            Part::Latest,
            Part::Windows(rng.chance(5000)),
            Part::Pairs(None),
            Part::Foreign(None),
            Part::Joined,
        ];
        rng.shuffle(&mut all);
        let count = if rng.chance(6000) {
            1
        } else {
            1 + rng.index(3)
        };
        let mut parts = all[..count].to_vec();
        // Drawn from streams of their own, so that all other seeds keep their meaning.
        let mut aside = rng.clone();
        let mut watermark = aside.split();
        add_timers(&mut parts, &mut aside.split());
        add_stateless(&mut parts, &mut aside.split());
        add_races(&mut parts, &mut aside.split());
        add_bank(&mut parts, &mut aside.split());
        let indexed = aside.split().chance(3000);
        let by_watermark = parts.iter().any(|part| part.waits_for_time())
            && !parts.contains(&Part::Races)
            && watermark.chance(5000);
        let mut topics = BTreeMap::new();
        for part in &parts {
            for topic in part.outputs() {
                let partitions = i32::try_from(rng.between(1, 4)).unwrap_or(1);
                // All ticks have the same key; a single partition shows their order.
                let one = topic == timers::TICKS;
                topics.insert(topic, if one { 1 } else { partitions });
            }
            for topic in part.sources() {
                let partitions = i32::try_from(rng.between(1, 4)).unwrap_or(1);
                // If time is the watermark, the order of the input doesn't matter.
                let one = part.is_timed() && !by_watermark || *part == Part::Races;
                topics.insert(topic, if one { 1 } else { partitions });
            }
        }
        let guarantee = if rng.chance(7500) {
            Guarantee::ExactlyOnceV2
        } else {
            Guarantee::AtLeastOnce
        };
        let plan = plan::compile(&parts, by_watermark, indexed)?;
        Ok(Self {
            indexes: indexes::of(&plan),
            plan: Arc::new(plan),
            by_watermark,
            foreign: Arc::new(ForeignCode {
                udfs: udf::all(),
                serdes: Vec::new(),
                processors: plan::processors(),
                ..ForeignCode::default()
            }),
            guarantee,
            cached: rng.chance(4000),
            changelog_partitions: i32::try_from(rng.between(0, 3)).unwrap_or(1),
            inputs: input::records(rng, &parts, &topics, by_watermark),
            parts,
            topics,
        })
    }

    /// Its async function and how that is called, if it has one.
    pub fn async_function(&self) -> Option<(&'static str, CallSettings)> {
        self.parts.iter().find_map(|part| match part {
            Part::AsyncCalls(settings) => Some((async_calls::FUNCTION, *settings)),
            part => Some((async_calls::JOINER, part.joiner_settings()?)),
        })
    }

    /// The settings of its offload, if it has one.
    pub fn offload_settings(&self) -> Option<OffloadSettings> {
        self.parts.iter().find_map(|part| match part {
            Part::Offloads(settings) => Some(*settings),
            _ => None,
        })
    }

    /// The functions of the plan, with the service for the async calls of one process.
    pub fn foreign(&self, service: Option<Arc<AsyncService>>) -> Arc<ForeignCode> {
        let Some(service) = service else {
            return Arc::clone(&self.foreign);
        };
        let number = udf::number(service.name());
        let service: Arc<dyn AsyncUdf> = service;
        Arc::new(ForeignCode {
            calls: [(number, service)].into(),
            ..(*self.foreign).clone()
        })
    }

    /// The watermark of sources that configure none.
    pub fn watermark(&self) -> WatermarkDefault {
        WatermarkDefault {
            // Parts without final records would hold the others back.
            delay_ms: (!self.by_watermark).then_some(0),
            idle_after: None,
        }
    }

    /// Whether tables are restored from their source topics.
    pub fn reuses_source_topics(&self) -> bool {
        self.inputs.len().is_multiple_of(2)
    }

    /// The topic that a store is restored from: its changelog, or the source of a table.
    pub fn changelog(&self, store: &str) -> String {
        let mut stores = self.plan.stores.iter();
        let known = stores.find(|s| s.name == store);
        let source = known.filter(|s| s.logged && self.reuses_source_topics());
        let source = source.and_then(|s| s.source_changelog.clone());
        source.unwrap_or_else(|| format!("{APPLICATION}-{store}-changelog"))
    }

    /// The changelog topic and the layout of every store, by store number; the engine's own comes last.
    pub fn changelogs(&self) -> Vec<(String, Layout)> {
        let stores = self.plan.stores.iter();
        let stores = stores.map(|s| {
            (
                self.changelog(&s.name),
                stoatflow_engine::startup::store_spec::layout(s.kind),
            )
        });
        let own =
            (!self.plan.clocks.is_empty()).then(|| (self.changelog("clocks"), Layout::KeyValue));
        stores.chain(own).collect()
    }
}

/// Whether the topic is a changelog and not the source of a table.
pub(crate) fn is_changelog(topic: &str) -> bool {
    topic.ends_with("-changelog")
}

/// Adds timers and ticks to some jobs, alone or beside other parts.
fn add_timers(parts: &mut Vec<Part>, rng: &mut SimRng) {
    if rng.chance(2000) {
        if rng.chance(5000) {
            parts.clear();
        }
        parts.push(Part::Timers(rng.chance(5000)));
    }
}

/// Adds races to some jobs, alone or beside other parts.
fn add_races(parts: &mut Vec<Part>, rng: &mut SimRng) {
    if rng.chance(800) {
        if rng.chance(5000) {
            parts.clear();
        }
        parts.push(Part::Races);
    }
}

/// Adds a bank to some jobs, alone or beside other parts.
fn add_bank(parts: &mut Vec<Part>, rng: &mut SimRng) {
    if rng.chance(800) {
        // Another watermark would hold the bank's time back.
        if parts.contains(&Part::LateRecords) || rng.chance(7000) {
            parts.clear();
        }
        parts.push(Part::Bank);
    }
}

/// Adds a part that calls a service or keeps no table to some jobs, alone or beside other parts.
fn add_stateless(parts: &mut Vec<Part>, rng: &mut SimRng) {
    let drawn = rng.below(100);
    let part = match drawn {
        0..=13 => Part::AsyncCalls(CallSettings::new(rng)),
        14..=19 => Part::Batches {
            rows: [2, 7, 100][rng.index(3)],
            wait_ms: [5, 60, 10_000][rng.index(3)],
        },
        20..=23 => Part::LateRecords,
        24..=37 => Part::Offloads(OffloadSettings::new(rng)),
        38..=43 => Part::Lookups(CallSettings::new(rng)),
        44..=46 => Part::Pairs(Some(CallSettings::always_answered(rng))),
        47..=49 => Part::Foreign(Some(CallSettings::always_answered(rng))),
        _ => return,
    };
    parts.retain(|other| other.input() != part.input());
    // Its watermark would hold the time of other parts back.
    if part == Part::LateRecords || rng.chance(6000) {
        parts.clear();
    }
    parts.push(part);
}
