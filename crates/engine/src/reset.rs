//! Resets an application: deletes its state and moves its committed offsets.
//!
//! Asks the broker for facts, lets [`stoatflow_protocol::reset`] decide, and acts in an order that may
//! be interrupted at any point:
//!
//! ```text
//! open ────────────► begin ──────────────────► state, changelogs ─────► end
//! fences a running   commits the new offsets   are deleted              commits them without the mark
//! instance, awaits   with a mark                      │
//! its transactions             └─── from here on ─────┴─── no engine starts: run the reset again ──┘
//! ```
//!
//! So new offsets never meet old state, and old offsets never meet empty state. The mark keeps the
//! offsets that were committed before, so that the same request, repeated, makes the same decision.
//! Local state is deleted before the changelogs: once this process has its lock, no older instance is
//! left on this machine that could request a deleted topic. Output topics, input topics and local state
//! on other machines are never touched.

mod mark;
pub mod orphans;

pub use mark::refuse_unfinished;

use crate::admin::status::Status;
use crate::commit::offsets_topic::{self, OffsetRows, OffsetsTopic};
use crate::runtime::failpoint::Failpoints;
use crate::runtime::shared::Shared;
use crate::startup::{CommittedOffsets, EngineSpec};
use mark::OffsetBeforeReset;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use stoatflow_core::{Error, ErrorKind, Offset, Result, Timestamp, TopicPartition};
use stoatflow_log::{
    ClusterExpiry, CommitOutcome, CutEntry, Producer, ProducerMode, ProducerRecord, TopicInfo,
};
use stoatflow_plan::Store;
use stoatflow_protocol::reset::{
    OffsetMove, OffsetReason, PartitionFacts, Request, Target, decide,
};

/// What a reset does, or would do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The application.
    pub application: String,
    /// The broker's address.
    pub address: String,
    /// True if an earlier reset is unfinished.
    pub begun: bool,
    /// The new offset of every source partition.
    pub moves: Vec<OffsetMove>,
    /// Existing changelog topics with the number of their offsets (an upper bound for their records).
    pub changelogs: Vec<(String, u64)>,
    /// The local state directory, if it exists.
    pub state: Option<PathBuf>,
}

/// A reset in progress. If it is dropped before [`Self::end`], the reset must be run again before the
/// application can start.
pub struct ResetInProgress {
    facts: ResetFacts,
    plan: Plan,
    before: Vec<OffsetBeforeReset>,
    producer: Box<dyn Producer>,
    /// The offsets topic, if the broker expires committed offsets.
    offsets: Option<OffsetsTopic>,
}

/// Returns what a reset would do; changes nothing.
///
/// # Errors
/// Whatever keeps an application from starting; `Config` for a topic that the application doesn't read.
pub fn preview(spec: &EngineSpec, request: &Request) -> Result<Plan> {
    let facts = ResetFacts::of(spec)?;
    let committed_offsets = facts.committed_offsets().map_err(|e| {
        let patience = facts.spec.settings.transaction_timeout.as_secs();
        match e.kind() {
            ErrorKind::Unavailable => e.hint(format!(
                "check the broker; if an instance was killed a moment ago its transaction is still \
                    open: ask again in {patience} s, or reset without asking (--yes), which ends it"
            )),
            _ => e,
        }
    })?;
    Ok(facts.plan(request, &committed_offsets)?.0)
}

/// Runs a whole reset; `agree` sees what it will do and may refuse.
///
/// # Errors
/// As [`preview`]; `Fenced` if an instance was started meanwhile; errors of broker and disk. After any
/// error the reset can be run again.
pub fn reset(
    spec: &EngineSpec,
    request: &Request,
    agree: impl FnOnce(&Plan) -> Result<()>,
) -> Result<Plan> {
    let mut reset = ResetInProgress::open(spec, request)?;
    agree(&reset.plan)?;
    reset.begin()?;
    reset.wipe_state()?;
    reset.delete_changelogs()?;
    // An instance that was starting when it was fenced may have restored old state meanwhile.
    reset.wipe_state()?;
    reset.end()
}

