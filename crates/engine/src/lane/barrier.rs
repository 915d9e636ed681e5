//! The end of an epoch in a lane: buffered records are flushed, lanes agree on the time, writes are
//! sealed.
//!
//! A stage without clocks passes at once. A stage with clocks stops after `Chain::barrier`: each lane
//! reports its times to lane 0, which merges them, runs punctuations while all lanes are stopped, and
//! releases them with one common time; then each lane emits what is due by that time. If that moves its
//! times, the lane hands them over when it passes, so that they are committed with the results. The
//! barrier also carries the application's watermark: a stage sees it from its release on. If the
//! watermark is the time, a single lane does the same.
//!
//! If processors share stores, the work that is due may write them too (a timer does). Then lanes meet
//! once more before they pass, so that no lane reads in the next epoch what another has yet to write in
//! this one.
//!
//! Later items of the stage wait meanwhile, because the stage is still in the old epoch.
//! [`stoatflow_protocol::Rendezvous`] decides which lanes have arrived.

use super::{LaneWorker, Opened};
use crate::commit::outbox::OutboxItem;
use crate::lane::queue::{Barrier, LaneItem, TickEnd};
use crate::lane::stream_time;
use crate::runtime::failpoint::Failpoint;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Epoch, Error, Lane, Result, StageId, StoreId, Timestamp};
use stoatflow_operators::{Chain, FaultInjection, Times, merge_times};
use stoatflow_state::KeyRange;

impl LaneWorker {
    /// Call when the stage's barrier has arrived and all records before it are processed.
    pub(super) fn barrier(
        &mut self,
        (epoch, stage): (Epoch, StageId),
        tick: u64,
        barrier: Barrier,
    ) -> Result<()> {
        let watermark = barrier.watermark;
        if stage.0 == 0 {
            self.end_times.reached = self.shared.clock.monotonic();
        }
        self.ending = Some((tick, barrier));
        let index = usize::from(stage.0);
        assert_eq!(self.stages[index].epoch, epoch, "barriers come in order");
        self.watermark = watermark;
        self.shared.failpoints.reach(Failpoint::LaneBarrier)?;
        let timing = self.timing.stages[index];
        if timing.timed || self.timing.wall {
            self.set_wall(self.shared.clock.now());
        }
        self.run_at_end(stage, (barrier, 0), Chain::barrier)?;
        let view = self.view(stage);
        if timing.timed && self.assignment.lanes > 1 {
            self.shared.queues[0].push(LaneItem::Report {
                epoch,
                stage,
                lane: self.id,
                times: self.views[view].times().clone(),
            });
            return Ok(());
        }
        self.views[view].see_watermark(watermark);
        let by_watermark = timing.timed && self.timing.by_watermark;
        if timing.punctuates || by_watermark {
            if timing.punctuates {
                self.run_at_end(stage, (barrier, 1), Chain::punctuate)?;
            }
            self.emit_at_epoch_end(stage, barrier, by_watermark)?;
        }
        self.pass(epoch, stage)
    }

    /// Emits what is due at the end of an epoch, and then the updates that this put into update caches.
    fn emit_at_epoch_end(&mut self, stage: StageId, barrier: Barrier, advance: bool) -> Result<()> {
        if advance {
            self.run_at_end(stage, (barrier, 2), Chain::advance)?;
        }
        self.run_at_end(stage, (barrier, 3), Chain::barrier)
    }

    /// Lane 0: a lane (itself included) has reached the end of a stage.
    pub(super) fn report(
        &mut self,
        (epoch, stage, lane): (Epoch, StageId, Lane),
        times: Times,
    ) -> Result<()> {
        let merge = |mut all: Times, more: Times| {
            merge_times(&mut all, &more);
            all
        };
        let Some(merged) = self.meeting.arrive((epoch, stage, lane), times, merge)? else {
            return Ok(());
        };
        let view = self.view(stage);
        self.views[view].merge(&merged);
        self.views[view].see_watermark(self.watermark);
        let wall = self.shared.clock.now();
        self.set_wall(wall);
        if self.timing.stages[usize::from(stage.0)].punctuates
            && let Some((_, barrier)) = self.ending
        {
            self.run_at_end(stage, (barrier, 1), Chain::punctuate)?;
        }
        // All lanes continue from identical times, so what they do next depends on those alone.
        let times: Arc<Times> = Arc::new(self.views[view].times().clone());
        for queue in &self.shared.queues {
            queue.push(LaneItem::Release {
                epoch,
                stage,
                times: Arc::clone(&times),
                wall,
            });
        }
        Ok(())
    }

