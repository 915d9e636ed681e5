//! Offloads: the node of the records makes the shared processor, the node of the answers looks it up.

use super::{Builder, Built};
use crate::Args::Value;
use crate::ErrorPolicy;
use crate::ops::offload::{Offload, OffloadAnswers, OffloadProcessor, Settings};
use crate::support::schema_ids::SchemaIds;
use parking_lot::Mutex;
use std::sync::Arc;
use stoatflow_core::{Error, FailureKind, Result};
use stoatflow_plan::{Function as Spec, Op, PhysicalNode};

impl Builder<'_> {
    pub(super) fn offloads(&self, node: &PhysicalNode) -> Built {
        match &node.op {
            Op::Offload { .. } => {
                let processor = Arc::new(Mutex::new(OffloadProcessor::new(self.processor(node)?)));
                let mut processors = self.shared.processors.borrow_mut();
                processors.insert(node.id, Arc::clone(&processor));
                Ok(Some(Box::new(Offload(processor))))
            }
            Op::OffloadAnswers { of, .. } => {
                let processors = self.shared.processors.borrow();
                let processor = processors.get(of).cloned();
                let processor = processor.ok_or_else(|| {
                    Error::internal(format!("node {of} must come before its answers"))
                })?;
                Ok(Some(Box::new(OffloadAnswers(processor))))
            }
            _ => Ok(None),
        }
    }

    /// The topic of an offload's requests.
    fn asked_topic(&self, node: &PhysicalNode) -> Option<&str> {
        let children = node.children.iter();
        let ops = children.filter_map(|child| self.plan.nodes.get(child.0 as usize));
        let mut sinks = ops.filter_map(|child| match &child.op {
            Op::Sink { sink } => self.plan.sinks.get(usize::from(sink.0)),
            _ => None,
        });
        sinks.next()?.topic.as_deref()
    }

    fn processor(&self, node: &PhysicalNode) -> Result<Settings> {
        let Op::Offload {
            store,
            key,
            value,
            response,
            request_value,
            request,
            function,
            with_key,
            patience,
            instead_of_timeout,
            instead_of_error,
            timeout_handler,
            max_parked,
            ..
        } = &node.op
        else {
            return Err(Error::internal("called for offloads"));
        };
        let instead = |spec: &Option<Spec>| {
            let made = spec.as_ref().map(|spec| self.joiner(spec, false));
            made.transpose()
        };
        // Not the node's own handler, which is for records that fail and for answers that are errors. If
        // that handler drops records without a key, a worker outage must not empty the parking lot.
        let handler = timeout_handler.as_ref();
        let handler = handler.or(self.plan.handlers.processing.as_ref());
        let place = (node.id, node.name.as_str());
        let counts = self.options.partitions.as_ref();
        let policy = ErrorPolicy::new(
            FailureKind::Processing,
            handler,
            place,
            self.foreign,
            counts,
        )?;
        let timeouts = self.node_context.clone().with_policy(policy);
        Ok(Settings {
            node_context: self.node_context.clone(),
            timeouts,
            name: node.name.as_str().into(),
            store: *store,
            key: self.foreign.serde(key)?,
            value: self.foreign.serde(value)?,
            response: self.foreign.serde(response)?,
            asks: self
                .foreign
                .topic_serde(request_value, self.asked_topic(node), false)?,
            ids: SchemaIds::new(self.plan, (key, false), (request_value, false)),
            largest: self.options.largest,
            request: request
                .as_ref()
                .map(|spec| self.function(spec, Value))
                .transpose()?,
            joiner: self.joiner(function, *with_key)?,
            instead_of_timeout: instead(instead_of_timeout)?,
            instead_of_error: instead(instead_of_error)?,
            patience: *patience,
            max_parked: *max_parked,
            fault: self.options.fault,
        })
    }
}
