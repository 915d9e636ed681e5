//! A lane: runs the stages' operators for the keys that hash to it.
//!
//! Takes items from its queue; gives outputs to the outbox, re-keyed records to other lanes, and at
//! the end of an epoch the sealed writes. Owns one chain per stage and the list of keys it wrote,
//! never the state itself (law 3). `step` never waits for another lane; it may wait for a store's
//! disk or for the interpreter.

use crate::outbox::OutItem;
use crate::queue::Item;
use crate::shared::Shared;
use crate::slots::Slots;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Epoch, Lane, NodeId, Record, Result, StageId, StoreId};
use stoatflow_log::{Fetched, Outgoing};
use stoatflow_operators::{Chain, Context, Effects, LaneClocks, LaneStore, Share, jump_hash};
use stoatflow_plan::{Fork, Op, PhysicalPlan};
use stoatflow_state::Dirty;

/// Added to an output's bytes in the budget: its structs in queues.
const OUTPUT_OVERHEAD: i64 = 128;

fn length(bytes: Option<&bytes::Bytes>) -> i64 {
    i64::try_from(bytes.map_or(0, bytes::Bytes::len)).unwrap_or(i64::MAX / 4)
}

/// Where a lane is in one stage.
#[derive(Debug)]
struct StageState {
    /// The epoch whose records it processes.
    epoch: Epoch,
    /// Items of later epochs, from lanes that are ahead.
    held: VecDeque<Item>,
    /// Stores that this stage writes.
    stores: Vec<StoreId>,
}

/// The parts of a lane.
pub struct LaneParts {
    /// Its number.
    pub id: Lane,
    /// What all rooms share.
    pub shared: Arc<Shared>,
    /// What runs.
    pub plan: Arc<PhysicalPlan>,
    /// One chain per stage.
    pub chains: Vec<Chain>,
    /// All stores, by number.
    pub stores: Vec<LaneStore>,
    /// The partitions that are read.
    pub slots: Slots,
    /// Topics of the sinks, by number.
    pub sinks: Arc<[Arc<str>]>,
    /// Most records at a time.
    pub batch_max: usize,
}

/// The room.
pub struct LaneRoom {
    id: Lane,
    shared: Arc<Shared>,
    plan: Arc<PhysicalPlan>,
    chains: Vec<Chain>,
    stores: Vec<LaneStore>,
    slots: Slots,
    sinks: Arc<[Arc<str>]>,
    batch_max: usize,
    stages: Vec<StageState>,
    /// Items that a barrier has let go: older than anything else.
    ready: VecDeque<Item>,
    /// Items from lanes.
    inbox: VecDeque<Item>,
    effects: Effects,
    clocks: LaneClocks,
    share: Share,
    /// Records per source, while a batch of several sources is sorted out.
    sorted: Vec<Vec<Record>>,
    /// Per exchange and lane: records on their way.
    routes: Vec<Vec<(Vec<Record>, i64)>>,
    /// Exchange nodes, in the order of `routes`.
    exchanges: Vec<(NodeId, StageId)>,
    to_seal: Vec<(StoreId, Dirty)>,
    /// Per node: records already added to the status.
    reported: Vec<u64>,
}

impl LaneRoom {
    /// Furnishes a lane that starts with epoch 1.
    #[must_use]
    pub fn new(parts: LaneParts) -> Self {
        let LaneParts {
            id,
            shared,
            plan,
            chains,
            stores,
            slots,
            sinks,
            batch_max,
        } = parts;
        let stages = plan.stages.iter().map(|stage| StageState {
            epoch: Epoch(1),
            held: VecDeque::new(),
            stores: stage
                .nodes
                .iter()
                .filter_map(|n| plan.nodes[n.0 as usize].op.store())
                .collect(),
        });
        let exchanges: Vec<_> = plan
            .nodes
            .iter()
            .filter_map(|n| match &n.op {
                Op::Exchange { stage, .. } => Some((n.id, *stage)),
                _ => None,
            })
            .collect();
        let lanes = shared.queues.len();
        Self {
            stages: stages.collect(),
            sorted: plan.sources.iter().map(|_| Vec::new()).collect(),
            routes: exchanges
                .iter()
                .map(|_| (0..lanes).map(|_| (Vec::new(), 0)).collect())
                .collect(),
            exchanges,
            ready: VecDeque::new(),
            inbox: VecDeque::new(),
            effects: Effects::default(),
            clocks: LaneClocks::new(plan.clocks.len(), lanes == 1),
            share: Share {
                lane: id.0,
                lanes: u32::try_from(lanes).unwrap_or(u32::MAX),
            },
            to_seal: Vec::new(),
            reported: vec![0; plan.nodes.len()],
            id,
            shared,
            plan,
            chains,
            stores,
            slots,
            sinks,
            batch_max,
        }
    }

