//! Writes the store of an operator that keeps a table, and forwards its updates: with the old value or
//! without, at once or at the barrier.
//!
//! Takes records and results, gives key bytes and forwarded updates. Never computes a value.

use crate::expr::aggregation::State;
use crate::ops::tables::table_update;
use crate::support::dropped;
use crate::support::node_context::NodeContext;
use crate::support::update_cache::SharedUpdateCache;
use crate::{Context, LaneStore};
use bytes::Bytes;
use stoatflow_core::{ClockId, Datum, Error, Record, Result, Serde, StoreId, Timestamp};
use stoatflow_state::{PutResult, Stored, VersionedView};

/// Store, key serde and held updates of one operator.
#[derive(Debug)]
pub(crate) struct TableWriter {
    pub node_context: NodeContext,
    pub store: StoreId,
    key: Serde,
    value: Serde,
    old: bool,
    /// The clock of a versioned store.
    versions: Option<ClockId>,
    cache: Option<SharedUpdateCache>,
}

/// How updates are forwarded.
#[derive(Clone, Debug, Default)]
pub(crate) struct ForwardMode {
    /// Whether the old value is sent too.
    pub old: bool,
    /// Holds them until the barrier, if one per key and epoch is forwarded.
    pub cache: Option<SharedUpdateCache>,
    /// For a versioned store: the clock of the records that it has accepted.
    pub versions: Option<ClockId>,
}

/// The result that an operator computed from a record.
#[derive(Debug)]
pub(crate) struct Update {
    /// Whether the store had a value before.
    pub existed: bool,
    /// The store's new value, as the children get it (see [`TableWriter::update`]).
    pub value: Datum,
    /// Its timestamp.
    pub timestamp: Timestamp,
}

/// Where the old value of an update comes from.
#[derive(Debug)]
pub(crate) enum Before {
    /// From the store.
    Stored,
    /// From the store; a change from nothing to nothing is no update at all.
    StoredUnlessIdle,
    /// This value.
    Given(Datum),
}

impl TableWriter {
    pub fn new(
        node_context: NodeContext,
        store: StoreId,
        key: Serde,
        value: Serde,
        sending: ForwardMode,
    ) -> Self {
        Self {
            node_context,
            store,
            key,
            value,
            old: sending.old,
            versions: sending.versions,
            cache: sending.cache,
        }
    }

    pub fn is_cached(&self) -> bool {
        self.cache.is_some()
    }

    /// Whether its store keeps versions.
    pub fn is_versioned(&self) -> bool {
        self.versions.is_some()
    }

    /// The latest version of a record's key.
    pub fn latest(&self, record: &Record, context: &mut Context<'_>) -> Result<Option<Stored>> {
        let key = self.key(record)?;
        let clock = self.versions;
        let seen = clock.map_or(-1, |clock| context.clocks.before(clock, record));
        let epoch = context.epoch;
        let store = &context.store(self.store).store;
        let found = VersionedView::new(store, epoch, seen).and_then(|view| view.get(&key));
        let found = found.map_err(|e| self.locate(e, record))?;
        Ok(found.map(|version| Stored {
            value: version.value,
            timestamp: Timestamp(version.timestamp),
        }))
    }

    /// The store's current value for a record's key.
    pub fn stored(&self, record: &Record, context: &mut Context<'_>) -> Result<Option<Stored>> {
        if self.is_versioned() {
            return self.latest(record, context);
        }
        let key = self.key(record)?;
        let epoch = context.epoch;
        let found = context.store(self.store).store.get(epoch, &key);
        found.map_err(|e| self.locate(e, record))
    }

    /// Whether children need the old value.
    pub fn sends_old(&self) -> bool {
        self.old
    }

    /// Whether an aggregation may take this record. Counts it as dropped if not.
    pub fn admits(&self, record: &Record, context: &mut Context<'_>) -> bool {
        let reason = if record.key.is_null() {
            dropped::NULL_KEY
        } else if record.value.is_null() {
            dropped::NULL_VALUE
        } else {
            return true;
        };
        context
            .effects
            .dropped
            .push((self.node_context.node, reason));
        false
    }

    /// The bytes of a record's key.
    #[inline]
    pub fn key(&self, record: &Record) -> Result<Bytes> {
        match self.key.encode(&record.key) {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(self.locate(Error::internal("a null key reached a store"), record)),
            Err(e) => Err(self.locate(e, record)),
        }
    }

    /// A new value as the children get it. `old` is what an aggregation started from; an update that the
    /// cache holds back starts from the store, which had nothing if nothing `existed`.
    pub fn update(&self, existed: bool, old: Datum, new: Datum) -> Datum {
        if !self.old {
            return new;
        }
        let known = existed || !self.is_cached();
        Datum::change(if known { old } else { Datum::Null }, new, true)
    }

