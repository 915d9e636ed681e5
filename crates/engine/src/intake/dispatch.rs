//! Dispatch: decides which record is next, which lane gets it, and where an epoch ends.
//!
//! Buffers fetched records per partition. Takes the record with the smallest timestamp, hashes its key
//! to a lane (jump consistent hashing), and sends batches and barriers. While a partition's buffer is
//! empty but the broker is known to have more of it, nothing is taken: the missing records could be
//! older. A partition is held if it is too far ahead of its alignment group, or if an offload would park
//! its records but has no room. Answers free room, so they go first.
//!
//! Owns the buffers in front of the lanes, the offsets of the next commit and the in-flight budget (law
//! 7). Never decodes a value, never blocks.

mod epochs;
mod event_times;
mod held;
mod offload_backpressure;
mod positions;
mod stalled_watermark;
mod task_idle;
mod ticks;
mod uncommitted_bytes;

use crate::intake::global_table_gate::{GateFacts, GlobalTableGate};
use crate::intake::source_partitions::SourcePartitions;
use crate::intake::timestamps::WatermarkUpdate;
use crate::lane::dispatched::Dispatched;
use crate::lane::queue::LaneItem;
use crate::runtime::shared::Shared;
use event_times::EventTimes;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_core::{Epoch, Offset, Timestamp};
use stoatflow_log::ConsumerRecord;
use stoatflow_operators::{jump_hash, key_hash};
use stoatflow_protocol::{Admission, Fetch, Schedule};
use stoatflow_state::KeyValueStore;
use task_idle::TaskIdle;
use ticks::Ticks;
use uncommitted_bytes::UncommittedBytes;

/// Added to a record's bytes in the in-flight budget: its structs in queues.
const RECORD_OVERHEAD: i64 = 128;
/// How long a barrier waits for lanes that have no room for async calls. If it were shorter, lanes would
/// park calls that would have started soon; if longer, slow calls would make an epoch outlive its
/// transaction.
const MAX_WAIT_FOR_CALL_ROOM: Duration = Duration::from_secs(1);

/// Limits of admission.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionLimits {
    /// Bytes in flight between dispatch and lanes.
    pub in_flight: i64,
    /// Maximum records per batch.
    pub batch: usize,
    /// `max.task.idle.ms`: how long to wait for records of a partition that has been read to its
    /// end; `None` never waits.
    pub idle: Option<Duration>,
    /// True if no output is visible before its epoch is committed.
    pub hidden_until_commit: bool,
}

#[derive(Debug, Default)]
struct Buffer {
    records: VecDeque<ConsumerRecord>,
    /// Their bytes; counted only if partitions may be held.
    bytes: i64,
}

/// See the module.
#[derive(Debug)]
pub struct Dispatch {
    shared: Arc<Shared>,
    slots: SourcePartitions,
    schedule: Schedule,
    limits: AdmissionLimits,
    admission: Admission,
    /// The last epoch whose alignment time was passed to the admission.
    last_aligned_epoch: Epoch,
    buffers: Vec<Buffer>,
    heads: BinaryHeap<Reverse<(Timestamp, u32)>>,
    /// Holds other sources back until global tables are loaded.
    gate: GlobalTableGate,
    /// Heads of partitions that the gate holds back.
    gated: Vec<Reverse<(Timestamp, u32)>>,
    /// Heads of partitions that wait for their alignment group, or for room in the offload that parks
    /// their records.
    held: Vec<Reverse<(Timestamp, u32)>>,
    /// True if some partition may have to wait for room in an offload.
    may_hold: bool,
    /// Held partitions with full buffers: the consumer pauses them.
    full: Vec<u32>,
    buffered_bytes: i64,
    /// Partitions with an empty buffer that may have older records.
    task_idle: TaskIdle,
    staged: Vec<Dispatched>,
    epoch: Epoch,
    cut: Vec<Offset>,
    times: EventTimes,
    ticks: Ticks,
    epoch_records: u64,
    /// The lowest timestamp in the epoch.
    epoch_oldest: Option<Timestamp>,
    epoch_bytes: u64,
    uncommitted: UncommittedBytes,
    /// True if an offset has moved past a commit marker, without a record.
    skipped: bool,
    /// True if some partition has no committed offset yet. Its start must be committed: with `latest` a
    /// restart would start elsewhere.
    fresh: bool,
    last_barrier: Duration,
    /// The state of the consumer's delayed fetch, and how long a fetch usually takes.
    fetch: Fetch,
    usual_answer: Duration,
    /// Total working time of all lanes at the last barrier, and the part of it since the barrier
    /// before.
    worked: Duration,
    work: Duration,
    /// True if everything known was admitted at some moment since the last barrier.
    up_to_date: bool,
}

