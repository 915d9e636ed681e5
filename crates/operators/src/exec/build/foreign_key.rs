//! Operators of joins by foreign key.

use super::{Builder, Built};
use crate::Args::{KeyValue, Value};
use crate::ops::joins::foreign_key::answer::{self, ForeignAnswer, Reads};
use crate::ops::joins::foreign_key::epoch_rows::SharedEpochRows;
use crate::ops::joins::foreign_key::join::ForeignJoin;
use crate::ops::joins::foreign_key::notify::ForeignNotify;
use crate::ops::joins::foreign_key::subscribe::{ForeignSubscribe, Serdes};
use std::collections::BTreeMap;
use stoatflow_plan::{JoinKind, Op, PhysicalNode};

impl Builder<'_> {
    /// The left rows in order; `None` if updates are held back.
    fn left_rows(&self, join: u32) -> Option<SharedEpochRows> {
        (!self.options.cached).then(|| self.options.left_rows.of(join))
    }

    pub(super) fn foreign_keys(&self, node: &PhysicalNode) -> Built {
        Ok(Some(match &node.op {
            Op::ForeignSubscribe {
                kind,
                foreign_key,
                with_key,
                key,
                value,
                foreign,
                join,
            } => Box::new(ForeignSubscribe::new(
                self.function(foreign_key, if *with_key { KeyValue } else { Value })?,
                Serdes {
                    key: self.foreign.serde(key)?,
                    value: self.foreign.serde(value)?,
                    foreign: self.foreign.serde(foreign)?,
                },
                *kind != JoinKind::Inner,
                self.left_rows(*join),
            )),
            Op::ForeignAnswer {
                store,
                right,
                key,
                foreign,
                ..
            } => Box::new(ForeignAnswer::new(
                self.node_context.clone(),
                *store,
                self.view(node, right)?,
                answer::Serdes {
                    key: self.foreign.serde(key)?,
                    foreign: self.foreign.serde(foreign)?,
                },
                match self.options.cached {
                    true => Reads::Stored(BTreeMap::new()),
                    false => Reads::InOrder(self.shared.right_rows(*store)),
                },
            )),
            Op::ForeignNotify {
                store,
                key,
                foreign,
            } => Box::new(ForeignNotify::new(
                self.node_context.clone(),
                *store,
                self.foreign.serde(key)?,
                self.foreign.serde(foreign)?,
                (!self.options.cached).then(|| self.shared.right_rows(*store)),
            )),
            Op::ForeignJoin {
                kind,
                left,
                function,
                with_key,
                key,
                value,
                join,
            } => Box::new(ForeignJoin::new(
                self.node_context.clone(),
                self.view(node, left)?,
                self.joiner(function, *with_key)?,
                self.foreign.serde(value)?,
                *kind != JoinKind::Inner,
                match self.left_rows(*join) {
                    Some(rows) => Some((self.foreign.serde(key)?, rows)),
                    None => None,
                },
            )),
            _ => return Ok(None),
        }))
    }
}
