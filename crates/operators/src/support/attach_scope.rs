//! Attaches the host language's runtime once for a whole batch that holds its values.
//!
//! Takes a batch, and runs work on it within that runtime, if it holds foreign values. Never decides
//! about a record that failed: that may wait or ask a broker, so it happens outside of the scope.

use std::sync::Arc;
use stoatflow_core::{Datum, Opaque, Record};

/// See the module.
#[derive(Debug)]
pub(crate) struct AttachScope(Option<Arc<dyn Opaque>>);

impl AttachScope {
    /// All foreign values of a batch belong to one runtime.
    pub fn of<'a>(batch: impl IntoIterator<Item = &'a Record>) -> Self {
        let batch = batch.into_iter();
        let mut datums = batch.flat_map(|record| [&record.value, &record.key]);
        Self(datums.find_map(foreign).cloned())
    }

    /// Runs `body` within the runtime, or directly if nothing is foreign.
    #[inline]
    pub fn inside<T>(&self, body: impl FnOnce() -> T) -> T {
        let Some(object) = &self.0 else {
            return body();
        };
        let (mut body, mut given) = (Some(body), None);
        object.scope(&mut || given = body.take().map(|body| body()));
        given.expect("a scope runs its body")
    }
}

/// Whether a record holds a value that only the foreign runtime understands.
pub(crate) fn is_foreign(record: &Record) -> bool {
    foreign(&record.value).is_some() || foreign(&record.key).is_some()
}

fn foreign(datum: &Datum) -> Option<&Arc<dyn Opaque>> {
    match datum {
        Datum::Opaque(object) => Some(object),
        Datum::List(items) => items.iter().find_map(foreign),
        Datum::Windowed(windowed) => foreign(&windowed.key),
        _ => None,
    }
}
