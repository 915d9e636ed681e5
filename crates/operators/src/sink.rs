//! `sink` (`to`): writes records to a topic.
//!
//! Takes records, gives encoded ones to the outbox. Null keys and null values are legal. Never
//! produces: that is the outbox, inside the epoch's transaction.

#[cfg(test)]
mod tests;

use crate::site::Site;
use crate::{Context, Operator, Output};
use stoatflow_core::{Record, Result, Serde, SinkId};

/// See the module.
#[derive(Debug)]
pub(crate) struct Sink {
    site: Site,
    sink: SinkId,
    key: Serde,
    value: Serde,
}

impl Sink {
    pub fn new(site: Site, sink: SinkId, key: Serde, value: Serde) -> Self {
        Self {
            site,
            sink,
            key,
            value,
        }
    }
}

impl Operator for Sink {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        _out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        context.effects.outputs.reserve(input.len());
        for record in input.drain(..) {
            let key = self
                .key
                .encode(&record.key)
                .map_err(|e| self.site.locate(e, &record.origin))?;
            let value = self
                .value
                .encode(&record.value)
                .map_err(|e| self.site.locate(e, &record.origin))?;
            context.effects.outputs.push(Output {
                sink: self.sink,
                topic: None,
                partition: None,
                key,
                value,
                timestamp: record.timestamp,
                headers: record.headers,
                origin: record.origin,
            });
        }
        Ok(())
    }
}
