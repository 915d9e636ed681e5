//! What all operators that keep a table share: which store, how it writes keys and values, and whether
//! updates go on at once or wait for the barrier.
//!
//! Takes records and results, gives key bytes and forwarded updates. Never computes a value.

use crate::held::Held;
use crate::site::Site;
use crate::{Context, dropped};
use bytes::Bytes;
use stoatflow_core::{Datum, Error, Record, Result, Serde, StoreId, Timestamp};

/// Store, key serde and held updates of one operator.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub site: Site,
    pub store: StoreId,
    key: Serde,
    value: Serde,
    held: Option<Held>,
}

/// What an operator made of a record.
#[derive(Debug)]
pub(crate) struct Update {
    /// Had the store a value before?
    pub existed: bool,
    /// What the store has now.
    pub value: Datum,
    /// And since when.
    pub timestamp: Timestamp,
}

impl Keeper {
    pub fn new(site: Site, store: StoreId, key: Serde, value: Serde, cached: bool) -> Self {
        Self {
            site,
            store,
            key,
            value,
            held: cached.then(Held::default),
        }
    }

    pub fn is_cached(&self) -> bool {
        self.held.is_some()
    }

    /// May an aggregation take this record? Counts it if not.
    pub fn admits(&self, record: &Record, context: &mut Context<'_>) -> bool {
        let reason = if record.key.is_null() {
            dropped::NULL_KEY
        } else if record.value.is_null() {
            dropped::NULL_VALUE
        } else {
            return true;
        };
        context.effects.dropped.push((self.site.node, reason));
        false
    }

    /// The bytes of a record's key.
    pub fn key(&self, record: &Record) -> Result<Bytes> {
        match self.key.encode(&record.key) {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(self.locate(Error::internal("a null key reached a store"), record)),
            Err(e) => Err(self.locate(e, record)),
        }
    }

    /// Passes an update on, now or at the barrier.
    pub fn forward(
        &mut self,
        key: &Bytes,
        mut record: Record,
        update: Update,
        out: &mut Vec<Record>,
    ) {
        let Update {
            existed,
            value,
            timestamp,
        } = update;
        // A tombstone held by the cache keeps the time of the record that caused it, as in Kafka Streams.
        if !(self.is_cached() && value.is_null()) {
            record.timestamp = timestamp;
        }
        record.value = value;
        match &mut self.held {
            Some(held) => held.hold(key, existed, record),
            None => out.push(record),
        }
    }

    /// Gives a record a foreign value of its own, if it has one: as it would come back from the store.
    pub fn freeze(&self, record: &mut Record) -> Result<()> {
        if let Datum::Opaque(_) = &record.value {
            let copy = self
                .value
                .encode(&record.value)
                .and_then(|bytes| self.value.decode(bytes));
            record.value = copy.map_err(|e| self.locate(e, record))?;
        }
        Ok(())
    }

    pub fn barrier(&mut self, out: &mut Vec<Record>) {
        if let Some(held) = &mut self.held {
            held.release(out);
        }
    }

    pub fn locate(&self, error: Error, record: &Record) -> Error {
        self.site.locate(error, &record.origin)
    }
}
