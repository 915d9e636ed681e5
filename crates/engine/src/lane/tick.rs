//! The end of a tick in a lane: records from exchanges are put back into the order of the input.
//!
//! Records for a stage wait until all lanes have sent their records of the tick. Then they are merged by
//! their place in the order (each lane sends sorted runs), and the stage's clocks learn how the records
//! of all lanes move the time. So a stage processes the records that a single lane would have processed,
//! in the same order. The last tick of an epoch is its barrier. Earlier stages continue with later ticks
//! meanwhile. Never blocks.

use super::LaneWorker;
use crate::lane::queue::{Barrier, LaneItem, PARTS_PER_STAGE, TickEnd};
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_core::{Epoch, Lane, NodeId, Record, Result, StageId};
use stoatflow_operators::{Chain, Context, FaultInjection, Steps};

/// Records of one sender through one exchange.
#[derive(Debug)]
pub(super) struct Arrived {
    pub from: Lane,
    pub via: NodeId,
    pub batch: Vec<Record>,
    pub bytes: i64,
}

/// Records waiting in front of a stage, by tick.
#[derive(Debug, Default)]
pub(super) struct Arrivals(VecDeque<(u64, Vec<Arrived>)>);

impl Arrivals {
    pub fn add(&mut self, tick: u64, arrived: Arrived) {
        // Usually it is the newest tick.
        match self.0.iter_mut().rev().find(|(of, _)| *of == tick) {
            Some((_, all)) => all.push(arrived),
            None => self.0.push_back((tick, vec![arrived])),
        }
    }

    /// Removes and returns everything up to a tick, sorted by sender.
    fn take(&mut self, tick: u64) -> Vec<Arrived> {
        let mut taken = Vec::new();
        let mut at = 0;
        while let Some((of, _)) = self.0.get(at) {
            if *of > tick {
                at += 1;
            } else if let Some((_, mut all)) = self.0.remove(at) {
                taken.append(&mut all);
            }
        }
        // At the same place (results that one record made due in several lanes) the lower lane goes
        // first.
        taken.sort_by_key(|one| one.from);
        taken
    }
}

/// Effects are sent, and work is measured, after this many records, because batches are short where
/// several exchanges meet.
const RECORDS_PER_STEP: usize = 256;

/// What a stage has processed since its effects were last sent.
#[derive(Debug, Default)]
struct Taken {
    began: Option<Duration>,
    records: usize,
    bytes: i64,
}

/// True if the records of all batches are in order. Batches of a single sender usually are.
fn in_order(arrived: &[Arrived]) -> bool {
    let records = arrived.iter().flat_map(|one| &one.batch);
    records.is_sorted_by_key(|record| record.origin.order.key())
}

/// Sorts each sender's records where needed: a record that waited is sent after its successors.
fn put_in_order(arrived: Vec<Arrived>) -> Vec<Arrived> {
    let mut all = Vec::with_capacity(arrived.len());
    let mut arrived = arrived.into_iter().peekable();
    while let Some(first) = arrived.next() {
        let from = first.from;
        let mut own = vec![first];
        while let Some(next) = arrived.next_if(|next| next.from == from) {
            own.push(next);
        }
        if in_order(&own) {
            all.append(&mut own);
        } else {
            sort(own, &mut all);
        }
    }
    all
}

/// Adds one sender's records in order; records at the same place stay in the order of sending.
fn sort(sent: Vec<Arrived>, all: &mut Vec<Arrived>) {
    let Some(from) = sent.first().map(|one| one.from) else {
        return;
    };
    let bytes = sent.iter().map(|one| one.bytes).sum();
    let with_via = |one: Arrived| one.batch.into_iter().map(move |record| (one.via, record));
    let mut records: Vec<(NodeId, Record)> = sent.into_iter().flat_map(with_via).collect();
    records.sort_by_key(|(_, record)| record.origin.order.key());
    let before = all.len();
    for (via, record) in records {
        match all[before..].last_mut() {
            Some(last) if last.via == via => last.batch.push(record),
            _ => all.push(Arrived {
                from,
                via,
                batch: vec![record],
                bytes: 0,
            }),
        }
    }
    if let Some(last) = all[before..].last_mut() {
        last.bytes = bytes;
    }
}

/// One sender's records in order.
struct Run {
    /// Later batches, in reverse.
    later: Vec<Arrived>,
    via: NodeId,
    batch: std::vec::IntoIter<Record>,
}

