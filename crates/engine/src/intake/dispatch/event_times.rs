//! Event time as dispatch sees it: highest timestamps, watermarks, idle partitions, alignment.
//!
//! Computes the watermark of each barrier. Between barriers it costs one comparison per record and one
//! check per run of records; it looks for idle partitions only if there can be any.

use super::stalled_watermark::StalledWatermark;
use crate::admin::status::PartitionStatus;
use crate::intake::source_partitions::SourcePartitions;
use crate::intake::watermarks::Progress;
use crate::lane::stream_time::groups::{source_tasks, uses_dispatch_times};
use crate::runtime::shared::Shared;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use stoatflow_core::{Offset, Order, StageId, Task, Timestamp};
use stoatflow_log::ConsumerRecord;
use stoatflow_operators::RecordTimes;
use stoatflow_plan::PhysicalPlan;
use stoatflow_protocol::{Strategy, Watermarks};

/// See the module.
#[derive(Debug)]
pub struct EventTimes {
    marks: Watermarks,
    /// Highest timestamp per slot.
    stream_time: Vec<Timestamp>,
    /// Stream time by task, and the task of each slot: partitions with the same number, of topics that
    /// one sub-topology reads, share one stream time. `None` for global tables and answers.
    of_tasks: Vec<i64>,
    tasks: Vec<Option<usize>>,
    /// The highest timestamp of keyed records, by source and partition, and the index of each slot in
    /// it. Covers this run only: operators know what came before.
    keyed: Vec<i64>,
    keyed_at: Vec<usize>,
    /// True if the first stage uses these times.
    noted: bool,
    /// Per slot: watermarks from user functions, for records that are not admitted yet.
    announced: Vec<VecDeque<(Offset, i64)>>,
    by_watermark: bool,
    idles: bool,
    aligned: bool,
    /// The application's watermark at the last barrier.
    at_barrier: i64,
    /// True if the watermark has changed since the last barrier without a record.
    changed: bool,
    standing: StalledWatermark,
}

impl EventTimes {
    pub fn new(
        plan: &PhysicalPlan,
        slots: &SourcePartitions,
        by_watermark: bool,
        now: Duration,
    ) -> Self {
        let committed = slots.iter().map(|s| s.progress.application).max();
        let mut marks = Watermarks::new(committed.unwrap_or(-1));
        let stream_time: Vec<_> = slots.iter().map(|s| s.progress.stream_time).collect();
        for (at, slot) in slots.iter().enumerate() {
            marks.add(slot.watermark.rule, slot.progress.watermark, now);
            if slot.progress.stream_time.0 >= 0 {
                // The commit has no watermark if an older version or another strategy wrote it.
                marks.on_records(at, slot.progress.stream_time.0, now);
            }
        }
        let rules = || slots.iter().map(|s| s.watermark.rule);
        let tasks = source_tasks(plan, slots);
        let count = tasks.iter().flatten().map(|task| task + 1).max();
        let mut of_tasks = vec![-1; count.unwrap_or(0)];
        for (task, slot) in tasks.iter().zip(slots.iter()) {
            if let Some(task) = *task {
                of_tasks[task] = slot.progress.stream_time.0.max(of_tasks[task]);
            }
        }
        let mut known = BTreeMap::new();
        let keyed_at: Vec<usize> = slots
            .iter()
            .map(|slot| {
                let source = slot.bindings.first().map(|binding| binding.source);
                let next = known.len();
                *known
                    .entry((source, slot.partition.partition))
                    .or_insert(next)
            })
            .collect();
        Self {
            noted: uses_dispatch_times(plan, StageId(0)),
            keyed: vec![-1; known.len()],
            keyed_at,
            of_tasks,
            tasks,
            at_barrier: committed.unwrap_or(-1),
            announced: vec![VecDeque::new(); stream_time.len()],
            stream_time,
            by_watermark,
            idles: rules().any(|r| r.idle_after.is_some() && r.strategy != Strategy::None),
            aligned: marks.has_groups(),
            changed: false,
            standing: StalledWatermark::new(committed.unwrap_or(-1), now),
            marks,
        }
    }

    /// Call when a record is admitted; advances the times. Returns the times at the record if the first
    /// stage uses them.
    pub fn admit(&mut self, slot: usize, record: &ConsumerRecord) -> Option<RecordTimes> {
        let timestamp = record.timestamp;
        let highest = &mut self.stream_time[slot];
        *highest = (*highest).max(timestamp);
        if !self.noted {
            return None;
        }
        let stream = self.tasks[slot].map_or(-1, |task| {
            let time = &mut self.of_tasks[task];
            *time = timestamp.0.max(*time);
            *time
        });
        let keyed = &mut self.keyed[self.keyed_at[slot]];
        let keyed_before = *keyed;
        if record.key.is_some() {
            *keyed = timestamp.0.max(*keyed);
        }
        Some(RecordTimes {
            place: Order::new(record.number, Task(0)).key(),
            stream,
            keyed_before,
        })
    }

