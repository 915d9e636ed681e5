//! `suppress`: holds a table's updates back, one per key, until their time has come.
//!
//! Takes updates at their key's lane, gives the last one of each key: when the window of the key closes
//! (then only results, no tombstones), a time after the first update of the key, or at the barrier. An
//! entry's place in the line is that of its first update; content, time and headers are those of its
//! last one. The operator's stream time is the highest time of the updates that it saw.
//!
//! A full buffer gives its oldest early, or stops the engine. Bounds hold for each lane, as those of
//! Kafka Streams do for each task; what a bounded buffer gives early so depends on the number of lanes.
//!
//! What waits is in memory, and once per key and epoch in the store, so that it survives a restart.

mod buffer;
pub(crate) mod codec;
#[cfg(test)]
mod tests;

use crate::site::Site;
use crate::{Context, LaneStore, Operator, table_update};
use buffer::{Buffer, Waiting};
use bytes::Bytes;
use codec::Codec;
use stoatflow_core::{ClockId, Datum, Epoch, Error, Record, Result, Serde, StoreId};
use stoatflow_plan::{Until, WhenFull};
use stoatflow_state::{KeyRange, Stored};

/// What a suppress is made from.
#[derive(Debug)]
pub(crate) struct Settings {
    pub store: StoreId,
    pub key: Serde,
    pub value: Serde,
    pub until: Until,
    pub max_records: Option<u64>,
    pub max_bytes: Option<u64>,
    pub when_full: WhenFull,
    pub clock: ClockId,
    /// Do children need what was before?
    pub old: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Suppress {
    site: Site,
    settings: Settings,
    codec: Codec,
    buffer: Buffer,
    /// The epoch whose barrier has passed here: what still comes in it must not wait for the next.
    passed: Option<Epoch>,
    /// Until the barrier: how many keys came before, which is their order.
    turns: i64,
}

impl Suppress {
    pub fn new(site: Site, settings: Settings) -> Self {
        Self {
            codec: Codec::new(settings.value.clone(), site.clone()),
            site,
            settings,
            buffer: Buffer::default(),
            passed: None,
            turns: 0,
        }
    }

    /// The time that an update waits for, before the wait itself.
    fn buffer_time(&mut self, record: &Record) -> Result<i64> {
        match (self.settings.until, &record.key) {
            (Until::WindowCloses { .. }, Datum::Windowed(window)) => Ok(window.end),
            (Until::WindowCloses { .. }, key) => {
                let error = Error::topology(format!(
                    "suppress waits for a window to close, but the key is a {} without a window",
                    key.type_name()
                ))
                .hint("suppress before the table is grouped anew, or suppress until a time limit");
                Err(self.site.locate(error, &record.origin))
            }
            (Until::TimeLimit { .. }, _) => Ok(record.timestamp.0),
            (Until::Barrier, _) => {
                self.turns += 1;
                Ok(self.turns)
            }
        }
    }

    fn hold(&mut self, record: Record) -> Result<()> {
        let key = self.settings.key.encode(&record.key);
        let key = key.map_err(|e| self.site.locate(e, &record.origin))?;
        let Some(key) = key else {
            let error = Error::internal("a null key reached a table");
            return Err(self.site.locate(error, &record.origin));
        };
        let time = self.buffer_time(&record)?;
        let mut update = record;
        let first = self.buffer.get(&key);
        // One result for the whole epoch: what was before is what was before its first update.
        if let (Until::Barrier, Some(first), Datum::Change(change)) =
            (self.settings.until, first, &mut update.value)
        {
            change.old = table_update::old(&first.record.value).clone();
        }
        let bytes = if self.settings.max_bytes.is_some() {
            self.codec.size(&key, &update, first)?
        } else {
            0
        };
        self.buffer.put(key, time, update, bytes);
        Ok(())
    }

    /// Gives what is due, unless that is the barrier's business.
    fn release_due(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let wait = match self.settings.until {
            Until::WindowCloses { grace_ms } => grace_ms,
            Until::TimeLimit { limit_ms } => limit_ms,
            Until::Barrier => return Ok(()),
        };
        let due = context
            .clocks
            .stream(self.settings.clock)
            .saturating_sub(wait);
        while let Some((key, waiting)) = self.buffer.pop_due(due) {
            self.give(&key, waiting, out, context)?;
        }
        Ok(())
    }

