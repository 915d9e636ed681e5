//! Names of joins.
//!
//! Takes a join, returns the names of everything that Kafka Streams creates for it, in the order in
//! which it increments its counter.

use super::{NodeNames, Pass};
use crate::check::Kind;
use crate::logical::{DslCall, JoinArguments};
use std::collections::BTreeMap;

/// A stream-stream join: left, right.
#[derive(Clone, Debug)]
pub(crate) struct StreamJoinNames {
    /// The processors that write the stores.
    pub(crate) windowed: [String; 2],
    /// The processors that join.
    pub(crate) sides: [String; 2],
    /// The stores.
    pub(crate) stores: [String; 2],
    /// The store of records that wait for a partner.
    pub(crate) pending: Option<String>,
    /// Whether the user named the stores.
    pub(crate) named: bool,
}

/// A join by foreign key.
#[derive(Clone, Debug)]
pub(crate) struct ForeignNames {
    /// The topic of the subscriptions.
    pub(crate) topic: String,
    /// The processor that sends subscriptions.
    pub(crate) register: String,
    /// The sink of that topic.
    pub(crate) sink: String,
    /// The source of that topic.
    pub(crate) source: String,
    /// The store of the subscriptions, and whether the user named the join.
    pub(crate) store: (String, bool),
    /// The processor that stores subscriptions.
    pub(crate) receive: String,
    /// The processor that answers them.
    pub(crate) answer: String,
    /// The processor that notifies subscribers of a new right value.
    pub(crate) notify: String,
    /// The topic of the answers.
    pub(crate) response: String,
    /// The sink of that topic.
    pub(crate) response_sink: String,
    /// The source of that topic.
    pub(crate) response_source: String,
    /// The processor that joins answers with left values.
    pub(crate) resolve: String,
}