    /// All lanes have arrived; `times` are the merged times of all.
    pub(super) fn release(
        &mut self,
        (epoch, stage): (Epoch, StageId),
        times: &Times,
        wall: Timestamp,
    ) -> Result<()> {
        let own = self.view(stage);
        if self.timing.by_watermark {
            // The other views get the watermark when their own records of this epoch are processed.
            self.views[own].merge(times);
        } else {
            // The other stages' views get the times too. None of them is in an older epoch, so no
            // stage sees a time too early.
            for view in &mut self.views {
                view.merge(times);
            }
        }
        self.views[own].see_watermark(self.watermark);
        self.set_wall(wall);
        if let Some((_, barrier)) = self.ending {
            self.emit_at_epoch_end(stage, barrier, true)?;
        }
        if !self.timing.stages[usize::from(stage.0)].second_rendezvous
            || self.fault == FaultInjection::EpochEndsUnaligned
        {
            return self.pass(epoch, stage);
        }
        if self.shared.ends.arrive(epoch.0, stage) {
            for queue in &self.shared.queues {
                queue.push(LaneItem::Pass { epoch, stage });
            }
        }
        Ok(())
    }

    /// Ends the stage's epoch: collects the keys that it wrote, and continues with the next epoch.
    pub(super) fn pass(&mut self, epoch: Epoch, stage: StageId) -> Result<()> {
        let index = usize::from(stage.0);
        self.note_times(index);
        self.report_counts(index);
        let state = &mut self.stages[index];
        for store in &state.stores {
            let dirty = std::mem::take(&mut self.stores[usize::from(store.0)].dirty);
            if !dirty.is_empty() {
                self.to_seal.push((*store, dirty));
            }
        }
        for (store, dirty) in &mut state.shared {
            let dirty = std::mem::take(dirty);
            if !dirty.is_empty() {
                self.to_seal.push((*store, dirty));
            }
        }
        state.epoch = epoch.next();
        if index + 1 == self.stages.len() {
            self.end_times.passed = self.shared.clock.monotonic();
        }
        let Some((tick, barrier)) = self.ending else {
            return Err(Error::internal(
                "an epoch ends in a stage without a barrier",
            ));
        };
        let mark = TickEnd {
            tick,
            barrier: Some(barrier),
        };
        if self.arrive((epoch, stage), mark) {
            for queue in &self.shared.queues {
                queue.push(LaneItem::Seal { epoch });
            }
        }
        // Records that fast lanes sent for the next epoch are older than what waits in the inbox.
        let mut held = std::mem::take(&mut self.stages[index].held);
        held.append(&mut self.ready);
        self.ready = held;
        Ok(())
    }

    /// Lane 0 keeps the times at the end of this epoch for the commit, and the time of the next
    /// punctuation. Other lanes share their times, which may have moved since they reported.
    pub(super) fn note_times(&mut self, stage: usize) {
        let timing = self.timing.stages[stage];
        if !timing.timed {
            return;
        }
        let view = self.views[if self.views.len() == 1 { 0 } else { stage }].times();
        if self.id != Lane(0) {
            if self.opened == Opened::All {
                merge_times(&mut self.shared.passed_times.lock(), view);
            }
            return;
        }
        // Until all operators are open, they don't know what waits in another task than before the
        // start.
        if self.opened == Opened::All {
            merge_times(&mut self.known, view);
            self.request_watermark();
        }
        if timing.punctuates {
            for store in self.shared.run.take_stores_without_tasks() {
                tracing::warn!(
                    target: "stoatflow::schedules",
                    store,
                    "the keys of store '{store}' don't say in which partition they are, neither by murmur2 nor by \
                     CRC32: schedules by stream time run once over all of its keys, by the time of the partition \
                     that is furthest behind. Next: keep rows under the keys of the records, and let producers \
                     partition by key"
                );
            }
            self.next_punctuation[stage] = self.chains[stage].next_punctuation();
            let next = self.next_punctuation.iter().flatten().min();
            self.shared
                .next_punctuation
                .store(next.copied().unwrap_or(i64::MAX), Relaxed);
        }
    }

