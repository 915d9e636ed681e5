//! Joins in the graph that Kafka Streams builds.

use super::DescribedCall;
use super::units::{Graph, Place, piece};
use crate::check::Kind;
use crate::logical::{DslCall, JoinArguments};
use crate::name::Names;

impl<'a> Graph<'a> {
    pub(super) fn join(&mut self, i: usize, j: &'a JoinArguments) -> Place<'a> {
        match (self.shape.kind(j.from), self.shape.kind(j.other)) {
            (Kind::Stream, Kind::Stream) => self.streams(i, j),
            (Kind::Stream, Kind::Table) => self.stream_table(i, j),
            (Kind::Stream, _) => {
                let parent = self.of[j.from];
                self.processor(self.name_of(i), vec![], &[parent])
            }
            _ if j.foreign_key.is_some() => self.foreign(i, j),
            _ => self.table_tables(i, j),
        }
    }

    fn name_of(&self, i: usize) -> &'a str {
        let names: &'a Names = self.names;
        &names.node[i]
    }

    fn streams(&mut self, i: usize, j: &JoinArguments) -> Place<'a> {
        let names: &'a Names = self.names;
        let own = self.name_of(i);
        let Some(s) = &names.streams[i] else {
            return (0, "");
        };
        let mut sides = [self.of[j.from], self.of[j.other]];
        for (slot, side) in sides.iter_mut().enumerate() {
            if let Some(r) = names.repartition[i].get(&slot) {
                *side = self.repartition(r, *side, false);
            }
        }
        if self.plan.keeps_one_store(i, j, &self.shape.rekeyed) {
            let store = vec![s.stores[0].as_str()];
            let windowed = self.processor(&s.windowed[0], store.clone(), &[sides[0]]);
            return self.processor(own, store, &[windowed]);
        }
        for (slot, side) in sides.iter().enumerate() {
            self.processor(&s.windowed[slot], vec![&s.stores[slot]], &[*side]);
        }
        let mut pieces = Vec::new();
        for slot in 0..2 {
            let mut stores = vec![s.stores[1 - slot].as_str()];
            stores.extend(s.pending.as_deref());
            pieces.push(piece(
                &s.sides[slot],
                DescribedCall::Processor(stores),
                vec![&s.windowed[slot]],
            ));
        }
        let joined = s.sides.iter().map(String::as_str).collect();
        pieces.push(piece(own, DescribedCall::Processor(vec![]), joined));
        self.unit(vec![sides[0].0, sides[1].0], pieces, own)
    }

    fn stream_table(&mut self, i: usize, j: &JoinArguments) -> Place<'a> {
        let names: &'a Names = self.names;
        let mut parent = self.of[j.from];
        if let Some(r) = names.repartition[i].get(&0) {
            parent = self.repartition(r, parent, false);
        }
        let mut stores = Vec::new();
        if j.grace_ms.is_some() {
            self.priority += 1;
            // The buffer is connected before the table: if their hashes collide, this decides which one
            // is listed first.
            stores = self.own_store(i);
        }
        stores.extend(self.view_stores(j.other));
        self.processor(self.name_of(i), stores, &[parent])
    }

    fn table_tables(&mut self, i: usize, j: &JoinArguments) -> Place<'a> {
        let names: &'a Names = self.names;
        let own = self.name_of(i);
        let sides = [self.of[j.from], self.of[j.other]];
        let read = [self.view_stores(j.other), self.view_stores(j.from)];
        let mut pieces = Vec::new();
        for (slot, stores) in read.into_iter().enumerate() {
            pieces.push(piece(
                &names.parts[i][slot],
                DescribedCall::Processor(stores),
                vec![sides[slot].1],
            ));
        }
        let joined = names.parts[i].iter().map(String::as_str).collect();
        pieces.push(piece(
            own,
            DescribedCall::Processor(self.own_store(i)),
            joined,
        ));
        self.unit(vec![sides[0].0, sides[1].0], pieces, own)
    }

    fn foreign(&mut self, i: usize, j: &JoinArguments) -> Place<'a> {
        let names: &'a Names = self.names;
        let Some(f) = &names.foreign[i] else {
            return (0, "");
        };
        let (left, right) = (self.of[j.from], self.of[j.other]);
        let subscriptions = f.store.0.as_str();
        let register = self.processor(&f.register, vec![], &[left]);
        let source = self.topic(&f.sink, &f.topic, &f.source, &[register]);
        self.priority += 1;
        let receive = self.processor(&f.receive, vec![subscriptions], &[source]);
        let answer = self.processor(&f.answer, self.view_stores(j.other), &[receive]);
        let notify = self.processor(&f.notify, vec![subscriptions], &[right]);
        let source = self.topic(
            &f.response_sink,
            &f.response,
            &f.response_source,
            &[answer, notify],
        );
        let resolve = self.processor(&f.resolve, self.view_stores(j.from), &[source]);
        self.processor(self.name_of(i), self.own_store(i), &[resolve])
    }

    /// A topic between two parts of a join.
    fn topic(
        &mut self,
        sink: &'a str,
        topic: &'a str,
        source: &'a str,
        parents: &[Place<'a>],
    ) -> Place<'a> {
        let names = parents.iter().map(|p| p.1).collect();
        let pieces = vec![piece(sink, DescribedCall::Sink(topic), names)];
        let above = self.unit(parents.iter().map(|p| p.0).collect(), pieces, sink);
        let pieces = vec![piece(source, DescribedCall::Source(vec![topic]), vec![])];
        self.unit(vec![above.0], pieces, source)
    }

    /// The stores that are read when a table is looked up by key.
    fn view_stores(&self, i: usize) -> Vec<&'a str> {
        let own = self.own_store(i);
        if !own.is_empty() {
            return own;
        }
        match &self.plan.nodes[i].call {
            DslCall::Filter { from, .. }
            | DslCall::FilterNot { from, .. }
            | DslCall::MapValues { from, .. }
            | DslCall::TransformValues { from, .. } => self.view_stores(*from),
            DslCall::Join(j) | DslCall::LeftJoin(j) | DslCall::OuterJoin(j) => {
                let mut all = self.view_stores(j.from);
                for store in self.view_stores(j.other) {
                    if !all.contains(&store) {
                        all.push(store);
                    }
                }
                all
            }
            _ => vec![],
        }
    }
}
