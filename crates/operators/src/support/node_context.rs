//! The node of an operator: its name and topics for errors, and its error policy.
//!
//! Takes an error and the origin of a record, returns the error with node, function, topic, partition
//! and offset. Passes failed records to the node's error policy; never decides itself.

use crate::support::error_policy::{ErrorPolicy, Outcome};
use crate::{Context, NO_ORIGIN};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, NodeId, Origin, Record, Result, SourceId};
use stoatflow_plan::PhysicalPlan;

/// Topics by source, shared by all operators of a chain.
pub(crate) type Topics = Arc<[Vec<String>]>;

/// Node, name, topics, and the policy for records that fail here.
#[derive(Clone, Debug)]
pub(crate) struct NodeContext {
    pub node: NodeId,
    name: Arc<str>,
    topics: Topics,
    policy: Option<Arc<ErrorPolicy>>,
}

impl NodeContext {
    pub fn new(node: NodeId, name: &str, topics: Topics) -> Self {
        Self {
            node,
            name: name.into(),
            topics,
            policy: None,
        }
    }

    /// The same node with another error policy.
    pub fn with_policy(mut self, policy: Option<Arc<ErrorPolicy>>) -> Self {
        self.policy = policy;
        self
    }

    /// The node's name.
    pub fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// Whether failed records may be left out.
    pub fn is_lenient(&self) -> bool {
        self.policy.is_some()
    }

    /// Decides about a record that failed, after `attempts` earlier failures. The error has its
    /// coordinates.
    pub fn handle(
        &self,
        error: Error,
        record: &Record,
        attempts: u32,
        context: &mut Context<'_>,
    ) -> Result<Outcome> {
        let Some(policy) = &self.policy else {
            return Err(error);
        };
        let at = context.error_origin();
        let handled = &mut context.effects.handled;
        policy.handle(error, record, None, attempts + 1, at, handled)
    }

    /// As [`Self::handle`], without waiting before the next attempt: returns the pause.
    pub fn decide(
        &self,
        error: Error,
        record: &Record,
        attempts: u32,
        context: &mut Context<'_>,
    ) -> Result<(Outcome, Duration)> {
        let Some(policy) = &self.policy else {
            return Err(error);
        };
        let at = context.error_origin();
        let handled = &mut context.effects.handled;
        policy.decide(error, record, None, attempts + 1, at, handled)
    }

    /// Tries `act` with a record until it succeeds; `None` if the record is given up.
    pub fn attempt<T>(
        &self,
        record: &Record,
        context: &mut Context<'_>,
        mut act: impl FnMut(&mut Context<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        match act(context) {
            Ok(done) => Ok(Some(done)),
            Err(error) => self.rescue(error, record, context, act),
        }
    }

    /// As `attempt`, after the first try has failed.
    #[cold]
    pub fn rescue<T>(
        &self,
        mut error: Error,
        record: &Record,
        context: &mut Context<'_>,
        mut act: impl FnMut(&mut Context<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut attempts = 0;
        loop {
            let located = self.locate(error, &record.origin);
            match self.handle(located, record, attempts, context)? {
                Outcome::Again => attempts += 1,
                Outcome::Gone => return Ok(None),
            }
            error = match act(context) {
                Ok(done) => return Ok(Some(done)),
                Err(error) => error,
            };
        }
    }

    pub fn topics(plan: &PhysicalPlan) -> Topics {
        plan.sources
            .iter()
            .map(|source| source.topics.clone())
            .collect()
    }

    /// The topic that a record was read from. A topic that began to match a pattern while running isn't
    /// in the plan; the engine knows it.
    pub fn topic_of(&self, origin: &Origin) -> Option<String> {
        self.topics
            .get(usize::from(origin.source.0))
            .and_then(|topics| topics.get(usize::from(origin.topic)))
            .cloned()
    }

    /// The source and the number of a topic, by its name.
    pub fn find_topic(&self, name: &[u8]) -> Option<(SourceId, u16)> {
        let mut sources = (0..).map(SourceId).zip(self.topics.iter());
        sources.find_map(|(source, topics)| {
            let at = topics.iter().position(|topic| topic.as_bytes() == name)?;
            Some((source, u16::try_from(at).ok()?))
        })
    }

    /// Adds the node, for an error that no single record caused.
    pub fn name_node(&self, error: Error) -> Error {
        error.at(|at| at.node = Some(self.name.to_string()))
    }

    /// Adds the coordinates of a record.
    pub fn locate(&self, error: Error, origin: &Origin) -> Error {
        self.locate_call(error, origin, None)
    }

    /// Adds the coordinates of a record and the function that worked on it.
    pub fn locate_call(&self, error: Error, origin: &Origin, function: Option<&str>) -> Error {
        if *origin == NO_ORIGIN {
            let error = error.at(|at| at.function = function.map(str::to_owned));
            return self.name_node(error);
        }
        error.at(|at| {
            at.node = Some(self.name.to_string());
            at.function = function.map(str::to_owned);
            at.topic = self.topic_of(origin);
            at.partition = Some(origin.partition);
            at.offset = Some(origin.offset);
        })
    }
}
