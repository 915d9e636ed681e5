//! Reading from Kafka with librdkafka.
//!
//! Takes an assignment, returns committed records. Takes whole batches from librdkafka's queue (half the
//! cost of single polls) and copies keys and values into shared blocks, so that a record needs no
//! allocation of its own. Owns the position of each slot, which end-of-partition events move past
//! control records and aborted ones. Never subscribes and never commits.
//!
//! The queue of a paused slot is not read: fetched records wait in it, and when it is full librdkafka
//! fetches no more of the partition. (librdkafka's own pause discards fetched records, and resumes at
//! the position of its batch call, which counts an end-of-partition event as a record.)

use super::client::{Client, list, numbered, text};
use crate::kafka::admin::AdminClient;
use crate::kafka::blocks::Blocks;
use crate::kafka::errors::{ErrorContext, error, kind_of};
use crate::kafka::librdkafka::queues::Queues;
use crate::{Consumer, ConsumerRecord, RecordRef};
use bytes::Bytes;
use rdkafka::config::ClientConfig;
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka_sys as sys;
use std::collections::HashMap;
use std::ffi::{CString, c_int};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_core::{
    Error, ErrorKind, Header, Headers, Offset, Result, Timestamp, TopicPartition, headers_to_bytes,
};

/// Timeout for checking that the topics of an assignment exist.
const LOOK_UP: Duration = Duration::from_secs(30);
/// Maximum number of messages taken from the queue at a time.
const BATCH: usize = 1024;

/// A message taken from the queue, released on drop.
struct Message(*mut sys::rd_kafka_message_t);

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: the message came from the batch call and is given back once.
        unsafe { sys::rd_kafka_message_destroy(self.0) };
    }
}

#[derive(Debug)]
struct Slot {
    partition: TopicPartition,
    next: i64,
    /// Whether the broker has reported the end of the partition at this position.
    ended: bool,
    paused: bool,
}

/// A reader of assigned partitions. Fields drop in order: the queues before their client.
#[derive(Debug)]
pub(in crate::kafka) struct KafkaConsumer {
    queues: Queues,
    client: Client,
    admin: Arc<dyn AdminClient>,
    address: String,
    slots: Vec<Slot>,
    places: HashMap<Arc<str>, HashMap<i32, u32>>,
    /// The topic handle, partition and slot of the last message: the next one usually has the same.
    last: Option<(usize, i32, u32)>,
    taken: Vec<*mut sys::rd_kafka_message_t>,
    blocks: Blocks,
    /// Whether each partition has a queue of its own.
    divided: bool,
}

// SAFETY: `taken` is empty between calls; everything else is `Send`.
unsafe impl Send for KafkaConsumer {}

impl KafkaConsumer {
    pub(in crate::kafka) fn new(
        config: &ClientConfig,
        divided: bool,
        bootstrap: &str,
        admin: Arc<dyn AdminClient>,
    ) -> Result<Self> {
        let client = Client::new(true, config)?;
        Ok(Self {
            // SAFETY: the client is alive; the queues are dropped before it.
            queues: unsafe { Queues::new(client.ptr()) },
            client,
            admin,
            address: bootstrap.to_owned(),
            slots: Vec::new(),
            places: HashMap::new(),
            last: None,
            taken: Vec::with_capacity(BATCH),
            blocks: Blocks::default(),
            divided,
        })
    }

    fn fail(&self, code: Code, said: &str, topic: Option<&str>) -> Error {
        error(
            code,
            said,
            ErrorContext {
                address: &self.address,
                what: "reading",
                topic,
            },
        )
    }

    /// Takes up to `max` of the messages that are there; true if there were any.
    fn take(&mut self, max: usize) -> bool {
        let slots = &self.slots;
        self.taken.clear();
        self.queues
            .take(max.min(BATCH), |at| !slots[at].paused, &mut self.taken);
        !self.taken.is_empty()
    }