impl Run {
    /// The place of the next record.
    fn next_place(&mut self) -> Option<(u64, u64)> {
        loop {
            if let Some(record) = self.batch.as_slice().first() {
                return Some(record.origin.order.key());
            }
            let next = self.later.pop()?;
            (self.via, self.batch) = (next.via, next.batch.into_iter());
        }
    }
}

/// The senders' runs, and the bytes to release.
fn runs(arrived: Vec<Arrived>) -> (Vec<Run>, i64) {
    let bytes = arrived.iter().map(|one| one.bytes).sum();
    let mut runs: Vec<Run> = Vec::new();
    let mut from = None;
    for one in arrived {
        if from.replace(one.from) != Some(one.from) {
            runs.push(Run {
                later: Vec::new(),
                via: one.via,
                batch: Vec::new().into_iter(),
            });
        }
        if let Some(run) = runs.last_mut() {
            run.later.push(one);
        }
    }
    for run in &mut runs {
        run.later.reverse();
    }
    (runs, bytes)
}

impl LaneWorker {
    /// Call when a stage has reached the end of a tick: everything that belongs to it has arrived.
    pub(super) fn tick(
        &mut self,
        (epoch, stage): (Epoch, StageId),
        mark: TickEnd,
        steps: Option<Arc<Steps>>,
    ) -> Result<()> {
        self.take_arrived(stage, mark.tick, steps)?;
        match mark.barrier {
            Some(barrier) => self.barrier((epoch, stage), mark.tick, barrier),
            None => {
                self.pass_tick((epoch, stage), mark);
                Ok(())
            }
        }
    }

    fn take_arrived(&mut self, stage: StageId, tick: u64, steps: Option<Arc<Steps>>) -> Result<()> {
        let mut arrived = self.stages[usize::from(stage.0)].arrived.take(tick);
        let view = self.view(stage);
        let moved = steps.is_some();
        self.views[view].begin_tick(steps);
        if self.fault == FaultInjection::StreamTimeOfTick {
            self.views[view].end_tick();
        }
        if !arrived.is_empty() {
            let items = i64::try_from(arrived.len()).unwrap_or(i64::MAX);
            self.status().queued_items.fetch_sub(items, Relaxed);
            let plan = Arc::clone(&self.plan);
            let meeting = &plan.stages[usize::from(stage.0)].meeting;
            for group in meeting.iter().skip(1) {
                // Records of different groups never meet, so each group is merged by itself.
                let (own, rest): (Vec<_>, Vec<_>) =
                    (arrived.into_iter()).partition(|one| group.contains(&one.via));
                arrived = rest;
                self.take_in_order(stage, own)?;
            }
            self.take_in_order(stage, arrived)?;
        }
        if moved {
            self.views[view].end_tick();
            self.run(stage, |chain, context| chain.end_tick(context))?;
        }
        self.views[view].begin_tick(None);
        Ok(())
    }

    fn take_in_order(&mut self, stage: StageId, arrived: Vec<Arrived>) -> Result<()> {
        let mut taken = Taken::default();
        let fits = |one: &Arrived| one.batch.len() <= self.batch_max;
        if self.fault == FaultInjection::ExchangeInArrivalOrder
            || arrived.iter().all(fits) && in_order(&arrived)
        {
            for mut one in arrived {
                self.take_batch(stage, one.via, (&mut one.batch, one.bytes), &mut taken)?;
                self.keep_buffer(one.batch);
            }
            return self.finish(stage, &mut taken);
        }
        let arrived = put_in_order(arrived);
        let count: usize = arrived.iter().map(|one| one.batch.len()).sum();
        let (mut runs, mut left) = runs(arrived);
        let each = left / i64::try_from(count.max(1)).unwrap_or(i64::MAX);
        // At the same place (results that one record made due in several lanes) the lower lane goes
        // first.
        let mut heads: BinaryHeap<Reverse<((u64, u64), usize)>> = (runs.iter_mut().enumerate())
            .filter_map(|(at, run)| Some(Reverse((run.next_place()?, at))))
            .collect();
        let mut batch: Vec<Record> = Vec::with_capacity(count.min(self.batch_max));
        let mut through = None;
        while let Some(mut head) = heads.peek_mut() {
            let run = &mut runs[head.0.1];
            let is_full = batch.len() == self.batch_max;
            if let Some(via) = through.replace(run.via)
                && (via != run.via || is_full)
            {
                let bytes = each * i64::try_from(batch.len()).unwrap_or(0);
                left -= bytes;
                self.take_batch(stage, via, (&mut batch, bytes), &mut taken)?;
                // If the exchange has several targets, each got a copy, and the batch is still full.
                batch.clear();
            }
            batch.extend(run.batch.next());
            match run.next_place() {
                Some(place) => head.0.0 = place,
                None => drop(PeekMut::pop(head)),
            }
        }
        if let Some(via) = through {
            self.take_batch(stage, via, (&mut batch, left), &mut taken)?;
        }
        self.finish(stage, &mut taken)
    }

