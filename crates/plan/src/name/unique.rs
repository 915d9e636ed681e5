//! Names must be unique.
//!
//! Takes all names, adds findings. Never renames.

use super::Names;
use crate::check::Shape;
use crate::logical::LogicalPlan;
use crate::problems::{Problems, place};
use indexmap::IndexMap;

pub(super) fn unique(plan: &LogicalPlan, shape: &Shape, names: &Names, problems: &mut Problems) {
    let mut nodes: IndexMap<&str, usize> = IndexMap::new();
    let mut stores: IndexMap<&str, usize> = IndexMap::new();
    for (i, node) in plan.nodes.iter().enumerate() {
        for name in nodes_of(shape, names, i) {
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
        for store in stores_of(names, i) {
            if let Some(first) = stores.insert(store, i) {
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
}

fn nodes_of<'a>(shape: &Shape, names: &'a Names, i: usize) -> Vec<&'a str> {
    let mut own: Vec<&str> = Vec::new();
    for (slot, r) in &names.repartition[i] {
        if r.owner == (i, *slot) {
            own.extend(r.filter.as_deref());
            own.extend([r.sink.as_str(), &r.source]);
        }
    }
    // The second stream() of the same topics is merged into the first one, and its name disappears. A
    // repartition is identified by its source.
    let is_source = names.repartition[i]
        .values()
        .any(|r| r.source == names.node[i]);
    if !names.node[i].is_empty() && shape.same[i] == i && !is_source {
        own.push(&names.node[i]);
    }
    own.extend(names.source[i].as_deref());
    own.extend(names.parts[i].iter().map(String::as_str));
    if let Some(s) = &names.streams[i] {
        own.extend(s.windowed.iter().chain(&s.sides).map(String::as_str));
    }
    if let Some(f) = &names.foreign[i] {
        own.extend([
            f.register.as_str(),
            &f.sink,
            &f.source,
            &f.receive,
            &f.answer,
            &f.notify,
            &f.response_sink,
            &f.response_source,
            &f.resolve,
        ]);
    }
    own
}

fn stores_of(names: &Names, i: usize) -> Vec<&str> {
    let mut own: Vec<&str> = names.store[i].iter().map(|s| s.0.as_str()).collect();
    own.extend(names.positions[i].as_deref());
    own.extend(names.expiry[i].as_deref());
    if let Some(s) = &names.streams[i] {
        own.extend(s.stores.iter().map(String::as_str));
        own.extend(s.pending.as_deref());
    }
    if let Some(f) = &names.foreign[i] {
        own.push(&f.store.0);
    }
    own
}
