//! Offloads.
//!
//! Takes a stream that is parked, gives the nodes around its parking lot: a source of answers, the two that
//! share the lot (records and answers come in one stage, each to the lane of its key), the sink of
//! requests, and where results come out.

#[cfg(test)]
mod tests;

use super::stores::raw;
use super::walk::Walk;
use super::{Built, StageBuilder, highest, index, number};
use crate::logical::Call;
use crate::offloading::Offloading;
use crate::physical::{Op, Sink, Source, Store};
use crate::window::{StoreKind, TimestampExtractor, Watermark, WatermarkStrategy};
use std::collections::BTreeSet;
use stoatflow_core::{Late, SinkId, SourceId};

impl StageBuilder<'_> {
    pub(super) fn offload(&mut self, i: usize, o: &Offloading) -> Built {
        let serdes = self.serdes.offload[i]
            .clone()
            .expect("a missing serde is a finding, and findings end before the cut");
        let names = self.names;
        let [requests, answers, result] = names.parts[i].as_slice() else {
            unreachable!("an offload was given the names of its parts");
        };
        let records = self.built[o.from].clone();
        // Records are in the lane of their key's bytes as they came; answers have the bytes that the serde
        // writes. One of the user's may write others than it reads, so both walk by those.
        let walks = self.shape.rekeyed[o.from] || serdes.key.is_custom();
        let stage = highest(&records) + u16::from(walks);
        let source = self.answers(i, o);
        let sink = SinkId(number(self.out.sinks.len()));
        self.out.sinks.push(Sink {
            id: sink,
            name: requests.clone(),
            topic: Some(o.requests.clone()),
            topic_function: None,
            partitioner: None,
            key: serdes.key.clone(),
            value: raw(),
            key_as_read: false,
            value_as_read: false,
        });
        let mut last = Vec::new();
        for (slot, (of, parents)) in [(o.from, &records), (i, &source)].into_iter().enumerate() {
            let walk = Walk {
                alone: None,
                of,
                parents,
                name: &self.exchange_name(i, slot),
                key: &serdes.key,
                // What has no key is refused by name, where handlers are asked.
                keep_null: true,
                ahead: slot == 1 || !self.shape.rekeyed[o.from],
            };
            last.push(self.exchange(&walk, stage));
        }
        let store = self.parking_lot(i, o);
        let op = Op::Offload {
            store,
            key: serdes.key,
            value: serdes.value,
            response: o.response_value.clone(),
            request_value: serdes.request,
            request: o.request.clone(),
            function: o.function.clone(),
            with_key: o.with_key,
            patience: o.patience,
            instead_of_timeout: o.instead_of_timeout.clone(),
            instead_of_error: o.instead_of_error.clone(),
            timeout_handler: o.timeout_handler.clone(),
            max_parked: o.max_parked,
            feeders: self.feeders(o.from),
        };
        let own = self.add(i, &names.node[i], stage, &op);
        self.arrive(own, &records, last[0]);
        let op = Op::OffloadAnswers { store, of: own };
        let answers = self.add(i, answers, stage, &op);
        self.arrive(answers, &source, last[1]);
        let result = self.add(i, result, stage, &Op::Merge);
        let sink = self.add(i, requests, stage, &Op::Sink { sink });
        // The desk has asked about what can't be written: its record must not be left out behind its back.
        self.out.nodes[index(sink)].on_error = None;
        for side in [own, answers] {
            self.child(side, result);
            self.child(side, sink);
        }
        Built::from([(stage, result)])
    }

    fn answers(&mut self, i: usize, o: &Offloading) -> Built {
        let name = self.names.source[i].clone().unwrap_or_default();
        let key = self.serdes.offload[i].as_ref().map(|s| s.key.clone());
        let source = SourceId(number(self.out.sources.len()));
        let entry = self.add(i, &name, 0, &Op::Source { source });
        self.out.sources.push(Source {
            id: source,
            name,
            topics: vec![o.responses.clone()],
            pattern: None,
            // Whatever a worker wrote there: nothing goes by it.
            timestamp: TimestampExtractor::UsePartitionTime,
            watermark: Some(Watermark {
                strategy: WatermarkStrategy::None,
                idle_ms: None,
                group: None,
                max_drift_ms: 0,
            }),
            global: false,
            key: key.unwrap_or_else(raw),
            // The waiting record's lane decodes the answer: an error may have any value.
            value: raw(),
            // Where the application begins: earlier answers belong to no record, and are dropped.
            reset: None,
            entry,
            late: Late::default(),
            answers: true,
        });
        Built::from([(0, entry)])
    }

    fn parking_lot(&mut self, i: usize, o: &Offloading) -> stoatflow_core::StoreId {
        let (name, named) = self.store_name(i);
        let upstream_topics = self.topics_above(i);
        let m = o.materialized.as_ref();
        self.new_store(Store {
            named,
            logged: m.is_none_or(|m| m.logged),
            topic: m.map(|m| m.topic.clone()).unwrap_or_default(),
            in_memory: m.is_some_and(|m| m.in_memory),
            rocksdb: m.and_then(|m| m.rocksdb),
            upstream_topics,
            ..Store::new(&name, StoreKind::TimestampedKeyValue, raw(), raw())
        })
    }

    /// The sources that a stream comes from; answers to other offloads are none of them, because what waits
    /// for those is parked already.
    fn feeders(&self, of: usize) -> Vec<SourceId> {
        let (mut open, mut seen, mut found) = (vec![of], BTreeSet::new(), BTreeSet::new());
        while let Some(at) = open.pop() {
            let at = self.shape.same[at];
            if !seen.insert(at) {
                continue;
            }
            let call = &self.plan.nodes[at].call;
            let name = match call {
                Call::Stream { .. } => Some(&self.names.node[at]),
                Call::Table { .. } => self.names.source[at].as_ref(),
                _ => None,
            };
            let sources = self.out.sources.iter();
            found.extend(
                sources
                    .filter(|s| Some(&s.name) == name)
                    .map(|source| source.id),
            );
            open.extend(call.inputs());
        }
        found.into_iter().collect()
    }
}
