//! Parks the records of one lane, matches answers to them, and emits results.
//!
//! Takes records, answers and the time; sends requests (to the second child) and results (to the first
//! one). Keeps the state of the lane's rows in memory; every change is written to the row at once.
//! Joiners, and functions that replace a missing answer, are called for many rows at a time. Never
//! reorders the results of a key.

mod completion;
mod requests;

use super::headers::{ERROR, attempt, header, number};
use super::parked_queues::{ParkedEntry, ParkedQueues, ParkedState};
use super::parking_lots::ParkingLot;
use super::row::{Phase, Row, row_key, split_row_key};
use crate::ops::joins::joiner::Joiner;
use crate::support::dropped;
use crate::support::error_policy::is_of_a_record;
use crate::support::function::Function;
use crate::support::node_context::NodeContext;
use crate::support::parked_record::Codec;
use crate::support::schema_ids::SchemaIds;
use crate::{Context, FaultInjection, KeyAssignment, LaneStore};
use bytes::{BufMut, Bytes, BytesMut};
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Record, Result, Serde, StoreId, Timestamp};
use stoatflow_plan::RetryPolicy;
use stoatflow_state::{KeyRange, Stored};

/// Routes to the children.
const RESULT: u32 = 0;
const REQUEST: u32 = 1;
/// Rows read at a time in `open`: each lane reads the rows of all lanes, and a full parking lot is
/// large.
const PAGE: usize = 256;

/// Settings of the operator.
#[derive(Debug)]
pub(crate) struct Settings {
    pub node_context: NodeContext,
    /// The node with the error handler for timeouts.
    pub timeouts: NodeContext,
    pub name: Arc<str>,
    pub store: StoreId,
    pub key: Serde,
    pub value: Serde,
    pub response: Serde,
    /// Serde of requests.
    pub asks: Serde,
    /// Schema ids that their headers may contain.
    pub ids: SchemaIds,
    /// The largest record that the producer sends.
    pub largest: Option<usize>,
    pub request: Option<Function>,
    pub joiner: Joiner,
    pub instead_of_timeout: Option<Joiner>,
    pub instead_of_error: Option<Joiner>,
    pub patience: RetryPolicy,
    pub max_parked: u64,
    pub fault: FaultInjection,
}

/// Why a record leaves the parking lot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaveReason {
    Answered,
    TimedOut,
    Failed,
}