impl Pass<'_> {
    pub(super) fn join(&mut self, i: usize, j: &JoinArguments) -> NodeNames {
        match (self.shape.kinds[j.from], self.shape.kinds[j.other]) {
            (Kind::Stream, Kind::Stream) => self.streams(i, j),
            (Kind::Stream, Kind::Table) => self.stream_table(i, j),
            (Kind::Stream, _) => {
                let given = self.plan.nodes[i].name.as_deref();
                NodeNames::node(self.counter.named("KSTREAM-LEFTJOIN-", given, ""))
            }
            _ if j.foreign_key.is_some() => self.foreign(i, j),
            _ => self.tables(i, j),
        }
    }

    fn streams(&mut self, i: usize, j: &JoinArguments) -> NodeNames {
        let node = &self.plan.nodes[i];
        let given = node.name.as_deref();
        let (left_outer, right_outer) = (
            !matches!(node.call, DslCall::Join(_)),
            matches!(node.call, DslCall::OuterJoin(_)),
        );
        let mut repartition = BTreeMap::new();
        for (slot, (stream, suffix)) in [(j.from, "-left"), (j.other, "-right")]
            .into_iter()
            .enumerate()
        {
            if self.shape.rekeyed[stream] {
                let prefix = given.map(|g| format!("{g}{suffix}"));
                repartition.insert(slot, self.joined(i, slot, stream, prefix));
            }
        }
        let this_suffix = if right_outer {
            "-outer-this-join"
        } else {
            "-this-join"
        };
        let other_suffix = if left_outer {
            "-outer-other-join"
        } else {
            "-other-join"
        };
        let windowed = [
            self.counter
                .named("KSTREAM-WINDOWED-", given, "-this-windowed"),
            self.counter
                .named("KSTREAM-WINDOWED-", given, "-other-windowed"),
        ];
        let this = self.counter.next(if right_outer {
            "KSTREAM-OUTERTHIS-"
        } else {
            "KSTREAM-JOINTHIS-"
        });
        let other = self.counter.next(if left_outer {
            "KSTREAM-OUTEROTHER-"
        } else {
            "KSTREAM-JOINOTHER-"
        });
        let own = self.counter.named("KSTREAM-MERGE-", given, "-merge");
        // Kafka Streams names the stores after StreamJoined.withStoreName only. A generated name would
        // change with the topology, so the name of the join is used as well.
        let base = j.store.as_deref().or(given);
        let of = |generated: &str, suffix: &str| match base {
            Some(base) => format!("{base}{suffix}-store"),
            None => format!("{generated}-store"),
        };
        let pending = left_outer.then(|| {
            let suffix = if right_outer {
                "-outer-shared-join"
            } else {
                "-left-shared-join"
            };
            let number = this.rsplit('-').next().unwrap_or_default();
            of(&format!("KSTREAM-OUTERSHARED-{number}"), suffix)
        });
        let streams = StreamJoinNames {
            windowed,
            stores: [of(&this, this_suffix), of(&other, other_suffix)],
            sides: [
                given.map_or_else(|| this.clone(), |g| format!("{g}{this_suffix}")),
                given.map_or_else(|| other.clone(), |g| format!("{g}{other_suffix}")),
            ],
            pending,
            named: base.is_some(),
        };
        NodeNames {
            repartition,
            streams: Some(streams),
            ..NodeNames::node(own)
        }
    }

    fn stream_table(&mut self, i: usize, j: &JoinArguments) -> NodeNames {
        let node = &self.plan.nodes[i];
        let given = node.name.clone();
        let mut repartition = BTreeMap::new();
        if self.shape.rekeyed[j.from] {
            repartition.insert(0, self.joined(i, 0, j.from, given.clone()));
        }
        let prefix = match node.call {
            DslCall::Join(_) => "KSTREAM-JOIN-",
            _ => "KSTREAM-LEFTJOIN-",
        };
        let own = self.counter.named(prefix, given.as_deref(), "");
        NodeNames {
            store: j
                .grace_ms
                .map(|_| (format!("{own}-Buffer"), given.is_some())),
            repartition,
            ..NodeNames::node(own)
        }
    }

    fn tables(&mut self, i: usize, j: &JoinArguments) -> NodeNames {
        let given = self.plan.nodes[i].name.as_deref();
        let store = j
            .materialized
            .as_ref()
            .map(|m| self.counter.store("KTABLE-MERGE-", m.store.as_deref()));
        let own = self.counter.named("KTABLE-MERGE-", given, "");
        let parts = vec![
            self.counter.named("KTABLE-JOINTHIS-", given, "-join-this"),
            self.counter
                .named("KTABLE-JOINOTHER-", given, "-join-other"),
        ];
        NodeNames {
            store,
            parts,
            ..NodeNames::node(own)
        }
    }

    fn foreign(&mut self, i: usize, j: &JoinArguments) -> NodeNames {
        const REGISTER: &str = "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-";
        const PROCESSOR: &str = "KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR-";
        const OUTPUT: &str = "KTABLE-FK-JOIN-OUTPUT-";
        let given = self.plan.nodes[i].name.as_deref();
        let counter = &mut self.counter;
        let mut next = |prefix: &str, suffix: &str| counter.named(prefix, given, suffix);
        let foreign = ForeignNames {
            topic: format!("{}-topic", next(REGISTER, "-subscription-registration")),
            register: next(REGISTER, "-subscription-registration-processor"),
            sink: next("KTABLE-SINK-", "-subscription-registration-sink"),
            source: next("KTABLE-SOURCE-", "-subscription-registration-source"),
            store: (
                next(
                    "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-",
                    "-subscription-store",
                ),
                given.is_some(),
            ),
            receive: next(PROCESSOR, "-subscription-receive"),
            answer: next(PROCESSOR, "-subscription-join-foreign"),
            notify: next(PROCESSOR, "-foreign-join-subscription"),
            response: format!(
                "{}-topic",
                next(
                    "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-",
                    "-subscription-response"
                )
            ),
            response_sink: next("KTABLE-SINK-", "-subscription-response-sink"),
            response_source: next("KTABLE-SOURCE-", "-subscription-response-source"),
            resolve: next(
                "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-",
                "-subscription-response-resolver",
            ),
        };
        let own = next(OUTPUT, "-result");
        let wished = j.materialized.as_ref().and_then(|m| m.store.as_deref());
        // A named join also names the store of its result.
        let store = match (self.counter.store(OUTPUT, wished), given) {
            ((_, false), Some(given)) => (format!("{given}-result-store"), true),
            (store, _) => store,
        };
        NodeNames {
            store: Some(store),
            foreign: Some(foreign),
            ..NodeNames::node(own)
        }
    }
}
