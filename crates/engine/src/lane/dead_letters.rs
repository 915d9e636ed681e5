//! Records that error policies leave out: counted, logged, and sent as dead letters in the epoch's
//! transaction.
//!
//! Collects the decisions of policies from the effects, and asks policies about records that can't be
//! decoded or are too large to be sent. A dead letter has the bytes of the input record, from the
//! current batch or the [kept records](super::kept_records). If the record is in neither,
//! [`crate::commit`] fetches it again.

use super::streams_headers::streams_headers;
use super::{LaneWorker, OUTPUT_OVERHEAD, length};
use crate::admin::error_log::NoteOutcome;
use crate::commit::outbox::{OutboxItem, PendingDeadLetter};
use crate::intake::invalid_timestamps::InvalidTimestamp;
use crate::intake::source_partitions::{SourceBinding, SourcePartition};
use crate::intake::timestamps::retry_record;
use std::cell::Cell;
use std::sync::Arc;
use stoatflow_core::{
    Datum, Error, Header, Headers, Origin, Record, Result, StageId, Timestamp, TopicPartition,
};
use stoatflow_log::{ConsumerRecord, ProducerRecord};
use stoatflow_operators::error_policy::{DeadLetter, ErrorOrigin, Handled, Outcome, Raw};
use stoatflow_operators::{NO_ORIGIN, Output, dropped, size_on_wire};

impl LaneWorker {
    /// Asks the policy about a record that can't be decoded: it may retry it or leave it out (`None`).
    #[cold]
    pub(super) fn unreadable(
        &mut self,
        error: Error,
        reader: &SourceBinding,
        slot: &SourcePartition,
        fetched: &ConsumerRecord,
    ) -> Result<Option<Record>> {
        self.ask_reader(error, (reader, slot), fetched, &mut || {
            reader.decode(slot, fetched).map(Some)
        })
    }

    /// Likewise for a record without a valid timestamp. A retry may return a timestamp that drops the
    /// record.
    #[cold]
    pub(super) fn invalid_time(
        &mut self,
        refusal: &mut InvalidTimestamp,
        reader: &SourceBinding,
        slot: &SourcePartition,
        fetched: &ConsumerRecord,
    ) -> Result<Option<Record>> {
        let (shared, name) = (
            Arc::clone(&self.shared),
            self.plan.nodes[reader.entry.0 as usize].name.clone(),
        );
        let (error, before) = (refusal.error(), refusal.partition_time);
        let ahead = Cell::new(refusal.ahead);
        let known = self.effects.handled.len();
        let found = self.ask_reader(error, (reader, slot), fetched, &mut || {
            let found =
                retry_record(slot, reader, fetched, before, &shared).map_err(|no_time| {
                    ahead.set(no_time.ahead);
                    no_time.error
                })?;
            if found.is_none() {
                let now = shared.clock.monotonic();
                let status = &shared.status;
                status.drop_records(&name, dropped::NEGATIVE_TIMESTAMP, 1, now);
            }
            Ok(found)
        })?;
        for handled in self.effects.handled[known..].iter_mut() {
            if ahead.get() {
                handled.reason = match handled.letter {
                    Some(_) => dropped::TIMESTAMP_AHEAD_DEAD_LETTER,
                    None => dropped::TIMESTAMP_AHEAD,
                };
            }
        }
        Ok(found)
    }

    fn ask_reader(
        &mut self,
        mut error: Error,
        (reader, slot): (&SourceBinding, &SourcePartition),
        fetched: &ConsumerRecord,
        again: &mut dyn FnMut() -> Result<Option<Record>>,
    ) -> Result<Option<Record>> {
        let Some(error_policy) = &reader.error_policy else {
            return Err(error);
        };
        let bytes = |part: &Option<bytes::Bytes>| part.clone().map_or(Datum::Null, Datum::Bytes);
        let shown = Record {
            key: bytes(&fetched.key),
            value: bytes(&fetched.value),
            timestamp: fetched.timestamp,
            headers: fetched.headers.clone(),
            origin: reader.origin(slot, fetched),
        };
        let raw = Raw {
            key: fetched.key.as_ref(),
            value: fetched.value.as_ref(),
        };
        let place = self.place(StageId(0));
        for attempt in 1.. {
            let handled = &mut self.effects.handled;
            match error_policy.handle(error, &shown, Some(raw), attempt, place, handled)? {
                Outcome::Gone => break,
                Outcome::Again => match again() {
                    Ok(found) => return Ok(found),
                    Err(more) => error = more,
                },
            }
        }
        Ok(None)
    }