    /// Call when a run of a slot's records is admitted, up to but not including this offset.
    pub fn passed(&mut self, slot: usize, up_to: Offset, now: Duration) {
        let said = &mut self.announced[slot];
        while let Some((_, watermark)) = said.front().filter(|(offset, _)| *offset < up_to) {
            self.marks.on_watermark(slot, *watermark);
            said.pop_front();
        }
        self.marks.on_records(slot, self.stream_time[slot].0, now);
    }

    /// Keeps the watermark that a user function returned for a record that is not admitted yet.
    pub fn announce_watermark(&mut self, slot: usize, offset: Offset, watermark: i64) {
        self.announced[slot].push_back((offset, watermark));
    }

    /// True if there are alignment groups.
    pub const fn is_aligned(&self) -> bool {
        self.aligned
    }

    /// How far a slot's watermark may go before it must wait for its group.
    pub fn bound(&self, slot: usize) -> Option<i64> {
        self.aligned.then(|| self.marks.bound(slot)).flatten()
    }

    /// A slot's watermark.
    pub fn watermark(&self, slot: usize) -> i64 {
        self.marks.of(slot)
    }

    /// The highest timestamp of each slot.
    pub fn highest(&self) -> &[Timestamp] {
        &self.stream_time
    }

    /// See [`Watermarks::set_polling`].
    pub fn set_reading(&mut self, is: bool, shared: &Shared) {
        if self.idles {
            self.marks.set_polling(is, shared.clock.monotonic());
        }
    }

    /// Finds idle partitions, and applies a requested watermark.
    pub fn update(&mut self, shared: &Shared, is_waiting: impl Fn(usize) -> bool) {
        if self.idles && self.marks.find_idle(shared.clock.monotonic(), is_waiting) {
            self.changed |= self.by_watermark;
        }
        let asked = shared.requested_watermark();
        if asked > self.at_barrier {
            self.marks.raise(asked);
            self.changed = true;
        }
    }

    /// True if the watermark has advanced without a record, so that a barrier must carry it.
    pub fn is_due(&self) -> bool {
        self.changed && self.marks.application() > self.at_barrier
    }

    /// The application's watermark at a barrier.
    pub fn barrier(&mut self) -> i64 {
        self.changed = false;
        self.at_barrier = self.marks.advance();
        self.at_barrier
    }

    /// Logs at intervals which partitions hold the watermark back, if it is the application's time and
    /// stalls while records arrive.
    pub fn warn_about_stalled_watermark(
        &mut self,
        records: u64,
        now: Duration,
        slots: &SourcePartitions,
    ) {
        let reported = self.standing.barrier(self.at_barrier, records, now);
        let Some((stood, records)) = reported.filter(|_| self.by_watermark) else {
            return;
        };
        let last = self.marks.slowest();
        let named = last.iter().take(5).map(|at| {
            let (name, watermark) = (&slots[*at].partition, self.marks.of(*at));
            match watermark {
                _ if self.stream_time[*at].0 < 0 => format!("{name} (no record yet)"),
                ..0 => format!("{name} (no watermark yet)"),
                _ => format!("{name} (at {watermark})"),
            }
        });
        let holders = match last.len() {
            0 => "no partition: all are idle, or have Watermark.none()".to_owned(),
            all => {
                let more = all.saturating_sub(5);
                let and = if more > 0 {
                    format!(" and {more} more")
                } else {
                    String::new()
                };
                format!("{}{and}", named.collect::<Vec<_>>().join(", "))
            }
        };
        tracing::warn!(
            target: "stoatflow::dispatch",
            watermark = self.at_barrier,
            seconds = stood.as_secs(),
            records,
            "the watermark stands still while records come, and nothing that waits for it closes. It \
                waits for {holders}. \
             Next: find out why nothing newer comes there; give a source that may be silent .idle(\"5m\"), one \
             without a time of its own with Watermark.none(). /watermarks shows all partitions"
        );
    }

    /// The times that are committed with a slot's offset.
    pub fn progress(&self, slot: usize) -> Progress {
        Progress {
            stream_time: self.stream_time[slot],
            watermark: self.marks.of(slot),
            application: self.at_barrier,
            leader_epoch: -1,
        }
    }

    /// Fills in the status of all slots; `waits` returns whether a slot waits for its group.
    pub fn report(&self, shown: &mut [PartitionStatus], waits: impl Fn(usize) -> bool) {
        let least = self.marks.minimum();
        for (at, shown) in shown.iter_mut().enumerate().take(self.stream_time.len()) {
            shown.stream_time = self.stream_time[at].0;
            shown.watermark = self.marks.of(at);
            shown.idle = self.marks.is_idle(at);
            shown.waits = waits(at);
            shown.holds_back = self.marks.holds_back(at, least);
        }
    }
}