fn weight(record: &ConsumerRecord) -> i64 {
    let bytes = record.key.as_ref().map_or(0, bytes::Bytes::len)
        + record.value.as_ref().map_or(0, bytes::Bytes::len);
    RECORD_OVERHEAD + i64::try_from(bytes).unwrap_or(i64::MAX / 2)
}

impl Dispatch {
    /// Starts with epoch 1 at the slots' offsets.
    #[must_use]
    pub fn new(
        shared: Arc<Shared>,
        slots: SourcePartitions,
        schedule: Schedule,
        limits: AdmissionLimits,
        by_watermark: bool,
        stores: Vec<Arc<KeyValueStore>>,
    ) -> Self {
        let now = shared.clock.monotonic();
        let dispatch = Self {
            may_hold: slots.iter().any(|slot| !slot.parking_offloads.is_empty()),
            times: EventTimes::new(&shared.status.plan, &slots, by_watermark, now),
            ticks: Ticks::new(&shared.status.plan, now),
            held: Vec::new(),
            full: Vec::new(),
            buffers: slots.iter().map(|_| Buffer::default()).collect(),
            task_idle: TaskIdle::new(&slots, limits.idle),
            heads: BinaryHeap::new(),
            gate: GlobalTableGate::new(
                (0..)
                    .zip(slots.iter())
                    .filter_map(|(at, slot)| slot.is_global.then_some((at, slot.end)))
                    .collect(),
            ),
            gated: Vec::new(),
            buffered_bytes: 0,
            staged: shared
                .queues
                .iter()
                .map(|_| Dispatched::default())
                .collect(),
            epoch: Epoch(1),
            cut: slots.iter().map(|s| s.start).collect(),
            epoch_records: 0,
            epoch_oldest: None,
            epoch_bytes: 0,
            uncommitted: UncommittedBytes::new(stores, schedule.max_bytes / 32),
            skipped: false,
            fresh: slots.iter().any(|s| s.fresh),
            last_barrier: now,
            fetch: Fetch::Unscheduled,
            usual_answer: Duration::ZERO,
            worked: Duration::ZERO,
            work: Duration::ZERO,
            up_to_date: false,
            admission: Admission::new(limits.in_flight, schedule.max_interval)
                .for_lanes(shared.queues.len()),
            last_aligned_epoch: Epoch(0),
            shared,
            slots,
            schedule,
            limits,
        };
        dispatch.check_answers();
        dispatch.publish_budget();
        dispatch
    }

    /// True if more may be fetched.
    #[must_use]
    pub fn wants_more(&self) -> bool {
        self.has_room() || (self.gate.is_open() && self.task_idle.is_waiting_for_data())
    }

    /// Buffers fetched records, and watermarks that user functions returned for them.
    pub fn accept(&mut self, fetched: &mut Vec<ConsumerRecord>, said: &mut Vec<WatermarkUpdate>) {
        for said in said.drain(..) {
            self.times
                .announce_watermark(said.slot as usize, said.offset, said.watermark);
        }
        let weighed = self.times.is_aligned() || self.may_hold;
        for record in fetched.drain(..) {
            let slot = record.slot;
            let turn = self.turn(&record);
            let buffer = &mut self.buffers[slot as usize];
            if buffer.records.is_empty() {
                self.task_idle.on_buffered(slot as usize);
                let head = Reverse((turn, slot));
                if self.gate.is_open() || self.gate.is_global(slot as usize) {
                    self.heads.push(head);
                } else {
                    self.gated.push(head);
                }
            }
            let bytes = weight(&record);
            self.buffered_bytes += bytes;
            if weighed {
                buffer.bytes += bytes;
            }
            buffer.records.push_back(record);
        }
    }

