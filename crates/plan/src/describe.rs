//! The text of `topology.describe()`, as Kafka Streams prints it.
//!
//! Takes the checked plan and its names, gives the text: with the repartition topics that Kafka
//! Streams would have made (here they are exchanges in memory), its numbering of sub-topologies and
//! its order of nodes. People diff this text when they move a topology; a byte of difference is a
//! question. Never reads the physical plan.

use crate::check::Shape;
use crate::logical::{Call, LogicalPlan};
use crate::name::Names;
use crate::order::{TreeSet, copied_capacity, hash_order};
use indexmap::IndexMap;
use std::fmt::Write;

enum What<'a> {
    Source(Vec<&'a str>),
    Processor(Option<&'a str>),
    Sink(&'a str),
}

/// A node of Kafka Streams' topology.
struct Piece<'a> {
    name: &'a str,
    what: What<'a>,
    /// Names of its parents.
    parents: Vec<&'a str>,
}

/// A node of the graph that Kafka Streams builds its topology from: pieces that are written together.
struct Unit<'a> {
    priority: usize,
    parents: Vec<usize>,
    pieces: Vec<Piece<'a>>,
    written: bool,
}

/// The text.
pub(crate) fn describe(plan: &LogicalPlan, shape: &Shape, names: &Names) -> String {
    let pieces = written(units(plan, shape, names));
    let mut text = String::from("Topologies:\n ");
    for (id, group) in groups(&pieces).iter().enumerate() {
        let _infallible = write!(
            text,
            "  Sub-topology: {id}\n{}\n",
            subtopology(&pieces, group)
        );
    }
    text
}

fn units<'a>(plan: &'a LogicalPlan, shape: &Shape, names: &'a Names) -> Vec<Unit<'a>> {
    let mut units: Vec<Unit<'a>> = Vec::new();
    // The unit that a node's children hang on, and the name of the piece they hang on.
    let mut of: Vec<(usize, &'a str)> = Vec::with_capacity(plan.nodes.len());
    let mut repartitions: Vec<Option<usize>> = vec![None; plan.nodes.len()];
    let mut priority = 0;
    for (i, node) in plan.nodes.iter().enumerate() {
        if shape.same[i] != i {
            priority += 1;
            of.push(of[shape.same[i]]);
            continue;
        }
        let own = names.node[i].as_str();
        let mut from = node.call.inputs();
        // A dissolved source hands its children over, and a child lists the new parent last.
        from.sort_by_key(|&f| if shape.same[f] == f { 0 } else { f + 1 });
        let mut inputs: Vec<(usize, &'a str)> = from.iter().map(|&f| of[f]).collect();
        if matches!(node.call, Call::GroupByKey { .. }) {
            of.push(inputs[0]);
            continue;
        }
        if let Some(r) = &names.repartition[i] {
            let unit = *repartitions[r.owner].get_or_insert_with(|| {
                let piece = |name, what, parents| Piece {
                    name,
                    what,
                    parents,
                };
                units.push(Unit {
                    priority: 0,
                    parents: vec![inputs[0].0],
                    pieces: vec![
                        piece(r.filter.as_str(), What::Processor(None), vec![inputs[0].1]),
                        piece(
                            r.sink.as_str(),
                            What::Sink(&r.topic),
                            vec![r.filter.as_str()],
                        ),
                        piece(r.source.as_str(), What::Source(vec![&r.topic]), vec![]),
                    ],
                    written: false,
                });
                units.len() - 1
            });
            // Added again for each aggregation, it is written as late as the last of them.
            units[unit].priority = priority;
            priority += 1;
            inputs = vec![(unit, r.source.as_str())];
        }
        let mut pieces = Vec::new();
        let mut parents: Vec<&str> = inputs.iter().map(|p| p.1).collect();
        let store = names.store[i].as_ref().map(|s| s.0.as_str());
        let what = match &node.call {
            Call::Stream { topics, .. } => {
                What::Source(topics.iter().map(String::as_str).collect())
            }
            Call::Table { topic, .. } => {
                let source = names.source[i].as_deref().unwrap_or_default();
                pieces.push(Piece {
                    name: source,
                    what: What::Source(vec![topic]),
                    parents: vec![],
                });
                parents = vec![source];
                // Kafka Streams keeps no store for a table that nobody named or asks.
                What::Processor(store.filter(|_| names.store[i].as_ref().is_some_and(|s| s.1)))
            }
            Call::To { topic, .. } => What::Sink(topic.as_deref().unwrap_or_default()),
            _ => What::Processor(store),
        };
        pieces.push(Piece {
            name: own,
            what,
            parents,
        });
        units.push(Unit {
            priority,
            parents: inputs.iter().map(|p| p.0).collect(),
            pieces,
            written: false,
        });
        priority += inputs.len().max(1);
        of.push((units.len() - 1, own));
    }
    units
}

/// Pieces in the order in which the units are written: lowest priority first, after all parents.
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

/// Sub-topologies: pieces that hang together, numbered by their first piece.
fn groups(pieces: &[Piece<'_>]) -> Vec<Vec<usize>> {
    let index: IndexMap<&str, usize> = pieces
        .iter()
        .enumerate()
        .map(|(i, p)| (p.name, i))
        .collect();
    let mut root: Vec<usize> = (0..pieces.len()).collect();
    for (i, piece) in pieces.iter().enumerate() {
        for parent in &piece.parents {
            let (old, new) = (root[i], root[index[parent]]);
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
            What::Source(topics) => {
                let order = hash_order(topics, copied_capacity(topics.len()));
                let topics: Vec<&str> = order.into_iter().map(|t| topics[t]).collect();
                writeln!(
                    text,
                    "    Source: {name} (topics: [{}])\n      --> {to}",
                    topics.join(", ")
                )
            }
            What::Processor(store) => writeln!(
                text,
                "    Processor: {name} (stores: [{}])\n      --> {to}\n      <-- {from}",
                store.unwrap_or_default()
            ),
            What::Sink(topic) => {
                writeln!(text, "    Sink: {name} (topic: {topic})\n      <-- {from}")
            }
        };
    }
    text
}

/// A node's size counts the paths below it, and so does that of all above.
fn grow(node: usize, delta: usize, sizes: &mut [usize], above: &[TreeSet]) {
    sizes[node] += delta;
    for parent in above[node].items() {
        grow(parent, delta, sizes, above);
    }
}

#[cfg(test)]
mod tests;
