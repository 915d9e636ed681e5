//! Sources, sinks and stateless operators.
//!
//! Takes calls on streams, creates their nodes: once in each stage that has a parent.

use super::exchange_path::ExchangePath;
use super::{Built, StageBuilder, highest, number};
use crate::function::Function;
use crate::logical::DslCall;
use crate::physical::{Op, Sink, Source};
use crate::timetable::TimetableSpec;
use crate::window::{TimestampExtractor, Watermark};
use std::collections::{BTreeMap, BTreeSet};
use stoatflow_core::{SinkId, SourceId};

impl StageBuilder<'_> {
    pub(super) fn source(&mut self, i: usize, name: &str) -> Built {
        let plan = self.plan;
        let (topics, pattern, key, value, reset, timestamp) = match &plan.nodes[i].call {
            DslCall::Stream {
                topics,
                pattern,
                key,
                value,
                reset,
                timestamp,
                ..
            } => (
                topics.clone(),
                pattern.clone(),
                key,
                value,
                *reset,
                timestamp,
            ),
            DslCall::Table {
                topic,
                key,
                value,
                reset,
                timestamp,
                ..
            } => (vec![topic.clone()], None, key, value, *reset, timestamp),
            DslCall::GlobalTable {
                topic,
                key,
                value,
                timestamp,
                ..
            }
            | DslCall::GlobalStore {
                topic,
                key,
                value,
                timestamp,
                ..
            } => (vec![topic.clone()], None, key, value, None, timestamp),
            _ => unreachable!("only streams, tables and global stores have sources"),
        };
        let source = SourceId(number(self.out.sources.len()));
        let entry = self.add(i, name, 0, &Op::Source { source });
        let global = matches!(
            plan.nodes[i].call,
            DslCall::GlobalTable { .. } | DslCall::GlobalStore { .. }
        );
        let watermark = match &plan.nodes[i].call {
            DslCall::Stream { watermark, .. } => watermark.clone(),
            // A table that rarely changes must not hold back the watermark of the streams.
            DslCall::Table {
                watermark: None, ..
            } if self.reads_streams() => Some(Watermark::NONE),
            DslCall::Table { watermark, .. } => watermark.clone(),
            _ => None,
        };
        self.out.sources.push(Source {
            id: source,
            name: name.to_owned(),
            topics,
            pattern,
            timestamp: timestamp
                .clone()
                .unwrap_or(TimestampExtractor::FailOnInvalid),
            watermark,
            global,
            key: key.clone(),
            value: value.clone(),
            reset,
            entry,
            late: plan.nodes[i].call.late().cloned().unwrap_or_default(),
            answers: false,
        });
        Built::from([(0, entry)])
    }

    /// Whether there is a source that is not a table.
    fn reads_streams(&self) -> bool {
        let mut calls = self.plan.nodes.iter().map(|node| &node.call);
        calls.any(|call| matches!(call, DslCall::Stream { .. }))
    }

    pub(super) fn scheduled(&mut self, i: usize, times: &TimetableSpec) -> Built {
        let name = &self.names.node[i];
        let op = Op::Scheduled {
            times: times.clone(),
            // No store can have this name, and no other node has it.
            clock: self.clock(&format!("schedule:{name}")),
        };
        Built::from([(0, self.add(i, name, 0, &op))])
    }

    pub(super) fn sink(&mut self, i: usize) -> Built {
        let plan = self.plan;
        let DslCall::To {
            from,
            topic,
            topic_function,
            partitioner,
            partitioner_with_headers,
            ..
        } = &plan.nodes[i].call
        else {
            unreachable!("called for sinks");
        };
        let sink = SinkId(number(self.out.sinks.len()));
        let (key, value) = self.used(i);
        let (key_as_read, value_as_read) = self.serdes.as_read[i];
        let name = &self.names.node[i];
        self.out.sinks.push(Sink {
            id: sink,
            name: name.clone(),
            topic: topic.clone(),
            topic_function: topic_function.clone(),
            partitioner: partitioner.clone(),
            partitioner_with_headers: *partitioner_with_headers,
            key,
            value,
            key_as_read,
            value_as_read,
        });
        let from = from.all().to_vec();
        let parents: Vec<Built> = from.iter().map(|&f| self.built[f].clone()).collect();
        let stages: BTreeSet<u16> = parents
            .iter()
            .flat_map(|built| built.keys().copied())
            .collect();
        let rekeyed = from.iter().any(|&f| self.shape.rekeyed[f]);
        let op = Op::Sink { sink };
        if !rekeyed && stages.len() == 1 {
            return self.each(i, &parents, name, &op);
        }
        // Records of one key come from several lanes or stages, and must be written in the order of the
        // input.
        let above = (from.iter().zip(&parents))
            .map(|(&f, built)| highest(built) + u16::from(self.shape.rekeyed[f]));
        let stage = above.max().expect("a sink has a parent");
        let key = self.out.sinks[usize::from(sink.0)].key.clone();
        let mut last = Vec::new();
        for (slot, (&of, parents)) in from.iter().zip(&parents).enumerate() {
            // A processor forwards to a sink by its name.
            let named = matches!(
                plan.nodes[of].call,
                DslCall::Process { .. } | DslCall::ProcessValues { .. }
            );
            let walk_name = match named {
                true => name.clone(),
                false => format!("{name}-exchange"),
            };
            last.push(self.exchange(
                &ExchangePath {
                    alone: named.then_some((i, slot)),
                    of,
                    parents,
                    name: &walk_name,
                    key: &key,
                    keep_null: true,
                    ahead: true,
                },
                stage,
            ));
        }
        let own = self.add(i, name, stage, &op);
        for (parents, last) in parents.iter().zip(last) {
            self.arrive(own, parents, last);
        }
        Built::from([(stage, own)])
    }

    pub(super) fn stateless(&mut self, i: usize, call: &DslCall) -> Built {
        let parents: Vec<Built> = call
            .inputs()
            .iter()
            .map(|&f| self.built[f].clone())
            .collect();
        self.each(i, &parents, &self.names.node[i], &operation(call))
    }

    pub(super) fn repartition(&mut self, i: usize, from: usize) -> Built {
        let parents = self.built[from].clone();
        let stage = highest(&parents) + 1;
        let key = self.serdes.group_key[i]
            .clone()
            .expect("a missing serde is a finding");
        let name = self.exchange_name(i, 0);
        // For this call only: the user asked for a repartition, even if another exchange exists beside
        // it.
        let last = self.exchange(
            &ExchangePath {
                alone: None,
                of: i,
                parents: &parents,
                name: &name,
                key: &key,
                keep_null: self.keeps_null_keys[i],
                ahead: false,
            },
            stage,
        );
        let own = self.add(i, &self.names.node[i], stage, &Op::Merge);
        self.arrive(own, &parents, last);
        Built::from([(stage, own)])
    }

    pub(super) fn split(&mut self, i: usize, from: usize) -> Built {
        let op = Op::Split { functions: vec![] };
        let parents = [self.built[from].clone()];
        self.each(i, &parents, &self.names.node[i], &op)
    }

    pub(super) fn branch(&mut self, i: usize, from: usize, function: Option<&Function>) -> Built {
        let mut built = BTreeMap::new();
        for (stage, above) in self.built[from].clone() {
            if let (Op::Split { functions }, Some(function)) =
                (&mut self.out.nodes[super::index(above)].op, function)
            {
                functions.push(function.clone());
            }
            let own = self.add(i, &self.names.node[i], stage, &Op::Merge);
            self.child(above, own);
            built.insert(stage, own);
        }
        built
    }

    pub(super) fn deduplicate(&mut self, i: usize, from: usize) -> Built {
        let plan = self.plan;
        let DslCall::Deduplicate {
            function,
            within_ms,
            ..
        } = &plan.nodes[i].call
        else {
            unreachable!("called for deduplicate");
        };
        let parents = self.built[from].clone();
        let stage = highest(&parents) + 1;
        let (store, key) = self.store(i);
        let clock = self.clock(&self.out.stores[usize::from(store.0)].name.clone());
        let by = self.serdes.group_key[i]
            .clone()
            .expect("deduplicate has one");
        let name = self.exchange_name(i, 0);
        let last = self.exchange(
            &ExchangePath {
                alone: None,
                of: from,
                parents: &parents,
                name: &name,
                key: &by,
                keep_null: function.is_some()
                    || self.keeps_null_keys[i]
                    || !self.shape.rekeyed[from],
                ahead: !self.shape.rekeyed[from],
            },
            stage,
        );
        let op = Op::Deduplicate {
            store,
            key,
            function: function.clone(),
            within_ms: *within_ms,
            clock,
        };
        let own = self.add(i, &self.names.node[i], stage, &op);
        self.arrive(own, &parents, last);
        Built::from([(stage, own)])
    }
}

