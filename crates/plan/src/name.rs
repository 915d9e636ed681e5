//! Kafka Streams' names.
//!
//! Takes the checked plan, gives the names that `InternalStreamsBuilder` gives: one counter for the
//! whole topology, burnt in the same places (also where the user named the node, and twice for a
//! count whose materialization has no store name), so that a plan moved here from Java finds its topics and stores again.
//! Never invents a rule: what is odd here is odd there.

use crate::check::{Kind, Shape};
use crate::logical::{Call, LogicalPlan};
use crate::problems::{Problems, place};
use indexmap::IndexMap;

/// Names of what Kafka Streams puts around a repartition topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repartition {
    /// The topic, without the application's id.
    pub(crate) topic: String,
    /// The processor that filters null keys.
    pub(crate) filter: String,
    /// The sink.
    pub(crate) sink: String,
    /// The source.
    pub(crate) source: String,
    /// The aggregation that made it (another one of the same named grouping shares it).
    pub(crate) owner: usize,
}

/// Names by node.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// The processor, source or sink; empty for `group_by_key`, which makes none.
    pub(crate) node: Vec<String>,
    /// The source in front of a table.
    pub(crate) source: Vec<Option<String>>,
    /// The store, and whether the user named it.
    pub(crate) store: Vec<Option<(String, bool)>>,
    /// The repartition topic before an aggregation.
    pub(crate) repartition: Vec<Option<Repartition>>,
}

struct Counter(u32);

impl Counter {
    fn next(&mut self, prefix: &str) -> String {
        let name = format!("{prefix}{:010}", self.0);
        self.0 += 1;
        name
    }

    /// A name of the user burns a number as well.
    fn named(&mut self, prefix: &str, given: Option<&str>, suffix: &str) -> String {
        let generated = self.next(prefix);
        given.map_or(generated, |g| format!("{g}{suffix}"))
    }

    fn store(&mut self, prefix: &str, given: Option<&str>) -> (String, bool) {
        match given {
            Some(given) => (given.to_owned(), true),
            None => (self.next(&format!("{prefix}STATE-STORE-")), false),
        }
    }
}

/// Names all nodes; names that occur twice are findings.
pub(crate) fn name(plan: &LogicalPlan, shape: &Shape, problems: &mut Problems) -> Names {
    let mut counter = Counter(0);
    let mut names = Names::default();
    for (i, node) in plan.nodes.iter().enumerate() {
        let given = node.name.as_deref();
        let wished = node.call.materialized().and_then(|m| m.store.as_deref());
        let (mut source, mut store, mut repartition) = (None, None, None);
        let own = match &node.call {
            Call::Table { topic, .. } => {
                store = Some(counter.store(&format!("{topic}-"), wished));
                source = Some(counter.named("KSTREAM-SOURCE-", given, "-source"));
                counter.named("KTABLE-SOURCE-", given, "")
            }
            Call::GroupByKey { .. } => String::new(),
            Call::Count { from, .. } | Call::Reduce { from, .. } | Call::Aggregate { from, .. } => {
                let prefix = prefix(&node.call);
                if matches!(
                    node.call,
                    Call::Count {
                        materialized: Some(_),
                        ..
                    }
                ) && wished.is_none()
                {
                    counter.next(prefix);
                }
                let kept = counter.store(prefix, wished);
                let own = counter.named(prefix, given, "");
                if shape.kinds[i] != Kind::Broken && shape.rekeyed[*from] {
                    repartition = Some(repartition_of(
                        plan,
                        &mut counter,
                        &names.repartition,
                        i,
                        *from,
                        &kept.0,
                    ));
                }
                store = Some(kept);
                own
            }
            call => counter.named(prefix(call), given, ""),
        };
        names.node.push(own);
        names.source.push(source);
        names.store.push(store);
        names.repartition.push(repartition);
    }
    unique(plan, shape, &names, problems);
    names
}

