//! Async calls.
//!
//! Takes a call with an async function, creates its node once, in the highest stage of its parents. If
//! the stream is re-keyed, the node follows an exchange, so that all calls of a key start in one lane.

use super::exchange_path::ExchangePath;
use super::{Built, StageBuilder, highest};
use crate::logical::DslCall;
use crate::op::Form;
use crate::physical::{Op, Store};
use crate::spec::AsyncSpec;
use crate::window::StoreKind;

impl StageBuilder<'_> {
    pub(super) fn async_calls(&mut self, i: usize, form: Form, awaiting: AsyncSpec) -> Built {
        let plan = self.plan;
        let call = &plan.nodes[i].call;
        let from = call.inputs()[0];
        let with_key = match call {
            DslCall::MapValues { with_key, .. } | DslCall::FlatMapValues { with_key, .. } => {
                *with_key
            }
            _ => true,
        };
        let (key, value) = self.serdes.called[i]
            .clone()
            .expect("the pass over serdes has seen this call too");
        let (name, named) = self.store_name(i);
        let upstream_topics = self.topics_above(i);
        let raw = super::stores::raw;
        let store = self.new_store(Store {
            named,
            upstream_topics,
            ..Store::new(&name, StoreKind::TimestampedKeyValue, raw(), raw())
        });
        let parents = self.built[from].clone();
        let stage = highest(&parents) + u16::from(self.shape.rekeyed[from]);
        let name = self.exchange_name(i, 0);
        let last = self.exchange(
            &ExchangePath {
                alone: None,
                of: from,
                parents: &parents,
                name: &name,
                key: &key,
                keep_null: true,
                ahead: !self.shape.rekeyed[from],
            },
            stage,
        );
        let op = Op::Calls {
            form,
            with_key,
            awaiting,
            store,
            key,
            value,
        };
        let name = &self.names.node[i];
        let own = self.add(i, name, stage, &op);
        self.arrive(own, &parents, last);
        Built::from([(stage, own)])
    }
}