    fn has_credit(&mut self) -> bool {
        self.admission.has_room(self.shared.in_flight.load(Relaxed))
            && !self.shared.run.has_too_many_calls()
            && (!self.is_committing() || self.epoch_size() < self.schedule.max_bytes * 2)
    }

    /// Size of the open epoch, limited because the epoch fills while the previous one commits: input
    /// bytes plus what stores hold of it, because a small record may write many times its size.
    fn epoch_size(&mut self) -> u64 {
        let admitted = self.epoch_bytes;
        admitted + self.uncommitted.written(admitted, &self.shared.status)
    }

    fn publish_budget(&self) {
        let budget = &self.shared.status.in_flight_budget_bytes;
        budget.store(self.admission.budget(), Relaxed);
        let below = self.admission.opens_below();
        self.shared.opens_below.store(below, Relaxed);
    }

    /// Asks the consumer which partitions it has read to their ends, if that may have changed.
    pub fn check_lagging(&mut self, caught_up: impl Fn(u32) -> bool) {
        let now = self.shared.clock.monotonic();
        self.task_idle.refresh(now, caught_up);
    }

    /// True if dispatch waits for records of a partition.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.gate.is_open() && self.task_idle.is_waiting(self.shared.clock.monotonic())
    }

    /// Moves buffered records to lanes while there is credit; true if any moved.
    pub fn admit(&mut self) -> bool {
        let mut moved = 0u64;
        let now = self.shared.clock.monotonic();
        let committed = self.shared.committed();
        if committed > self.last_aligned_epoch {
            self.last_aligned_epoch = committed;
            self.admission.barrier_took(Duration::from_micros(
                self.shared.last_align_us.load(Relaxed),
            ));
            self.publish_budget();
        }
        if self
            .admission
            .measure(self.shared.in_flight.load(Relaxed), now)
        {
            self.publish_budget();
        }
        self.release_held();
        let mut waits = self.gate.is_open() && self.task_idle.is_waiting(now);
        while self.has_credit() && !waits {
            let Some(Reverse((_, slot))) = self.heads.pop() else {
                break;
            };
            let index = slot as usize;
            let most = self.reserve_room(index);
            if most == 0 {
                let head = self.buffers[index].records.front();
                let held = head.map(|head| Reverse((head.timestamp, slot)));
                self.held.extend(held);
                continue;
            }
            // The watermark beyond which it must wait for its group.
            let bound = self.times.bound(index);
            // The same partition continues while its head is the smallest.
            let rival = self.heads.peek().map(|Reverse(head)| *head);
            let mut taken = 0;
            while let Some(head) = self.buffers[index].records.front() {
                let head = Reverse((self.turn(head), slot));
                if bound.is_some_and(|bound| self.times.watermark(index) > bound) {
                    self.held.push(head);
                    break;
                }
                if rival.is_some_and(|r| head.0 > r) || taken == most {
                    self.heads.push(head);
                    break;
                }
                self.take_one(slot);
                taken += 1;
                if bound.is_some() {
                    self.times.passed(index, self.cut[index], now);
                }
            }
            self.return_room(index, most - taken);
            if self.buffers[index].records.is_empty() {
                waits = self.task_idle.on_drained(index, now) && self.gate.is_open();
            }
            if taken > 0 && bound.is_none() {
                self.times.passed(index, self.cut[index], now);
            }
            // Others of its group can continue only if the group's limit has moved.
            if taken > 0 && self.times.is_aligned() && self.times.bound(index) != bound {
                self.release_held();
            }
            moved += taken as u64;
        }
        self.check_full();
        self.flush_staged();
        self.tick_if_due(now);
        self.up_to_date = self.up_to_date || (!self.has_buffered() && !self.task_idle.is_lagging());
        self.shared.status.records_in.fetch_add(moved, Relaxed);
        moved > 0
    }

    /// Advances time without records: finds idle partitions, and applies a requested watermark.
    pub fn check_time(&mut self) {
        let (buffers, gate) = (&self.buffers, self.gate.is_open());
        let is_waiting = |at: usize| !gate || !buffers[at].records.is_empty();
        self.times.update(&self.shared, is_waiting);
        if gate {
            let others = self.buffered_bytes > 0;
            let now = self.shared.clock.monotonic();
            self.task_idle.warn_about_long_wait(now, others);
        }
    }

    /// Makes lanes stop waiting for room among async calls if a barrier has waited too long for them.
    pub fn check_barrier(&self) {
        let waits = (self.shared.clock.monotonic()).saturating_sub(self.last_barrier);
        let on_its_way = self.shared.sealed().0 + 1 < self.epoch.0;
        let late = on_its_way && waits >= MAX_WAIT_FOR_CALL_ROOM;
        self.shared.run.set_barrier_late(late);
    }

    /// Sets whether the consumer is being polled. While it isn't, no partition becomes idle.
    pub fn set_reading(&mut self, is: bool) {
        self.times.set_reading(is, &self.shared);
    }

    /// True if the watermark has advanced without a record, so that a barrier must carry it.
    #[must_use]
    pub fn time_is_due(&self) -> bool {
        self.times.is_due()
    }

    /// Opens the gate when global tables are loaded.
    pub fn check_global_tables(&mut self) {
        let opened = !self.gate.is_open()
            && self.gate.update(GateFacts {
                cut: &self.cut,
                open: self.epoch,
                filled: self.epoch_records > 0 || self.skipped,
                committed: self.shared.committed(),
            });
        if opened {
            // Sent before the first record that may read them.
            for queue in &self.shared.queues {
                queue.push(LaneItem::Open);
            }
            self.heads.extend(self.gated.drain(..));
        }
    }

    /// True if all sources may be read.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.gate.is_open()
    }

    fn take_one(&mut self, slot: u32) {
        let index = slot as usize;
        let mut record = self.buffers[index]
            .records
            .pop_front()
            .expect("the caller looked at the head");
        let bytes = weight(&record);
        self.buffered_bytes -= bytes;
        if self.times.is_aligned() || self.may_hold {
            self.buffers[index].bytes -= bytes;
        }
        self.cut[index] = Offset(record.offset.0 + 1);
        record.number = self.ticks.number();
        let times = self.times.admit(index, &record);
        self.epoch_records += 1;
        let oldest = self.epoch_oldest.get_or_insert(record.timestamp);
        *oldest = record.timestamp.min(*oldest);
        self.epoch_bytes += bytes.unsigned_abs();
        let hash = match &record.key {
            Some(key) => key_hash(self.slots[index].affinity(key)),
            // Records without a key are hashed by partition, which keeps their order.
            None => key_hash(&record.slot.to_be_bytes()),
        };
        let lane = jump_hash(hash, u32::try_from(self.staged.len()).unwrap_or(u32::MAX)) as usize;
        self.shared.admit(bytes);
        self.admission.admit(bytes);
        let staged = &mut self.staged[lane];
        staged.push(record, times, bytes);
        if staged.records.len() >= self.limits.batch {
            self.flush_lane(lane);
        }
    }

    fn flush_lane(&mut self, lane: usize) {
        let batch = &mut self.staged[lane];
        if batch.records.is_empty() {
            return;
        }
        let item = LaneItem::Input {
            epoch: self.epoch,
            batch: std::mem::take(batch),
        };
        let status = &self.shared.status.lanes[lane];
        status.queued_items.fetch_add(1, Relaxed);
        self.shared.queues[lane].push(item);
    }

    fn flush_staged(&mut self) {
        for lane in 0..self.staged.len() {
            self.flush_lane(lane);
        }
    }
}
