//! How parked records leave, each in its turn.
//!
//! Takes records that no longer wait for an answer, emits their results, or calls error handlers for
//! them; many rows go to a joiner together. Never lets a record overtake an earlier one of its key.

use super::{LeaveReason, OffloadProcessor, RESULT};
use crate::ops::offload::parked_queues::{ParkedEntry, ParkedState};
use crate::ops::offload::row::{Phase, Row};
use crate::ops::tables::suppress::codec::Reader;
use crate::support::error_policy::Outcome;
use crate::support::parked_record;
use crate::{Context, FaultInjection};
use bytes::Bytes;
use stoatflow_core::{Datum, Error, Record, Result};

impl OffloadProcessor {
    /// A record no longer waits for an answer. If it is the first of its key, its turn has come.
    pub(super) fn end(
        &mut self,
        key: &Bytes,
        mut entry: ParkedEntry,
        phase: Phase,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        entry.state = ParkedState::Finished;
        entry.due = None;
        self.queues.change(key, entry);
        let (mut row, timestamp) = self.row(key, entry.number, context)?;
        row.phase = phase;
        let first = self.queues.first(key).map(|first| first.number);
        if first != Some(entry.number) {
            if self.settings.fault == FaultInjection::AnswersOvertake {
                self.turn(key, entry, row.clone(), out, context)?;
                row.phase = Phase::LeftOut;
            }
            return self.write(key, entry.number, &row, timestamp, context);
        }
        self.go_in_turn(key, entry, row, out, context)
    }

    /// The first record of a key leaves, and those behind it that no longer wait for an answer either.
    pub(super) fn go_in_turn(
        &mut self,
        key: &Bytes,
        entry: ParkedEntry,
        row: Row,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let mut next = Some((entry, row));
        while let Some((entry, row)) = next.take() {
            if !self.turn(key, entry, row, out, context)? {
                return Ok(());
            }
            if self.settings.fault != FaultInjection::RecordsParkedForever {
                self.delete(key, entry.number, context)?;
            }
            self.queues.leave(key);
            let first = self.queues.first(key);
            if let Some(first) = first.filter(|first| first.state == ParkedState::Finished) {
                next = Some((first, self.row(key, first.number, context)?.0));
            }
        }
        Ok(())
    }

    /// The turn of a record; `false` if it stays, because another request is made.
    pub(super) fn turn(
        &mut self,
        key: &Bytes,
        entry: ParkedEntry,
        row: Row,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<bool> {
        let record = self.codec.decode(&Datum::Bytes(row.record))?;
        let (why, right) = match row.phase {
            Phase::Answered(bytes) => {
                let answer = parked_record::datum(&self.settings.response, &mut Reader(bytes));
                let answer = answer.ok_or_else(|| self.codec.corrupt())?;
                (
                    LeaveReason::Answered,
                    answer.map_err(|e| self.located(e, &record))?,
                )
            }
            Phase::TimedOut { after } => (
                LeaveReason::TimedOut,
                Datum::text(timed_out(after, entry).as_str()),
            ),
            Phase::Failed(message) => (LeaveReason::Failed, Datum::text(message.as_str())),
            Phase::LeftOut => return Ok(true),
            Phase::Asked { .. } | Phase::Pausing { .. } => {
                return Err(Error::internal("the turn has come before an answer"));
            }
        };
        let (instead, node_context) = match why {
            LeaveReason::Answered => (true, &self.settings.node_context),
            LeaveReason::TimedOut => (
                self.settings.instead_of_timeout.is_some(),
                &self.settings.timeouts,
            ),
            LeaveReason::Failed => (
                self.settings.instead_of_error.is_some(),
                &self.settings.node_context,
            ),
        };
        if instead {
            self.ready.push((record, why, right));
            return Ok(true);
        }
        let error = self.located(lost(why, &right), &record);
        let (outcome, pause) = node_context.decide(error, &record, entry.again, context)?;
        if outcome == Outcome::Gone {
            return Ok(true);
        }
        let entry = ParkedEntry {
            again: entry.again + 1,
            ..entry
        };
        if pause.is_zero() {
            return Ok(!self.request_again(key, entry, out, context)?);
        }
        let pause = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX);
        self.schedule_request(key, entry, pause.max(1), context)?;
        Ok(false)
    }

    /// Emits the results of all records whose turn has come.
    pub(super) fn emit_ready(
        &mut self,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let mut ready = std::mem::take(&mut self.ready);
        let mut rows = ready.drain(..).peekable();
        while let Some((record, why, right)) = rows.next() {
            let joiner = match why {
                LeaveReason::Answered => Some(&mut self.settings.joiner),
                LeaveReason::TimedOut => self.settings.instead_of_timeout.as_mut(),
                LeaveReason::Failed => self.settings.instead_of_error.as_mut(),
            };
            let Some(joiner) = joiner else { continue };
            let from = out.len();
            let mut add = |mut record: Record, right: Datum| {
                let left = std::mem::take(&mut record.value);
                joiner.add(&record.key, left, right, record.origin);
                out.push(record);
            };
            add(record, right);
            while let Some((record, _, right)) = rows.next_if(|(_, next, _)| *next == why) {
                add(record, right);
            }
            joiner.join(context)?.fill(from, out);
            context.effects.routes.resize(out.len(), RESULT);
        }
        drop(rows);
        self.ready = ready;
        Ok(())
    }
}

fn timed_out(after: i64, entry: ParkedEntry) -> String {
    let requests = entry.attempt;
    let plural = if requests == 1 { "" } else { "s" };
    format!("no answer within {after} ms, after {requests} request{plural}")
}

fn lost(why: LeaveReason, message: &Datum) -> Error {
    let Datum::Str(message) = message else {
        return Error::internal("a record was given up without a reason");
    };
    match why {
        LeaveReason::Failed => Error::user(format!("the worker failed: {}", message.as_str()))
            .hint("fix the worker, or say with on_error= what becomes of such records"),
        _ => Error::user(message.as_str().to_owned())
            .hint("see that a worker runs, and answers with the key and the header stoatflow-correlation of the request; raise timeout=, or say with on_timeout= what becomes of such records"),
    }
}
