//! Operators of joins by foreign key.

use super::{Builder, Built};
use crate::Args::{KeyValue, Value};
use crate::ops::joins::foreign_key::answer::{self, ForeignAnswer};
use crate::ops::joins::foreign_key::join::ForeignJoin;
use crate::ops::joins::foreign_key::notify::ForeignNotify;
use crate::ops::joins::foreign_key::subscribe::{ForeignSubscribe, Serdes};
use stoatflow_plan::{JoinKind, Node, Op};

impl Builder<'_> {
    pub(super) fn foreign_keys(&self, node: &Node) -> Built {
        Ok(Some(match &node.op {
            Op::ForeignSubscribe {
                kind,
                foreign_key,
                with_key,
                key,
                value,
                foreign,
            } => Box::new(ForeignSubscribe::new(
                self.function(foreign_key, if *with_key { KeyValue } else { Value })?,
                Serdes {
                    key: self.foreign.serde(key)?,
                    value: self.foreign.serde(value)?,
                    foreign: self.foreign.serde(foreign)?,
                },
                *kind != JoinKind::Inner,
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
                self.options.cached,
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
            )),
            Op::ForeignJoin {
                kind,
                left,
                function,
                with_key,
                value,
                ..
            } => Box::new(ForeignJoin::new(
                self.node_context.clone(),
                self.view(node, left)?,
                self.joiner(function, *with_key)?,
                self.foreign.serde(value)?,
                *kind != JoinKind::Inner,
            )),
            _ => return Ok(None),
        }))
    }
}
