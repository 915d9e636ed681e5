//! What leaves a lane: outputs to the outbox, re-keyed records to their lanes, drops to the counters.

use super::{LaneRoom, OUTPUT_OVERHEAD, length};
use crate::outbox::OutItem;
use crate::queue::Item;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Epoch, Result, StageId};
use stoatflow_log::Outgoing;
use stoatflow_operators::jump_hash;

impl LaneRoom {
    /// Sends what operators left behind: outputs to the outbox, re-keyed records to their lanes.
    pub(super) fn send_effects(&mut self, stage: StageId) -> Result<()> {
        self.settle_handled(stage, &[])?;
        let epoch = self.stages[usize::from(stage.0)].epoch;
        for (node, reason) in self.effects.dropped.drain(..) {
            self.shared
                .status
                .dropped(&self.plan.nodes[node.0 as usize].name, reason, 1);
        }
        for (node, reason, count) in self.effects.dropped_more.drain(..) {
            let node = &self.plan.nodes[node.0 as usize].name;
            self.shared.status.dropped(node, reason, count);
        }
        if std::mem::take(&mut self.effects.commit_asked) {
            self.shared.ask_for_commit();
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
                    let (topic, partition) =
                        o.chosen.map_or((None, None), |c| (c.topic, c.partition));
                    Outgoing {
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
}
