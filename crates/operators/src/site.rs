//! Where an operator stands: what it needs to say where something went wrong.
//!
//! Takes an error and the origin of a record, gives the error with node, function, topic, partition
//! and offset. Never swallows and never decides.

use std::sync::Arc;
use stoatflow_core::{Error, NodeId, Origin, SourceId};
use stoatflow_plan::PhysicalPlan;

/// Topics by source, shared by all operators of a chain.
pub(crate) type Topics = Arc<[Vec<String>]>;

/// Node, name and topics.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub node: NodeId,
    name: Arc<str>,
    topics: Topics,
}

impl Site {
    pub fn new(node: NodeId, name: &str, topics: Topics) -> Self {
        Self {
            node,
            name: name.into(),
            topics,
        }
    }

    pub fn topics(plan: &PhysicalPlan) -> Topics {
        plan.sources
            .iter()
            .map(|source| source.topics.clone())
            .collect()
    }

    /// The topic that a record was read from. One that joined by pattern while running isn't in the
    /// plan; the engine knows it.
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

    /// Adds the node, for what no single record caused.
    pub fn name_node(&self, error: Error) -> Error {
        error.at(|at| at.node = Some(self.name.to_string()))
    }

    /// Adds the coordinates of a record.
    pub fn locate(&self, error: Error, origin: &Origin) -> Error {
        self.locate_call(error, origin, None)
    }

    /// Adds the coordinates of a record and the function that worked on it.
    pub fn locate_call(&self, error: Error, origin: &Origin, function: Option<&str>) -> Error {
        error.at(|at| {
            at.node = Some(self.name.to_string());
            at.function = function.map(str::to_owned);
            at.topic = self.topic_of(origin);
            at.partition = Some(origin.partition);
            at.offset = Some(origin.offset);
        })
    }
}