    /// Its number.
    #[must_use]
    pub const fn id(&self) -> Lane {
        self.id
    }

    /// Handles one item; false if there was none.
    ///
    /// # Errors
    /// What operators and stores fail with, with the lane among the coordinates.
    pub fn step(&mut self) -> Result<bool> {
        let queue = &self.shared.queues[self.id.0 as usize];
        queue.take_inner(&mut self.inbox);
        let Some(item) = self
            .ready
            .pop_front()
            .or_else(|| self.inbox.pop_front())
            .or_else(|| queue.take_front())
        else {
            return Ok(false);
        };
        let lane = self.id;
        self.handle(item)
            .map_err(|e| e.at(|at| at.lane = Some(lane)))?;
        Ok(true)
    }

    /// Is there anything to do?
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.ready.is_empty()
            || !self.inbox.is_empty()
            || !self.shared.queues[self.id.0 as usize].is_empty()
    }

    fn handle(&mut self, item: Item) -> Result<()> {
        let (epoch, stage) = match &item {
            Item::Input { epoch, .. } => (*epoch, StageId(0)),
            Item::Routed { epoch, stage, .. } | Item::Barrier { epoch, stage } => (*epoch, *stage),
            Item::Seal { epoch } => {
                return self.seal(*epoch);
            }
        };
        let state = &mut self.stages[usize::from(stage.0)];
        if epoch > state.epoch {
            state.held.push_back(item);
            return Ok(());
        }
        match item {
            Item::Input { batch, bytes, .. } => {
                self.status().queued_items.fetch_sub(1, Relaxed);
                let began = self.begin(stage, batch.len());
                let done = self.input(batch);
                self.end(began, bytes);
                done
            }
            Item::Routed {
                via,
                mut batch,
                mut bytes,
                ..
            } => {
                let taken = self.gather(epoch, via, &mut batch, &mut bytes);
                self.status().queued_items.fetch_sub(1 + taken, Relaxed);
                let began = self.begin(stage, batch.len());
                let done = self.routed(via, stage, &mut batch);
                self.end(began, bytes);
                done
            }
            Item::Barrier { .. } => self.barrier(epoch, stage),
            Item::Seal { .. } => Ok(()),
        }
    }

    fn status(&self) -> &crate::status::LaneStatus {
        self.shared.status.lane(self.id)
    }

    fn begin(&self, stage: StageId, records: usize) -> std::time::Duration {
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

    fn end(&self, began: std::time::Duration, bytes: i64) {
        let spent = self.shared.clock.monotonic().saturating_sub(began);
        let status = self.status();
        status
            .busy_ns
            .fetch_add(u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        status.busy_since_ms.store(0, Relaxed);
        status.stage_plus_one.store(0, Relaxed);
        self.shared.release(bytes);
        self.shared.wake_intake();
    }

    /// Many lanes send many small batches: takes the ones that follow directly and belong together.
    fn gather(
        &mut self,
        epoch: Epoch,
        via: NodeId,
        batch: &mut Vec<Record>,
        bytes: &mut i64,
    ) -> i64 {
        let mut taken = 0;
        while batch.len() < self.batch_max {
            let source = if self.ready.is_empty() {
                &mut self.inbox
            } else {
                &mut self.ready
            };
            match source.front() {
                Some(Item::Routed {
                    epoch: e, via: v, ..
                }) if *e == epoch && *v == via => {}
                _ => break,
            }
            if let Some(Item::Routed {
                batch: mut more,
                bytes: weight,
                ..
            }) = source.pop_front()
            {
                batch.append(&mut more);
                *bytes += weight;
                taken += 1;
            }
        }
        taken
    }

    fn input(&mut self, batch: Vec<Fetched>) -> Result<()> {
        let grouped = self.plan.stages[0].independent_entries || self.plan.sources.len() == 1;
        let slots = Arc::clone(&self.slots);
        for fetched in batch {
            let slot = &slots[fetched.slot as usize];
            for reader in &slot.readers {
                let record = reader.decode(slot, &fetched)?;
                self.sorted[usize::from(reader.source.0)].push(record);
                if !grouped {
                    self.push_source(usize::from(reader.source.0))?;
                }
            }
        }
        if grouped {
            for source in 0..self.sorted.len() {
                self.push_source(source)?;
            }
        }
        self.send_effects(StageId(0))
    }

    fn push_source(&mut self, source: usize) -> Result<()> {
        let mut batch = std::mem::take(&mut self.sorted[source]);
        let entry = self.plan.sources[source].entry;
        let done = if batch.is_empty() {
            Ok(())
        } else {
            self.push(StageId(0), entry, &mut batch)
        };
        batch.clear();
        self.sorted[source] = batch;
        done
    }

    fn push(&mut self, stage: StageId, entry: NodeId, batch: &mut Vec<Record>) -> Result<()> {
        let index = usize::from(stage.0);
        let mut context = Context {
            epoch: self.stages[index].epoch,
            stores: &mut self.stores,
            effects: &mut self.effects,
            clocks: &mut self.clocks,
            share: self.share,
        };
        self.chains[index].push(entry, batch, &mut context)
    }

    fn routed(&mut self, via: NodeId, stage: StageId, batch: &mut Vec<Record>) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        let exchange = &plan.nodes[via.0 as usize];
        let Op::Exchange { to, .. } = &exchange.op else {
            return Err(stoatflow_core::Error::internal(format!(
                "node {} is no exchange",
                exchange.name
            )));
        };
        match (to.as_slice(), exchange.fork) {
            ([entry], _) => self.push(stage, *entry, batch)?,
            (entries, Fork::Batch) => {
                for entry in entries {
                    self.push(stage, *entry, &mut batch.clone())?;
                }
            }
            (entries, Fork::Record) => {
                for record in batch.drain(..) {
                    for entry in entries {
                        self.push(stage, *entry, &mut vec![record.clone()])?;
                    }
                }
            }
        }
        self.send_effects(stage)
    }

    /// Sends what operators left behind: outputs to the outbox, re-keyed records to their lanes.
    fn send_effects(&mut self, stage: StageId) -> Result<()> {
        let epoch = self.stages[usize::from(stage.0)].epoch;
        for (node, reason) in self.effects.dropped.drain(..) {
            self.shared
                .status
                .dropped(&self.plan.nodes[node.0 as usize].name, reason, 1);
        }
        if !self.effects.outputs.is_empty() {
            let sinks = &self.sinks;
            let mut bytes = 0;
            let records: Vec<Outgoing> = self
                .effects
                .outputs
                .drain(..)
                .map(|o| {
                    bytes += OUTPUT_OVERHEAD + length(o.key.as_ref()) + length(o.value.as_ref());
                    Outgoing {
                        topic: o
                            .topic
                            .unwrap_or_else(|| Arc::clone(&sinks[usize::from(o.sink.0)])),
                        partition: o.partition,
                        key: o.key,
                        value: o.value,
                        timestamp: o.timestamp,
                        headers: o.headers,
                    }
                })
                .collect();
            self.shared.admit(bytes);
            self.shared.outbox.push(OutItem::Records {
                epoch,
                records,
                bytes,
            });
        }
        if !self.effects.routed.is_empty() {
            let lanes = u32::try_from(self.shared.queues.len()).unwrap_or(u32::MAX);
            for routed in self.effects.routed.drain(..) {
                let exchange = self
                    .exchanges
                    .iter()
                    .position(|e| e.0 == routed.via)
                    .ok_or_else(|| {
                        stoatflow_core::Error::internal(format!(
                            "no exchange {} in the plan",
                            routed.via
                        ))
                    })?;
                let (batch, bytes) =
                    &mut self.routes[exchange][jump_hash(routed.hash, lanes) as usize];
                *bytes += i64::try_from(routed.record.weight()).unwrap_or(i64::MAX);
                batch.push(routed.record);
            }
            self.send_routes(epoch);
        }
        Ok(())
    }

    fn send_routes(&mut self, epoch: Epoch) {
        for ((via, stage), lanes) in self.exchanges.iter().zip(&mut self.routes) {
            for (lane, (batch, bytes)) in lanes.iter_mut().enumerate() {
                if batch.is_empty() {
                    continue;
                }
                let bytes = std::mem::take(bytes);
                self.shared.admit(bytes);
                self.shared.status.lanes[lane]
                    .queued_items
                    .fetch_add(1, Relaxed);
                let capacity = batch.len();
                let batch = std::mem::replace(batch, Vec::with_capacity(capacity));
                self.shared.queues[lane].push(Item::Routed {
                    epoch,
                    stage: *stage,
                    via: *via,
                    batch,
                    bytes,
                });
            }
        }
    }

    fn barrier(&mut self, epoch: Epoch, stage: StageId) -> Result<()> {
        let index = usize::from(stage.0);
        debug_assert_eq!(self.stages[index].epoch, epoch);
        let mut context = Context {
            epoch,
            stores: &mut self.stores,
            effects: &mut self.effects,
            clocks: &mut self.clocks,
            share: self.share,
        };
        self.chains[index].barrier(&mut context)?;
        self.send_effects(stage)?;
        self.report_counts(index);
        for store in self.stages[index].stores.clone() {
            let dirty = std::mem::take(&mut self.stores[usize::from(store.0)].dirty);
            if !dirty.keys.is_empty() {
                self.to_seal.push((store, dirty));
            }
        }
        self.stages[index].epoch = epoch.next();
        if self.shared.alignment.arrive(epoch, stage) {
            let next = StageId(stage.0 + 1);
            for queue in &self.shared.queues {
                queue.push(if usize::from(next.0) < self.stages.len() {
                    Item::Barrier { epoch, stage: next }
                } else {
                    Item::Seal { epoch }
                });
            }
        }
        // What fast lanes sent for the next epoch comes before what waits in the inbox: it is older.
        let mut held = std::mem::take(&mut self.stages[index].held);
        held.append(&mut self.ready);
        self.ready = held;
        Ok(())
    }

    /// Adds what the stage's nodes have seen since the last barrier to what can be seen.
    fn report_counts(&mut self, stage: usize) {
        for (node, count) in self.chains[stage].counts() {
            let reported = &mut self.reported[node.0 as usize];
            self.shared.status.nodes[node.0 as usize].fetch_add(count - *reported, Relaxed);
            *reported = *count;
        }
    }

    fn seal(&mut self, epoch: Epoch) -> Result<()> {
        let mut stores = Vec::with_capacity(self.to_seal.len());
        for (id, dirty) in std::mem::take(&mut self.to_seal) {
            let sealed = self.stores[usize::from(id.0)].store.seal(epoch, dirty)?;
            stores.push((id, sealed));
        }
        self.status().epoch.store(epoch.next().0, Relaxed);
        let seal_stage = StageId(u16::try_from(self.stages.len()).unwrap_or(u16::MAX));
        self.shared.outbox.push(OutItem::Sealed {
            epoch,
            lane: self.id,
            stores,
        });
        self.shared.alignment.arrive(epoch, seal_stage);
        Ok(())
    }
}
