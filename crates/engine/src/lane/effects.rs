//! Sends what operators produced: outputs to the outbox, re-keyed records to their lanes, dropped
//! records to the counters.

use super::{LaneWorker, OUTPUT_OVERHEAD, length};
use crate::commit::outbox::OutboxItem;
use crate::lane::queue::LaneItem;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{NodeId, Order, Result, StageId};
use stoatflow_log::ProducerRecord;
use stoatflow_operators::jump_hash;

/// Numbers the records that one record produces for one stage.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChildNumbering {
    /// 0 for exchanges that are sent ahead, 1 for the others.
    rank: u64,
    parent: Option<(u64, u64)>,
    count: u64,
    /// The furthest parent in the order that this tick has seen.
    max_parent: Order,
    /// True once this tick has seen a parent without a place in the order (read from a store, or made
    /// without a record). From then on records are numbered in the order in which they are made.
    as_they_come: bool,
    /// How many children were made of parents that occurred again after other parents. They are numbered
    /// after all children that such a parent can have had before.
    again: u64,
}

/// If a parent has more children than this, those made when it occurs again may collide with earlier
/// ones.
const MAX_CHILDREN: u64 = 65_813;

impl ChildNumbering {
    pub const fn new(rank: u64) -> Self {
        Self {
            rank,
            parent: None,
            count: 0,
            max_parent: Order::START,
            as_they_come: false,
            again: 0,
        }
    }

    /// The place in the order of the next record made from the one at `parent`.
    fn next(&mut self, mut parent: Order, has_place: bool) -> Order {
        self.as_they_come |= !has_place;
        if self.as_they_come && parent < self.max_parent {
            parent = self.max_parent.in_task(parent.task());
        }
        let key = parent.key();
        if self.parent.replace(key) == Some(key) {
            self.count += 1;
        } else if parent > self.max_parent {
            self.count = 0;
        } else {
            self.count = MAX_CHILDREN + self.again;
        }
        self.max_parent = self.max_parent.max(parent);
        self.again += u64::from(self.count >= MAX_CHILDREN);
        parent.child(self.rank).child(self.count)
    }

    /// Resets the numbering for a new tick.
    pub const fn begin(&mut self) {
        (self.parent, self.max_parent, self.again) = (None, Order::START, 0);
        self.as_they_come = false;
    }
}

impl LaneWorker {
    /// Counts and logs the records that operators have dropped.
    #[cold]
    fn count_dropped(&mut self) {
        let (shared, effects) = (&self.shared, &mut self.effects);
        let now = shared.clock.monotonic();
        let each = effects.dropped.drain(..);
        let each = each.map(|(node, reason)| (node, reason, 1));
        let mut counts: Vec<(NodeId, &'static str, u64)> = Vec::new();
        for (node, reason, count) in each.chain(effects.dropped_more.drain(..)) {
            match counts.iter_mut().find(|c| (c.0, c.1) == (node, reason)) {
                Some(known) => known.2 += count,
                None => counts.push((node, reason, count)),
            }
        }
        for (node, reason, count) in counts {
            let node = &self.plan.nodes[node.0 as usize].name;
            shared.status.drop_records(node, reason, count, now);
        }
    }

    /// Sends what operators produced.
    pub(super) fn send_effects(&mut self, stage: StageId) -> Result<()> {
        self.send_handled(stage, &[])?;
        let epoch = self.stages[usize::from(stage.0)].epoch;
        if !self.effects.dropped.is_empty() || !self.effects.dropped_more.is_empty() {
            self.count_dropped();
        }
        if std::mem::take(&mut self.effects.commit_asked) {
            self.shared.request_commit();
        }
        if !self.effects.outputs.is_empty() {
            let sinks = &self.sinks;
            let mut bytes = 0;
            let records: Vec<ProducerRecord> = self
                .effects
                .outputs
                .drain(..)
                .map(|o| {
                    bytes += OUTPUT_OVERHEAD + length(o.key.as_ref()) + length(o.value.as_ref());
                    let (topic, partition) =
                        o.chosen.map_or((None, None), |c| (c.topic, c.partition));
                    ProducerRecord {
                        topic: topic.unwrap_or_else(|| Arc::clone(&sinks[usize::from(o.sink.0)])),
                        partition,
                        key: o.key,
                        value: o.value,
                        timestamp: o.timestamp,
                        headers: o.headers,
                    }
                })
                .collect();
            self.shared.admit(bytes);
            self.shared.outbox.push(OutboxItem::Records {
                epoch,
                records,
                bytes,
            });
        }
        if !self.effects.routed.is_empty() {
            let tick = self.stages[usize::from(stage.0)].tick;
            let lanes = u32::try_from(self.shared.queues.len()).unwrap_or(u32::MAX);
            // Records are large: set their order in place, then move each once.
            for routed in &mut self.effects.routed {
                let exchange = self.exchange_at[routed.via.0 as usize];
                let order = &mut routed.record.origin.order;
                let has_place = order.number() > 0;
                if let Some((epoch, part)) = self.epoch_end_part {
                    *order = order.at_end(epoch, part);
                }
                *order =
                    self.numberings[self.numbering_of_exchange[exchange]].next(*order, has_place);
                if lanes > 1 {
                    let groups = &self.timing.groups;
                    let stage = usize::from(routed.stage.0);
                    for (group, filter) in &groups.fed[routed.via.0 as usize] {
                        if filter.accepts(&routed.record) {
                            let named = groups.named[stage][usize::from(*group)];
                            self.steps[stage].group(*group).add(&routed.record, named);
                        }
                    }
                }
            }
            for routed in self.effects.routed.drain(..) {
                let exchange = self.exchange_at[routed.via.0 as usize];
                let (batch, bytes) =
                    &mut self.routes[exchange][jump_hash(routed.hash, lanes) as usize];
                *bytes += i64::try_from(routed.record.weight()).unwrap_or(i64::MAX);
                batch.push(routed.record);
            }
            self.send_routes(tick);
        }
        Ok(())
    }

    fn send_routes(&mut self, tick: u64) {
        for (exchange, lanes) in self.exchanges.iter().zip(&mut self.routes) {
            for (lane, (batch, bytes)) in lanes.iter_mut().enumerate() {
                if batch.is_empty() {
                    continue;
                }
                let bytes = std::mem::take(bytes);
                self.shared.admit(bytes);
                self.shared.status.lanes[lane]
                    .queued_items
                    .fetch_add(1, Relaxed);
                // Prefer the Vec of a batch that arrived in this lane: it has about the right capacity.
                let empty = self.buffers.pop();
                let empty = empty.unwrap_or_else(|| Vec::with_capacity(batch.len()));
                let batch = std::mem::replace(batch, empty);
                self.shared.queues[lane].push(LaneItem::Routed {
                    tick,
                    from: self.id,
                    stage: exchange.stage,
                    via: exchange.node,
                    batch,
                    bytes,
                });
            }
        }
    }
}