    /// Passes messages to `each` until `max` records were passed or none are left. Waits for the first
    /// one.
    fn rounds(
        &mut self,
        max: usize,
        timeout: Duration,
        mut each: impl FnMut(&mut Self, u32, &sys::rd_kafka_message_t),
    ) -> Result<()> {
        if max == 0 {
            return Ok(());
        }
        let mut left = max;
        // Takes the messages that are there; if there are none, waits for the first and takes what is
        // there then.
        if !self.take(max) && !timeout.is_zero() {
            self.queues.wait(timeout);
            self.take(max);
        }
        while !self.taken.is_empty() {
            left = left.saturating_sub(self.round(&mut each)?);
            if left == 0 {
                break;
            }
            self.take(left);
        }
        if left < max {
            self.client.answered();
        } else {
            self.client.remind();
        }
        self.refused()
    }

    /// Passes the taken messages to `each`; returns how many were records. An error is returned after
    /// all records.
    fn round(
        &mut self,
        each: &mut impl FnMut(&mut Self, u32, &sys::rd_kafka_message_t),
    ) -> Result<usize> {
        let mut taken = std::mem::take(&mut self.taken);
        let (mut given, mut outcome) = (0, Ok(()));
        for pointer in taken.drain(..) {
            let owned = Message(pointer);
            // SAFETY: the message is alive until `owned` is dropped at the end of the round.
            let message = unsafe { &*owned.0 };
            match self.admit(message) {
                Ok(Some(slot)) => {
                    each(self, slot, message);
                    given += 1;
                }
                Ok(None) => {}
                Err(error) if outcome.is_ok() => outcome = Err(error),
                Err(_) => {}
            }
        }
        self.taken = taken;
        outcome.map(|()| given)
    }

    /// The slot of a record to pass on; moves the slot's position past the message. `None` if it is no
    /// record, or was read before.
    fn admit(&mut self, message: &sys::rd_kafka_message_t) -> Result<Option<u32>> {
        let code = message.err;
        if code != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR
            && code != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__PARTITION_EOF
        {
            return self.trouble(message).map(|()| None);
        }
        // `None`: the partition has just been unassigned, or belongs to an earlier assignment.
        let Some(index) = self.slot_of(message) else {
            return Ok(None);
        };
        let slot = &mut self.slots[index as usize];
        if message.offset < slot.next {
            return Ok(None);
        }
        if code == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__PARTITION_EOF {
            slot.next = message.offset;
            slot.ended = true;
            return Ok(None);
        }
        slot.next = message.offset + 1;
        slot.ended = false;
        Ok(Some(index))
    }

    fn slot_of(&mut self, message: &sys::rd_kafka_message_t) -> Option<u32> {
        let topic = message.rkt as usize;
        if let Some((last, partition, slot)) = self.last
            && last == topic
            && partition == message.partition
        {
            return Some(slot);
        }
        if topic == 0 {
            return None;
        }
        // SAFETY: the topic handle lives as long as the message.
        let name = unsafe { text(sys::rd_kafka_topic_name(message.rkt)) };
        let slot = *self.places.get(name.as_str())?.get(&message.partition)?;
        self.last = Some((topic, message.partition, slot));
        Some(slot)
    }

    /// Handles an error message.
    fn trouble(&self, message: &sys::rd_kafka_message_t) -> Result<()> {
        // SAFETY: the message is alive.
        let code = numbered(unsafe { (&raw const message.err).cast::<c_int>().read() });
        // SAFETY: the message is alive; an error message's payload is its text, the topic may be null.
        let (said, topic) = unsafe {
            let said = text(sys::rd_kafka_message_errstr(message));
            (
                said,
                (!message.rkt.is_null()).then(|| text(sys::rd_kafka_topic_name(message.rkt))),
            )
        };
        match kind_of(code) {
            ErrorKind::Unavailable => {
                if code == Code::AllBrokersDown {
                    self.client.events.alone.store(true, Relaxed);
                }
                // The client reconnects by itself, and the port promises to wait out such times.
                tracing::debug!(target: "stoatflow::kafka", ?code, "{said}");
                Ok(())
            }
            _ => Err(self.fail(code, &said, topic.as_deref())),
        }
    }

