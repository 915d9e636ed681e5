//! The readers of each topic.
//!
//! Takes the plan, sets which `stream()` represents which, and adds findings where a topic would have
//! two readers. Never contacts a broker: the topics of a pattern are only known when the engine starts.

use super::{Kind, Shape};
use crate::logical::{DslCall, LogicalPlan};
use crate::problems::{Problems, place};
use indexmap::IndexMap;

/// Kafka Streams' rules for the readers of a topic: equal subscriptions become one source, others
/// collide.
pub(super) fn topics(plan: &LogicalPlan, shape: &mut Shape, problems: &mut Problems) {
    let mut readers: IndexMap<&str, usize> = IndexMap::new();
    for (i, node) in plan.nodes.iter().enumerate() {
        let own: Vec<&str> = match &node.call {
            // A pattern can't be mistaken for a topic: topic names have no such characters.
            DslCall::Stream {
                pattern: Some(pattern),
                ..
            } => vec![pattern],
            DslCall::Stream { topics, .. } => topics.iter().map(String::as_str).collect(),
            DslCall::Table { topic, .. }
            | DslCall::GlobalTable { topic, .. }
            | DslCall::GlobalStore { topic, .. } => vec![topic],
            DslCall::Offload(o) => vec![&o.responses],
            _ => continue,
        };
        let mut collisions: Vec<usize> = Vec::new();
        for topic in own {
            let first = *readers.entry(topic).or_insert(i);
            if first != i && !collisions.contains(&first) {
                collisions.push(first);
            }
        }
        for first in collisions {
            let handled = plan.nodes[first].on_error == node.on_error;
            match check_duplicate(&plan.nodes[first].call, &node.call) {
                Ok(()) if !handled => problems.at(
                    plan,
                    i,
                    format!(
                        "reads a topic that {} reads already; both must treat records that can't be decoded alike: give both the same on_error",
                        place(&plan.nodes[first], first)
                    ),
                ),
                Ok(()) => shape.same[i] = first,
                Err(why) => {
                    let other = place(&plan.nodes[first], first);
                    problems.at(
                        plan,
                        i,
                        format!("reads a topic that {other} reads already; {why}"),
                    );
                }
            }
        }
    }
    for (i, node) in plan.nodes.iter().enumerate() {
        if let DslCall::Merge { from, other } = node.call
            && shape.kinds[i] != Kind::Broken
            && shape.same[from] == shape.same[other]
        {
            problems.at(
                plan,
                i,
                "merges a stream with itself; Kafka Streams would give each record once all the same: leave it out, or use flat_map_values to double records",
            );
        }
    }
}

fn check_duplicate(first: &DslCall, second: &DslCall) -> Result<(), &'static str> {
    if matches!(first, DslCall::Offload(_)) || matches!(second, DslCall::Offload(_)) {
        return Err(
            "the answers to an offload are its own: give it a topic for them that nobody else reads",
        );
    }
    let (
        DslCall::Stream {
            topics: a,
            key: ka,
            value: va,
            reset: ra,
            timestamp: ta,
            watermark: wa,
            late: la,
            pattern: pa,
        },
        DslCall::Stream {
            topics: b,
            key: kb,
            value: vb,
            reset: rb,
            timestamp: tb,
            watermark: wb,
            late: lb,
            pattern: pb,
        },
    ) = (first, second)
    else {
        return Err(
            "a topic is read by one table or by streams, not by both: use .to_stream() of the table",
        );
    };
    if pa != pb {
        return Err("a stream reads topics or a pattern: give the topic one of them only");
    }
    if a.len() != b.len() || !a.iter().all(|t| b.contains(t)) {
        return Err(
            "two streams may share all their topics or none: read each topic once and merge()",
        );
    }
    if ka != kb || va != vb {
        return Err(
            "both must read it with the same serdes: read it as bytes() and decode in each branch",
        );
    }
    if ra != rb {
        return Err("both must start it at the same place: give both the same offset reset");
    }
    if ta != tb {
        return Err(
            "both must take the time from the same place: give both the same timestamp extractor",
        );
    }
    if wa != wb {
        return Err("both must expect the same disorder: give both the same watermark");
    }
    if la != lb {
        return Err("both must treat late records alike: give both the same late=");
    }
    Ok(())
}
