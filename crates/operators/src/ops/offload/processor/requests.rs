//! Sending requests, and repeating them.
//!
//! Takes records, parks them and sends requests, at once or after a pause. A request that can't be
//! serialized is an error of its record, detected before anything is parked. Never sends a request that
//! isn't in its record's row.

use super::{OffloadProcessor, REQUEST, Written};
use crate::ops::offload::headers::{correlation, marked};
use crate::ops::offload::parked_queues::{ParkedEntry, ParkedState};
use crate::ops::offload::row::{Phase, Row};
use crate::support::attach_scope::AttachScope;
use crate::{Context, size_on_wire};
use bytes::Bytes;
use stoatflow_core::{Datum, Error, Record, Result};
use stoatflow_plan::RetryPolicy;

impl OffloadProcessor {
    /// Parks records, and sends the first request for each. The interpreter is entered once to serialize
    /// them all.
    pub(super) fn park_and_request(
        &mut self,
        parked: Vec<((Record, Written), Record)>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let scope = AttachScope::of(parked.iter().map(|(_, request)| request));
        scope.inside(|| {
            parked
                .into_iter()
                .try_for_each(|((record, written), request)| {
                    self.ask(&record, written, request, out, context)
                })
        })
    }

    fn ask(
        &mut self,
        record: &Record,
        written: Written,
        request: Record,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let (now, lane) = (context.clocks.wall.0, context.assignment.lane);
        let Written {
            key,
            record: parked,
        } = written;
        let number = self.queues.number(now, lane);
        let Some(request) = self.written_request((&key, number, 1), record, request, context)?
        else {
            return Ok(());
        };
        let row = Row {
            phase: Phase::Asked { at: now },
            since: now,
            attempt: 1,
            again: 0,
            record: parked,
        };
        self.write(&key, number, &row, request.timestamp, context)?;
        self.queues.join(&key, self.entry(number, &row));
        send(request, out, context);
        Ok(())
    }

    /// A request as it is sent; `None` if it can't be serialized, and a handler has left its record out.
    /// `of`: key, number and attempt.
    fn written_request(
        &self,
        (key, number, attempt): (&Bytes, u64, u32),
        record: &Record,
        mut request: Record,
        context: &mut Context<'_>,
    ) -> Result<Option<Record>> {
        let settings = &self.settings;
        let correlation = correlation(&settings.name, number);
        let headers = settings
            .ids
            .valid_headers(request.headers.take(), &request.origin);
        request.headers = marked(&headers, correlation, attempt);
        let value = settings.node_context.attempt(record, context, |_| {
            let value = settings.asks.encode(&request.value)?;
            let size = size_on_wire(Some(key), value.as_deref(), &request.headers);
            match settings.largest.filter(|largest| size > *largest) {
                Some(largest) => Err(too_large(size, largest)),
                None => Ok(value),
            }
        })?;
        Ok(value.map(|value| Record {
            value: value.map_or(Datum::Null, Datum::Bytes),
            ..request
        }))
    }

    /// A request timed out or got an error: repeats it if retries are configured.
    pub(super) fn missed(
        &mut self,
        key: &Bytes,
        entry: ParkedEntry,
        phase: Phase,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let patience = self.settings.patience;
        let wanted = match phase {
            Phase::TimedOut { .. } => patience.retry_timeouts,
            _ => patience.retry_errors,
        };
        if !wanted || entry.attempt >= patience.attempts {
            return self.end(key, entry, phase, out, context);
        }
        let pause = pause(&patience, entry);
        if pause == 0 {
            return self.request_again_or_leave(key, entry, out, context);
        }
        self.schedule_request(key, entry, pause, context)
    }

    /// Sends another request. If none can be made, its record leaves in its turn.
    pub(super) fn request_again_or_leave(
        &mut self,
        key: &Bytes,
        entry: ParkedEntry,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        if self.request_again(key, entry, out, context)? {
            return Ok(());
        }
        self.end(key, entry, Phase::LeftOut, out, context)
    }

    /// Schedules another request after a pause.
    pub(super) fn schedule_request(
        &mut self,
        key: &Bytes,
        mut entry: ParkedEntry,
        pause: i64,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let due = context.clocks.wall.0.saturating_add(pause);
        let (mut row, timestamp) = self.row(key, entry.number, context)?;
        row.phase = Phase::Pausing { due };
        row.again = entry.again;
        self.write(key, entry.number, &row, timestamp, context)?;
        entry.state = ParkedState::Pausing;
        entry.due = Some(due);
        self.queues.change(key, entry);
        Ok(())
    }

    /// Sends another request; `false` if a handler has left its record out, because none could be made.
    pub(super) fn request_again(
        &mut self,
        key: &Bytes,
        entry: ParkedEntry,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<bool> {
        let (mut row, timestamp) = self.row(key, entry.number, context)?;
        let record = self.codec.decode(&Datum::Bytes(row.record.clone()))?;
        let mut requests = vec![record.clone()];
        if let Some(request) = &self.settings.request {
            let set = |record: &mut Record, value| record.value = value;
            request.one(&mut requests, &mut self.scratch, context, set)?;
        }
        let Some(request) = requests.pop() else {
            return Ok(false);
        };
        row.attempt = entry.attempt + 1;
        row.again = entry.again;
        let of = (key, entry.number, row.attempt);
        let Some(request) = self.written_request(of, &record, request, context)? else {
            return Ok(false);
        };
        row.phase = Phase::Asked {
            at: context.clocks.wall.0,
        };
        self.write(key, entry.number, &row, timestamp, context)?;
        let entry = self.entry(entry.number, &row);
        self.queues.change(key, entry);
        send(request, out, context);
        Ok(true)
    }
}

/// Sends a request.
fn send(request: Record, out: &mut Vec<Record>, context: &mut Context<'_>) {
    out.push(request);
    context.effects.routes.push(REQUEST);
}

fn too_large(size: usize, largest: usize) -> Error {
    Error::serde(format!(
        "a request of {size} bytes is larger than the producer may send ({largest})"
    ))
    .hint("raise producer.message.max.bytes and the topic's max.message.bytes, or ask for less with request=")
}

/// The pause before the next request, with a jitter that depends on the record and is the same in each
/// run.
fn pause(patience: &RetryPolicy, entry: ParkedEntry) -> i64 {
    let doubled = entry.attempt.saturating_sub(1).min(60);
    let pause = patience.first_ms.saturating_mul(1 << doubled);
    let pause = pause.min(patience.most_ms);
    let mut mixed = entry.number ^ (u64::from(entry.attempt) << 32);
    // SplitMix64: its high bits are as good as random.
    mixed = mixed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    let chance = f64::from((mixed >> 32) as u32) / f64::from(u32::MAX) * 2.0 - 1.0;
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // pauses are short
    let varied = (pause as f64 * (1.0 + patience.jitter * chance)) as i64;
    varied.max(0)
}