impl ResetInProgress {
    /// Fences a running instance, waits for its transactions, and decides. Changes nothing yet.
    ///
    /// # Errors
    /// As [`reset`].
    pub fn open(spec: &EngineSpec, request: &Request) -> Result<Self> {
        let facts = ResetFacts::of(spec)?;
        // A mistyped topic is reported before a running instance is stopped.
        facts.check(request)?;
        let (producer, committed_offsets) = facts.fence()?;
        let (plan, before) = facts.plan(request, &committed_offsets)?;
        let offsets = facts.offsets(committed_offsets.rows, &plan)?;
        Ok(Self {
            facts,
            plan,
            before,
            producer,
            offsets,
        })
    }

    /// What it will do.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Commits the new offsets with the mark.
    ///
    /// # Errors
    /// As [`reset`].
    pub fn begin(&mut self) -> Result<()> {
        let cut = self.cut(|_, before| before.marked());
        self.commit(&cut)
    }

    /// Removes the local state.
    ///
    /// # Errors
    /// As [`reset`].
    pub fn wipe_state(&mut self) -> Result<()> {
        let facts = &self.facts;
        facts
            .spec
            .wipe_state_when_unlocked(&facts.shared, &facts.specs)
    }

    /// Deletes the changelog topics.
    ///
    /// # Errors
    /// As [`reset`].
    pub fn delete_changelogs(&mut self) -> Result<()> {
        let spec = &self.facts.spec;
        let names = self.facts.changelogs();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        spec.components
            .broker
            .delete_topics(&names, spec.settings.broker_wait)
    }

    /// Commits the new offsets without the mark: the application may start.
    ///
    /// # Errors
    /// As [`reset`].
    pub fn end(mut self) -> Result<Plan> {
        // A topic that is read again has no stream time yet.
        let cut = self.cut(|way, before| {
            crate::intake::watermarks::encode_stream_time(match way.why {
                OffsetReason::Kept => before.stream_time,
                _ => Timestamp::UNKNOWN,
            })
        });
        self.commit(&cut)?;
        Ok(self.plan)
    }

    fn cut(&self, metadata: impl Fn(&OffsetMove, OffsetBeforeReset) -> String) -> Vec<CutEntry> {
        let entry = |(way, before): (&OffsetMove, &OffsetBeforeReset)| {
            Some(CutEntry {
                partition: way.partition.clone(),
                offset: way.to?,
                metadata: metadata(way, *before),
            })
        };
        let ways = self.plan.moves.iter().zip(&self.before);
        ways.filter_map(entry).collect()
    }

    fn commit(&mut self, cut: &[CutEntry]) -> Result<()> {
        let deleted = self.facts.changelogs();
        let now = self.facts.spec.components.clock.now();
        let rows = self.offsets.as_mut();
        let rows = rows.map_or_else(Vec::new, |topic| topic.rewind(cut, &deleted, now));
        self.facts.commit(self.producer.as_mut(), cut, rows)
    }
}

/// The facts that the decision is based on.
struct ResetFacts {
    /// Topic patterns are resolved.
    spec: EngineSpec,
    shared: Arc<Shared>,
    topics: BTreeMap<String, TopicInfo>,
    specs: Vec<Store>,
}

