//! Operators that keep a table, and those between tables.

use super::{Builder, Made};
use crate::Args::KeyValue;
use crate::{aggregate, count, reduce, table, to_stream};
use stoatflow_plan::{Node, Op};

impl Builder<'_> {
    pub(super) fn tables(&self, node: &Node) -> Made {
        Ok(Some(match &node.op {
            Op::TableSource { store, key, .. } => {
                Box::new(table::Table::new(self.keeper(*store, key)?))
            }
            Op::Count { store, key, .. } => Box::new(count::Count::new(self.keeper(*store, key)?)),
            Op::Reduce {
                store,
                key,
                function,
                ..
            } => Box::new(reduce::Reduce::new(
                self.fold(node, *store, key)?,
                self.function(function, KeyValue)?,
            )?),
            Op::Aggregate {
                store,
                key,
                initializer,
                function,
                ..
            } => Box::new(aggregate::Aggregate::new(
                self.fold(node, *store, key)?,
                self.function(initializer, KeyValue)?,
                self.function(function, KeyValue)?,
            )?),
            Op::ToStream => Box::new(to_stream::ToStream),
            _ => return Ok(None),
        }))
    }
}
