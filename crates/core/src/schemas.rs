//! What serdes ask a schema registry: whose id is this, and which id has my schema.
//!
//! A port: who answers, and how, is decided elsewhere. Both calls may wait for the network, so answers are
//! kept by those who ask.

use crate::Result;
use std::fmt;
use std::sync::Arc;

/// Where a value is written, as far as the name of its schema's subject depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaPlace {
    /// In a topic that the user named.
    Topic {
        /// The topic.
        topic: Arc<str>,
        /// As a key?
        is_key: bool,
    },
    /// In a topic that is known for each record only.
    AnyTopic {
        /// As a key?
        is_key: bool,
    },
    /// In a store or a topic of the application's own.
    Internal {
        /// The application, once it is known.
        application: Option<Arc<str>>,
    },
}

impl SchemaPlace {
    /// For others to read: in a topic, or in those that a function chooses.
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

/// A registry, as one serde sees it.
pub trait SchemaRegistry: Send + Sync + fmt::Debug {
    /// The text of the schema with an id, which needs no other text.
    ///
    /// # Errors
    /// `Serde` for an id that the registry doesn't know, another kind if it can't be asked.
    fn schema(&self, id: u32) -> Result<String>;

    /// The id of the serde's own schema where it is written.
    ///
    /// # Errors
    /// `Unavailable` if the registry can't be asked, `Topology` if it doesn't take the schema.
    fn id(&self, place: &SchemaPlace) -> Result<u32>;
}