impl ResetFacts {
    /// Commits offsets, together with rows of the offsets topic.
    fn commit(
        &self,
        producer: &mut dyn Producer,
        cut: &[CutEntry],
        mut rows: Vec<ProducerRecord>,
    ) -> Result<()> {
        let settings = &self.spec.settings;
        let (group, timeout) = (&settings.application_id, settings.commit_timeout);
        let committed = producer
            .begin()
            .and_then(|()| producer.send(&mut rows))
            .and_then(|()| producer.flush(timeout))
            .and_then(|()| match cut {
                [] => Ok(()),
                cut => producer.offsets(group, cut, timeout),
            })
            .and_then(|()| producer.commit(timeout));
        match committed {
            Ok(CommitOutcome::Committed) => Ok(()),
            Ok(CommitOutcome::Aborted) => Err(Error::unavailable(format!(
                "the broker aborted the commit of the new positions of '{group}'"
            ))
            .hint("run the reset again")),
            Err(e) if e.kind() == ErrorKind::Fenced => Err(Error::fenced(format!(
                "an instance of '{group}', or another reset, was started during this one"
            ))
            .hint("stop that instance, then run the reset again")
            .caused_by(e)),
            Err(e) if matches!(e.kind(), ErrorKind::Unavailable | ErrorKind::UnknownOutcome) => {
                Err(e.hint("run the reset again: it continues where it stopped"))
            }
            Err(e) => Err(e),
        }
    }

    fn of(spec: &EngineSpec) -> Result<Self> {
        let (plan, settings) = (&spec.plan, &spec.settings);
        if settings.ensure_explicit_naming {
            stoatflow_plan::require_explicit_names(plan)?;
        }
        let status = Status::new(&settings.application_id, Arc::clone(plan), settings.lanes);
        let shared = spec.shared(Arc::new(status), Failpoints::default());
        let names = spec.matched(&shared)?.ok_or_else(stopped)?;
        let spec = spec.resolved(&names)?;
        let topics = spec.reach_topics(&shared)?.ok_or_else(stopped)?;
        let specs = spec.specs(&spec.timing())?;
        let facts = Self {
            spec,
            shared,
            topics,
            specs,
        };
        match facts
            .changelogs()
            .iter()
            .find(|c| facts.topics.contains_key(*c))
        {
            Some(own) => Err(Error::topology(format!(
                "the topology reads its own changelog topic '{own}', which a reset would delete"
            ))
            .hint("read what the topology writes from a topic of its own: to(...)")),
            None => Ok(facts),
        }
    }

    /// Fences a running instance and waits for its transactions; returns the final committed offsets.
    fn fence(&self) -> Result<(Box<dyn Producer>, CommittedOffsets)> {
        let (spec, settings) = (&self.spec, &self.spec.settings);
        spec.refuse_members_of_reset()?;
        // This id fences under either guarantee.
        let mode = ProducerMode::Transactional {
            id: settings.application_id.clone(),
            timeout: settings.transaction_timeout,
        };
        let broker = &spec.components.broker;
        let producer = broker.producer(&mode, settings.broker_wait)?;
        let fenced = spec.components.clock.monotonic();
        let committed = self.committed_offsets()?;
        if !spec.await_transactions(&self.shared, &committed, fenced)? {
            return Err(stopped());
        }
        Ok((producer, committed))
    }

    fn committed_offsets(&self) -> Result<CommittedOffsets> {
        let committed_offsets = self.spec.committed_offsets(&self.shared, &self.topics)?;
        committed_offsets.ok_or_else(stopped)
    }

    /// The offsets topic, created if missing. For topics that will be read again, it records their
    /// present ids.
    fn offsets(&self, rows: OffsetRows, plan: &Plan) -> Result<Option<OffsetsTopic>> {
        let (settings, broker) = (&self.spec.settings, self.spec.components.broker.as_ref());
        if broker.expiry() == ClusterExpiry::Never {
            return Ok(None);
        }
        let application = &settings.application_id;
        offsets_topic::create(application, settings.replication_factor, |topic| {
            broker.create_topics(std::slice::from_ref(topic), settings.broker_wait)
        })?;
        let rewound = plan
            .moves
            .iter()
            .filter(|way| way.why != OffsetReason::Kept);
        let ids = rewound.filter_map(|way| {
            let topic = self.topics.get(&*way.partition.topic)?;
            Some((Arc::clone(&topic.name), Arc::clone(topic.id.as_ref()?)))
        });
        Ok(Some(OffsetsTopic::new(application, rows, ids.collect())))
    }