/// A serialized record, ready to be parked.
struct Written {
    key: Bytes,
    record: Bytes,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct OffloadProcessor {
    settings: Settings,
    codec: Codec,
    queues: ParkedQueues,
    lot: Option<Arc<ParkingLot>>,
    /// Records whose turn has come, with the right side of their joiner.
    ready: Vec<(Record, LeaveReason, Datum)>,
    scratch: Vec<Datum>,
}

impl OffloadProcessor {
    pub fn new(settings: Settings) -> Self {
        Self {
            codec: Codec {
                key: settings.key.clone(),
                value: settings.value.clone(),
                node_context: settings.node_context.clone(),
                who: "an offload",
            },
            settings,
            queues: ParkedQueues::default(),
            lot: None,
            ready: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Loads what is parked.
    pub fn open(&mut self, context: &mut Context<'_>) -> Result<()> {
        let (epoch, assignment) = (context.epoch, context.assignment);
        let store = &context.store(self.settings.store).store;
        let mut range = KeyRange::default();
        loop {
            let found = store.scan(epoch, &range, PAGE);
            let found = found.map_err(|e| self.settings.node_context.name_node(e))?;
            let Some((last, _)) = found.last() else {
                break;
            };
            range.from = Some(behind(last));
            self.join_own(found, assignment)?;
        }
        // Under at-least-once a crash may preserve that a record has left, but not that the next one of
        // its key has.
        self.queues.make_finished_due();
        let (node, most) = (self.settings.node_context.node, self.settings.max_parked);
        self.lot = Some(context.run.parking_lots.of(node, assignment.lanes, most));
        self.report(context);
        Ok(())
    }

    /// Adds those rows that belong to this lane.
    fn join_own(&mut self, rows: Vec<(Bytes, Stored)>, assignment: KeyAssignment) -> Result<()> {
        for (row, stored) in rows {
            let (key, number) = split_row_key(&row).ok_or_else(|| self.codec.corrupt())?;
            if !assignment.owns(self.settings.key.affinity(&key)) {
                continue;
            }
            let Datum::Bytes(bytes) = stored.value else {
                return Err(self.codec.corrupt());
            };
            let row = Row::decode(bytes).map_err(|e| e.error(&self.codec))?;
            self.queues.join(&key, self.entry(number, &row));
        }
        Ok(())
    }

    /// Parks records and sends their requests.
    pub fn park(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let mut parked: Vec<(Record, Written)> = Vec::with_capacity(input.len());
        for record in input.drain(..) {
            let (codec, key) = (&self.codec, &self.settings.key);
            let written = self.settings.node_context.attempt(&record, context, |_| {
                let key = key.encode(&record.key)?.ok_or_else(no_key)?;
                let record = codec.encode(&record)?;
                Ok(Written { key, record })
            })?;
            parked.extend(written.map(|written| (record, written)));
        }
        let mut requests: Vec<Record> = parked.iter().map(|(record, _)| record.clone()).collect();
        if let Some(request) = &self.settings.request {
            request.one_telling(
                &mut requests,
                &mut self.scratch,
                context,
                |record, value| record.value = value,
                |at| {
                    parked.remove(at);
                },
            )?;
        }
        let parked = parked.into_iter().zip(requests).collect();
        self.park_and_request(parked, out, context)?;
        self.report(context);
        Ok(())
    }

    /// Processes answers.
    pub fn answer(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        for answer in input.drain(..) {
            let unwanted = self.take(answer, out, context)?;
            let node = self.settings.node_context.node;
            context
                .effects
                .dropped
                .extend(unwanted.map(|reason| (node, reason)));
        }
        self.emit_ready(out, context)?;
        self.report(context);
        Ok(())
    }

    /// Handles timeouts and sends delayed requests that are due.
    pub fn handle_due(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let now = context.clocks.wall.0;
        // The answer to something that seems due may already be in the topic, not read yet.
        let unread = context.run.parking_lots.answers_wait();
        if unread && self.settings.fault != FaultInjection::AnswersUnread {
            return Ok(());
        }
        let mut any = false;
        while let Some(row) = self.queues.due(now) {
            any = true;
            let (key, number) = split_row_key(&row).ok_or_else(|| self.codec.corrupt())?;
            let known = self.queues.find(&key, number);
            let entry = known.ok_or_else(|| Error::internal("what is due is not parked"))?;
            match entry.state {
                ParkedState::Pausing => self.request_again_or_leave(&key, entry, out, context)?,
                ParkedState::Asked => {
                    let after = self.settings.patience.timeout_ms.unwrap_or_default();
                    self.missed(&key, entry, Phase::TimedOut { after }, out, context)?;
                }
                ParkedState::Finished => {
                    let (row, _) = self.row(&key, number, context)?;
                    self.go_in_turn(&key, entry, row, out, context)?;
                }
            }
        }
        if any {
            self.emit_ready(out, context)?;
            self.report(context);
        }
        Ok(())
    }

    /// Processes one answer; returns the reason if no record waits for it.
    fn take(
        &mut self,
        answer: Record,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<Option<&'static str>> {
        let number = number(&answer.headers, &self.settings.name);
        let key = self.settings.key.encode(&answer.key);
        let key = key.map_err(|e| self.settings.node_context.locate(e, &answer.origin))?;
        let (Some(number), Some(key)) = (number, key) else {
            return Ok(Some(dropped::NO_CORRELATION));
        };
        let Some(entry) = self.queues.find(&key, number) else {
            return Ok(Some(dropped::NOT_PARKED));
        };
        if entry.state == ParkedState::Finished {
            if self.settings.fault == FaultInjection::AnswersTwice {
                let (row, _) = self.row(&key, number, context)?;
                self.turn(&key, entry, row, out, context)?;
            }
            return Ok(Some(dropped::DUPLICATE_ANSWER));
        }
        let failed = match header(&answer.headers, ERROR) {
            Some(said) => {
                let message = said.value.as_deref().unwrap_or_default();
                String::from_utf8_lossy(message).into_owned()
            }
            None => match self.kept(&answer) {
                Ok(written) => {
                    self.end(&key, entry, Phase::Answered(written), out, context)?;
                    return Ok(None);
                }
                Err(e) if is_of_a_record(&e) => {
                    format!("its answer can't be read: {}", e.message())
                }
                Err(e) => return Err(self.located(e, &answer)),
            },
        };
        // Another request was sent, or is about to be: only its answer counts.
        let of = attempt(&answer.headers);
        if entry.state == ParkedState::Pausing || of.is_some_and(|of| of < entry.attempt) {
            return Ok(Some(dropped::OUTDATED_ERROR));
        }
        self.missed(&key, entry, Phase::Failed(failed), out, context)?;
        Ok(None)
    }

    /// An answer in the form in which it is stored until its record's turn. Answers arrive as bytes: a
    /// deserialization error belongs to the record, and doesn't matter if no record waits for the
    /// answer.
    fn kept(&self, answer: &Record) -> Result<Bytes> {
        let raw = match &answer.value {
            Datum::Bytes(bytes) => Some(bytes.clone()),
            Datum::Null => None,
            _ => return Err(Error::internal("an answer was read before its time")),
        };
        let response = &self.settings.response;
        let mut written = BytesMut::new();
        self.codec
            .write(&response.decode(raw)?, response, &mut written)?;
        Ok(written.freeze())
    }

    fn row(&self, key: &Bytes, number: u64, context: &mut Context<'_>) -> Result<(Row, Timestamp)> {
        let epoch = context.epoch;
        let store = &context.store(self.settings.store).store;
        let found = store.get(epoch, &row_key(key, number));
        let found = found.map_err(|e| self.settings.node_context.name_node(e))?;
        let Some(Stored {
            value: Datum::Bytes(bytes),
            timestamp,
        }) = found
        else {
            return Err(self.codec.corrupt());
        };
        let row = Row::decode(bytes).map_err(|e| e.error(&self.codec))?;
        Ok((row, timestamp))
    }

    fn write(
        &self,
        key: &Bytes,
        number: u64,
        row: &Row,
        timestamp: Timestamp,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let value = Datum::Bytes(row.encode());
        self.put(key, number, Some(Stored { value, timestamp }), context)
    }

    fn delete(&self, key: &Bytes, number: u64, context: &mut Context<'_>) -> Result<()> {
        self.put(key, number, None, context)
    }

    fn put(
        &self,
        key: &Bytes,
        number: u64,
        stored: Option<Stored>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let epoch = context.epoch;
        let LaneStore { store, dirty } = context.store(self.settings.store);
        store
            .put(epoch, dirty, &row_key(key, number), stored)
            .map_err(|e| self.settings.node_context.name_node(e))
    }

    /// Reports this lane's figures to the parking lot.
    fn report(&self, context: &Context<'_>) {
        if let Some(lot) = &self.lot {
            let queues = &self.queues;
            lot.report(
                context.assignment.lane,
                queues.len(),
                queues.next_due(),
                queues.oldest(),
            );
        }
    }

    /// The state of a record, from its row.
    fn entry(&self, number: u64, row: &Row) -> ParkedEntry {
        ParkedEntry {
            number,
            since: row.since,
            attempt: row.attempt,
            again: row.again,
            state: match row.phase {
                Phase::Asked { .. } => ParkedState::Asked,
                Phase::Pausing { .. } => ParkedState::Pausing,
                _ => ParkedState::Finished,
            },
            due: row.phase.due(&self.settings.patience),
        }
    }

    fn located(&self, error: Error, record: &Record) -> Error {
        self.settings.node_context.locate(error, &record.origin)
    }
}

/// The smallest key after this one.
fn behind(key: &[u8]) -> Bytes {
    let mut next = BytesMut::with_capacity(key.len() + 1);
    next.put_slice(key);
    next.put_u8(0);
    next.freeze()
}

fn no_key() -> Error {
    Error::user("a record without a key can't be offloaded: its answer would not find it")
        .hint("give it a key with select_key(...) first, or say with on_error= what becomes of such records")
}
