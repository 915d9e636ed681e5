//! Joins by foreign key.
//!
//! Takes two tables, creates the nodes that subscribe, answer, and join the answers. Subscriptions are
//! sent to the lane of the foreign key, answers back to the lane of the left key.

use super::exchange_path::ExchangePath;
use super::tables::kind_of;
use super::{Built, StageBuilder, highest};
use crate::logical::JoinArguments;
use crate::physical::Op;
use stoatflow_core::StageId;

impl StageBuilder<'_> {
    pub(super) fn foreign_join(&mut self, i: usize, j: &JoinArguments) -> Built {
        let plan = self.plan;
        let kind = kind_of(&plan.nodes[i].call);
        let serdes = self.join_serdes(i);
        let (key, foreign) = (serdes.key, serdes.foreign);
        let names = self.names.foreign[i]
            .clone()
            .expect("a join by foreign key was given its names");
        let (left, right) = (self.built[j.from].clone(), self.built[j.other].clone());
        let (own_stage, right_stage) = (highest(&left), highest(&right));
        let stage = right_stage.max(own_stage + 1);
        // Created first: a table that is joined with itself notifies its subscribers of a new value
        // before it subscribes again, as in Kafka Streams, where only the subscription is sent through a
        // topic.
        let exchanged = self.exchange_up(j.other, &format!("{}-exchange", names.notify), stage);
        let join = u32::try_from(i).unwrap_or(u32::MAX);
        let subscribe = Op::ForeignSubscribe {
            kind,
            foreign_key: j.foreign_key.clone().expect("this join has a foreign key"),
            with_key: j.foreign_with_key,
            key: key.clone(),
            value: serdes.left.clone(),
            foreign: foreign.clone(),
            join,
        };
        let subscribed = self.each(i, &[left], &names.register, &subscribe);
        let asked = self.exchange(
            &ExchangePath {
                alone: None,
                of: i,
                parents: &subscribed,
                name: &names.sink,
                key: &foreign,
                keep_null: true,
                ahead: false,
            },
            stage,
        );
        let store = self.buffer_store(i, &names.store.0, names.store.1, true);
        let answer = Op::ForeignAnswer {
            store,
            kind,
            right: self.view(j.other),
            key: key.clone(),
            foreign: foreign.clone(),
        };
        let answer = self.add(i, &names.answer, stage, &answer);
        self.arrive(answer, &subscribed, asked);
        let notify = Op::ForeignNotify {
            store,
            key: key.clone(),
            foreign,
        };
        let notify = self.add(i, &names.notify, stage, &notify);
        self.arrive(notify, &right, exchanged);
        let back = Op::Exchange {
            to: vec![],
            stage: StageId(stage + 1),
            key: key.clone(),
            keep_null: false,
            ahead: false,
        };
        let back = self.add(i, &names.response_sink, stage, &back);
        self.child(answer, back);
        self.child(notify, back);
        let resolve = Op::ForeignJoin {
            kind,
            left: self.view(j.from),
            function: j.function.clone(),
            with_key: j.with_key,
            key,
            value: serdes.left,
            join,
        };
        let resolve = self.add(i, &names.resolve, stage + 1, &resolve);
        self.arrive(resolve, &Built::new(), Some(back));
        let (store, key) = self.store(i);
        let op = Op::TableMerge {
            store: Some(store),
            key,
            old: self.tables.old[i],
        };
        let own = self.add(i, &self.names.node[i], stage + 1, &op);
        self.child(resolve, own);
        Built::from([(stage + 1, own)])
    }
}
