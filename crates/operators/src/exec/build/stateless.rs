//! Stateless operators, each of which calls a function.

use super::{Builder, Built};
use crate::Args::{KeyValue, Value};
use crate::Operator;
use crate::ops::async_ops;
use crate::ops::batches::map_batches;
use crate::ops::stateless::{
    filter, filter_not, flat_map, flat_map_values, foreach, map, map_values, peek, select_key,
};
use stoatflow_core::{Error, Result};
use stoatflow_plan::{Function, Op, PhysicalNode};

impl Builder<'_> {
    pub(super) fn stateless(&self, node: &PhysicalNode) -> Built {
        let args = |with_key: bool| if with_key { KeyValue } else { Value };
        Ok(Some(match &node.op {
            Op::Filter { function } => {
                Box::new(filter::Filter::new(self.function(function, KeyValue)?))
            }
            Op::FilterNot { function } => Box::new(filter_not::FilterNot::new(
                self.function(function, KeyValue)?,
            )),
            Op::Map { function } => Box::new(map::Map::new(self.function(function, KeyValue)?)),
            Op::MapValues { function, with_key } => Box::new(map_values::MapValues::new(
                self.function(function, args(*with_key))?,
            )),
            Op::FlatMap { function } => {
                Box::new(flat_map::FlatMap::new(self.function(function, KeyValue)?))
            }
            Op::FlatMapValues { function, with_key } => Box::new(
                flat_map_values::FlatMapValues::new(self.function(function, args(*with_key))?),
            ),
            Op::MapBatches {
                function,
                schema,
                max_rows,
                max_wait_ms,
                by_row,
            } => self.batches(
                function,
                map_batches::Settings {
                    schema: schema.clone(),
                    max_rows: usize::try_from(*max_rows).unwrap_or(usize::MAX),
                    max_wait_ms: *max_wait_ms,
                    by_row: by_row.clone(),
                    sink: false,
                    fault: self.options.fault,
                },
            )?,
            Op::ForeachBatch {
                function,
                schema,
                max_rows,
                max_wait_ms,
            } => self.batches(
                function,
                map_batches::Settings {
                    schema: schema.clone(),
                    max_rows: usize::try_from(*max_rows).unwrap_or(usize::MAX),
                    max_wait_ms: *max_wait_ms,
                    by_row: stoatflow_plan::columns::ROW.to_owned(),
                    sink: true,
                    fault: self.options.fault,
                },
            )?,
            Op::SelectKey { function } => Box::new(select_key::SelectKey::new(
                self.function(function, KeyValue)?,
            )),
            Op::Peek { function } => Box::new(peek::Peek::new(self.function(function, KeyValue)?)),
            Op::Foreach { function } => {
                Box::new(foreach::Foreach::new(self.function(function, KeyValue)?))
            }
            Op::Calls {
                form,
                with_key,
                awaiting,
                store,
                key,
                value,
            } => Box::new(async_ops::AsyncCalls::new(
                self.node_context.clone(),
                async_ops::Settings {
                    form: *form,
                    args: args(*with_key),
                    awaiting: *awaiting,
                    store: *store,
                    key: self.foreign.serde(key)?,
                    value: self.foreign.serde(value)?,
                    patient: self.foreign.runtime.as_ref().is_some_and(|r| r.patient()),
                    fault: self.options.fault,
                },
                self.foreign.call(awaiting.udf)?,
            )),
            _ => return Ok(None),
        }))
    }

    fn batches(
        &self,
        function: &Function,
        settings: map_batches::Settings,
    ) -> Result<Box<dyn Operator>> {
        let Function::Udf(index) = function else {
            return Err(
                Error::topology("map_batches takes a function, no expression")
                    .hint("give a function that takes and returns whole batches"),
            );
        };
        Ok(Box::new(map_batches::MapBatches::new(
            self.node_context.clone(),
            self.foreign.udf(*index)?,
            settings,
        )))
    }
}