    /// A full buffer gives its oldest, or fails.
    fn keep_bounds(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let Settings {
            max_records,
            max_bytes,
            when_full,
            ..
        } = self.settings;
        while max_records.is_some_and(|max| self.buffer.len() as u64 > max)
            || max_bytes.is_some_and(|max| self.buffer.bytes() as u64 > max)
        {
            if when_full == WhenFull::Shutdown {
                return Err(self.full());
            }
            let Some((key, waiting)) = self.buffer.pop() else {
                break;
            };
            self.give(&key, waiting, out, context)?;
        }
        Ok(())
    }

    fn full(&self) -> Error {
        let (records, bytes) = (self.buffer.len(), self.buffer.bytes());
        let bound = match (self.settings.max_records, self.settings.max_bytes) {
            (Some(max), _) if records as u64 > max => {
                format!("{records} updates, more than max_records={max}")
            }
            (_, Some(max)) => format!("{bytes} bytes, more than max_bytes={max}"),
            _ => format!("{records} updates"),
        };
        self.site.name_node(
            Error::user(format!("the buffer of a suppress is full: it holds {bound}"))
                .hint("raise the bound of its Buffer, leave it unbounded, or let it give updates early with when_full=\"emit_early\""),
        )
    }

    fn give(
        &self,
        key: &Bytes,
        waiting: Waiting,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        if waiting.saved {
            let epoch = context.epoch;
            let LaneStore { store, dirty } = context.store(self.settings.store);
            store
                .put(epoch, dirty, key, None)
                .map_err(|e| self.site.name_node(e))?;
        }
        let mut record = waiting.record;
        let known = matches!(record.value, Datum::Change(_));
        let change = table_update::split(record.value);
        let nothing = change.new.is_null()
            && match self.settings.until {
                // A window that closes without a value (a merged session, a filtered result) says nothing.
                Until::WindowCloses { .. } => true,
                // Born and deleted between two barriers: nobody below ever heard of it.
                Until::Barrier => known && change.old.is_null(),
                Until::TimeLimit { .. } => false,
            };
        if !nothing {
            record.value =
                table_update::make(self.settings.old, change.old, change.new, change.latest);
            out.push(record);
        }
        Ok(())
    }

    /// Writes what has changed and still waits.
    fn save(&mut self, context: &mut Context<'_>) -> Result<()> {
        if self.settings.until == Until::Barrier {
            return Ok(());
        }
        let epoch = context.epoch;
        let LaneStore { store, dirty } = context.store(self.settings.store);
        for key in self.buffer.unsaved() {
            let Some(waiting) = self.buffer.get_mut(&key) else {
                continue;
            };
            let bytes = self.codec.encode(waiting)?;
            let stored = Stored {
                value: Datum::Bytes(bytes),
                timestamp: waiting.record.timestamp,
            };
            store
                .put(epoch, dirty, &key, Some(stored))
                .map_err(|e| self.site.name_node(e))?;
            waiting.saved = true;
        }
        Ok(())
    }

    fn release_all(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        while let Some((key, waiting)) = self.buffer.pop() {
            self.give(&key, waiting, out, context)?;
        }
        Ok(())
    }

    /// What came after the barrier, in the same epoch, is dealt with at once.
    fn after_barrier(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        if self.passed != Some(context.epoch) {
            return Ok(());
        }
        if self.settings.until == Until::Barrier {
            return self.release_all(out, context);
        }
        self.save(context)
    }
}

impl Operator for Suppress {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        for record in input.drain(..) {
            context
                .clocks
                .observe(self.settings.clock, record.timestamp.0);
            self.hold(record)?;
            if context.clocks.is_eager() {
                self.release_due(out, context)?;
            }
            self.keep_bounds(out, context)?;
        }
        self.after_barrier(out, context)
    }

    fn open(&mut self, context: &mut Context<'_>) -> Result<()> {
        let (epoch, share) = (context.epoch, context.share);
        let LaneStore { store, .. } = context.store(self.settings.store);
        let found = store
            .scan(epoch, &KeyRange::default(), usize::MAX)
            .map_err(|e| self.site.name_node(e))?;
        for (key, stored) in found {
            if !share.owns(self.settings.key.affinity(&key)) {
                continue;
            }
            let record_key = self.settings.key.decode(Some(key.clone()));
            let record_key = record_key.map_err(|e| self.site.name_node(e))?;
            let (time, waiting) = self.codec.decode(record_key, &stored.value)?;
            let bytes = if self.settings.max_bytes.is_some() {
                self.codec.size(&key, &waiting.record, Some(&waiting))?
            } else {
                0
            };
            self.buffer.restore(key, time, waiting, bytes);
        }
        Ok(())
    }

    fn advance(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.release_due(out, context)?;
        self.after_barrier(out, context)
    }

    fn barrier(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.passed = Some(context.epoch);
        self.after_barrier(out, context)
    }
}
