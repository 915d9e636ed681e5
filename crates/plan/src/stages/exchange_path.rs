//! Creates the exchanges that move records to the lane of their key.
//!
//! Takes the nodes above and the stage that records must reach, creates exchanges from every lower
//! stage, each to the next one, shared by all calls that need the same. Never drops a null key that a
//! join below accepts.

use super::{Built, StageBuilder, index};
use crate::check::{Kind, Shape};
use crate::logical::{DslCall, LogicalPlan};
use crate::physical::Op;
use crate::spec::SerdeSpec;
use stoatflow_core::{NodeId, StageId};

struct Known {
    /// The call whose records are exchanged.
    of: usize,
    stage: u16,
    keep_null: bool,
    ahead: bool,
    alone: Option<(usize, usize)>,
    key: SerdeSpec,
    node: NodeId,
}

/// Existing exchanges.
#[derive(Default)]
pub(super) struct Exchanges(Vec<Known>);

impl Exchanges {
    fn find(&self, path: &ExchangePath<'_>, stage: u16) -> Option<NodeId> {
        let same = |k: &&Known| {
            (k.of, k.stage, k.keep_null, k.ahead) == (path.of, stage, path.keep_null, path.ahead)
                && (k.alone, &k.key) == (path.alone, path.key)
        };
        self.0.iter().find(same).map(|k| k.node)
    }
}

/// The exchange of records from one call to a higher stage.
pub(super) struct ExchangePath<'w> {
    /// The call whose records are exchanged.
    pub(super) of: usize,
    /// Its nodes.
    pub(super) parents: &'w Built,
    /// The name of the exchanges.
    pub(super) name: &'w str,
    /// The serde of the key that decides the lane.
    pub(super) key: &'w SerdeSpec,
    /// Whether records without a key are exchanged too.
    pub(super) keep_null: bool,
    /// If the exchanges lead to a single node only: that node, and which of its parents.
    pub(super) alone: Option<(usize, usize)>,
    /// True if Kafka Streams has no topic here: then these records go before those that pass a topic.
    pub(super) ahead: bool,
}

impl StageBuilder<'_> {
    /// Creates the exchanges from every stage below `stage` up to it; returns the last one. They must be
    /// created before the node that they lead to, see [`StageBuilder::arrive`].
    pub(super) fn exchange(&mut self, path: &ExchangePath<'_>, stage: u16) -> Option<NodeId> {
        let lowest = path.parents.keys().next().copied()?;
        let mut before: Option<NodeId> = None;
        for at in lowest..stage {
            let known = self.exchanges.find(path, at);
            if known.is_some() {
                before = known;
                continue;
            }
            let op = Op::Exchange {
                to: vec![],
                stage: StageId(at + 1),
                key: path.key.clone(),
                keep_null: path.keep_null,
                ahead: path.ahead,
            };
            let own = self.add(path.of, path.name, at, &op);
            self.exchanges.0.push(Known {
                of: path.of,
                stage: at,
                keep_null: path.keep_null,
                ahead: path.ahead,
                alone: path.alone,
                key: path.key.clone(),
                node: own,
            });
            if let Some(&parent) = path.parents.get(&at) {
                self.child(parent, own);
            }
            if let Some(before) = before {
                self.lead(before, own);
            }
            before = Some(own);
        }
        before
    }

    /// Connects a node with the last exchange, and with a parent in its own stage.
    pub(super) fn arrive(&mut self, own: NodeId, parents: &Built, last: Option<NodeId>) {
        if let Some(last) = last {
            self.lead(last, own);
        }
        let stage = self.out.nodes[index(own)].stage.0;
        if let Some(&parent) = parents.get(&stage) {
            self.child(parent, own);
        }
    }

    fn lead(&mut self, exchange: NodeId, own: NodeId) {
        if let Op::Exchange { to, .. } = &mut self.out.nodes[index(exchange)].op {
            to.push(own);
        }
    }

    /// The name of the exchange on the side `slot` of a call.
    pub(super) fn exchange_name(&self, i: usize, slot: usize) -> String {
        match self.names.repartition[i].get(&slot) {
            Some(r) => r.sink.clone(),
            None => format!("{}-exchange", self.names.node[i]),
        }
    }
}

/// Whether it is a join that accepts records without a key.
fn takes_null(plan: &LogicalPlan, shape: &Shape, i: usize) -> bool {
    match &plan.nodes[i].call {
        DslCall::LeftJoin(j) | DslCall::OuterJoin(j) => shape.kind(j.from) == Kind::Stream,
        _ => false,
    }
}

/// For each node: whether a join below it accepts records without a key. (Kafka Streams'
/// `NodesWithRelaxedNullKeyJoinDownstream`; the table of a stream-table join doesn't count as above it.)
pub(super) fn keeps_null_keys(plan: &LogicalPlan, shape: &Shape) -> Vec<bool> {
    let mut keeps_null_keys: Vec<bool> = vec![false; plan.nodes.len()];
    for i in (0..plan.nodes.len()).rev() {
        keeps_null_keys[i] |= takes_null(plan, shape, i);
        if !keeps_null_keys[i] {
            continue;
        }
        let call = &plan.nodes[i].call;
        let above = match call.joining() {
            Some(j)
                if shape.kind(j.from) == Kind::Stream && shape.kind(j.other) != Kind::Stream =>
            {
                vec![j.from]
            }
            _ => call.inputs(),
        };
        for from in above {
            if from < i {
                keeps_null_keys[from] = true;
            }
        }
    }
    keeps_null_keys
}
