//! Offloads.
//!
//! Takes the stream to park, creates the nodes around its store of parked records: a source of
//! responses, the two nodes that share the store (records and responses meet in one stage, each in the
//! lane of its key), the sink of requests, and the node that merges the results.

#[cfg(test)]
mod tests;

use super::exchange_path::ExchangePath;
use super::stores::raw;
use super::{Built, StageBuilder, highest, index, number};
use crate::logical::DslCall;
use crate::offloading::OffloadSpec;
use crate::physical::{Op, Sink, Source, Store};
use crate::window::{StoreKind, TimestampExtractor, Watermark, WatermarkStrategy};
use std::collections::BTreeSet;
use stoatflow_core::{Late, SinkId, SourceId};

impl StageBuilder<'_> {
    pub(super) fn offload(&mut self, i: usize, o: &OffloadSpec) -> Built {
        let serdes = self.serdes.offload[i]
            .clone()
            .expect("a missing serde is a finding, and findings end before the cut");
        let names = self.names;
        let [requests, answers, result] = names.parts[i].as_slice() else {
            unreachable!("an offload was given the names of its parts");
        };
        let records = self.built[o.from].clone();
        // Records are in the lane of their key's original bytes; responses have the bytes that the serde
        // writes. A serde of the user may write other bytes than it reads, so then both are exchanged by
        // the written ones.
        let walks = self.shape.rekeyed[o.from] || serdes.key.is_custom();
        let stage = highest(&records) + u16::from(walks);
        let source = self.response_source(i, o);
        let sink = SinkId(number(self.out.sinks.len()));
        self.out.sinks.push(Sink {
            id: sink,
            name: requests.clone(),
            topic: Some(o.requests.clone()),
            topic_function: None,
            partitioner: None,
            partitioner_with_headers: false,
            key: serdes.key.clone(),
            value: raw(),
            key_as_read: false,
            value_as_read: false,
        });
        let mut last = Vec::new();
        for (slot, (of, parents)) in [(o.from, &records), (i, &source)].into_iter().enumerate() {
            let path = ExchangePath {
                alone: None,
                of,
                parents,
                name: &self.exchange_name(i, slot),
                key: &serdes.key,
                // Null keys must reach the operator, which refuses them and calls the error handler.
                keep_null: true,
                ahead: slot == 1 || !self.shape.rekeyed[o.from],
            };
            last.push(self.exchange(&path, stage));
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
            feeders: self.input_sources(o.from),
        };
        let own = self.add(i, &names.node[i], stage, &op);
        self.arrive(own, &records, last[0]);
        let op = Op::OffloadAnswers { store, of: own };
        let answers = self.add(i, answers, stage, &op);
        self.arrive(answers, &source, last[1]);
        let result = self.add(i, result, stage, &Op::Merge);
        let sink = self.add(i, requests, stage, &Op::Sink { sink });
        // The offload itself has called the error handler for requests that can't be written, so the
        // sink must not drop their records.
        self.out.nodes[index(sink)].on_error = None;
        for side in [own, answers] {
            self.child(side, result);
            self.child(side, sink);
        }
        Built::from([(stage, result)])
    }

    fn response_source(&mut self, i: usize, o: &OffloadSpec) -> Built {
        let name = self.names.source[i].clone().unwrap_or_default();
        let key = self.serdes.offload[i].as_ref().map(|s| s.key.clone());
        let source = SourceId(number(self.out.sources.len()));
        let entry = self.add(i, &name, 0, &Op::Source { source });
        self.out.sources.push(Source {
            id: source,
            name,
            topics: vec![o.responses.clone()],
            pattern: None,
            // Workers may write any timestamp: nothing depends on it.
            timestamp: TimestampExtractor::UsePartitionTime,
            watermark: Some(Watermark {
                strategy: WatermarkStrategy::None,
                idle_ms: None,
                group: None,
                max_drift_ms: 0,
            }),
            global: false,
            key: key.unwrap_or_else(raw),
            // The lane of the parked record decodes the response: if it is an error, its value may have
            // any form.
            value: raw(),
            // Starts like the application: earlier responses belong to no record, and are dropped.
            reset: None,
            entry,
            late: Late::default(),
            answers: true,
        });
        Built::from([(0, entry)])
    }

    fn parking_lot(&mut self, i: usize, o: &OffloadSpec) -> stoatflow_core::StoreId {
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

    /// The sources that a stream is read from. Sources of responses to other offloads are not included,
    /// because records that wait for those are already parked.
    fn input_sources(&self, of: usize) -> Vec<SourceId> {
        let (mut open, mut seen, mut found) = (vec![of], BTreeSet::new(), BTreeSet::new());
        while let Some(at) = open.pop() {
            let at = self.shape.same[at];
            if !seen.insert(at) {
                continue;
            }
            let call = &self.plan.nodes[at].call;
            let name = match call {
                DslCall::Stream { .. } => Some(&self.names.node[at]),
                DslCall::Table { .. } => self.names.source[at].as_ref(),
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