fn operation(call: &DslCall) -> Op {
    match call {
        DslCall::Filter { function, .. } => Op::Filter {
            function: function.clone(),
        },
        DslCall::FilterNot { function, .. } => Op::FilterNot {
            function: function.clone(),
        },
        DslCall::Map { function, .. } => Op::Map {
            function: function.clone(),
        },
        DslCall::MapValues {
            function, with_key, ..
        } => Op::MapValues {
            function: function.clone(),
            with_key: *with_key,
        },
        DslCall::FlatMap { function, .. } => Op::FlatMap {
            function: function.clone(),
        },
        DslCall::FlatMapValues {
            function, with_key, ..
        } => Op::FlatMapValues {
            function: function.clone(),
            with_key: *with_key,
        },
        DslCall::MapBatches {
            function,
            schema,
            max_rows,
            max_wait_ms,
            by_row,
            ..
        } => Op::MapBatches {
            function: function.clone(),
            schema: schema.clone(),
            max_rows: *max_rows,
            max_wait_ms: *max_wait_ms,
            by_row: by_row.clone(),
        },
        // Grouping by a function sets a new key; the store comes with the aggregation.
        DslCall::SelectKey { function, .. } | DslCall::GroupBy { function, .. } => Op::SelectKey {
            function: function.clone(),
        },
        DslCall::Peek { function, .. } => Op::Peek {
            function: function.clone(),
        },
        DslCall::Foreach { function, .. } => Op::Foreach {
            function: function.clone(),
        },
        DslCall::ForeachBatch {
            function,
            schema,
            max_rows,
            max_wait_ms,
            ..
        } => Op::ForeachBatch {
            function: function.clone(),
            schema: schema.clone(),
            max_rows: *max_rows,
            max_wait_ms: *max_wait_ms,
        },
        DslCall::Merge { .. } => Op::Merge,
        DslCall::ToStream { .. } => Op::ToStream,
        _ => unreachable!("what keeps something is made elsewhere"),
    }
}
