//! The end of a tick in a lane: records that came through exchanges are taken in the order of the input.
//!
//! Records for a stage wait until all lanes have sent theirs of the tick. Then they are merged by their place in the order
//! (each lane sends its own in order, so these are sorted runs), and the stage's clocks are told how the records of all
//! lanes move the time. So a stage gets what a single lane would have given it. The last tick of an epoch is its barrier.
//! Upstream stages go on with later ticks meanwhile. Never waits.

use super::LaneRoom;
use crate::queue::{Barrier, Item, Mark, PARTS};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Epoch, Lane, NodeId, Record, Result, StageId};
use stoatflow_operators::{Chain, Context, Flaw, Steps};

/// Records of one sender through one exchange.
#[derive(Debug)]
pub(super) struct Arrived {
    pub from: Lane,
    pub via: NodeId,
    pub batch: Vec<Record>,
    pub bytes: i64,
}

/// What waits in front of a stage, by tick.
#[derive(Debug, Default)]
pub(super) struct Arrivals(VecDeque<(u64, Vec<Arrived>)>);

impl Arrivals {
    pub fn add(&mut self, tick: u64, arrived: Arrived) {
        // Mostly of the newest tick.
        match self.0.iter_mut().rev().find(|(of, _)| *of == tick) {
            Some((_, all)) => all.push(arrived),
            None => self.0.push_back((tick, vec![arrived])),
        }
    }

    /// What has come up to a tick, sender by sender.
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
        // At one place in the order (what one record has made due in several lanes) the lower lane goes first.
        taken.sort_by_key(|one| one.from);
        taken
    }
}

/// Is each batch in order, and behind the one before it? So it is where one sender has sent them all in its own order.
fn in_order(arrived: &[Arrived]) -> bool {
    let records = arrived.iter().flat_map(|one| &one.batch);
    records.is_sorted_by_key(|record| record.origin.order.key())
}

/// Where a record is, with its place in the order.
type Placed = ((u64, u64), u32, u32);

/// The records of several batches in the order of the input; of one sender at one place, as they were sent.
fn placed(arrived: &[Arrived]) -> Vec<Placed> {
    let of = |(at, one): (u32, &Arrived)| -> Vec<Placed> {
        let records = (0..).zip(&one.batch);
        records
            .map(|(nth, record)| (record.origin.order.key(), at, nth))
            .collect()
    };
    let mut all: Vec<Placed> = (0..).zip(arrived).flat_map(of).collect();
    // Stable, and made for sorted runs.
    all.sort_by_key(|(key, ..)| *key);
    all
}

impl LaneRoom {
    /// A stage has come to the end of a tick: all that belongs to it is here.
    pub(super) fn tick(
        &mut self,
        (epoch, stage): (Epoch, StageId),
        mark: Mark,
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
        if self.flaw == Flaw::TimeOfTick {
            self.views[view].end_tick();
        }
        if !arrived.is_empty() {
            let items = i64::try_from(arrived.len()).unwrap_or(i64::MAX);
            self.status().queued_items.fetch_sub(items, Relaxed);
            if self.plan.stages[usize::from(stage.0)].independent_entries {
                // Records of different exchanges never meet.
                while let Some(first) = arrived.first() {
                    let via = first.via;
                    let (mut same, rest): (Vec<_>, Vec<_>) =
                        arrived.into_iter().partition(|one| one.via == via);
                    self.take_in_order(stage, &mut same)?;
                    arrived = rest;
                }
            } else {
                self.take_in_order(stage, &mut arrived)?;
            }
        }
        if moved {
            self.views[view].end_tick();
            self.run(stage, |chain, context| chain.end_tick(context))?;
        }
        self.views[view].begin_tick(None);
        Ok(())
    }

    fn take_in_order(&mut self, stage: StageId, arrived: &mut [Arrived]) -> Result<()> {
        if self.flaw == Flaw::TakenAsSent {
            for one in arrived {
                self.take_batch(stage, one.via, &mut one.batch, one.bytes)?;
            }
            return Ok(());
        }
        let fits = |one: &Arrived| one.batch.len() <= self.batch_max;
        if arrived.iter().all(fits) && in_order(arrived) {
            for one in arrived {
                self.take_batch(stage, one.via, &mut one.batch, one.bytes)?;
            }
            return Ok(());
        }
        let order = placed(arrived);
        let mut left: i64 = arrived.iter().map(|one| one.bytes).sum();
        let each = left / i64::try_from(order.len().max(1)).unwrap_or(i64::MAX);
        let mut batch = Vec::with_capacity(order.len().min(self.batch_max));
        let mut order = order.into_iter().peekable();
        while let Some((_, at, nth)) = order.next() {
            let via = arrived[at as usize].via;
            batch.push(std::mem::take(
                &mut arrived[at as usize].batch[nth as usize],
            ));
            let goes_on = order.peek().is_some_and(|(_, at, _)| {
                arrived[*at as usize].via == via && batch.len() < self.batch_max
            });
            if !goes_on {
                let bytes = each * i64::try_from(batch.len()).unwrap_or(0);
                let bytes = if order.peek().is_none() { left } else { bytes };
                left -= bytes;
                self.take_batch(stage, via, &mut batch, bytes)?;
                // Several entries get copies.
                batch.clear();
            }
        }
        Ok(())
    }

    fn take_batch(
        &mut self,
        stage: StageId,
        via: NodeId,
        batch: &mut Vec<Record>,
        bytes: i64,
    ) -> Result<()> {
        let began = self.begin(stage, batch.len());
        let done = self.routed(via, stage, batch);
        self.end(began, bytes);
        done
    }

    /// The lane is done with a tick in which no epoch ends.
    fn pass_tick(&mut self, (epoch, stage): (Epoch, StageId), mark: Mark) {
        self.arrive((epoch, stage), mark);
    }

    /// The lane has sent all of a tick: whoever is the last tells the next stage. True if there is none.
    pub(super) fn arrive(&mut self, (epoch, stage): (Epoch, StageId), mark: Mark) -> bool {
        let next = StageId(stage.0 + 1);
        let is_last = usize::from(next.0) == self.stages.len();
        self.stages[usize::from(stage.0)].tick = mark.tick + 1;
        if !is_last {
            let siblings = 2 * usize::from(next.0);
            self.siblings[siblings].begin();
            self.siblings[siblings + 1].begin();
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
            self.shared.took(mark.tick);
        }
        if !is_last {
            let steps = self.shared.take_steps(mark.tick, next);
            for queue in &self.shared.queues {
                queue.push(Item::Tick {
                    epoch,
                    stage: next,
                    mark,
                    steps: steps.clone(),
                });
            }
        }
        is_last
    }

    /// Runs a part of what is done at the end of an epoch: what comes out comes behind the parts before it.
    pub(super) fn run_at_end(
        &mut self,
        stage: StageId,
        (barrier, part): (Barrier, u64),
        act: impl FnOnce(&mut Chain, &mut Context<'_>) -> Result<()>,
    ) -> Result<()> {
        let part = PARTS * u64::from(stage.0) + part;
        self.moment = Some((barrier.at, part));
        let done = self.run(stage, act);
        self.moment = None;
        done
    }
}
