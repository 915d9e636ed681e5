//! Operators that pass records on as they are: sources, forks, exchanges and sinks.

use super::{Builder, Built, of_node};
use crate::Args::KeyValue;
use crate::ops::routing::{exchange, merge, scheduled, sink, source, split};
use crate::support::schema_ids::SchemaIds;
use stoatflow_core::{Error, Result};
use stoatflow_plan::{Delivery, Function, Op, PhysicalNode, SerdeSpec, Sink};

impl Builder<'_> {
    pub(super) fn routing(&self, node: &PhysicalNode) -> Built {
        Ok(Some(match &node.op {
            Op::Source { .. } => Box::new(source::Source),
            Op::Scheduled { times, clock } => Box::new(scheduled::Scheduled::new(
                node.id,
                &node.name,
                *clock,
                times.clone(),
            )?),
            Op::Merge => Box::new(merge::Merge),
            Op::Split { functions } => Box::new(split::Split::new(
                functions
                    .iter()
                    .map(|function| self.function(function, KeyValue))
                    .collect::<Result<_>>()?,
                node.children.len() > functions.len(),
                node.fork == Delivery::Record,
            )),
            Op::Exchange {
                stage,
                key,
                keep_null,
                ahead,
                ..
            } => Box::new(exchange::Exchange::new(
                self.writing(node)?,
                *stage,
                self.foreign.serde(key)?,
                *keep_null,
                self.counts_ahead(node),
                *ahead,
                (
                    of_node(&self.options.tasks, node),
                    of_node(&self.options.by_task, node),
                ),
            )),
            Op::Sink { sink } => {
                let to = self
                    .plan
                    .sinks
                    .get(usize::from(sink.0))
                    .ok_or_else(|| Error::internal(format!("the plan has no sink {sink}")))?;
                Box::new(sink::Sink::new(
                    self.writing(node)?,
                    *sink,
                    (
                        self.foreign
                            .topic_serde(&to.key, to.topic.as_deref(), true)?,
                        self.foreign
                            .topic_serde(&to.value, to.topic.as_deref(), false)?,
                    ),
                    SchemaIds::new(
                        self.plan,
                        (&to.key, to.key_as_read),
                        (&to.value, to.value_as_read),
                    ),
                    self.target(to)?,
                ))
            }
            _ => return Ok(None),
        }))
    }

    fn target(&self, to: &Sink) -> Result<sink::Target> {
        let function = |spec: &Option<Function>| {
            let made = spec.as_ref().map(|spec| self.function(spec, KeyValue));
            made.transpose()
        };
        let counts = self.options.partitions.clone();
        let windowed = matches!(
            to.key,
            SerdeSpec::TimeWindowed { .. } | SerdeSpec::SessionWindowed { .. }
        );
        let partitioner = match (function(&to.partitioner)?, counts) {
            (None, Some(counts)) if windowed => sink::Partitioner::WindowedKey(counts),
            (None, _) => sink::Partitioner::Producer,
            (Some(function), Some(counts)) => sink::Partitioner::Function {
                function,
                counts,
                with_headers: to.partitioner_with_headers,
            },
            (Some(_), None) => {
                return Err(Error::internal(
                    "a sink has a partitioner, but topics can't be asked",
                ));
            }
        };
        Ok(sink::Target {
            topic: to.topic.as_deref().map(Into::into),
            choose: function(&to.topic_function)?,
            partitioner,
        })
    }
}