    pub(super) fn place(&self, stage: StageId) -> ErrorOrigin {
        ErrorOrigin {
            lane: self.id,
            epoch: self.stages[usize::from(stage.0)].epoch,
        }
    }

    /// Asks policies about outputs that the producer would reject, while the transaction is still
    /// intact.
    pub(super) fn check_output_sizes(&mut self, stage: StageId) -> Result<()> {
        let Some(largest) = self.limits.largest else {
            return Ok(());
        };
        let place = self.place(stage);
        if self.effects.outputs.iter().all(|o| size(o) <= largest) {
            return Ok(());
        }
        let error_policies = Arc::clone(&self.limits.error_policies);
        for output in std::mem::take(&mut self.effects.outputs) {
            let error_policy = error_policies[usize::from(output.sink.0)].as_ref();
            match error_policy.filter(|_| size(&output) > largest) {
                None => self.effects.outputs.push(output),
                Some(error_policy) => {
                    let shown = as_record(&output);
                    for attempt in 1.. {
                        let error = self.too_large(&output, largest);
                        let handled = &mut self.effects.handled;
                        let outcome =
                            error_policy.handle(error, &shown, None, attempt, place, handled)?;
                        if outcome == Outcome::Gone {
                            break;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn too_large(&self, output: &Output, largest: usize) -> Error {
        let chosen = output.chosen.as_ref().and_then(|c| c.topic.as_ref());
        let topic = chosen.unwrap_or(&self.sinks[usize::from(output.sink.0)]);
        let origin = &output.origin;
        Error::serde(format!(
            "a record of {} bytes for the topic '{topic}' is larger than the producer may send ({largest})",
            size(output)
        ))
        .hint("raise producer.message.max.bytes and the topic's max.message.bytes, or write smaller records")
        .at(|at| {
            at.topic = self.slot_of(origin).map(|slot| slot.partition.topic.to_string());
            at.partition = Some(origin.partition);
            at.offset = Some(origin.offset);
        })
    }

    /// Counts and logs the records that policies left out, and sends their dead letters. `available`: the
    /// input batch of the stage.
    pub(super) fn send_handled(
        &mut self,
        stage: StageId,
        available: &[ConsumerRecord],
    ) -> Result<()> {
        self.check_output_sizes(stage)?;
        if self.effects.handled.is_empty() {
            return Ok(());
        }
        let (mut letters, mut weight) = (Vec::new(), 0);
        for handled in std::mem::take(&mut self.effects.handled) {
            let Handled {
                node,
                reason,
                error,
                letter,
            } = handled;
            let name = &self.plan.nodes[node.0 as usize].name;
            self.shared.status.dropped(name, reason, 1);
            let now = self.shared.clock.now();
            let noted = (self.shared.status.errors).note(&error, Some(name), reason, now);
            let topic = letter.as_ref().map(|letter| &*letter.topic);
            // Intake has already logged records ahead of the clock, many at a time.
            if !matches!(
                reason,
                dropped::TIMESTAMP_AHEAD | dropped::TIMESTAMP_AHEAD_DEAD_LETTER
            ) {
                self.log_left_out((name, reason, topic), &error, &noted);
            }
            let Some(letter) = letter else { continue };
            let origin = letter.origin;
            let bare = self.without_payload(letter);
            let found = available.iter().find(|f| self.is(&origin, f)).cloned();
            let found = found.or_else(|| self.shared.kept_records.find(|f| self.is(&origin, f)));
            let missing = match &found {
                Some(_) => None,
                None => (self.slot_of(&origin))
                    .map(|slot| (TopicPartition::clone(&slot.partition), origin.offset)),
            };
            let record = match &found {
                Some(found) => with_body(bare, found),
                None => bare,
            };
            weight += record_bytes(&record);
            letters.push(PendingDeadLetter { missing, record });
        }
        self.send_dead_letters(stage, letters, weight);
        Ok(())
    }

    /// Logs a record that an error policy has left out: the first of its cause with its traceback,
    /// then at a bounded rate.
    fn log_left_out(
        &self,
        (node, reason, dead_letter): (&str, &'static str, Option<&str>),
        error: &Error,
        noted: &NoteOutcome,
    ) {
        let (status, now) = (&self.shared.status, self.shared.clock.monotonic());
        let error = error.brief();
        tracing::debug!(node, reason, dead_letter, %error, "left out");
        let traceback = noted.traceback.as_deref();
        match (status.drop_log).count(&noted.cause, (node, reason), 1, now) {
            None => {}
            Some(1) => {
                tracing::warn!(node, reason, dead_letter, %error, traceback, "a record was left out");
            }
            Some(records) => {
                tracing::warn!(node, reason, dead_letter, records, %error, "records were left out; this is the last one");
            }
        }
    }

    /// Sends dead letters, if there are any. They are sent together: a letter that has its body must not
    /// overtake one whose body is still to be fetched.
    pub(super) fn send_dead_letters(
        &self,
        stage: StageId,
        letters: Vec<PendingDeadLetter>,
        bytes: i64,
    ) {
        if letters.is_empty() {
            return;
        }
        let epoch = self.stages[usize::from(stage.0)].epoch;
        self.shared.admit(bytes);
        self.shared.outbox.push(OutboxItem::DeadLetters {
            epoch,
            letters,
            bytes,
        });
    }

    /// A dead letter without key and value.
    pub(super) fn without_payload(&self, letter: DeadLetter) -> ProducerRecord {
        let application = Header {
            name: "__stoatflow.errors.application".into(),
            value: Some(self.shared.status.application_id.clone().into()),
        };
        // Our headers come first and last, so that a reader finds both kinds.
        let streams = match self.streams_letter_headers {
            true => streams_headers(&letter.headers),
            false => Vec::new(),
        };
        let headers = std::iter::once(application)
            .chain(streams)
            .chain(letter.headers);
        ProducerRecord {
            topic: letter.topic,
            partition: None,
            key: None,
            value: None,
            timestamp: letter.timestamp,
            headers: Some(headers.collect()),
        }
    }

    /// The partition of an origin; `None` for [`NO_ORIGIN`].
    fn slot_of(&self, origin: &Origin) -> Option<&SourcePartition> {
        if *origin == NO_ORIGIN {
            return None;
        }
        self.slots.iter().find(|slot| slot.has(origin))
    }

    fn is(&self, origin: &Origin, fetched: &ConsumerRecord) -> bool {
        fetched.offset == origin.offset && self.slots[fetched.slot as usize].has(origin)
    }
}

/// Adds the body of the input record; the headers of that record come first.
pub(crate) fn with_body(mut letter: ProducerRecord, read: &ConsumerRecord) -> ProducerRecord {
    letter.key.clone_from(&read.key);
    letter.value.clone_from(&read.value);
    // Topics reject negative timestamps.
    letter.timestamp = read.timestamp.max(Timestamp(0));
    letter.headers = joined(&read.headers, letter.headers.as_deref().unwrap_or_default());
    letter
}

fn joined(own: &Headers, more: &[Header]) -> Headers {
    let own = own.as_deref().unwrap_or_default();
    Some(own.iter().chain(more).cloned().collect())
}

pub(super) fn record_bytes(record: &ProducerRecord) -> i64 {
    let headers = record.headers.iter().flat_map(|headers| headers.iter());
    let headers: i64 = headers.map(|h| length(h.value.as_ref()) + 64).sum();
    OUTPUT_OVERHEAD + length(record.key.as_ref()) + length(record.value.as_ref()) + headers
}

fn size(output: &Output) -> usize {
    size_on_wire(
        output.key.as_deref(),
        output.value.as_deref(),
        &output.headers,
    )
}

/// An output as the record that a policy is called with.
fn as_record(output: &Output) -> Record {
    let bytes = |part: &Option<bytes::Bytes>| part.clone().map_or(Datum::Null, Datum::Bytes);
    Record {
        key: bytes(&output.key),
        value: bytes(&output.value),
        timestamp: output.timestamp,
        headers: output.headers.clone(),
        origin: output.origin,
    }
}
