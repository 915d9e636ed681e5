//! Serdes of the stores and results of aggregations.
//!
//! Takes what is known about the grouping and the call's `Materialized`, returns the sides of the
//! result; for windowed ones the key includes the window.

use super::windowed::windowed;
use super::{Pass, Side, given};
use crate::aggregation::{members, window_of};
use crate::function::Function;
use crate::materialized::Materialized;
use crate::spec::SerdeSpec;

impl Pass<'_> {
    /// The type of a native aggregate: a count is an integer, anything else JSON.
    pub(super) fn aggregate(&self, i: usize, from: usize, function: Option<&Function>) -> Side {
        let all = members(self.plan, from, function);
        let function = all.first().and_then(|(_, function)| *function);
        match function {
            Some(Function::Aggregation(one)) => Side::Known(SerdeSpec::Builtin(
                if one.is_count() { "int64" } else { "json" }.into(),
            )),
            Some(function) => self.result(i, from, function, false),
            None => Side::Lost(i),
        }
    }

    pub(super) fn aggregation(
        &mut self,
        i: usize,
        from: usize,
        materialized: Option<&Materialized>,
        value: Side,
    ) -> (Side, Side) {
        let (m_key, m_value) = given(materialized);
        let group = self.sides[from].0.clone();
        let named = "key= to the grouping";
        let key = match &m_key {
            Some(key) => Some(key.clone()),
            None => self.settle(i, "key", group.clone(), named),
        };
        if key.is_none() {
            // One finding per grouping is enough.
            self.sides[from].0 = Side::Reported;
        }
        let value = match m_value {
            Some(value) => Some(value),
            None => self.settle(i, "value", value, "Materialized(value=...)"),
        };
        for (member, _) in members(self.plan, from, None) {
            if self.serdes.group_key[member].is_none() {
                let fallback = || self.plan.default_key.clone().or_else(|| m_key.clone());
                let own = self.sides[member].0.known().cloned();
                self.serdes.group_key[member] = own.or_else(fallback).or_else(|| key.clone());
            }
        }
        let side = |s: &Option<SerdeSpec>| s.clone().map_or(Side::Reported, Side::Known);
        let given = match (window_of(self.plan, from), &key) {
            (Some(window), Some(inner)) => Side::Known(windowed(inner, &window)),
            _ => side(&key),
        };
        let sides = (given, side(&value));
        self.serdes.used[i] = key.zip(value);
        sides
    }
}