    /// Keeps the Vec of a processed batch for records to be sent; one per lane is enough.
    fn keep_buffer(&mut self, mut batch: Vec<Record>) {
        if self.buffers.len() < self.assignment.lanes as usize
            && batch.capacity() <= 2 * self.batch_max
        {
            batch.clear();
            self.buffers.push(batch);
        }
    }

    /// Passes a batch to the stage; sends its effects when there are enough records.
    fn take_batch(
        &mut self,
        stage: StageId,
        via: NodeId,
        (batch, bytes): (&mut Vec<Record>, i64),
        taken: &mut Taken,
    ) -> Result<()> {
        if taken.began.is_none() {
            taken.began = Some(self.begin(stage, 0));
        }
        taken.records += batch.len();
        taken.bytes += bytes;
        self.routed(via, stage, batch)?;
        if taken.records >= RECORDS_PER_STEP {
            self.finish(stage, taken)?;
        }
        Ok(())
    }

    /// Sends the effects of batches, and releases their bytes.
    fn finish(&mut self, stage: StageId, taken: &mut Taken) -> Result<()> {
        let Taken {
            began: Some(began),
            records,
            bytes,
        } = std::mem::take(taken)
        else {
            return Ok(());
        };
        let records = u64::try_from(records).unwrap_or(u64::MAX);
        self.status().records.fetch_add(records, Relaxed);
        let done = self.send_effects(stage);
        self.end(began, bytes);
        done
    }

    /// Call when the lane has finished a tick that ends no epoch.
    fn pass_tick(&mut self, (epoch, stage): (Epoch, StageId), mark: TickEnd) {
        self.arrive((epoch, stage), mark);
    }

    /// Call when the lane has sent all records of a tick; the last lane to do so notifies the next
    /// stage. True for the last lane in the last stage.
    pub(super) fn arrive(&mut self, (epoch, stage): (Epoch, StageId), mark: TickEnd) -> bool {
        let next = StageId(stage.0 + 1);
        let is_last = usize::from(next.0) == self.stages.len();
        self.stages[usize::from(stage.0)].tick = mark.tick + 1;
        if !is_last {
            let numberings = 2 * usize::from(next.0);
            self.numberings[numberings].begin();
            self.numberings[numberings + 1].begin();
            let groups = self.timing.groups.count[usize::from(next.0)];
            let steps = &mut self.steps[usize::from(next.0)];
            if !steps.is_empty() {
                let steps = std::mem::replace(steps, Steps::new(groups));
                self.shared.add_steps(mark.tick, next, steps);
            }
        }
        if !self.shared.alignment.arrive(mark.tick, stage) {
            return false;
        }
        if stage == StageId(0) {
            self.shared.set_taken(mark.tick);
        }
        if !is_last {
            let steps = self.shared.take_steps(mark.tick, next);
            for queue in &self.shared.queues {
                queue.push(LaneItem::Tick {
                    epoch,
                    stage: next,
                    mark,
                    steps: steps.clone(),
                });
            }
        }
        is_last
    }

    /// Runs one part of an epoch's end; its output is ordered behind that of the parts before.
    pub(super) fn run_at_end(
        &mut self,
        stage: StageId,
        (barrier, part): (Barrier, u64),
        act: impl FnOnce(&mut Chain, &mut Context<'_>) -> Result<()>,
    ) -> Result<()> {
        let part = PARTS_PER_STAGE * u64::from(stage.0) + part;
        self.epoch_end_part = Some((barrier.at, part));
        let done = self.run(stage, act);
        self.epoch_end_part = None;
        done
    }
}
