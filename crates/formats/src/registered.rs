//! Schema ids that one serde has looked up in a registry.
//!
//! Takes a registry; returns the id that is written, and what the format derived from each writer's
//! schema. Results are cached for ever, because a registry never reassigns an id. Never caches that an
//! id is unknown: it may be registered later.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use stoatflow_core::{Error, Result, SchemaPlace, SchemaRegistry};

/// See the module. `W` is what the format needs to read a writer's values.
#[derive(Debug)]
pub(crate) struct Registered<W> {
    registry: Arc<dyn SchemaRegistry>,
    place: SchemaPlace,
    own: OnceLock<u32>,
    /// Nearly all values have the same id, which is found here without a lock.
    first: OnceLock<(u32, Found<W>)>,
    others: RwLock<HashMap<u32, Found<W>>>,
}

/// What was derived from a writer's schema, or why it can't be read, with the next step.
type Found<W> = std::result::Result<W, (String, String)>;

impl<W: Clone> Registered<W> {
    pub fn new(registry: Arc<dyn SchemaRegistry>, place: SchemaPlace) -> Self {
        Self {
            registry,
            place,
            own: OnceLock::new(),
            first: OnceLock::new(),
            others: RwLock::default(),
        }
    }

    /// The id that is written.
    pub fn own(&self) -> Result<u32> {
        if let Some(id) = self.own.get() {
            return Ok(*id);
        }
        let id = self.registry.id(&self.place)?;
        Ok(*self.own.get_or_init(|| id))
    }

    /// What was derived from the schema of an id; `read` derives it, once.
    pub fn writer(&self, id: u32, read: impl FnOnce(&str) -> Result<W>) -> Result<W> {
        if let Some((_, found)) = self.first.get().filter(|(first, _)| *first == id) {
            return given(id, found);
        }
        let others = self.others.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = others.get(&id) {
            return given(id, found);
        }
        drop(others);
        let text = self.registry.schema(id)?;
        let found = read(&text).map_err(|e| (e.brief().to_string(), e.next_step().to_owned()));
        if self.first.set((id, found.clone())).is_err() {
            let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
            others.insert(id, found.clone());
        }
        given(id, &found)
    }
}

fn given<W: Clone>(id: u32, found: &Found<W>) -> Result<W> {
    found.clone().map_err(|(why, next_step)| {
        Error::serde(format!(
            "what was written with the schema id {id} can't be read: {why}"
        ))
        .hint(next_step)
    })
}
