//! Tables, and how they are read by key.
//!
//! Takes calls on tables, creates their nodes and, for joins, the [`View`] of a table: its store, or a
//! computation over the stores above it. Nothing is stored twice.

use super::exchange_path::ExchangePath;
use super::{Built, StageBuilder, highest};
use crate::check::{Kind, is_versioned};
use crate::function::Function;
use crate::logical::DslCall;
use crate::physical::Op;
use crate::spec::SerdeSpec;
use crate::tables::named_store;
use crate::view::{Kind as JoinKind, View};
use crate::window::{StoreKind, Until};
use stoatflow_core::{ProcessorId, StoreId};

impl StageBuilder<'_> {
    pub(super) fn source_table(&mut self, i: usize) -> Built {
        let name = self.names.source[i].clone().unwrap_or_default();
        let parents = self.source(i, &name);
        let (store, key) = self.store(i);
        let op = Op::TableSource {
            store,
            key: key.clone(),
            old: self.tables.old[i],
        };
        let stage = self.at_least(i, u16::from(self.keeps_versions(store)));
        let last = self.exchange(
            &ExchangePath {
                alone: None,
                of: i,
                parents: &parents,
                name: &format!("{}-exchange", self.names.node[i]),
                key: &key,
                keep_null: true,
                ahead: true,
            },
            stage,
        );
        let own = self.add(i, &self.names.node[i], stage, &op);
        self.arrive(own, &parents, last);
        Built::from([(stage, own)])
    }

    /// Whether the store is versioned: stream time over all lanes decides which versions it accepts.
    pub(super) fn keeps_versions(&self, store: StoreId) -> bool {
        let kind = self.out.stores[usize::from(store.0)].kind;
        matches!(kind, StoreKind::Versioned { .. })
    }

    /// The stage, but at least the one that the call was raised to.
    pub(super) fn at_least(&self, i: usize, stage: u16) -> u16 {
        stage.max(self.min_stage.get(&i).copied().unwrap_or(0))
    }

    /// The calls whose stores are read when a table is read.
    pub(super) fn keepers(&self, i: usize) -> Vec<usize> {
        if self.kept.contains_key(&i) {
            return vec![i];
        }
        let inputs = self.plan.nodes[i].call.inputs();
        let tables = inputs
            .into_iter()
            .filter(|&from| self.shape.kind(from) == Kind::Table);
        tables.flat_map(|from| self.keepers(from)).collect()
    }

    pub(super) fn table_of_stream(&mut self, i: usize, from: usize) -> Built {
        let parents = self.built[from].clone();
        let (store, key) = self.store(i);
        let walks = self.shape.rekeyed[from] || self.keeps_versions(store);
        let stage = self.at_least(i, highest(&parents) + u16::from(walks));
        let name = self.exchange_name(i, 0);
        let last = self.exchange(
            &ExchangePath {
                alone: None,
                of: from,
                parents: &parents,
                name: &name,
                key: &key,
                keep_null: self.keeps_null_keys[i],
                ahead: !self.shape.rekeyed[from],
            },
            stage,
        );
        let op = Op::TableSource {
            store,
            key,
            old: self.tables.old[i],
        };
        let own = self.add(i, &self.names.node[i], stage, &op);
        self.arrive(own, &parents, last);
        Built::from([(stage, own)])
    }

    /// Creates the node of a table's `filter`, `map_values`, `transform_values` or `suppress`.
    pub(super) fn table_view(&mut self, i: usize) -> Built {
        let plan = self.plan;
        let old = self.tables.old[i];
        let call = &plan.nodes[i].call;
        let from = call.inputs()[0];
        let op = match call {
            DslCall::Filter { function, .. } | DslCall::FilterNot { function, .. } => {
                Op::TableFilter {
                    function: function.clone(),
                    not: matches!(call, DslCall::FilterNot { .. }),
                    store: self.named_store_of(i),
                    key: self.table_key(i),
                    old,
                }
            }
            DslCall::MapValues {
                function, with_key, ..
            } => Op::TableMapValues {
                function: function.clone(),
                with_key: *with_key,
                store: self.named_store_of(i),
                key: self.table_key(i),
                old,
            },
            DslCall::TransformValues {
                processor, stores, ..
            } => {
                let store = self.named_store_of(i);
                let stores = self.named_stores(i, stores);
                Op::TransformValues {
                    processor: ProcessorId(*processor),
                    stores,
                    store,
                    key: self.table_key(i),
                    old,
                    time: None,
                }
            }
            DslCall::Suppress { .. } => self.suppress(i),
            _ => unreachable!("called for views of tables"),
        };
        let built = match &op {
            // Stream time over all lanes decides what is due, so all updates must be known first.
            Op::Suppress { until, .. } if *until != Until::Barrier => {
                self.in_stage(i, from, highest(&self.built[from]) + 1, &op)
            }
            _ if self.min_stage.contains_key(&i) => {
                self.in_stage(i, from, self.at_least(i, highest(&self.built[from])), &op)
            }
            _ => self.each(i, &[self.built[from].clone()], &self.names.node[i], &op),
        };
        if let DslCall::Suppress {
            until: Until::WindowCloses { .. },
            ..
        } = call
        {
            let name = self.store_name(i).0;
            let idle = crate::aggregation::idle_above(plan, from);
            for node in built.values() {
                self.idles(*node, &name, idle);
            }
        }
        self.unversioned(i, from, built)
    }

    /// With a `Materialized` the updates of a view are no longer versions, even if it has no store, as
    /// in Kafka Streams. If it has a store, the store does this.
    fn unversioned(&mut self, i: usize, from: usize, built: Built) -> Built {
        let call = &self.plan.nodes[i].call;
        let given = call.materialized().is_some() && named_store(call).is_none();
        if !given || !is_versioned(self.plan, from) {
            return built;
        }
        let name = format!("{}-unversioned", self.names.node[i]);
        self.each(i, &[built], &name, &Op::Unversioned)
    }

    /// Creates a node for a table's updates that exists once in the plan.
    fn in_stage(&mut self, i: usize, from: usize, stage: u16, op: &Op) -> Built {
        let parents = self.built[from].clone();
        let name = format!("{}-exchange", self.names.node[i]);
        let last = self.exchange_up(from, &name, stage);
        let own = self.add(i, &self.names.node[i], stage, op);
        self.arrive(own, &parents, last);
        Built::from([(stage, own)])
    }

    fn suppress(&mut self, i: usize) -> Op {
        let plan = self.plan;
        let DslCall::Suppress {
            from,
            until,
            max_records,
            max_bytes,
            when_full,
            logged,
        } = &plan.nodes[i].call
        else {
            unreachable!("called for suppress");
        };
        let until = match until {
            Until::WindowCloses { grace_ms } if *grace_ms < 0 => Until::WindowCloses {
                grace_ms: crate::check::grace_above(plan, *from)
                    .expect("a table without windows is a finding"),
            },
            until => *until,
        };
        let (key, value) = self.used(i);
        let (name, named) = self.store_name(i);
        let store = self.buffer_store(i, &name, named, *logged);
        Op::Suppress {
            store,
            key,
            value,
            until,
            max_records: *max_records,
            max_bytes: *max_bytes,
            when_full: *when_full,
            clock: self.clock(&name),
            old: self.tables.old[i],
        }
    }

    pub(super) fn table_group_by(&mut self, i: usize, from: usize, function: &Function) -> Built {
        // Without an aggregation the keys are only compared.
        let key = self.serdes.group_key[i]
            .clone()
            .unwrap_or_else(|| SerdeSpec::Builtin("json".into()));
        let op = Op::TableGroupBy {
            function: function.clone(),
            key,
        };
        let parents = [self.built[from].clone()];
        self.each(i, &parents, &self.names.node[i], &op)
    }

    pub(super) fn table_key(&self, i: usize) -> SerdeSpec {
        self.serdes.table_key[i]
            .clone()
            .or_else(|| self.plan.default_key.clone())
            .unwrap_or_else(|| SerdeSpec::Builtin("json".into()))
    }

    /// The stores of a processor, and all global stores, which need no connection.
    pub(super) fn named_stores(&mut self, i: usize, names: &[String]) -> Vec<StoreId> {
        let mut all: Vec<StoreId> = names
            .iter()
            .filter_map(|n| self.named.get(n).copied())
            .collect();
        let above = self.topics_above(i);
        for id in &all {
            let store = &mut self.out.stores[usize::from(id.0)];
            store.ordered = true;
            // The changelogs of declared stores follow the topics of all processors that use them.
            if store.source_changelog.is_none() {
                for topic in &above {
                    if !store.upstream_topics.contains(topic) {
                        store.upstream_topics.push(topic.clone());
                    }
                }
            }
        }
        for id in self.global_stores() {
            if !all.contains(&id) {
                all.push(id);
            }
        }
        all
    }

    /// How a table is read by key.
    pub(super) fn view(&mut self, i: usize) -> View {
        let plan = self.plan;
        if let Some(&store) = self.kept.get(&i) {
            let windowed = self.serdes.table_key[i].as_ref().filter(|k| {
                matches!(
                    k,
                    SerdeSpec::TimeWindowed { .. } | SerdeSpec::SessionWindowed { .. }
                )
            });
            let key = windowed.map_or_else(|| self.used(i).0, Clone::clone);
            return View::Store { store, key };
        }
        let call = &plan.nodes[i].call;
        match call {
            DslCall::Filter { from, function, .. } | DslCall::FilterNot { from, function, .. } => {
                View::Filter {
                    of: Box::new(self.view(*from)),
                    function: function.clone(),
                    not: matches!(call, DslCall::FilterNot { .. }),
                }
            }
            DslCall::MapValues {
                from,
                function,
                with_key,
                ..
            } => View::MapValues {
                of: Box::new(self.view(*from)),
                function: function.clone(),
                with_key: *with_key,
            },
            DslCall::TransformValues {
                from,
                processor,
                stores,
                ..
            } => View::TransformValues {
                of: Box::new(self.view(*from)),
                processor: ProcessorId(*processor),
                stores: self.named_stores(i, stores),
            },
            DslCall::Join(j) | DslCall::LeftJoin(j) | DslCall::OuterJoin(j) => View::Join {
                left: Box::new(self.view(j.from)),
                right: Box::new(self.view(j.other)),
                kind: kind_of(call),
                function: j.function.clone(),
                with_key: j.with_key,
            },
            _ => unreachable!("every other table keeps a store, or is refused in a join"),
        }
    }
}

/// Which rows without a partner the join emits.
pub(super) const fn kind_of(call: &DslCall) -> JoinKind {
    match call {
        DslCall::LeftJoin(_) => JoinKind::Left,
        DslCall::OuterJoin(_) => JoinKind::Outer,
        _ => JoinKind::Inner,
    }
}
