//! Stores of the physical plan.
//!
//! Takes a call, returns the store that it keeps: its name, its serdes, its layout. Never opens one.

use super::{StageBuilder, number};
use crate::aggregation::window_of;
use crate::check::Kind;
use crate::logical::DslCall;
use crate::materialized::Materialized;
use crate::physical::Store;
use crate::spec::SerdeSpec;
use crate::tables::{is_materialized_on_demand, named_store};
use crate::window::{Emit, StoreKind};
use indexmap::IndexSet;
use stoatflow_core::{RocksDbConfig, StoreId};

/// Rows that wait for a time are encoded by their operator, not by serdes.
pub(super) fn raw() -> SerdeSpec {
    SerdeSpec::Builtin("bytes".into())
}

impl StageBuilder<'_> {
    /// Creates the stores that are declared for processors.
    pub(super) fn declared(&mut self) {
        for i in 0..self.plan.nodes.len() {
            let DslCall::StateStore {
                store,
                kind,
                logged,
                in_memory,
                topic,
                indexes,
                rocksdb,
                headers,
                ..
            } = &self.plan.nodes[i].call
            else {
                continue;
            };
            let (key, value) = self.used(i);
            let id = self.new_store(Store {
                logged: *logged,
                in_memory: *in_memory,
                topic: topic.clone(),
                named: true,
                ordered: true,
                indexes: indexes.clone(),
                rocksdb: *rocksdb,
                headers: *headers,
                ..Store::new(store, *kind, key, value)
            });
            self.named.insert(store.clone(), id);
        }
    }

    pub(super) fn used(&self, i: usize) -> (SerdeSpec, SerdeSpec) {
        self.serdes.used[i]
            .clone()
            .expect("a missing serde is a finding, and findings end before the cut")
    }

    /// The store of a table, or of an operator that keeps one value for each key.
    pub(super) fn store(&mut self, i: usize) -> (StoreId, SerdeSpec) {
        let call = &self.plan.nodes[i].call;
        let (key, value) = self.used(i);
        let kind = self.kind(i);
        let m = call.materialized();
        let global = self.shape.kind(i) == Kind::GlobalTable;
        let logged = m.is_none_or(|m| m.logged) && !global;
        let source_changelog = match call {
            // The bytes of the topic equal those of the changelog only with the same serdes, and the
            // changelog of a versioned store contains the timestamp of each version.
            DslCall::Table {
                topic,
                key: k,
                value: v,
                ..
            } if logged
                && *k == key
                && *v == value
                // Tombstones of expired rows are not in the source topic.
                && call.expiry().is_none()
                && !matches!(kind, StoreKind::Versioned { .. }) =>
            {
                Some(topic.clone())
            }
            DslCall::GlobalTable { topic, .. } => Some(topic.clone()),
            _ => None,
        };
        let (name, named) = self.store_name(i);
        let on_close = matches!(
            call,
            DslCall::Count { from, .. } | DslCall::Reduce { from, .. } | DslCall::Aggregate { from, .. }
                if crate::aggregation::emit_of(self.plan, *from) == Emit::OnWindowClose
        );
        let versioned = matches!(kind, StoreKind::Versioned { .. });
        // Where Kafka Streams has no store, it has no cache either, and forwards each update.
        let kept = !is_materialized_on_demand(call) || self.tables.kept[i];
        let id = self.new_store(Store {
            named,
            logged,
            topic: m.map(|m| m.topic.clone()).unwrap_or_default(),
            in_memory: m.is_some_and(|m| m.in_memory),
            cached: m.is_none_or(|m| m.cached) && kept && !on_close && !versioned,
            source_changelog,
            indexes: m.map(|m| m.indexes.clone()).unwrap_or_default(),
            rocksdb: m.and_then(|m| m.rocksdb),
            upstream_topics: self.topics_above(i),
            ..Store::new(&name, kind, key.clone(), value)
        });
        if named {
            self.named.insert(name, id);
        }
        if self.shape.kind(i) == Kind::Table || global {
            self.kept.insert(i, id);
        }
        (id, key)
    }

    /// The store beside the windows of a count: the number of records of each key.
    pub(super) fn positions(&mut self, i: usize) -> StoreId {
        let (key, _) = self.used(i);
        let named = self.store_name(i).1;
        let name = self.names.positions[i]
            .clone()
            .expect("a count window was given a name for its positions");
        let m = self.plan.nodes[i].call.materialized();
        let upstream_topics = self.topics_above(i);
        self.new_store(Store {
            named,
            logged: m.is_none_or(|m| m.logged),
            topic: m.map(|m| m.topic.clone()).unwrap_or_default(),
            in_memory: m.is_some_and(|m| m.in_memory),
            rocksdb: m.and_then(|m| m.rocksdb).map(RocksDbConfig::without_cache),
            ordered: false,
            upstream_topics,
            ..Store::new(
                &name,
                StoreKind::KeyValue,
                key,
                SerdeSpec::Builtin("int64".into()),
            )
        })
    }

    /// The store of a table that is materialized only if it has a name.
    pub(super) fn named_store_of(&mut self, i: usize) -> Option<StoreId> {
        named_store(&self.plan.nodes[i].call)?;
        Some(self.store(i).0)
    }

    /// A store that only its operator reads: ordered, in an encoding of that operator.
    pub(super) fn buffer_store(
        &mut self,
        i: usize,
        name: &str,
        named: bool,
        logged: bool,
    ) -> StoreId {
        let upstream_topics = self.topics_above(i);
        self.new_store(Store {
            named,
            logged,
            upstream_topics,
            ..Store::new(name, StoreKind::TimeOrdered, raw(), raw())
        })
    }

    pub(super) fn store_name(&self, i: usize) -> (String, bool) {
        self.names.store[i]
            .clone()
            .expect("what keeps a store was given its name")
    }

    fn kind(&self, i: usize) -> StoreKind {
        let call = &self.plan.nodes[i].call;
        let m: Option<&Materialized> = call.materialized();
        if let Some(history_ms) = m.and_then(|m| m.history_ms) {
            return StoreKind::Versioned { history_ms };
        }
        if let DslCall::Deduplicate { within_ms, .. } = call {
            // Twice `within_ms`: a record may be that late, and a duplicate may follow that much later.
            let retention = m.and_then(|m| m.retention_ms).unwrap_or(0);
            return StoreKind::Window {
                retention_ms: retention.max(within_ms.saturating_mul(2)),
                size_ms: *within_ms,
                duplicates: false,
                timestamped: false,
            };
        }
        let window = match call {
            DslCall::Count { from, .. }
            | DslCall::Reduce { from, .. }
            | DslCall::Aggregate { from, .. } => window_of(self.plan, *from),
            _ => None,
        };
        let Some(window) = window else {
            return StoreKind::TimestampedKeyValue;
        };
        let retention_ms = m
            .and_then(|m| m.retention_ms)
            .unwrap_or_else(|| window.retention_ms());
        match window.size_ms() {
            Some(size_ms) => StoreKind::Window {
                retention_ms,
                size_ms,
                duplicates: false,
                timestamped: true,
            },
            None => StoreKind::Session { retention_ms },
        }
    }

    /// Numbers a store, and creates the clock of its retention.
    pub(super) fn new_store(&mut self, mut store: Store) -> StoreId {
        store.id = StoreId(number(self.out.stores.len()));
        if matches!(
            store.kind,
            StoreKind::Window { .. } | StoreKind::Session { .. } | StoreKind::Versioned { .. }
        ) {
            store.clock = Some(self.clock(&format!("{}-retention", store.name)));
        }
        let id = store.id;
        self.out.stores.push(store);
        id
    }

    pub(super) fn topics_above(&self, i: usize) -> Vec<String> {
        let mut topics = IndexSet::new();
        self.upstream(i, &mut topics);
        topics.into_iter().collect()
    }

    fn upstream(&self, i: usize, topics: &mut IndexSet<String>) {
        match &self.plan.nodes[i].call {
            DslCall::Stream { topics: own, .. } => topics.extend(own.iter().cloned()),
            DslCall::Table { topic, .. }
            | DslCall::GlobalTable { topic, .. }
            | DslCall::GlobalStore { topic, .. } => topics.extend([topic.clone()]),
            call => {
                // Global tables don't affect the number of partitions of a changelog.
                for from in call.inputs() {
                    if self.shape.kind(from) != Kind::GlobalTable {
                        self.upstream(from, topics);
                    }
                }
            }
        }
    }
}
