//! What becomes of records and answers in one lane.
//!
//! Takes records, answers and the time; gives requests (to the second child) and results (to the first one). Owns what
//! the rows of the lane's keys say, in memory; every change is written to the row at once. A joiner, or what stands
//! in for an answer, is called for many rows at a time. Never reorders the results of a key.

use super::headers::{ERROR, attempt, correlation, header, marked, number};
use super::lane::{Lane, Place, Standing};
use super::lots::Lot;
use super::row::{Phase, Row, row_key, split_row_key};
use crate::function::Function;
use crate::joiner::Joiner;
use crate::judge::Outcome;
use crate::parked::{self, Codec};
use crate::site::Site;
use crate::suppress::codec::Reader;
use crate::{Context, LaneStore, dropped};
use bytes::{Bytes, BytesMut};
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Record, Result, Serde, StoreId, Timestamp};
use stoatflow_plan::Patience;
use stoatflow_state::{KeyRange, Stored};

/// The routes to the children.
const RESULT: u32 = 0;
const REQUEST: u32 = 1;

/// What it is made from.
#[derive(Debug)]
pub(crate) struct Settings {
    pub site: Site,
    /// Where timeouts are judged.
    pub timeouts: Site,
    pub name: Arc<str>,
    pub store: StoreId,
    pub key: Serde,
    pub value: Serde,
    pub response: Serde,
    pub request: Option<Function>,
    pub joiner: Joiner,
    pub instead_of_timeout: Option<Joiner>,
    pub instead_of_error: Option<Joiner>,
    pub patience: Patience,
    pub max_parked: u64,
}

/// Why a record has a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Answered,
    TimedOut,
    Failed,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Desk {
    settings: Settings,
    codec: Codec,
    lane: Lane,
    lot: Option<Arc<Lot>>,
    /// Records whose turn has come, with the right side of their joiner.
    ready: Vec<(Record, Why, Datum)>,
    scratch: Vec<Datum>,
}