    /// Requests the watermark that operators have asked for through the application's clock.
    fn request_watermark(&self) {
        if let Some(clock) = self.timing.application {
            let asked = self.known[usize::from(clock.0)].first();
            let asked = asked.map_or(-1, |time| time.newest);
            self.shared.request_watermark(asked);
        }
    }

    /// Adds the stage's record counts since the last barrier to the status.
    fn report_counts(&mut self, stage: usize) {
        for (node, count) in self.chains[stage].counts() {
            let reported = &mut self.reported[node.0 as usize];
            self.shared.status.nodes[node.0 as usize].fetch_add(count - *reported, Relaxed);
            *reported = *count;
        }
    }

    /// Seals the lane's writes: every lane has finished every stage of the epoch.
    pub(super) fn seal(&mut self, epoch: Epoch) -> Result<()> {
        self.shared.failpoints.reach(Failpoint::LaneSeal)?;
        self.end_times.seal = self.shared.clock.monotonic();
        self.keep_times(epoch)?;
        let mut stores = Vec::with_capacity(self.to_seal.len());
        for (id, dirty) in std::mem::take(&mut self.to_seal) {
            let store = &self.stores[usize::from(id.0)].store;
            let sealed = store.seal(epoch, dirty)?;
            if let Some(indexes) = &self.indexes[usize::from(id.0)] {
                let mut changes = indexes.changes(store, epoch, &sealed)?;
                if self.fault == FaultInjection::IndexEntriesKept {
                    let entries = changes.iter_mut();
                    entries.for_each(|(_, entries)| entries.retain(|e| e.value.is_some()));
                }
                stores.extend(changes);
            }
            stores.push((id, sealed));
        }
        self.status().epoch.store(epoch.next().0, Relaxed);
        tracing::Span::current().record("epoch", epoch.next().0);
        let seal_stage = StageId(u16::try_from(self.stages.len()).unwrap_or(u16::MAX));
        let drops = self.expired();
        self.end_times.sealed = self.shared.clock.monotonic();
        self.shared.outbox.push(OutboxItem::Sealed {
            epoch,
            lane: self.id,
            stores,
            drops,
            times: self.end_times,
        });
        if self.shared.alignment.arrive(epoch.0, seal_stage) {
            self.shared.set_sealed(epoch);
        }
        Ok(())
    }

    /// Lane 0: key ranges that retention drops, by the times of this epoch. Only in the local
    /// store; changelog topics have a retention of their own.
    fn expired(&mut self) -> Vec<(StoreId, KeyRange)> {
        let mut drops = Vec::new();
        if self.id != Lane(0) {
            return drops;
        }
        for spec in &self.plan.stores {
            let Some(clock) = spec.clock else { continue };
            let index = usize::from(spec.id.0);
            // By the slowest task, because the range has rows of all tasks.
            let times = self.known[usize::from(clock.0)].iter();
            let seen = times.map(|time| time.stream).filter(|time| *time >= 0);
            let observed = seen.min().unwrap_or(-1);
            let range = self.stores[index].store.layout().expired_at(observed);
            let Some(range) = range else { continue };
            // Segments are long, so mostly nothing has changed.
            if self.dropped_to[index] != range.to {
                self.dropped_to[index].clone_from(&range.to);
                drops.push((spec.id, range));
            }
        }
        drops
    }

    /// Lane 0 writes the clocks that have moved, without what lanes have already seen of the next
    /// epoch.
    fn keep_times(&mut self, epoch: Epoch) -> Result<()> {
        let (Lane(0), Some(id)) = (self.id, self.timing.store) else {
            return Ok(());
        };
        if self.assignment.lanes > 1 && self.opened == Opened::All {
            merge_times(&mut self.known, &self.shared.passed_times.lock());
            self.request_watermark();
        }
        let kept = &mut self.stores[usize::from(id.0)];
        let clocks = self
            .known
            .iter()
            .zip(&mut self.kept)
            .zip(self.timing.keys.iter());
        for ((known, before), key) in clocks {
            if known != before {
                let row = Some(stream_time::encode(known));
                kept.store.put(epoch, &mut kept.dirty, key, row)?;
                before.clone_from(known);
            }
        }
        let dirty = std::mem::take(&mut kept.dirty);
        if !dirty.is_empty() {
            self.to_seal.push((id, dirty));
        }
        Ok(())
    }
}
