//! Error handlers: which policy applies to records that can't be decoded, can't be written or are late,
//! and where dead letters go.
//!
//! The plan already contains the handlers set in the settings. Missing dead-letter topics are reported
//! before anything is read; they are never created, so that a mistyped name is noticed.

use super::EngineSpec;
use crate::lane::OutputLimits;
use crate::startup::partition_counts::BrokerPartitions;
use std::sync::Arc;
use stoatflow_core::settings::{BrokerAddress, ClientRole};
use stoatflow_core::{Error, FailureKind, Result};
use stoatflow_log::Broker;
use stoatflow_operators::{ErrorPolicy, LatePolicy, PartitionCounts};
use stoatflow_plan::{Op, Source};

/// librdkafka's default of `message.max.bytes`.
const LARGEST: usize = 1_000_000;

impl EngineSpec {
    pub(super) fn partition_counts(&self) -> Arc<dyn PartitionCounts> {
        BrokerPartitions::new(&self.components, self.settings.broker_wait)
    }

    /// The policy for records of a source that can't be decoded.
    pub(super) fn reading(&self, source: &Source) -> Result<Option<Arc<ErrorPolicy>>> {
        let own = self.plan.nodes[source.entry.0 as usize].on_error.as_ref();
        let handler = own.or(self.plan.handlers.deserialization.as_ref());
        let place = (source.entry, source.name.as_str());
        let counts = self.partition_counts();
        ErrorPolicy::new(
            FailureKind::Deserialization,
            handler,
            place,
            &self.foreign,
            Some(&counts),
        )
    }

    /// The policy for records of a source that are older than the watermark.
    pub(super) fn late_policy(&self, source: &Source) -> Result<Option<Arc<LatePolicy>>> {
        let counts = self.partition_counts();
        LatePolicy::new(&source.late, &source.name, &self.foreign, Some(&counts))
    }

    /// By sink, the policy for records that are too large; `None` if they fail the application, or if
    /// the maximum size isn't known.
    pub(super) fn output_limits(&self) -> Result<OutputLimits> {
        let mut error_policies = vec![None; self.plan.sinks.len()];
        let counts = self.partition_counts();
        for node in &self.plan.nodes {
            if let Op::Sink { sink } = node.op {
                let handler = node.on_error.as_ref();
                let handler = handler.or(self.plan.handlers.production.as_ref());
                let place = (node.id, node.name.as_str());
                error_policies[usize::from(sink.0)] = ErrorPolicy::new(
                    FailureKind::Production,
                    handler,
                    place,
                    &self.foreign,
                    Some(&counts),
                )?;
            }
        }
        let largest = self
            .largest()
            .filter(|_| error_policies.iter().any(Option::is_some));
        Ok(OutputLimits {
            largest,
            error_policies: error_policies.into(),
        })
    }

    /// The largest record that the producer accepts.
    pub(super) fn largest(&self) -> Option<usize> {
        let of_producer = |role| matches!(role, ClientRole::All | ClientRole::Producer);
        let mut properties = self.settings.client_properties.iter().rev();
        let said = properties
            .find(|(role, name, _)| of_producer(*role) && name == "message.max.bytes")
            .and_then(|(_, _, value)| value.parse().ok());
        match self.settings.broker {
            BrokerAddress::Kafka(_) => said.or(Some(LARGEST)),
            BrokerAddress::Embedded(_) => said,
        }
    }

    /// How many bytes of input records all lanes together keep for dead letters; 0 if each dead letter
    /// is written from the batch that its record was read in.
    pub(super) fn kept_for_dead_letters(&self) -> usize {
        /// For all lanes together.
        const MOST: usize = 16 << 20;
        let mut nodes = self.plan.nodes.iter();
        let leaves = self.plan.stages.len() > 1
            || nodes.any(|node| matches!(node.op, Op::Calls { .. } | Op::Offload { .. }));
        if !leaves || self.plan.dead_letter_topics().is_empty() {
            return 0;
        }
        (self.settings.in_flight_max_bytes / 2).min(MOST)
    }

    /// Finds missing dead-letter topics. Dead letters are rare, so a missing topic is reported at the
    /// start instead of with the first of them.
    pub(super) fn find_dead_letter_topics(&self, broker: &dyn Broker) -> Result<()> {
        let wanted = self.plan.dead_letter_topics();
        if wanted.is_empty() {
            return Ok(());
        }
        let found = broker.topics(&wanted, self.settings.broker_wait)?;
        let missing: Vec<&str> = wanted
            .iter()
            .zip(&found)
            .filter(|(_, info)| info.is_none())
            .map(|(name, _)| *name)
            .collect();
        let Some(first) = missing.first() else {
            return Ok(());
        };
        Err(Error::missing_topic(format!(
            "dead-letter topic(s) {} do not exist at {}",
            missing.join(", "),
            broker.address()
        ))
        .hint(
            "create them (the engine never creates your topics, so that a typo is noticed), or \
            correct DLQ(...)",
        )
        .at(|at| at.topic = Some((*first).to_owned())))
    }
}