    fn changelogs(&self) -> Vec<String> {
        let logged = self.specs.iter().filter(|s| s.logged);
        logged.map(|s| self.spec.changelog_of(s)).collect()
    }

    /// Checks that the request names only topics that the application reads.
    fn check(&self, request: &Request) -> Result<()> {
        let request = Request {
            // The offsets of another group are not known yet, so any other target is checked.
            target: Target::Earliest,
            topics: request.topics.clone(),
        };
        let nothing = |topic: &TopicInfo| PartitionFacts {
            partition: TopicPartition::new(Arc::clone(&topic.name), 0),
            global: false,
            committed: None,
            begin: Offset(0),
            end: Offset(0),
            since: None,
            of_group: None,
        };
        let facts: Vec<PartitionFacts> = self.topics.values().map(nothing).collect();
        decide(&request, &facts).map(drop)
    }

    fn plan(
        &self,
        request: &Request,
        committed_offsets: &CommittedOffsets,
    ) -> Result<(Plan, Vec<OffsetBeforeReset>)> {
        let spec = &self.spec;
        let (broker, wait) = (&spec.components.broker, spec.settings.broker_wait);
        self.check(request)?;
        let partitions = &committed_offsets.partitions;
        let committed = committed_offsets.committed.iter();
        let before: Vec<OffsetBeforeReset> = committed
            .map(|c| OffsetBeforeReset::of(c.as_ref()))
            .collect();
        let ranges = broker.ranges(partitions, wait)?;
        let since = match request.target.since(spec.components.clock.now()) {
            Some(time) => broker.offsets_for_times(partitions, time, wait)?,
            None => vec![None; partitions.len()],
        };
        let of_group = match &request.target {
            Target::Group(group) => spec.committed_of_group(group, partitions)?,
            _ => vec![None; partitions.len()],
        };
        let globals = spec.plan.sources.iter().filter(|s| s.global);
        let globals: BTreeSet<&str> = globals
            .flat_map(|s| s.topics.iter().map(String::as_str))
            .collect();
        let facts: Vec<PartitionFacts> = partitions
            .iter()
            .zip(&before)
            .zip(ranges.iter().zip(since).zip(of_group))
            .map(
                |((partition, before), ((range, since), of_group))| PartitionFacts {
                    partition: partition.clone(),
                    global: globals.contains(&*partition.topic),
                    committed: before.offset,
                    begin: range.begin,
                    end: range.stable_end,
                    since,
                    of_group,
                },
            )
            .collect();
        let state = spec.state_directory();
        let plan = Plan {
            application: spec.settings.application_id.clone(),
            address: broker.address(),
            begun: before.iter().any(|b| b.begun),
            moves: decide(request, &facts)?,
            changelogs: self.sizes()?,
            state: state.exists().then_some(state),
        };
        Ok((plan, before))
    }

    /// Existing changelog topics with the number of their offsets.
    fn sizes(&self) -> Result<Vec<(String, u64)>> {
        let names = self.changelogs();
        self.sizes_of(&names.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The existing ones of these topics, with the number of their offsets.
    fn sizes_of(&self, names: &[&str]) -> Result<Vec<(String, u64)>> {
        let spec = &self.spec;
        let (broker, wait) = (&spec.components.broker, spec.settings.broker_wait);
        let size = |topic: TopicInfo| {
            let of = |p| TopicPartition::new(Arc::clone(&topic.name), p);
            let partitions: Vec<TopicPartition> = (0..topic.partitions).map(of).collect();
            let ranges = broker.ranges(&partitions, wait)?;
            let offsets = ranges.iter().map(|r| r.stable_end.0 - r.begin.0);
            let offsets = u64::try_from(offsets.sum::<i64>()).unwrap_or(0);
            Ok((topic.name.to_string(), offsets))
        };
        let found = broker.topics(names, wait)?;
        found.into_iter().flatten().map(size).collect()
    }
}

fn stopped() -> Error {
    Error::internal("a reset was asked to stop, which is impossible")
}
