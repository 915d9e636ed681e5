//! The text of `topology.describe()`, as Kafka Streams prints it.
//!
//! Takes the checked plan and its names, returns the text: with the repartition topics that Kafka
//! Streams would have created (here they are exchanges in memory), its numbering of sub-topologies and
//! its order of nodes. People diff this text when they port a topology, so every byte has to match.
//! Never reads the physical plan.

mod joins;
mod units;

use crate::check::Shape;
use crate::logical::LogicalPlan;
use crate::name::Names;
use crate::order::{TreeSet, copied_capacity, hash_order};
use crate::tables::Tables;
use indexmap::IndexMap;
use std::fmt::Write;

#[derive(Clone, Debug)]
enum DescribedCall<'a> {
    Source(Vec<&'a str>),
    Pattern(&'a str),
    /// A source that Kafka Streams doesn't have: it reads the clock.
    Scheduled(String),
    Processor(Vec<&'a str>),
    Sink(&'a str),
    /// A sink whose topic a function chooses.
    Extractor(&'a str),
}

/// A node of Kafka Streams' topology.
#[derive(Clone, Debug)]
struct Piece<'a> {
    name: &'a str,
    what: DescribedCall<'a>,
    /// Names of its parents.
    parents: Vec<&'a str>,
    /// Whether it fills a global store.
    global: bool,
}

/// A node of the graph from which Kafka Streams builds its topology: pieces that are written together.
#[derive(Debug)]
struct Unit<'a> {
    priority: usize,
    parents: Vec<usize>,
    pieces: Vec<Piece<'a>>,
    written: bool,
}

/// The text.
pub(crate) fn describe(
    plan: &LogicalPlan,
    shape: &Shape,
    names: &Names,
    tables: &Tables,
) -> String {
    let pieces = written(units::units(plan, shape, names, tables));
    let mut text = String::from("Topologies:\n ");
    for (id, group) in groups(&pieces).iter().enumerate() {
        let body = subtopology(&pieces, group);
        let _infallible = if group.iter().any(|&p| pieces[p].global) {
            let what = "for global store (will not generate tasks)";
            write!(text, "  Sub-topology: {id} {what}\n{body}")
        } else {
            write!(text, "  Sub-topology: {id}\n{body}\n")
        };
    }
    text
}

/// Pieces in the order in which their units are written: lowest priority first, after all parents.
fn written(mut units: Vec<Unit<'_>>) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    loop {
        let ready = (0..units.len())
            .filter(|&u| !units[u].written && units[u].parents.iter().all(|&p| units[p].written))
            .min_by_key(|&u| units[u].priority);
        let Some(u) = ready else { return pieces };
        units[u].written = true;
        pieces.append(&mut units[u].pieces);
    }
}

/// Sub-topologies: connected pieces (or pieces that share a store), numbered by their first piece.
fn groups(pieces: &[Piece<'_>]) -> Vec<Vec<usize>> {
    let index: IndexMap<&str, usize> = pieces
        .iter()
        .enumerate()
        .map(|(i, p)| (p.name, i))
        .collect();
    let mut root: Vec<usize> = (0..pieces.len()).collect();
    let mut users: IndexMap<&str, usize> = IndexMap::new();
    for (i, piece) in pieces.iter().enumerate() {
        let mut near: Vec<usize> = piece.parents.iter().map(|p| index[p]).collect();
        if let DescribedCall::Processor(stores) = &piece.what {
            near.extend(stores.iter().map(|s| *users.entry(s).or_insert(i)));
        }
        for other in near {
            let (old, new) = (root[i], root[other]);
            root.iter_mut()
                .filter(|r| **r == old)
                .for_each(|r| *r = new);
        }
    }
    let mut groups: IndexMap<usize, Vec<usize>> = IndexMap::new();
    for (i, root) in root.into_iter().enumerate() {
        groups.entry(root).or_default().push(i);
    }
    groups.into_values().collect()
}

fn subtopology(pieces: &[Piece<'_>], group: &[usize]) -> String {
    let names: Vec<&str> = group.iter().map(|&i| pieces[i].name).collect();
    let at = |name: &str| {
        names
            .iter()
            .position(|n| *n == name)
            .expect("parents are in the same group")
    };
    let mut sizes = vec![1_usize; names.len()];
    let mut above: Vec<TreeSet> = names.iter().map(|_| TreeSet::default()).collect();
    let mut below: Vec<TreeSet> = names.iter().map(|_| TreeSet::default()).collect();
    let before = |sizes: &[usize], a: usize, b: usize| (sizes[b], names[a]) < (sizes[a], names[b]);
    for node in hash_order(&names, 16) {
        for parent in &pieces[group[node]].parents {
            let parent = at(parent);
            above[node].add(parent, |a, b| before(&sizes, a, b));
            below[parent].add(node, |a, b| before(&sizes, a, b));
            let delta = sizes[node];
            grow(parent, delta, &mut sizes, &above);
        }
    }
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by(|&a, &b| sizes[b].cmp(&sizes[a]).then_with(|| names[a].cmp(names[b])));
    let list = |set: &TreeSet| {
        let items: Vec<&str> = set.items().into_iter().map(|i| names[i]).collect();
        if items.is_empty() {
            "none".to_owned()
        } else {
            items.join(", ")
        }
    };
    let mut text = String::new();
    for node in order {
        let (name, to, from) = (names[node], list(&below[node]), list(&above[node]));
        let _infallible = match &pieces[group[node]].what {
            DescribedCall::Source(topics) => {
                let order = hash_order(topics, copied_capacity(topics.len()));
                let topics: Vec<&str> = order.into_iter().map(|t| topics[t]).collect();
                writeln!(
                    text,
                    "    Source: {name} (topics: [{}])\n      --> {to}",
                    topics.join(", ")
                )
            }
            DescribedCall::Pattern(pattern) => writeln!(
                text,
                "    Source: {name} (topics: {pattern})\n      --> {to}"
            ),
            DescribedCall::Scheduled(times) => writeln!(
                text,
                "    Source: {name} (scheduled: {times})\n      --> {to}"
            ),
            DescribedCall::Processor(stores) => {
                let order = hash_order(stores, copied_capacity(stores.len()));
                let stores: Vec<&str> = order.into_iter().map(|s| stores[s]).collect();
                writeln!(
                    text,
                    "    Processor: {name} (stores: [{}])\n      --> {to}\n      <-- {from}",
                    stores.join(", ")
                )
            }
            DescribedCall::Extractor(function) => writeln!(
                text,
                "    Sink: {name} (extractor class: {function})\n      <-- {from}"
            ),
            DescribedCall::Sink(topic) => {
                writeln!(text, "    Sink: {name} (topic: {topic})\n      <-- {from}")
            }
        };
    }
    text
}

/// A node's size counts the paths below it; the sizes of all ancestors grow too.
fn grow(node: usize, delta: usize, sizes: &mut [usize], above: &[TreeSet]) {
    sizes[node] += delta;
    for parent in above[node].items() {
        grow(parent, delta, sizes, above);
    }
}

#[cfg(test)]
mod tests;
