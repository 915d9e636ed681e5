//! `exchange`: sends records to the lane of their key.
//!
//! Takes records, gives them to other lanes with the hash of their key's bytes (of a windowed key: of
//! the key within, so that all its windows stay together); gives nothing to its own stage. Null keys
//! have no lane: dropped and counted, unless an outer join below wants them; then they go by the
//! partition they were read from. Where all that is there is a count that nobody sees each step of, one
//! record goes per key, as long as there is more to read. Never touches a topic (law 4).

#[cfg(test)]
mod tests;

use crate::count::Ahead;
use crate::site::Site;
use crate::{Context, Operator, Routed, dropped, key_hash};
use stoatflow_core::{Datum, Error, Origin, Record, Result, Serde, StageId};

/// See the module.
#[derive(Debug)]
pub(crate) struct Exchange {
    site: Site,
    stage: StageId,
    key: Serde,
    keep_null: bool,
    ahead: Option<Ahead>,
}

impl Exchange {
    /// `counted`: who takes the records counts them, and one may stand for many.
    pub fn new(site: Site, stage: StageId, key: Serde, keep_null: bool, counted: bool) -> Self {
        Self {
            site,
            stage,
            key,
            keep_null,
            ahead: counted.then(Ahead::default),
        }
    }

    // Equal to `key_hash(encode(key))`; where the bytes are at hand they aren't even cloned.
    fn hash(&self, key: &Datum) -> Result<u64> {
        match (&self.key, key) {
            (Serde::String, Datum::Str(text)) => Ok(key_hash(text.as_bytes())),
            (Serde::Bytes, Datum::Bytes(bytes)) | (Serde::Json, Datum::Json(bytes)) => {
                Ok(key_hash(bytes))
            }
            (Serde::Int64, Datum::Int(number)) => Ok(key_hash(&number.to_be_bytes())),
            (serde, key) => {
                let bytes = serde.encode(key)?.unwrap_or_default();
                Ok(key_hash(serde.affinity(&bytes)))
            }
        }
    }
}

impl Exchange {
    /// Sends a record whose key could not be written at once, if the handler says so.
    #[cold]
    fn late(&mut self, error: Error, record: Record, context: &mut Context<'_>) -> Result<()> {
        // As `hash`, which has one caller: so it is a part of the loop there.
        let again = |_: &mut Context<'_>| {
            let bytes = self.key.encode(&record.key)?.unwrap_or_default();
            Ok(key_hash(self.key.affinity(&bytes)))
        };
        if let Some(hash) = self.site.rescue(error, &record, context, again)? {
            self.send(hash, record, context);
        }
        Ok(())
    }

    /// On its way, or into the count.
    #[inline]
    fn send(&mut self, hash: u64, record: Record, context: &mut Context<'_>) {
        let routed = Routed {
            via: self.site.node,
            stage: self.stage,
            hash,
            record,
        };
        match &mut self.ahead {
            // Null values aren't counted: who counts says so.
            Some(ahead) if !routed.record.value.is_null() => {
                ahead.add(routed, &mut context.effects.routed);
            }
            _ => context.effects.routed.push(routed),
        }
    }
}

impl Operator for Exchange {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        _out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        if self.ahead.is_none() {
            context.effects.routed.reserve(input.len());
        }
        for record in input.drain(..) {
            let hash = if !record.key.is_null() {
                match self.hash(&record.key) {
                    Ok(hash) => hash,
                    Err(error) => {
                        self.late(error, record, context)?;
                        continue;
                    }
                }
            } else if self.keep_null {
                by_origin(&record.origin)
            } else {
                context
                    .effects
                    .dropped
                    .push((self.site.node, dropped::NULL_KEY));
                continue;
            };
            self.send(hash, record, context);
        }
        Ok(())
    }

    fn gathers(&self) -> bool {
        self.ahead.is_some()
    }

    fn rest(&mut self, context: &mut Context<'_>) {
        if let Some(ahead) = &mut self.ahead {
            ahead.release(&mut context.effects.routed);
        }
    }

    fn barrier(&mut self, _out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.rest(context);
        Ok(())
    }
}

/// Records without a key keep the order of the partition they were read from.
fn by_origin(origin: &Origin) -> u64 {
    let mut bytes = [0; 8];
    bytes[..2].copy_from_slice(&origin.source.0.to_be_bytes());
    bytes[2..4].copy_from_slice(&origin.topic.to_be_bytes());
    bytes[4..].copy_from_slice(&origin.partition.0.to_be_bytes());
    key_hash(&bytes)
}