const fn prefix(call: &Call) -> &'static str {
    match call {
        Call::Stream { .. } | Call::Table { .. } => "KSTREAM-SOURCE-",
        Call::Filter { .. } | Call::FilterNot { .. } => "KSTREAM-FILTER-",
        Call::Map { .. } => "KSTREAM-MAP-",
        Call::MapValues { .. } => "KSTREAM-MAPVALUES-",
        Call::FlatMap { .. } => "KSTREAM-FLATMAP-",
        Call::FlatMapValues { .. } => "KSTREAM-FLATMAPVALUES-",
        Call::SelectKey { .. } | Call::GroupBy { .. } => "KSTREAM-KEY-SELECT-",
        Call::Peek { .. } => "KSTREAM-PEEK-",
        Call::Foreach { .. } => "KSTREAM-FOREACH-",
        Call::Merge { .. } => "KSTREAM-MERGE-",
        Call::Count { .. } | Call::Aggregate { .. } => "KSTREAM-AGGREGATE-",
        Call::Reduce { .. } => "KSTREAM-REDUCE-",
        Call::ToStream { .. } => "KTABLE-TOSTREAM-",
        Call::To { .. } => "KSTREAM-SINK-",
        // Grouping by key makes no node; the others are not available yet.
        _ => "",
    }
}

fn repartition_of(
    plan: &LogicalPlan,
    counter: &mut Counter,
    earlier: &[Option<Repartition>],
    i: usize,
    group: usize,
    store: &str,
) -> Repartition {
    const SUFFIX: &str = "-repartition";
    let given = plan.nodes[group].name.as_deref();
    let prefix = given.unwrap_or(store);
    let (sink, filter, source) = (
        counter.next("KSTREAM-SINK-"),
        counter.next("KSTREAM-FILTER-"),
        counter.next("KSTREAM-SOURCE-"),
    );
    // A named grouping makes its topic once; a later aggregation only burns the numbers.
    if given.is_some() {
        let shared = (0..i)
            .find(|&j| plan.nodes[j].call.inputs() == [group])
            .and_then(|j| earlier[j].clone());
        if let Some(shared) = shared {
            return shared;
        }
    }
    let topic = if prefix.ends_with(SUFFIX) {
        prefix.to_owned()
    } else {
        format!("{prefix}{SUFFIX}")
    };
    if is_generated(prefix) {
        return Repartition {
            topic,
            filter,
            sink,
            source,
            owner: i,
        };
    }
    Repartition {
        filter: format!("{topic}-filter"),
        sink: format!("{topic}-sink"),
        source: format!("{topic}-source"),
        topic,
        owner: i,
    }
}

/// Java's `KSTREAM.*-[0-9]{10}`.
fn is_generated(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("KSTREAM") else {
        return false;
    };
    let Some(at) = rest.len().checked_sub(11) else {
        return false;
    };
    rest.is_char_boundary(at)
        && rest[at..].starts_with('-')
        && rest[at + 1..].bytes().all(|b| b.is_ascii_digit())
}

fn unique(plan: &LogicalPlan, shape: &Shape, names: &Names, problems: &mut Problems) {
    let mut nodes: IndexMap<&str, usize> = IndexMap::new();
    let mut stores: IndexMap<&str, usize> = IndexMap::new();
    for (i, node) in plan.nodes.iter().enumerate() {
        let mut own: Vec<&str> = Vec::new();
        if let Some(r) = &names.repartition[i]
            && r.owner == i
        {
            own.extend([r.filter.as_str(), &r.sink, &r.source]);
        }
        // The second stream() of the same topics is dissolved in the first, and its name with it.
        if !names.node[i].is_empty() && shape.same[i] == i {
            own.push(&names.node[i]);
        }
        own.extend(names.source[i].as_deref());
        for name in own {
            if let Some(first) = nodes.insert(name, i) {
                let other = place(&plan.nodes[first], first);
                let what = if first == i {
                    "twice itself".to_owned()
                } else {
                    format!("by {other} already")
                };
                problems.at(
                    plan,
                    i,
                    format!("the name '{name}' is used {what}; give one of them another name="),
                );
            }
        }
        if let Some((store, _)) = &names.store[i]
            && let Some(first) = stores.insert(store, i)
        {
            let other = place(&plan.nodes[first], first);
            let call = node.call.name();
            problems.at(
                plan,
                i,
                format!("the store '{store}' belongs to {other} already; give this {call}() another store="),
            );
        }
    }
}

#[cfg(test)]
mod tests;
