//! Compares two samples and ranks the differences, largest first. Pure.

#![allow(clippy::cast_precision_loss)] // rates and shares, for people

#[cfg(test)]
mod tests;

use super::samples::Sample;
use crate::admin::status::Status;
use crate::lane::hot_keys::EntryKeys;
use serde::Serialize;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Lane, NodeId};
use stoatflow_plan::PhysicalPlan;
use stoatflow_state::StoreSize;

/// A lane, and how busy it was.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct LaneRate {
    pub lane: usize,
    /// Share of the time that it worked: 0 to 1.
    pub busy: f64,
    pub records_per_second: f64,
}

/// A function, and the time spent in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct FunctionRate {
    pub node: String,
    pub function: String,
    /// Seconds spent in it per second, in all lanes together.
    pub busy: f64,
    /// Seconds that its calls waited for the interpreter, per second.
    pub waiting: f64,
    pub calls_per_second: f64,
    /// Duration of a call.
    pub mean_ms: f64,
}

/// A partition that is behind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct PartitionRate {
    pub topic: String,
    pub partition: i32,
    pub lag: i64,
    /// Negative if it catches up.
    pub lag_per_second: f64,
}

/// Dropped records of a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct DropRate {
    pub node: String,
    pub reason: &'static str,
    pub per_second: f64,
    /// Since the start.
    pub total: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Ranking {
    pub seconds: f64,
    pub records_per_second: f64,
    pub committed_per_second: f64,
    lanes: Vec<LaneRate>,
    pub functions: Vec<FunctionRate>,
    pub partitions: Vec<PartitionRate>,
    pub drops: Vec<DropRate>,
}

impl Ranking {
    /// Ranks the differences of two samples. Without an earlier one, all rates are 0.
    pub(super) fn between(before: Option<&Sample>, now: &Sample, limit: usize) -> Self {
        let before = before.unwrap_or(now);
        let seconds = now.at.saturating_sub(before.at).as_secs_f64();
        let span = Span {
            before,
            now,
            seconds,
            limit,
        };
        Self {
            seconds: rounded(seconds),
            records_per_second: span.rate(now.records_in, before.records_in),
            committed_per_second: span.rate(now.records_committed, before.records_committed),
            lanes: span.lanes(),
            functions: span.functions(),
            partitions: span.partitions(),
            drops: span.drops(),
        }
    }

    /// Adds what each lane is doing.
    pub(super) fn lanes(&self, status: &Status, now_ms: u64) -> Vec<Value> {
        let rows = self.lanes.iter().map(|rate| {
            let id = Lane(u32::try_from(rate.lane).unwrap_or(u32::MAX));
            let mut row = json!(rate);
            row["queued_items"] = json!(status.lane(id).queued_items.load(Relaxed).max(0));
            row["function"] = json!(status.lane_activity(id, now_ms).function);
            row
        });
        rows.collect()
    }
}

/// The time between two samples.
struct Span<'s> {
    before: &'s Sample,
    now: &'s Sample,
    seconds: f64,
    /// Maximum rows of a list.
    limit: usize,
}

