//! `exchange`: sends records to the lane of their key.
//!
//! Takes records, gives them to other lanes with the hash of their key's bytes; gives nothing to its
//! own stage. Null keys have no lane: dropped and counted. Never touches a topic (law 4).

#[cfg(test)]
mod tests;

use crate::site::Site;
use crate::{Context, Operator, Routed, dropped, key_hash};
use stoatflow_core::{Datum, Record, Result, Serde, StageId};

/// See the module.
#[derive(Debug)]
pub(crate) struct Exchange {
    site: Site,
    stage: StageId,
    key: Serde,
}

impl Exchange {
    pub fn new(site: Site, stage: StageId, key: Serde) -> Self {
        Self { site, stage, key }
    }

    // Equal to `key_hash(encode(key))`; where the bytes are at hand they aren't even cloned.
    fn hash(&self, key: &Datum) -> Result<u64> {
        match (&self.key, key) {
            (Serde::String, Datum::Str(text)) => Ok(key_hash(text.as_bytes())),
            (Serde::Bytes, Datum::Bytes(bytes)) | (Serde::Json, Datum::Json(bytes)) => {
                Ok(key_hash(bytes))
            }
            (Serde::Int64, Datum::Int(number)) => Ok(key_hash(&number.to_be_bytes())),
            (serde, key) => Ok(key_hash(serde.encode(key)?.as_deref().unwrap_or_default())),
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
        let via = self.site.node;
        context.effects.routed.reserve(input.len());
        for record in input.drain(..) {
            if record.key.is_null() {
                context.effects.dropped.push((via, dropped::NULL_KEY));
                continue;
            }
            let hash = self
                .hash(&record.key)
                .map_err(|e| self.site.locate(e, &record.origin))?;
            context.effects.routed.push(Routed {
                via,
                stage: self.stage,
                hash,
                record,
            });
        }
        Ok(())
    }
}
