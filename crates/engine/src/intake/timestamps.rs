//! Assigns each fetched record its timestamp, before dispatch orders by time.
//!
//! Runs the source's timestamp extractor, drops and counts records whose result is negative, and asks
//! user functions for watermarks. If an extractor fails, the error travels with the record to its lane,
//! which calls the source's handler ([`crate::intake::invalid_timestamps`]). Keeps the highest time of
//! each partition. A user function gets a whole batch per call; lanes continue meanwhile.

mod ahead_of_clock;
mod extractor;

use crate::intake::invalid_timestamps::InvalidTimestamp;
use crate::intake::source_partitions::{SourceBinding, SourcePartition, SourcePartitions};
use crate::runtime::shared::Shared;
pub use ahead_of_clock::InvalidTime;
use ahead_of_clock::{AheadOfClock, in_time, latest};
pub use extractor::Extractor;
use std::sync::Arc;
use stoatflow_core::{Error, Offset, Record, Result, Serde, Timestamp};
use stoatflow_log::ConsumerRecord;
use stoatflow_operators::error_policy::is_of_a_record;
use stoatflow_operators::{Failed, Udf, dropped};

/// A watermark that a user function returned for a record.
#[derive(Clone, Copy, Debug)]
pub struct WatermarkUpdate {
    /// The slot.
    pub slot: u32,
    /// The record.
    pub offset: Offset,
    /// The watermark from this record on.
    pub watermark: i64,
}

/// See the module.
#[derive(Debug)]
pub struct TimestampAssigner {
    shared: Arc<Shared>,
    slots: SourcePartitions,
    /// Names of sources, for counters.
    sources: Vec<String>,
    /// The highest time of each slot; -1: none.
    highest: Vec<i64>,
    /// True if all sources use the record's own timestamp, with no user function for watermarks.
    plain: bool,
    /// The smallest limit for timestamps ahead of the clock, if there is one.
    max_ahead: Option<i64>,
    ahead: AheadOfClock,
    /// The last watermark that functions returned, by slot; -1: none.
    watermarks: Vec<i64>,
    watermark_updates: Vec<WatermarkUpdate>,
    marks: Vec<Option<i64>>,
    batch: Vec<Record>,
    times: Vec<i64>,
    /// Records of the run that can't be decoded, by index.
    unreadable: Vec<(usize, Error)>,
    /// The extractor's result for each record of the run.
    results: Vec<Result<i64>>,
    /// Records of the run without a timestamp, in order.
    refused: Vec<Offset>,
}