impl Span<'_> {
    fn per_second(&self, amount: f64) -> f64 {
        match self.seconds > 0.0 {
            true => rounded(amount / self.seconds),
            false => 0.0,
        }
    }

    /// The rate of a counter.
    fn rate(&self, now: u64, before: u64) -> f64 {
        self.per_second(now.saturating_sub(before) as f64)
    }

    fn lanes(&self) -> Vec<LaneRate> {
        let both = self.now.lanes.iter().zip(&self.before.lanes).enumerate();
        let rates = both.map(|(lane, (now, before))| LaneRate {
            lane,
            busy: self
                .per_second(now.busy.saturating_sub(before.busy).as_secs_f64())
                .min(1.0),
            records_per_second: self.rate(now.records, before.records),
        });
        largest(rates.collect(), self.limit, |rate| rate.busy)
    }

    fn functions(&self) -> Vec<FunctionRate> {
        let rates = self.now.functions.iter().filter_map(|now| {
            let was = (self.before.functions.iter())
                .find(|f| f.node == now.node && f.function == now.function);
            let calls = now.calls.saturating_sub(was.map_or(0, |f| f.calls));
            let inside = now.seconds - was.map_or(0.0, |f| f.seconds);
            let waited = now.wait_seconds - was.map_or(0.0, |f| f.wait_seconds);
            (calls > 0).then(|| FunctionRate {
                node: now.node.clone(),
                function: now.function.clone(),
                busy: self.per_second(inside),
                waiting: self.per_second(waited),
                calls_per_second: self.per_second(calls as f64),
                mean_ms: rounded(inside * 1000.0 / calls as f64),
            })
        });
        largest(rates.collect(), self.limit, |rate| rate.busy + rate.waiting)
    }

    fn partitions(&self) -> Vec<PartitionRate> {
        let before = self.before.partitions.iter();
        let before: BTreeMap<_, _> = before
            .map(|p| ((p.topic.as_str(), p.partition), p.lag))
            .collect();
        let behind = self.now.partitions.iter().filter(|p| p.lag > 0);
        let rates = behind.map(|now| {
            let was = before.get(&(now.topic.as_str(), now.partition));
            let grown = now.lag - was.unwrap_or(&now.lag);
            PartitionRate {
                topic: now.topic.clone(),
                partition: now.partition,
                lag: now.lag,
                lag_per_second: self.per_second(grown as f64),
            }
        });
        largest(rates.collect(), self.limit, |rate| rate.lag as f64)
    }

    fn drops(&self) -> Vec<DropRate> {
        let rates = self.now.drops.iter().map(|(node, reason, total)| {
            let was = (self.before.drops.iter()).find(|(n, r, _)| n == node && r == reason);
            DropRate {
                node: node.clone(),
                reason,
                per_second: self.rate(*total, was.map_or(0, |w| w.2)),
                total: *total,
            }
        });
        let mut rates: Vec<_> = rates.collect();
        rates.sort_by_key(|rate| Reverse(rate.total));
        largest(rates, self.limit, |rate| rate.per_second)
    }
}

/// Rounds to four decimal places, for people.
fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

/// The largest rows; equal ones keep their order.
fn largest<T>(mut rows: Vec<T>, limit: usize, of: impl Fn(&T) -> f64) -> Vec<T> {
    rows.sort_by(|a, b| of(b).total_cmp(&of(a)));
    rows.truncate(limit);
    rows
}

/// A frequent key.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct KeyShare {
    /// The node where its records arrive.
    pub node: String,
    pub key: String,
    /// Its share of the records that arrive there, a lower estimate: 0 to 1.
    pub share: f64,
    /// The lane that processes it.
    pub lane: usize,
    /// How many records the share was sampled from.
    pub sampled: u64,
}

/// The most frequent keys that lanes have seen. Keys with less than one in a hundred records slow
/// nothing down and are left out.
pub(super) fn keys(plan: &PhysicalPlan, lanes: Vec<Vec<EntryKeys>>, limit: usize) -> Vec<KeyShare> {
    let sampled = |entry: NodeId| -> u64 {
        let all = lanes.iter().flatten().filter(|e| e.entry == entry);
        all.map(|e| e.sampled).sum()
    };
    let mut shares = Vec::new();
    for (lane, entries) in lanes.iter().enumerate() {
        for seen in entries {
            let of_all = sampled(seen.entry);
            let name = plan
                .nodes
                .get(seen.entry.0 as usize)
                .map(|n| n.name.clone());
            for key in &seen.keys {
                shares.push(KeyShare {
                    node: name.clone().unwrap_or_default(),
                    key: key.key.clone(),
                    share: rounded(key.least() as f64 / of_all as f64),
                    lane,
                    sampled: of_all,
                });
            }
        }
    }
    shares.retain(|s| s.share >= 0.01);
    largest(shares, limit, |s| s.share)
}

/// The largest stores.
pub(super) fn stores(sizes: Vec<(String, StoreSize)>, limit: usize) -> Vec<Value> {
    let rows = largest(sizes, limit, |(_, size)| {
        (size.disk_bytes + size.memory_bytes) as f64
    });
    let rows = rows.into_iter().map(|(store, size)| {
        let StoreSize {
            keys,
            disk_bytes,
            memory_bytes,
        } = size;
        json!({ "store": store, "keys": keys, "disk_bytes": disk_bytes, "memory_bytes": memory_bytes })
    });
    rows.collect()
}