    /// Errors that concern no partition: wrong credentials are reported only here.
    fn refused(&self) -> Result<()> {
        let mut last = self.client.events.last.lock();
        match last.take() {
            Some((code, said)) if kind_of(code) == ErrorKind::Unauthorized => {
                Err(self.fail(code, &said, None))
            }
            Some((Code::Fatal, said)) => {
                let (code, said) = self.client.fatal().unwrap_or((Code::Fatal, said));
                Err(self.fail(code, &said, None))
            }
            _ => Ok(()),
        }
    }

    /// Assigns partitions that exist.
    pub(in crate::kafka) fn place(
        &mut self,
        partitions: &[(TopicPartition, Offset)],
    ) -> Result<()> {
        if self.divided {
            // SAFETY: the client is alive, and outlives the queues.
            unsafe {
                self.queues
                    .divide(self.client.ptr(), partitions.iter().map(|(p, _)| p))?;
            }
        }
        let assigned = list(partitions.iter().map(|(p, offset)| (p, offset.0, None)))?;
        // SAFETY: client and list are alive; the call copies the list.
        let code = Code::from(unsafe { sys::rd_kafka_assign(self.client.ptr(), assigned.ptr()) });
        if code != Code::NoError {
            return Err(self.fail(code, "the assignment was refused", None));
        }
        self.last = None;
        self.places.clear();
        self.slots.clear();
        for (index, (partition, offset)) in (0..).zip(partitions) {
            self.places
                .entry(partition.topic.clone())
                .or_default()
                .insert(partition.partition.0, index);
            self.slots.push(Slot {
                partition: partition.clone(),
                next: offset.0,
                ended: false,
                paused: false,
            });
        }
        Ok(())
    }

    /// One past the last record, according to the broker's last answer; includes records of open
    /// transactions.
    fn end_of(&self, partition: &TopicPartition) -> Option<i64> {
        let topic = CString::new(&*partition.topic).ok()?;
        let (mut low, mut high) = (-1, -1);
        // SAFETY: the client is alive; the name is read within the call, and the two are written.
        let code = Code::from(unsafe {
            sys::rd_kafka_get_watermark_offsets(
                self.client.ptr(),
                topic.as_ptr(),
                partition.partition.0,
                &raw mut low,
                &raw mut high,
            )
        });
        (code == Code::NoError && high >= 0).then_some(high)
    }

    /// librdkafka's position: past the transaction markers that follow the last record it returned.
    fn position_of(&self, slot: &Slot) -> Result<i64> {
        let asked = list([(&slot.partition, slot.next, None)])?;
        // SAFETY: client and list are alive; the call writes the offsets.
        let code = Code::from(unsafe { sys::rd_kafka_position(self.client.ptr(), asked.ptr()) });
        if code != Code::NoError {
            return Err(self.fail(code, "the position was refused", None));
        }
        // SAFETY: the list is alive and has one entry.
        Ok(unsafe { (*(*asked.ptr()).elems).offset })
    }
}

impl Consumer for KafkaConsumer {
    fn assign(&mut self, partitions: &[(TopicPartition, Offset)]) -> Result<()> {
        self.admin.must_have(partitions, LOOK_UP)?;
        self.place(partitions)
    }

    fn poll(
        &mut self,
        max: usize,
        timeout: Duration,
        into: &mut Vec<ConsumerRecord>,
    ) -> Result<()> {
        self.rounds(max, timeout, |this, slot, message| {
            // SAFETY: the message is alive.
            let (key, value) = unsafe { parts_of(message) };
            let (key, value) = this.blocks.copy(key, value);
            into.push(ConsumerRecord {
                slot,
                offset: Offset(message.offset),
                timestamp: time_of(message),
                key,
                value,
                // SAFETY: the message is alive.
                headers: unsafe { headers(message) },
                number: 0,
            });
        })
    }