impl TimestampAssigner {
    /// Starts with the committed times.
    #[must_use]
    pub fn new(shared: Arc<Shared>, slots: SourcePartitions, sources: Vec<String>) -> Self {
        Self {
            highest: slots.iter().map(|s| s.progress.stream_time.0).collect(),
            plain: slots.iter().all(|s| {
                matches!(s.time, Extractor::FailOnInvalid) && s.watermark.function.is_none()
            }),
            max_ahead: slots.iter().find_map(|s| s.max_ahead),
            ahead: AheadOfClock::default(),
            watermarks: slots.iter().map(|s| s.progress.watermark).collect(),
            watermark_updates: Vec::new(),
            marks: Vec::new(),
            shared,
            slots,
            sources,
            batch: Vec::new(),
            times: Vec::new(),
            unreadable: Vec::new(),
            results: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// True if it calls user functions.
    #[must_use]
    pub fn calls_out(&self) -> bool {
        let decodes = |slot: &SourcePartition| {
            let serdes = slot.bindings.iter().flat_map(|r| [&r.key, &r.value]);
            serdes.into_iter().any(|s| matches!(s, Serde::Custom(_)))
        };
        let asks = |slot: &SourcePartition| match &slot.time {
            Extractor::Function(_) => true,
            Extractor::Expression(_) => decodes(slot),
            _ => slot.watermark.function.is_some(),
        };
        self.slots.iter().any(asks)
    }

    /// Assigns each record its timestamp; drops those that have none.
    ///
    /// # Errors
    /// If the source has no handler: `User` for a negative timestamp and `Serde` for one too far ahead
    /// of the clock, with the record's coordinates, and errors of the extractor. Errors of a watermark
    /// function in any case.
    pub fn assign(&mut self, fetched: &mut Vec<ConsumerRecord>) -> Result<()> {
        let possible = 0..=latest(self.max_ahead, &self.shared);
        if self.plain && fetched.iter().all(|r| possible.contains(&r.timestamp.0)) {
            return Ok(());
        }
        let mut from = 0;
        while from < fetched.len() {
            let slot = fetched[from].slot;
            let run = &mut fetched[from..];
            let run = run.iter().take_while(|r| r.slot == slot).count();
            self.run(&mut fetched[from..from + run])?;
            from += run;
        }
        fetched.retain(|r| r.timestamp.0 >= 0);
        Ok(())
    }

    /// Watermarks that functions returned; the caller empties the list.
    pub const fn watermark_updates(&mut self) -> &mut Vec<WatermarkUpdate> {
        &mut self.watermark_updates
    }

    /// Assigns the timestamps of one run of records of the same partition.
    fn run(&mut self, run: &mut [ConsumerRecord]) -> Result<()> {
        let at = run[0].slot as usize;
        let slots = Arc::clone(&self.slots);
        let slot = &slots[at];
        let mut highest = self.highest[at];
        let latest = latest(slot.max_ahead, &self.shared);
        self.refused.clear();
        match &slot.time {
            Extractor::Function(udf) => {
                self.call_extractor(udf.as_ref(), slot, run, (highest, latest))?
            }
            Extractor::Expression(expression) => {
                // The first source's serde decodes, and its coordinates go into errors.
                if let Some(reader) = slot.bindings.first() {
                    let read = run.iter().map(|record| reader.decode(slot, record));
                    let times = read.map(|record| expression.time(&record?));
                    self.results.extend(times);
                }
            }
            _ => {}
        }
        let mut results = std::mem::take(&mut self.results);
        let mut said = results.drain(..);
        let mut lost = 0;
        for record in run.iter_mut() {
            let now = || self.shared.clock.now().0;
            let time = said.next().unwrap_or_else(|| {
                let known = slot.time.known(record.timestamp.0, highest, now);
                known.ok_or_else(|| invalid(record))
            });
            match time
                .map_err(InvalidTime::from)
                .and_then(|t| in_time(t, latest))
            {
                Ok(time) => {
                    record.timestamp = Timestamp(time);
                    highest = highest.max(time);
                    lost += u64::from(time < 0);
                }
                Err(no_time) => {
                    self.refused.push(record.offset);
                    self.ahead.records += u64::from(no_time.ahead);
                    refuse(&self.shared, slot, record, highest, no_time)?;
                }
            }
        }
        self.ahead.log_if_due(&self.shared, &slot.partition);
        drop(said);
        self.results = results;
        self.highest[at] = highest;
        if let Some(udf) = &slot.watermark.function {
            self.call_watermark_function(udf.as_ref(), slot, run)?;
        }
        if lost > 0 {
            let source = slot.bindings.first().map_or(0, |r| usize::from(r.source.0));
            let name = self.sources.get(source).map_or("?", String::as_str);
            let now = self.shared.clock.monotonic();
            let status = &self.shared.status;
            status.drop_records(name, dropped::NEGATIVE_TIMESTAMP, lost, now);
        }
        Ok(())
    }

    /// Decodes a run for a user function. `timed`: timestamps are known, records without one are
    /// left out.
    fn decode(
        &mut self,
        slot: &SourcePartition,
        run: &[ConsumerRecord],
        timed: bool,
    ) -> Result<()> {
        self.batch.clear();
        self.unreadable.clear();
        let Some(reader) = slot.bindings.first() else {
            return Ok(());
        };
        for (at, record) in run.iter().enumerate() {
            if timed && (record.timestamp.0 < 0 || self.refused.contains(&record.offset)) {
                continue;
            }
            match reader.decode(slot, record) {
                Ok(record) => self.batch.push(record),
                // The record's lane calls the handler: there a dead letter has an epoch.
                Err(error) if slot.asks() => self.unreadable.push((at, error)),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn failed(&self, failed: Failed, slot: &SourcePartition) -> Error {
        match self.batch.get(failed.at) {
            Some(record) => at_offset(failed.error, slot, record.origin.offset),
            None => failed.error,
        }
    }

    /// Asks a user function for the watermark from each record on.
    fn call_watermark_function(
        &mut self,
        udf: &dyn Udf,
        slot: &SourcePartition,
        run: &[ConsumerRecord],
    ) -> Result<()> {
        self.decode(slot, run, true)?;
        let number = run[0].slot;
        let at = number as usize;
        let topic = &slot.partition.topic;
        self.marks.clear();
        udf.watermarks(&self.batch, topic, self.watermarks[at], &mut self.marks)
            .map_err(|failed| self.failed(failed, slot))?;
        if self.marks.len() != self.batch.len() {
            return Err(Error::internal(
                "a watermark function gave fewer watermarks than records",
            ));
        }
        for (record, mark) in self.batch.drain(..).zip(&self.marks) {
            if let Some(watermark) = mark.filter(|mark| *mark > self.watermarks[at]) {
                self.watermarks[at] = watermark;
                self.watermark_updates.push(WatermarkUpdate {
                    slot: number,
                    offset: record.origin.offset,
                    watermark,
                });
            }
        }
        Ok(())
    }

    /// Calls the extractor for a run. If it fails for a record, it is called again for the records after
    /// it.
    fn call_extractor(
        &mut self,
        udf: &dyn Udf,
        slot: &SourcePartition,
        run: &[ConsumerRecord],
        (mut highest, latest): (i64, i64),
    ) -> Result<()> {
        if slot.bindings.is_empty() {
            return Ok(());
        }
        self.decode(slot, run, false)?;
        let mut unreadable = std::mem::take(&mut self.unreadable).into_iter().peekable();
        let mut asked = 0;
        while asked < self.batch.len() {
            self.times.clear();
            let rest = &self.batch[asked..];
            let topic = &slot.partition.topic;
            let done = udf.timestamps(rest, topic, (highest, latest), &mut self.times);
            let wanted = done.as_ref().map_or_else(|f| f.at, |()| rest.len());
            if self.times.len() != wanted {
                return Err(Error::internal(
                    "a timestamp extractor gave fewer times than records",
                ));
            }
            asked += wanted;
            for time in &self.times {
                if *time <= latest {
                    highest = highest.max(*time);
                }
                push_result(&mut self.results, &mut unreadable, Ok(*time));
            }
            if let Err(mut failed) = done {
                failed.at = asked;
                let error = self.failed(failed, slot);
                if !slot.asks() || !is_of_a_record(&error) {
                    return Err(error);
                }
                push_result(&mut self.results, &mut unreadable, Err(error));
                asked += 1;
            }
        }
        self.results.extend(unreadable.map(|(_, error)| Err(error)));
        self.batch.clear();
        Ok(())
    }
}

/// Adds a result, after the errors of undecodable records before it.
fn push_result(
    results: &mut Vec<Result<i64>>,
    unreadable: &mut std::iter::Peekable<std::vec::IntoIter<(usize, Error)>>,
    said: Result<i64>,
) {
    while let Some((_, error)) = unreadable.next_if(|(at, _)| *at == results.len()) {
        results.push(Err(error));
    }
    results.push(said);
}

/// Keeps the error for the record's lane; until then the record doesn't advance time.
fn refuse(
    shared: &Shared,
    slot: &SourcePartition,
    record: &mut ConsumerRecord,
    highest: i64,
    no_time: InvalidTime,
) -> Result<()> {
    let error = at_offset(no_time.error, slot, record.offset);
    if !slot.asks() {
        return Err(error);
    }
    let refusal = InvalidTimestamp::new(error, no_time.ahead, record.timestamp, highest);
    shared.invalid_timestamps.put(record, refusal);
    record.timestamp = Timestamp(highest.max(0));
    Ok(())
}

/// Retries a record without a timestamp, as its handler requested. `None`: its timestamp is now
/// negative, which drops the record.
///
/// # Errors
/// If the record still has no valid timestamp.
pub fn retry_record(
    slot: &SourcePartition,
    reader: &SourceBinding,
    fetched: &ConsumerRecord,
    partition_time: i64,
    shared: &Shared,
) -> Result<Option<Record>, InvalidTime> {
    let latest = latest(slot.max_ahead, shared);
    let mut record = reader.decode(slot, fetched)?;
    let time = match &slot.time {
        Extractor::Function(udf) => {
            let mut times = Vec::new();
            let batch = std::slice::from_ref(&record);
            let before = (partition_time, latest);
            udf.timestamps(batch, &slot.partition.topic, before, &mut times)
                .map_err(|failed| at_offset(failed.error, slot, fetched.offset))?;
            times.first().copied()
        }
        Extractor::Expression(expression) => {
            let time = expression.time(&record);
            Some(time.map_err(|error| at_offset(error, slot, fetched.offset))?)
        }
        known => known.known(fetched.timestamp.0, partition_time, || shared.clock.now().0),
    };
    let time = time.ok_or_else(|| at_offset(invalid(fetched), slot, fetched.offset))?;
    let time = in_time(time, latest).map_err(|no_time| InvalidTime {
        error: at_offset(no_time.error, slot, fetched.offset),
        ..no_time
    })?;
    record.timestamp = Timestamp(time);
    Ok((time >= 0).then_some(record))
}

fn at_offset(error: Error, slot: &SourcePartition, offset: Offset) -> Error {
    error.at(|at| {
        at.topic = Some(slot.partition.topic.to_string());
        at.partition = Some(slot.partition.partition);
        at.offset = Some(offset);
    })
}

fn invalid(record: &ConsumerRecord) -> Error {
    Error::user(format!(
        "an input record has the negative timestamp {}",
        record.timestamp.0
    ))
    .hint(
        "set timestamps where the records are made, or give the source a timestamp extractor \
        (log_and_skip, use_partition_time, wallclock or a function)",
    )
}