impl Desk {
    pub fn new(settings: Settings) -> Self {
        Self {
            codec: Codec {
                key: settings.key.clone(),
                value: settings.value.clone(),
                site: settings.site.clone(),
                who: "an offload",
            },
            settings,
            lane: Lane::default(),
            lot: None,
            ready: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Loads what is parked.
    pub fn open(&mut self, context: &mut Context<'_>) -> Result<()> {
        let (epoch, share) = (context.epoch, context.share);
        let store = &context.store(self.settings.store).store;
        let found = store
            .scan(epoch, &KeyRange::default(), usize::MAX)
            .map_err(|e| self.settings.site.name_node(e))?;
        for (row, stored) in found {
            let (key, number) = split_row_key(&row).ok_or_else(|| self.codec.corrupt())?;
            if !share.owns(self.settings.key.affinity(&key)) {
                continue;
            }
            let Datum::Bytes(bytes) = stored.value else {
                return Err(self.codec.corrupt());
            };
            let row = Row::decode(bytes).ok_or_else(|| self.codec.corrupt())?;
            self.lane.join(&key, place(number, &row));
        }
        let (node, most) = (self.settings.site.node, self.settings.max_parked);
        self.lot = Some(context.clocks.run.lots.of(node, share.lanes, most));
        self.tell(context);
        Ok(())
    }

    /// Parks records and asks for their answers.
    pub fn park(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let mut parked = Vec::with_capacity(input.len());
        for record in input.drain(..) {
            let (codec, key) = (&self.codec, &self.settings.key);
            let written = self.settings.site.attempt(&record, context, |_| {
                let key = key.encode(&record.key)?.ok_or_else(no_key)?;
                Ok((key, codec.encode(&record)?))
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
        let (now, lane) = (context.clocks.wall.0, context.share.lane);
        for ((_, (key, record)), request) in parked.into_iter().zip(requests) {
            let number = self.lane.number(now, lane);
            let row = Row {
                phase: self.asked(now),
                since: now,
                attempt: 1,
                record,
            };
            self.write(&key, number, Some(&row), request.timestamp, context)?;
            self.lane.join(&key, place(number, &row));
            self.send(request, number, 1, out, context);
        }
        self.tell(context);
        Ok(())
    }

    /// Takes answers.
    pub fn answer(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        for answer in input.drain(..) {
            let unwanted = self.take(answer, out, context)?;
            let node = self.settings.site.node;
            context
                .effects
                .dropped
                .extend(unwanted.map(|reason| (node, reason)));
        }
        self.give(out, context)?;
        self.tell(context);
        Ok(())
    }

    /// Gives up and asks again what is due.
    pub fn look_at_clock(
        &mut self,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let now = context.clocks.wall.0;
        // The answer of what seems to be due may be there already, and only not read yet.
        if context.clocks.run.lots.answers_wait() {
            return Ok(());
        }
        let mut any = false;
        while let Some(row) = self.lane.due(now) {
            any = true;
            let (key, number) = split_row_key(&row).ok_or_else(|| self.codec.corrupt())?;
            let known = self.lane.find(&key, number);
            let place = known.ok_or_else(|| Error::internal("what is due is not parked"))?;
            if place.standing == Standing::Pausing {
                self.ask_again_or_leave(&key, place, out, context)?;
            } else {
                self.missed(&key, place, Phase::TimedOut, out, context)?;
            }
        }
        if any {
            self.give(out, context)?;
            self.tell(context);
        }
        Ok(())
    }

    /// Takes one answer; gives the reason if nobody wants it.
    fn take(
        &mut self,
        answer: Record,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<Option<&'static str>> {
        let number = number(&answer.headers, &self.settings.name);
        let key = self.settings.key.encode(&answer.key);
        let key = key.map_err(|e| self.settings.site.locate(e, &answer.origin))?;
        let (Some(number), Some(key)) = (number, key) else {
            return Ok(Some(dropped::NO_CORRELATION));
        };
        let Some(place) = self.lane.find(&key, number) else {
            return Ok(Some(dropped::NOT_PARKED));
        };
        if place.standing == Standing::Over {
            return Ok(Some(dropped::DUPLICATE_ANSWER));
        }
        let Some(said) = header(&answer.headers, ERROR) else {
            let (site, response) = (&self.settings.site, &self.settings.response);
            let codec = &self.codec;
            let written = site.attempt(&answer, context, |_| {
                let mut bytes = BytesMut::new();
                codec.write(&answer.value, response, &mut bytes)?;
                Ok(bytes.freeze())
            })?;
            // One that can't be kept, if a handler leaves it out: its record waits for another one.
            if let Some(written) = written {
                self.end(&key, place, Phase::Answered(written), out, context)?;
            }
            return Ok(None);
        };
        // Another request was sent, or is about to be: that one's answer counts.
        let of = attempt(&answer.headers);
        if place.standing == Standing::Pausing || of.is_some_and(|of| of < place.attempt) {
            return Ok(Some(dropped::OUTDATED_ERROR));
        }
        let message = said.value.as_deref().unwrap_or_default();
        let message = String::from_utf8_lossy(message).into_owned();
        self.missed(&key, place, Phase::Failed(message), out, context)?;
        Ok(None)
    }

    /// A request brought no answer, or an error: asks again if that is wanted.
    fn missed(
        &mut self,
        key: &Bytes,
        place: Place,
        phase: Phase,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let patience = self.settings.patience;
        let wanted = match phase {
            Phase::TimedOut => patience.retry_timeouts,
            _ => patience.retry_errors,
        };
        if !wanted || place.attempt >= patience.attempts {
            return self.end(key, place, phase, out, context);
        }
        let pause = pause(&patience, place);
        if pause == 0 {
            return self.ask_again_or_leave(key, place, out, context);
        }
        self.ask_later(key, place, pause, context)
    }

    /// Sends another request. If there can be none, its record leaves in its turn.
    fn ask_again_or_leave(
        &mut self,
        key: &Bytes,
        place: Place,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        if self.ask_again(key, place, out, context)? {
            return Ok(());
        }
        self.end(key, place, Phase::LeftOut, out, context)
    }

    /// Another request goes out after a pause.
    fn ask_later(
        &mut self,
        key: &Bytes,
        mut place: Place,
        pause: i64,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let due = context.clocks.wall.0.saturating_add(pause);
        let (mut row, timestamp) = self.row(key, place.number, context)?;
        row.phase = Phase::Pausing { due };
        self.write(key, place.number, Some(&row), timestamp, context)?;
        place.standing = Standing::Pausing;
        place.due = Some(due);
        self.lane.change(key, place);
        Ok(())
    }

    /// Sends another request; `false` if a handler has left its record out, because none could be made.
    fn ask_again(
        &mut self,
        key: &Bytes,
        place: Place,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<bool> {
        let (mut row, timestamp) = self.row(key, place.number, context)?;
        let record = self.codec.decode(&Datum::Bytes(row.record.clone()))?;
        let mut requests = vec![record];
        if let Some(request) = &self.settings.request {
            let set = |record: &mut Record, value| record.value = value;
            request.one(&mut requests, &mut self.scratch, context, set)?;
        }
        let Some(request) = requests.pop() else {
            return Ok(false);
        };
        row.attempt = place.attempt + 1;
        row.phase = self.asked(context.clocks.wall.0);
        self.write(key, place.number, Some(&row), timestamp, context)?;
        self.lane.change(key, self::place(place.number, &row));
        self.send(request, place.number, row.attempt, out, context);
        Ok(true)
    }

    /// Nothing is awaited any more for a record. If it is the first of its line, its turn has come.
    fn end(
        &mut self,
        key: &Bytes,
        mut place: Place,
        phase: Phase,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        place.standing = Standing::Over;
        place.due = None;
        self.lane.change(key, place);
        let (mut row, timestamp) = self.row(key, place.number, context)?;
        row.phase = phase;
        let first = self.lane.first(key).map(|first| first.number);
        if first != Some(place.number) {
            return self.write(key, place.number, Some(&row), timestamp, context);
        }
        let mut next = Some((place, row));
        while let Some((place, row)) = next.take() {
            if !self.turn(key, place, row, out, context)? {
                return Ok(());
            }
            self.write(key, place.number, None, timestamp, context)?;
            self.lane.leave(key);
            let first = self.lane.first(key);
            if let Some(first) = first.filter(|first| first.standing == Standing::Over) {
                next = Some((first, self.row(key, first.number, context)?.0));
            }
        }
        Ok(())
    }

    /// The first of a line has its turn; `false` if it stays, because it is asked once more.
    fn turn(
        &mut self,
        key: &Bytes,
        place: Place,
        row: Row,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<bool> {
        let record = self.codec.decode(&Datum::Bytes(row.record))?;
        let (why, right) = match row.phase {
            Phase::Answered(bytes) => {
                let answer = parked::datum(&self.settings.response, &mut Reader(bytes));
                let answer = answer.ok_or_else(|| self.codec.corrupt())?;
                (Why::Answered, answer.map_err(|e| self.located(e, &record))?)
            }
            Phase::TimedOut => (Why::TimedOut, Datum::text(self.timed_out(place).as_str())),
            Phase::Failed(message) => (Why::Failed, Datum::text(message.as_str())),
            Phase::LeftOut => return Ok(true),
            Phase::Asked { .. } | Phase::Pausing { .. } => {
                return Err(Error::internal("the turn has come before an answer"));
            }
        };
        let (instead, site) = match why {
            Why::Answered => (true, &self.settings.site),
            Why::TimedOut => (
                self.settings.instead_of_timeout.is_some(),
                &self.settings.timeouts,
            ),
            Why::Failed => (
                self.settings.instead_of_error.is_some(),
                &self.settings.site,
            ),
        };
        if instead {
            self.ready.push((record, why, right));
            return Ok(true);
        }
        let error = self.located(lost(why, &right), &record);
        let more = place
            .attempt
            .saturating_sub(self.settings.patience.attempts);
        match site.decide(error, &record, more, context)? {
            (Outcome::Gone, _) => Ok(true),
            (Outcome::Again, pause) if pause.is_zero() => {
                Ok(!self.ask_again(key, place, out, context)?)
            }
            (Outcome::Again, pause) => {
                let pause = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX);
                self.ask_later(key, place, pause.max(1), context)?;
                Ok(false)
            }
        }
    }

    /// Gives the results of all records whose turn has come.
    fn give(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let mut ready = std::mem::take(&mut self.ready);
        let mut rows = ready.drain(..).peekable();
        while let Some((record, why, right)) = rows.next() {
            let joiner = match why {
                Why::Answered => Some(&mut self.settings.joiner),
                Why::TimedOut => self.settings.instead_of_timeout.as_mut(),
                Why::Failed => self.settings.instead_of_error.as_mut(),
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

    /// A request goes out.
    fn send(
        &self,
        mut request: Record,
        number: u64,
        attempt: u32,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) {
        let correlation = correlation(&self.settings.name, number);
        request.headers = marked(&request.headers, correlation, attempt);
        out.push(request);
        context.effects.routes.push(REQUEST);
    }

    fn asked(&self, now: i64) -> Phase {
        let timeout = self.settings.patience.timeout_ms;
        Phase::Asked {
            due: timeout.map(|ms| now.saturating_add(ms)),
        }
    }

    fn row(&self, key: &Bytes, number: u64, context: &mut Context<'_>) -> Result<(Row, Timestamp)> {
        let epoch = context.epoch;
        let store = &context.store(self.settings.store).store;
        let found = store.get(epoch, &row_key(key, number));
        let found = found.map_err(|e| self.settings.site.name_node(e))?;
        let read = || match found? {
            Stored {
                value: Datum::Bytes(bytes),
                timestamp,
            } => Some((Row::decode(bytes)?, timestamp)),
            _ => None,
        };
        read().ok_or_else(|| self.codec.corrupt())
    }

    fn write(
        &self,
        key: &Bytes,
        number: u64,
        row: Option<&Row>,
        timestamp: Timestamp,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let stored = row.map(|row| Stored {
            value: Datum::Bytes(row.encode()),
            timestamp,
        });
        let epoch = context.epoch;
        let LaneStore { store, dirty } = context.store(self.settings.store);
        store
            .put(epoch, dirty, &row_key(key, number), stored)
            .map_err(|e| self.settings.site.name_node(e))
    }

    /// Tells the other rooms how this lane stands.
    fn tell(&self, context: &Context<'_>) {
        if let Some(lot) = &self.lot {
            let lane = &self.lane;
            lot.tell(
                context.share.lane,
                lane.len(),
                lane.next_due(),
                lane.oldest(),
            );
        }
    }

    fn located(&self, error: Error, record: &Record) -> Error {
        self.settings.site.locate(error, &record.origin)
    }

    fn timed_out(&self, place: Place) -> String {
        let timeout = self.settings.patience.timeout_ms.unwrap_or_default();
        let requests = place.attempt;
        let plural = if requests == 1 { "" } else { "s" };
        format!("no answer within {timeout} ms, after {requests} request{plural}")
    }
}

/// Where a row says that its record stands.
fn place(number: u64, row: &Row) -> Place {
    Place {
        number,
        since: row.since,
        attempt: row.attempt,
        standing: match row.phase {
            Phase::Asked { .. } => Standing::Asked,
            Phase::Pausing { .. } => Standing::Pausing,
            _ => Standing::Over,
        },
        due: row.phase.due(),
    }
}

fn no_key() -> Error {
    Error::user("a record without a key can't be offloaded: its answer would not find it")
        .hint("give it a key with select_key(...) first, or say with on_error= what becomes of such records")
}

fn lost(why: Why, message: &Datum) -> Error {
    let Datum::Str(message) = message else {
        return Error::internal("a record was given up without a reason");
    };
    match why {
        Why::Failed => Error::user(format!("the worker failed: {}", message.as_str()))
            .hint("fix the worker, or say with on_error= what becomes of such records"),
        _ => Error::user(message.as_str().to_owned())
            .hint("see that a worker runs, and answers with the key and the header stoatflow-correlation of the request; raise timeout=, or say with on_timeout= what becomes of such records"),
    }
}

/// The pause before the next request. It varies by the record, and is the same in each run.
fn pause(patience: &Patience, place: Place) -> i64 {
    let doubled = place.attempt.saturating_sub(1).min(60);
    let pause = patience.first_ms.saturating_mul(1 << doubled);
    let pause = pause.min(patience.most_ms);
    let mut mixed = place.number ^ (u64::from(place.attempt) << 32);
    // SplitMix64: its high bits are as good as chance.
    mixed = mixed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    let chance = f64::from((mixed >> 32) as u32) / f64::from(u32::MAX) * 2.0 - 1.0;
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // pauses are short
    let varied = (pause as f64 * (1.0 + patience.jitter * chance)) as i64;
    varied.max(0)
}