    fn poll_borrowed(
        &mut self,
        max: usize,
        timeout: Duration,
        each: &mut dyn FnMut(RecordRef<'_>),
    ) -> Result<()> {
        self.rounds(max, timeout, |_, slot, message| {
            // SAFETY: the message is alive.
            let (key, value) = unsafe { parts_of(message) };
            // SAFETY: the message is alive.
            let headers = headers_to_bytes(&unsafe { headers(message) });
            each(RecordRef {
                slot,
                offset: Offset(message.offset),
                timestamp: time_of(message),
                key,
                value,
                headers: &headers,
            });
        })
    }

    fn positions(&self) -> Vec<Offset> {
        self.slots.iter().map(|slot| Offset(slot.next)).collect()
    }

    fn caught_up(&self, slot: u32) -> bool {
        let Some(slot) = self.slots.get(slot as usize) else {
            return false;
        };
        // The position counts the end-of-partition event too, but then `ended` is already true.
        slot.ended
            || self.end_of(&slot.partition).is_some_and(|end| {
                slot.next >= end || self.position_of(slot).is_ok_and(|at| at >= end)
            })
    }

    fn pause(&mut self, slots: &[u32], paused: bool) -> Result<()> {
        if !self.divided {
            return Err(Error::internal("a reader of everything can't be paused"));
        }
        if let Some(slot) = slots.iter().find(|s| **s as usize >= self.slots.len()) {
            return Err(Error::internal(format!("slot {slot} is not assigned")));
        }
        for slot in slots {
            self.slots[*slot as usize].paused = paused;
        }
        Ok(())
    }
}

/// The headers, if there are any.
///
/// # Safety
/// The message is alive.
unsafe fn headers(message: &sys::rd_kafka_message_t) -> Headers {
    let mut native = ptr::null_mut();
    // SAFETY: the message is alive; its headers belong to it.
    let code = unsafe { sys::rd_kafka_message_headers(message, &mut native) };
    if code != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
        return None;
    }
    let mut headers = Vec::new();
    loop {
        let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
        // SAFETY: the list is alive; the call writes the three or says that there are no more.
        let code = unsafe {
            sys::rd_kafka_header_get_all(native, headers.len(), &mut name, &mut value, &mut size)
        };
        if code != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
            return (!headers.is_empty()).then(|| headers.into());
        }
        // SAFETY: name and value belong to the message.
        headers.push(unsafe {
            Header {
                name: text(name).into(),
                value: own(value.cast_mut(), size),
            }
        });
    }
}

fn time_of(message: &sys::rd_kafka_message_t) -> Timestamp {
    // SAFETY: the message is alive; the call only reads it.
    Timestamp(unsafe { sys::rd_kafka_message_timestamp(message, ptr::null_mut()) })
}

/// The bytes at a pointer of librdkafka.
///
/// # Safety
/// `from` is null or holds `len` bytes for as long as the result is used.
unsafe fn bytes_of<'a>(from: *mut std::ffi::c_void, len: usize) -> Option<&'a [u8]> {
    // SAFETY: the caller's promise.
    (!from.is_null()).then(|| unsafe { std::slice::from_raw_parts(from.cast(), len) })
}

/// Key and value.
///
/// # Safety
/// The message is alive for as long as they are used.
unsafe fn parts_of(message: &sys::rd_kafka_message_t) -> (Option<&[u8]>, Option<&[u8]>) {
    // SAFETY: librdkafka gives a pointer (null for a null) and a length, valid while the message is.
    unsafe {
        (
            bytes_of(message.key, message.key_len),
            bytes_of(message.payload, message.len),
        )
    }
}

/// Copies the bytes at a pointer.
///
/// # Safety
/// `from` is null or holds `len` bytes.
unsafe fn own(from: *mut std::ffi::c_void, len: usize) -> Option<Bytes> {
    // SAFETY: the caller's promise.
    unsafe { bytes_of(from, len) }.map(Bytes::copy_from_slice)
}
