//! Requests of serdes to a schema registry: the schema of an id, and the id of a schema.
//!
//! A port: implementations live elsewhere. Both calls may wait for the network, so callers cache the
//! answers.

use crate::Result;
use std::fmt;
use std::sync::Arc;

/// Where a value is written, as far as the schema's subject name depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaPlace {
    /// In a topic that the user named.
    Topic {
        /// The topic.
        topic: Arc<str>,
        /// True for a key, false for a value.
        is_key: bool,
    },
    /// In topics that are only known per record.
    AnyTopic {
        /// True for a key, false for a value.
        is_key: bool,
    },
    /// In a store or an internal topic of the application.
    Internal {
        /// The application, once it is known.
        application: Option<Arc<str>>,
    },
}

impl SchemaPlace {
    /// A place that others read: a topic, or topics that a function chooses.
    #[must_use]
    pub fn of(topic: Option<&str>, is_key: bool) -> Self {
        match topic {
            Some(topic) => Self::Topic {
                topic: topic.into(),
                is_key,
            },
            None => Self::AnyTopic { is_key },
        }
    }
}

/// A schema registry, as one serde sees it.
pub trait SchemaRegistry: Send + Sync + fmt::Debug {
    /// The text of the schema with this id; it refers to no other schema.
    ///
    /// # Errors
    /// `Serde` for an id that the registry doesn't know, another kind if the registry can't be reached.
    fn schema(&self, id: u32) -> Result<String>;

    /// The id of the serde's own schema at this place.
    ///
    /// # Errors
    /// `Unavailable` if the registry can't be reached, `Topology` if it rejects the schema.
    fn id(&self, place: &SchemaPlace) -> Result<u32>;
}
