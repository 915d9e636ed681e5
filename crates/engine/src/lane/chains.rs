//! Runs a stage's operators with the lane's context, and measures the work.
//!
//! Passes records of an entry or an exchange to the chain of the stage, with its stores, clocks and
//! effects. Only `run` sends what operators produce.

use super::LaneWorker;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{NodeId, Record, Result, StageId, StoreId, Timestamp};
use stoatflow_operators::{Chain, Context, LaneStore};
use stoatflow_plan::{Delivery, Op};
use stoatflow_state::Dirty;

impl LaneWorker {
    /// The index of a stage's view of time.
    pub(super) fn view(&self, stage: StageId) -> usize {
        if self.views.len() == 1 {
            0
        } else {
            usize::from(stage.0)
        }
    }

    pub(super) fn set_wall(&mut self, wall: Timestamp) {
        self.views.iter_mut().for_each(|view| view.wall = wall);
    }

    pub(super) fn status(&self) -> &crate::admin::status::LaneStatus {
        self.shared.status.lane(self.id)
    }

    pub(super) fn begin(&mut self, stage: StageId, records: usize) -> std::time::Duration {
        if self.timing.wall {
            let view = self.view(stage);
            self.views[view].wall = self.shared.clock.now();
        }
        let now = self.shared.clock.monotonic();
        let status = self.status();
        status.records.fetch_add(records as u64, Relaxed);
        status.stage_plus_one.store(u64::from(stage.0) + 1, Relaxed);
        status.busy_since_ms.store(
            u64::try_from(now.as_millis()).unwrap_or(u64::MAX).max(1),
            Relaxed,
        );
        now
    }

    pub(super) fn end(&self, began: std::time::Duration, bytes: i64) {
        let spent = self.shared.clock.monotonic().saturating_sub(began);
        let status = self.status();
        status
            .busy_ns
            .fetch_add(u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        status.busy_since_ms.store(0, Relaxed);
        status.stage_plus_one.store(0, Relaxed);
        self.shared.release(bytes);
    }

    pub(super) fn push(
        &mut self,
        stage: StageId,
        entry: NodeId,
        batch: &mut Vec<Record>,
    ) -> Result<()> {
        self.sample(entry, batch);
        self.with_chain(stage, |chain, context| chain.push(entry, batch, context))
    }

    /// Runs `act` on a stage's chain, and sends its effects.
    pub(super) fn run(
        &mut self,
        stage: StageId,
        act: impl FnOnce(&mut Chain, &mut Context<'_>) -> Result<()>,
    ) -> Result<()> {
        self.with_chain(stage, act)?;
        self.send_effects(stage)
    }

    fn with_chain(
        &mut self,
        stage: StageId,
        act: impl FnOnce(&mut Chain, &mut Context<'_>) -> Result<()>,
    ) -> Result<()> {
        let view = self.view(stage);
        let index = usize::from(stage.0);
        let state = &mut self.stages[index];
        let swap = |shared: &mut [(StoreId, Dirty)], stores: &mut [LaneStore]| {
            for (store, dirty) in shared {
                std::mem::swap(dirty, &mut stores[usize::from(store.0)].dirty);
            }
        };
        swap(&mut state.shared, &mut self.stores);
        let mut context = Context {
            epoch: state.epoch,
            stores: &mut self.stores,
            effects: &mut self.effects,
            clocks: &mut self.views[view],
            assignment: self.assignment,
            run: &self.shared.run,
        };
        let done = act(&mut self.chains[index], &mut context);
        swap(&mut state.shared, &mut self.stores);
        self.status().active_node.leave();
        done
    }

    /// Passes records from an exchange to the stage's chain. The caller sends the effects.
    pub(super) fn routed(
        &mut self,
        via: NodeId,
        stage: StageId,
        batch: &mut Vec<Record>,
    ) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        let exchange = &plan.nodes[via.0 as usize];
        let Op::Exchange { to, ahead, .. } = &exchange.op else {
            return Err(stoatflow_core::Error::internal(format!(
                "node {} is no exchange",
                exchange.name
            )));
        };
        // Kafka Streams has no topic for these exchanges, so their records don't move its stream time.
        if !ahead && !self.timing.by_clock[via.0 as usize] {
            self.observe(stage, batch);
        }
        self.observe_tasks(via, stage, batch);
        match (to.as_slice(), exchange.fork) {
            ([entry], Delivery::Batch) => self.push(stage, *entry, batch)?,
            (entries, Delivery::Batch) => {
                for entry in entries {
                    self.push(stage, *entry, &mut batch.clone())?;
                }
            }
            (entries, Delivery::Record) => {
                for record in batch.drain(..) {
                    for entry in entries {
                        self.push(stage, *entry, &mut vec![record.clone()])?;
                    }
                }
            }
        }
        Ok(())
    }
}
