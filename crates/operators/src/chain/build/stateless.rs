//! Operators that keep nothing: sources, stateless steps, exchanges and sinks.

use super::{Builder, Made};
use crate::Args::{KeyValue, Value};
use crate::{
    exchange, filter, filter_not, flat_map, flat_map_values, foreach, map, map_values, merge, peek,
    select_key, sink, source,
};
use stoatflow_core::Error;
use stoatflow_plan::{Node, Op};

impl Builder<'_> {
    pub(super) fn stateless(&self, node: &Node) -> Made {
        let args = |with_key: bool| if with_key { KeyValue } else { Value };
        Ok(Some(match &node.op {
            Op::Source { .. } => Box::new(source::Source),
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
            Op::SelectKey { function } => Box::new(select_key::SelectKey::new(
                self.function(function, KeyValue)?,
            )),
            Op::Peek { function } => Box::new(peek::Peek::new(self.function(function, KeyValue)?)),
            Op::Foreach { function } => {
                Box::new(foreach::Foreach::new(self.function(function, KeyValue)?))
            }
            Op::Merge => Box::new(merge::Merge),
            Op::Exchange { stage, key, .. } => Box::new(exchange::Exchange::new(
                self.site.clone(),
                *stage,
                self.foreign.serde(key)?,
            )),
            Op::Sink { sink } => {
                let to = self
                    .plan
                    .sinks
                    .get(usize::from(sink.0))
                    .ok_or_else(|| Error::internal(format!("the plan has no sink {sink}")))?;
                Box::new(sink::Sink::new(
                    self.site.clone(),
                    *sink,
                    self.foreign.serde(&to.key)?,
                    self.foreign.serde(&to.value)?,
                ))
            }
            _ => return Ok(None),
        }))
    }
}
