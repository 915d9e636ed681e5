//! The nodes that Kafka Streams creates around a repartition topic, and the calls that share it.
//!
//! Takes the call in front of which records are re-keyed, returns the names of the topic's filter, sink
//! and source. Here the topic is an exchange in memory; `describe()` still shows its names.

use super::Pass;

/// Names of the nodes that Kafka Streams creates around a repartition topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repartition {
    /// The topic, without the application's id.
    pub(crate) topic: String,
    /// The processor that filters null keys (absent in front of the aggregation of a table).
    pub(crate) filter: Option<String>,
    /// The sink.
    pub(crate) sink: String,
    /// The source.
    pub(crate) source: String,
    /// The node and the side that created it (an aggregation of the same named grouping shares it).
    pub(crate) owner: (usize, usize),
}

const SUFFIX: &str = "-repartition";

impl Pass<'_> {
    /// Creates a topic with this prefix.
    pub(super) fn repartition(&mut self, i: usize, slot: usize, prefix: &str) -> Repartition {
        let (sink, filter, source) = (
            self.counter.next("KSTREAM-SINK-"),
            self.counter.next("KSTREAM-FILTER-"),
            self.counter.next("KSTREAM-SOURCE-"),
        );
        let topic = if prefix.ends_with(SUFFIX) {
            prefix.to_owned()
        } else {
            format!("{prefix}{SUFFIX}")
        };
        let owner = (i, slot);
        if is_generated(prefix) {
            return Repartition {
                topic,
                filter: Some(filter),
                sink,
                source,
                owner,
            };
        }
        Repartition {
            filter: Some(format!("{topic}-filter")),
            sink: format!("{topic}-sink"),
            source: format!("{topic}-source"),
            topic,
            owner,
        }
    }

    /// The topic of a grouped stream. A named grouping creates it once; a later aggregation only
    /// increments the counter.
    pub(super) fn grouped(
        &mut self,
        i: usize,
        slot: usize,
        group: usize,
        store: &str,
    ) -> Repartition {
        let given = self.plan.nodes[group].name.clone();
        let own = self.repartition(i, slot, given.as_deref().unwrap_or(store));
        given.and_then(|_| self.earlier(i, group)).unwrap_or(own)
    }

    /// The topic of an earlier aggregation of the same grouping.
    pub(super) fn earlier(&self, i: usize, group: usize) -> Option<Repartition> {
        (0..i)
            .filter(|&j| {
                let inputs = self.plan.nodes[j].call.inputs();
                inputs.len() == 1 && crate::aggregation::grouping_of(self.plan, inputs[0]) == group
            })
            .find_map(|j| self.names.repartition[j].get(&0).cloned())
    }

    /// The topic of a side of a join. A stream that was joined before is not repartitioned again, unless
    /// the join has a name.
    pub(super) fn joined(
        &mut self,
        i: usize,
        slot: usize,
        stream: usize,
        given: Option<String>,
    ) -> Repartition {
        let own_name = self.names.node[stream].clone();
        let prefix = given.unwrap_or_else(|| own_name.clone());
        let made = self.repartition(i, slot, &prefix);
        if prefix == own_name
            && let Some(known) = self.joined.get(&stream)
        {
            return known.clone();
        }
        self.joined.insert(stream, made.clone());
        made
    }
}

/// Matches Java's `KSTREAM.*-[0-9]{10}`.
pub(super) fn is_generated(name: &str) -> bool {
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