    /// Writes the current value of a table's key, and forwards the update.
    pub fn keep(
        &mut self,
        mut record: Record,
        new: Datum,
        before: Before,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let key = self.key(&record)?;
        if let Some(clock) = self.versions {
            return self.keep_version(clock, &key, record, new, before, out, context);
        }
        let timestamp = record.timestamp;
        // A null value deletes, at this time.
        let stored = Some(Stored {
            value: new.clone(),
            timestamp,
        });
        let epoch = context.epoch;
        if context.store(self.store).store.is_guarded() {
            record.value = new.clone();
            let admitted = self.node_context.attempt(&record, context, |context| {
                let store = &context.store(self.store).store;
                store.admit(epoch, &key, stored.as_ref())
            })?;
            if admitted.is_none() {
                return Ok(());
            }
        }
        let LaneStore { store, dirty } = context.store(self.store);
        let asked = self.old && !matches!(before, Before::Given(_));
        let reads = asked || self.is_cached() || matches!(before, Before::StoredUnlessIdle);
        // If the old value is not needed, a plain write needs no read.
        let read = if reads {
            store.update(epoch, dirty, &key, |old| Ok((stored, old.cloned())))
        } else {
            store.put(epoch, dirty, &key, stored).map(|()| None)
        };
        let found = read.map_err(|e| self.locate(e, &record))?;
        let existed = found.is_some();
        if !existed && new.is_null() && matches!(before, Before::StoredUnlessIdle) {
            return Ok(());
        }
        let old = match before {
            Before::Given(old) if !self.is_cached() => old,
            _ => found.map_or(Datum::Null, |found| found.value),
        };
        let value = table_update::make(self.old, old, new, true);
        let update = Update {
            existed,
            value,
            timestamp,
        };
        self.forward(&key, record, update, out);
        Ok(())
    }

    /// Writes a version of a key, and forwards the update: marked if it isn't the latest, not at all if
    /// it is too old to be kept.
    #[allow(clippy::too_many_arguments)] // those of `keep`, with the clock and the key
    fn keep_version(
        &self,
        clock: ClockId,
        key: &Bytes,
        mut record: Record,
        new: Datum,
        before: Before,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let (epoch, order) = (context.epoch, record.origin.order);
        let seen = context.clocks.before(clock, &record);
        let LaneStore { store, dirty } = context.store(self.store);
        let put = || {
            let mut view = VersionedView::new(store, epoch, seen)?;
            let old = match before {
                Before::Given(old) => old,
                _ if self.old => view.get(key)?.map(|v| v.value).unwrap_or_default(),
                _ => Datum::Null,
            };
            let put = view.put(dirty, key, Some(new.clone()), record.timestamp.0)?;
            Ok((old, put, view.observed()))
        };
        let (old, put, seen) = put().map_err(|e| self.locate(e, &record))?;
        context.clocks.observe_at(clock, order, seen);
        let latest = match put {
            PutResult::NotPut => return Ok(()),
            PutResult::Undefined => true,
            PutResult::ValidTo(_) => false,
        };
        record.value = table_update::make(self.old, old, new, latest);
        out.push(record);
        Ok(())
    }

    /// Forwards an update, now or at the barrier.
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
        if !(self.is_cached() && table_update::new(&value).is_null()) {
            record.timestamp = timestamp;
        }
        record.value = value;
        match &mut self.cache {
            Some(cache) => cache.lock().hold(key, existed, record),
            None => out.push(record),
        }
    }

    /// Replaces a record's foreign value by a copy, if it has one: as if read back from the store.
    pub fn freeze(&self, record: &mut Record) -> Result<()> {
        let value = match &mut record.value {
            Datum::Change(change) => &mut change.new,
            value => value,
        };
        let copy = self.copy(value);
        match copy {
            Ok(None) => Ok(()),
            Ok(Some(copy)) => {
                *value = copy;
                Ok(())
            }
            Err(e) => Err(self.locate(e, record)),
        }
    }

    /// A copy of a foreign value that a function may change in place; `None` for other values.
    pub fn copy(&self, value: &Datum) -> Result<Option<Datum>> {
        if !matches!(value, Datum::Opaque(object) if object.changes()) {
            return Ok(None);
        }
        let bytes = self.value.encode(value)?;
        self.value.decode(bytes).map(Some)
    }

    /// A value that a function may change: a copy, if it is one that can be changed in place.
    pub fn mutable_copy(&self, value: &Datum, record: &Record) -> Result<Datum> {
        let copy = self.copy(value).map_err(|e| self.locate(e, record))?;
        Ok(copy.unwrap_or_else(|| value.clone()))
    }

    /// Checks that the store can write this value, if a failed record may be left out: at the end of the
    /// epoch it would be too late.
    pub fn check(&self, value: &Datum) -> Result<()> {
        // The values in a native aggregate were checked when they were added: writing all of it for each
        // record would cost too much.
        let asked = matches!(self.value, Serde::Json) && State::of(value).is_some();
        if self.node_context.is_lenient() && !asked {
            self.value.encode(value)?;
        }
        Ok(())
    }

    pub fn barrier(&mut self, out: &mut Vec<Record>) {
        if let Some(cache) = &mut self.cache {
            cache.lock().release(out);
        }
    }

    pub fn locate(&self, error: Error, record: &Record) -> Error {
        self.node_context.locate(error, &record.origin)
    }
}
