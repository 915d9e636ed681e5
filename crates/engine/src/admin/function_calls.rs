//! The user functions of a plan, and how much time they take.
//!
//! Functions count their own calls ([`Cost`], [`CallCounts`]); this only collects the counts by
//! node. A function used by several nodes belongs to the first.

use bytes::Bytes;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stoatflow_operators::current_call::address;
use stoatflow_operators::{
    AsyncUdf, CallCounts, Cost, ForeignCode, OldestCall, ProcessorSupplier, Udf,
};
use stoatflow_plan::{Op, PhysicalPlan, callables};

/// Maximum length of a key, in characters.
const MAX_KEY_CHARS: usize = 100;

/// A function at its node.
#[derive(Clone, Debug)]
struct Call {
    node: String,
    op: &'static str,
    callee: Callee,
}

#[derive(Clone, Debug)]
enum Callee {
    Function(Arc<dyn Udf>),
    /// Awaited at one node, and called concurrently at another.
    Async(Arc<dyn Udf>, Arc<dyn AsyncUdf>),
    Processor(Arc<dyn ProcessorSupplier>),
}

/// The cost of a function at a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FunctionCost {
    /// The node.
    pub node: String,
    /// The node's operator.
    pub op: &'static str,
    /// The function (`app.py:12 is_large`).
    pub function: String,
    /// See [`Cost`].
    pub calls: u64,
    /// Seconds in the function.
    pub seconds: f64,
    /// Seconds that calls waited before they could begin.
    pub wait_seconds: f64,
    /// The states of an async function's calls.
    #[serde(rename = "async", skip_serializing_if = "Option::is_none")]
    pub awaited: Option<CallCounts>,
    /// The call of an async function that has run for the longest time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_call: Option<LongCall>,
}

/// A running call, and how many records wait for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LongCall {
    /// The key of its record as text, cut off if it is long; null if the record has none.
    pub key: Option<String>,
    /// For how long it has run, in milliseconds.
    pub for_ms: u64,
    /// Records of the same key that wait for it.
    pub behind: usize,
}

impl From<OldestCall> for LongCall {
    fn from(call: OldestCall) -> Self {
        let text = |key: Bytes| {
            let text = String::from_utf8_lossy(&key);
            text.chars().take(MAX_KEY_CHARS).collect()
        };
        Self {
            key: call.key.map(text),
            for_ms: u64::try_from(call.age.as_millis()).unwrap_or(u64::MAX),
            behind: call.behind,
        }
    }
}

impl FunctionCost {
    /// Adds the cost of another function of the same node and line of code.
    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.seconds += other.seconds;
        self.wait_seconds += other.wait_seconds;
        self.awaited = match (self.awaited, other.awaited) {
            (Some(one), Some(two)) => Some(one.and(two)),
            (one, two) => one.or(two),
        };
        let both = [self.oldest_call.take(), other.oldest_call.clone()];
        self.oldest_call = both.into_iter().flatten().max_by_key(|call| call.for_ms);
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct FunctionCalls {
    all: Vec<Call>,
    /// By the function's address: its name, and the nodes that call it.
    known: BTreeMap<usize, (String, Vec<String>)>,
}

impl FunctionCalls {
    /// The functions of a plan.
    #[must_use]
    pub fn of(plan: &PhysicalPlan, foreign: &ForeignCode) -> Self {
        let mut calls = Self::default();
        for serde in &foreign.serdes {
            calls.register(address(&**serde), serde.name(), None);
        }
        let mut seen = BTreeSet::new();
        let mut add = |node: &str, op: &'static str, numbers: Vec<u32>| {
            for number in numbers {
                if let Ok(udf) = foreign.udf(number) {
                    calls.register(address(&*udf), udf.name(), Some(node));
                }
                if let Some(awaited) = foreign.calls.get(&number) {
                    calls.register(address(&**awaited), awaited.name(), Some(node));
                }
                if let Ok(udf) = foreign.udf(number)
                    && seen.insert(number)
                {
                    let callee = match foreign.calls.get(&number) {
                        Some(awaited) => Callee::Async(udf, Arc::clone(awaited)),
                        None => Callee::Function(udf),
                    };
                    calls.all.push(Call {
                        node: node.to_owned(),
                        op,
                        callee,
                    });
                }
            }
        };
        for source in &plan.sources {
            let mut of_source = callables(&source.timestamp);
            of_source.extend(callables(&source.watermark));
            of_source.extend(callables(&source.late));
            add(&source.name, "source", of_source);
        }
        for node in &plan.nodes {
            let op = match &node.op {
                Op::Calls { form, .. } => form.method(),
                op => op.name(),
            };
            add(&node.name, op, callables(&node.op));
        }
        for sink in &plan.sinks {
            let mut of_sink = callables(&sink.topic_function);
            of_sink.extend(callables(&sink.partitioner));
            add(&sink.name, "sink", of_sink);
        }
        let mut seen = BTreeSet::new();
        for node in &plan.nodes {
            let (Op::Process { processor, .. } | Op::TransformValues { processor, .. }) = &node.op
            else {
                continue;
            };
            let Ok(supplier) = foreign.processor(*processor) else {
                continue;
            };
            calls.register(address(&*supplier), supplier.name(), Some(&node.name));
            if seen.insert(*processor) {
                calls.all.push(Call {
                    node: node.name.clone(),
                    op: node.op.name(),
                    callee: Callee::Processor(supplier),
                });
            }
        }
        calls
    }

    fn register(&mut self, address: usize, function: &str, node: Option<&str>) {
        let (_, nodes) = self
            .known
            .entry(address)
            .or_insert_with(|| (function.to_owned(), Vec::new()));
        nodes.extend(node.map(str::to_owned));
    }

    /// The function at this address, and the nodes that call it.
    #[must_use]
    pub fn at(&self, address: usize) -> Option<(&str, &[String])> {
        let (function, nodes) = self.known.get(&address)?;
        Some((function, nodes))
    }

    /// The cost of all functions so far.
    #[must_use]
    pub fn spent(&self) -> Vec<FunctionCost> {
        let spent = self.all.iter().filter_map(|call| {
            let (function, cost, in_flight) = match &call.callee {
                Callee::Function(udf) => (udf.name(), udf.cost(), None),
                Callee::Async(udf, awaited) => {
                    let cost = both(udf.cost(), awaited.cost());
                    (udf.name(), cost, Some(awaited.in_flight()))
                }
                Callee::Processor(supplier) => (supplier.name(), supplier.cost(), None),
            };
            let Cost {
                calls,
                inside,
                waiting,
            } = cost?;
            Some(FunctionCost {
                node: call.node.clone(),
                op: call.op,
                function: function.to_owned(),
                calls,
                seconds: inside.as_secs_f64(),
                wait_seconds: waiting.as_secs_f64(),
                awaited: in_flight.map(|calls| calls.counts()),
                oldest_call: in_flight.and_then(|calls| Some(calls.oldest()?.into())),
            })
        });
        spent.collect()
    }
}

/// The cost of awaited and concurrent calls together.
fn both(waited: Option<Cost>, others: Option<Cost>) -> Option<Cost> {
    let (Some(one), Some(two)) = (waited, others) else {
        return waited.or(others);
    };
    Some(Cost {
        calls: one.calls + two.calls,
        inside: one.inside + two.inside,
        waiting: one.waiting + two.waiting,
    })
}
