//! Checks the indexes and the ttl of a store against the types of its rows.
//!
//! Takes a node whose serdes are settled, adds findings. Never changes anything.

use super::Pass;
use crate::expression::Expression as E;
use crate::expression::check::check;
use crate::expression::kinds::Kinds;
use crate::expression::known::Known;
use crate::expression::render::located;
use crate::logical::DslCall;
use crate::materialized::{IndexSpec, Ttl};
use crate::window::StoreKind;
use std::collections::BTreeSet;

impl Pass<'_> {
    /// Finds problems in the indexes of a node's store.
    pub(super) fn indexes(&mut self, i: usize) {
        let call = &self.plan.nodes[i].call;
        let indexes = match call {
            DslCall::StateStore { indexes, .. } => indexes.as_slice(),
            call => call.materialized().map_or(&[][..], |m| &m.indexes),
        };
        if indexes.is_empty() {
            return;
        }
        let mut found = Vec::new();
        found.extend(self.not_indexed(i, indexes).map(str::to_owned));
        let serdes = self.serdes.used[i].as_ref();
        let known = serdes.map_or(Known::NOTHING, |(key, value)| {
            Known::of(Some(key), Some(value))
        });
        let mut names = BTreeSet::new();
        for index in indexes {
            let name = &index.name;
            if !names.insert(name) {
                found.push(format!(
                    "two indexes are named '{name}': give each its own name"
                ));
            }
            let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
            if name.is_empty() || name.len() > 100 || !name.chars().all(legal) {
                found.push(format!(
                    "an index can't be named {name:?}: use 1 to 100 of the characters a-z, A-Z, 0-9, '.', '_' and '-'"
                ));
            }
            if index.fields.is_empty() || (index.each && index.fields.len() > 1) {
                found.push(format!(
                    "the index '{name}' has {} fields: give it at least one, and just one with each=True",
                    index.fields.len()
                ));
            }
            if index.each && index.unique {
                found.push(format!(
                    "the index '{name}' can't be both each=True and unique=True: leave one of them out"
                ));
            }
            let fields = index.fields.iter().map(|field| (field, index.each));
            let stored = index.storing.iter().map(|field| (field, false));
            for (field, is_list) in fields.chain(stored) {
                let given = check(&field.expr, known, &mut |what| found.push(what));
                let text = || located(field.expr.bare(), field.expr.line());
                if is_list && !given.fits(Kinds::LIST) {
                    found.push(format!(
                        "{}: it gives {given}, but an index with each=True takes a list",
                        text()
                    ));
                }
                if !reads_row(&field.expr) {
                    found.push(format!(
                        "{}: an index is made of a row: write it with sf.key, sf.value and sf.timestamp",
                        text()
                    ));
                }
            }
        }
        for what in found {
            self.problems.at(self.plan, i, what);
        }
    }

    /// Finds problems in the ttl of a store's rows.
    pub(super) fn ttl(&mut self, i: usize) {
        let expiry = self.plan.nodes[i].call.expiry();
        let Some(Ttl::Row(ttl)) = expiry.map(|expiry| &expiry.ttl) else {
            return;
        };
        let serdes = self.serdes.used[i].as_ref();
        let known = serdes.map_or(Known::NOTHING, |(key, value)| {
            Known::of(Some(key), Some(value))
        });
        let mut found = Vec::new();
        let given = check(ttl, known, &mut |what| found.push(what));
        let text = located(ttl.bare(), ttl.line());
        if !given.fits(Kinds::INT) {
            found.push(format!(
                "{text}: it gives {given}, but the ttl of a row is milliseconds, an int"
            ));
        }
        if !reads_row(ttl) {
            found.push(format!(
                "{text}: the ttl of a row is made of the row: write it with sf.key, sf.value and sf.timestamp, or \
                 give one duration for all rows"
            ));
        }
        for what in found {
            self.problems.at(self.plan, i, what);
        }
    }

    /// Why a store can't have indexes.
    fn not_indexed(&self, i: usize, indexes: &[IndexSpec]) -> Option<&'static str> {
        let call = &self.plan.nodes[i].call;
        if let DslCall::StateStore { headers: true, .. } = call {
            return Some("a store with headers has no indexes: leave headers= or indexes= out");
        }
        if let DslCall::StateStore { kind, .. } = call {
            let plain = matches!(kind, StoreKind::KeyValue | StoreKind::TimestampedKeyValue);
            return (!plain).then_some(
                "only key-value stores have indexes: leave indexes= out, or use Stores.persistent_key_value",
            );
        }
        let m = call.materialized()?;
        if m.store.is_none() {
            return Some(
                "a store with indexes needs a name: write Materialized(\"orders\", indexes=...)",
            );
        }
        if m.history_ms.is_some() {
            return Some("a versioned table has no indexes: leave history= or indexes= out");
        }
        let from = match call {
            DslCall::Table { .. }
            | DslCall::GlobalTable { .. }
            | DslCall::ToTable { .. }
            | DslCall::Filter { .. }
            | DslCall::FilterNot { .. }
            | DslCall::MapValues { .. }
            | DslCall::Join(_)
            | DslCall::LeftJoin(_)
            | DslCall::OuterJoin(_) => return None,
            DslCall::Count { from, .. }
            | DslCall::Reduce { from, .. }
            | DslCall::Aggregate { from, .. } => *from,
            _ => return Some("what this keeps has no indexes: leave indexes= out"),
        };
        if crate::aggregation::window_of(self.plan, from).is_some() {
            return Some("windows and sessions have no indexes: leave indexes= out");
        }
        indexes.iter().any(|index| index.unique).then_some(
            "the index of an aggregate can't be unique=True: an aggregate is no record that could fail",
        )
    }
}

/// Whether it depends on the row, and on nothing else.
fn reads_row(e: &E) -> bool {
    fn only_row(e: &E) -> bool {
        !matches!(e, E::Left | E::Right | E::Old | E::New) && e.args().iter().all(only_row)
    }
    fn reads(e: &E) -> bool {
        matches!(e, E::Key | E::Value | E::Timestamp) || e.args().iter().any(reads)
    }
    only_row(e) && reads(e)
}
