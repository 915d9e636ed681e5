//! Reading from Kafka.
//!
//! Takes an assignment, gives committed records. Takes whole batches off librdkafka's queue (half
//! the price of single polls) and copies keys and values into shared blocks, so that a record costs
//! no allocation of its own. Owns the position of each slot, which end-of-partition events carry
//! past control records and aborted ones. Never subscribes and never commits.
//!
//! A pause takes the partition out of the assignment, and going on puts it back at our own position.
//! librdkafka's pause would continue at the position that its batch call keeps, and that call
//! counts an end-of-partition event as a record: the next one would be skipped.

use super::admin::Admin;
use super::errors::{Doing, error, kind_of};
use super::native::{Client, Fault, list, millis, text};
use crate::{Consumer, Fetched};
use bytes::{Bytes, BytesMut};
use rdkafka::config::ClientConfig;
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka_sys as sys;
use std::collections::HashMap;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_core::{
    Error, ErrorKind, Header, Headers, Offset, Result, Timestamp, TopicPartition,
};

/// Records share blocks of about this size: one held record keeps little else alive.
const BLOCK: usize = 64 * 1024;
/// How long an assignment may take to find out whether its topics exist.
const LOOK_UP: Duration = Duration::from_secs(30);
/// At most so many messages are taken off the queue at a time.
const BATCH: usize = 1024;

/// librdkafka's queue of the consumer.
#[derive(Debug)]
struct Queue(*mut sys::rd_kafka_queue_t);

// SAFETY: librdkafka's queues are thread-safe.
unsafe impl Send for Queue {}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the reference was taken in `KafkaConsumer::new` and is given back once.
        unsafe { sys::rd_kafka_queue_destroy(self.0) };
    }
}

/// A message taken off the queue, given back at the end.
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
    paused: bool,
}

/// A reader of assigned partitions. Fields drop in order: the queue before its client.
#[derive(Debug)]
pub(super) struct KafkaConsumer {
    queue: Queue,
    client: Client,
    admin: Arc<Admin>,
    address: String,
    slots: Vec<Slot>,
    places: HashMap<Arc<str>, HashMap<i32, u32>>,
    /// The topic handle and partition of the last message: neighbours share them.
    last: Option<(usize, i32, u32)>,
    taken: Vec<*mut sys::rd_kafka_message_t>,
    block: BytesMut,
}

// SAFETY: `taken` is empty between calls; everything else is `Send`.
unsafe impl Send for KafkaConsumer {}

impl KafkaConsumer {
    pub(super) fn new(config: &ClientConfig, bootstrap: &str, admin: Arc<Admin>) -> Result<Self> {
        let client = Client::new(true, config)?;
        // SAFETY: the client is alive; the queue is dropped before it.
        let queue = unsafe {
            sys::rd_kafka_poll_set_consumer(client.ptr());
            Queue(sys::rd_kafka_queue_get_consumer(client.ptr()))
        };
        Ok(Self {
            queue,
            client,
            admin,
            address: bootstrap.to_owned(),
            slots: Vec::new(),
            places: HashMap::new(),
            last: None,
            taken: Vec::with_capacity(BATCH),
            block: BytesMut::new(),
        })
    }

    fn fail(&self, code: Code, said: &str, topic: Option<&str>) -> Error {
        error(
            code,
            said,
            Doing {
                address: &self.address,
                what: "reading",
                topic,
            },
        )
    }

    /// Takes up to `max` messages, waiting for the first only if `wait` is the wait for one.
    fn fetch(&mut self, max: usize, wait: Duration) {
        self.taken.clear();
        let max = max.min(BATCH);
        // SAFETY: the vector has room for `BATCH` pointers; the call says how many it wrote.
        unsafe {
            let count = sys::rd_kafka_consume_batch_queue(
                self.queue.0,
                millis(wait),
                self.taken.as_mut_ptr(),
                max,
            );
            self.taken.set_len(usize::try_from(count).unwrap_or(0));
        }
    }

    /// Moves what was taken into `into`; the first error is given after all records are safe.
    fn keep(&mut self, into: &mut Vec<Fetched>) -> Result<()> {
        let mut taken = std::mem::take(&mut self.taken);
        let mut outcome = Ok(());
        for pointer in taken.drain(..) {
            let message = Message(pointer);
            // SAFETY: the message is alive until `message` is dropped at the end of the round.
            let kept = self.keep_one(unsafe { &*message.0 }, into);
            if outcome.is_ok() {
                outcome = kept;
            }
        }
        self.taken = taken;
        outcome
    }

    fn keep_one(
        &mut self,
        message: &sys::rd_kafka_message_t,
        into: &mut Vec<Fetched>,
    ) -> Result<()> {
        let code = message.err;
        if code != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR
            && code != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__PARTITION_EOF
        {
            return self.trouble(message);
        }
        // A partition that has just been taken out, or another assignment's.
        let Some(index) = self.slot_of(message) else {
            return Ok(());
        };
        let slot = &mut self.slots[index as usize];
        if slot.paused || message.offset < slot.next {
            return Ok(());
        }
        if code == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__PARTITION_EOF {
            slot.next = message.offset;
            return Ok(());
        }
        slot.next = message.offset + 1;
        // SAFETY: the message is alive; its parts are read within this call.
        let (timestamp, headers) = unsafe {
            (
                sys::rd_kafka_message_timestamp(message, ptr::null_mut()),
                headers(message),
            )
        };
        let (key, value) = self.copy(message);
        into.push(Fetched {
            slot: index,
            offset: Offset(message.offset),
            timestamp: Timestamp(timestamp),
            key,
            value,
            headers,
        });
        Ok(())
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

    /// Key and value as slices of one block.
    fn copy(&mut self, message: &sys::rd_kafka_message_t) -> (Option<Bytes>, Option<Bytes>) {
        let need = message.key_len + message.len;
        if self.block.capacity() < need {
            // A record beyond a quarter of a block gets its own: nothing small is kept alive by it.
            if need > BLOCK / 4 {
                // SAFETY: as below.
                return unsafe {
                    (
                        own(message.key, message.key_len),
                        own(message.payload, message.len),
                    )
                };
            }
            self.block = BytesMut::with_capacity(BLOCK);
        }
        // SAFETY: librdkafka gives a pointer (null for a null) and a length, valid while the message is.
        unsafe {
            (
                part(&mut self.block, message.key, message.key_len),
                part(&mut self.block, message.payload, message.len),
            )
        }
    }

    /// An error in place of a record.
    fn trouble(&self, message: &sys::rd_kafka_message_t) -> Result<()> {
        let code = Code::from(message.err);
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
                // The client reconnects by itself, and the port's promise is to wait such times out.
                tracing::debug!(target: "stoatflow::kafka", ?code, "{said}");
                Ok(())
            }
            _ => Err(self.fail(code, &said, topic.as_deref())),
        }
    }

    /// Errors that are about no partition: wrong credentials come this way only.
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
    pub(super) fn place(&mut self, partitions: &[(TopicPartition, Offset)]) -> Result<()> {
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
                paused: false,
            });
        }
        Ok(())
    }

    /// Puts slots into the assignment at their positions, or takes them out.
    fn move_slots(&self, slots: &[usize], into: bool) -> Result<()> {
        if slots.is_empty() {
            return Ok(());
        }
        let moved = list(
            slots
                .iter()
                .map(|index| (&self.slots[*index].partition, self.slots[*index].next, None)),
        )?;
        // SAFETY: client and list are alive; the call copies the list.
        let fault = unsafe {
            Fault::take(if into {
                sys::rd_kafka_incremental_assign(self.client.ptr(), moved.ptr())
            } else {
                sys::rd_kafka_incremental_unassign(self.client.ptr(), moved.ptr())
            })
        };
        fault.map_or(Ok(()), |f| Err(self.fail(f.code, &f.said, None)))
    }
}

impl Consumer for KafkaConsumer {
    fn assign(&mut self, partitions: &[(TopicPartition, Offset)]) -> Result<()> {
        let names: Vec<_> = partitions.iter().map(|(p, _)| &*p.topic).collect();
        for ((partition, _), known) in partitions.iter().zip(self.admin.topics(&names, LOOK_UP)?) {
            // The client would wait in silence for a topic that does not exist.
            if known.is_none_or(|t| !(0..t.partitions).contains(&partition.partition.0)) {
                return Err(self.fail(
                    Code::UnknownTopicOrPartition,
                    &format!("{partition} is unknown"),
                    Some(&partition.topic),
                ));
            }
        }
        self.place(partitions)
    }

    fn poll(&mut self, max: usize, timeout: Duration, into: &mut Vec<Fetched>) -> Result<()> {
        if max == 0 {
            return Ok(());
        }
        let full = into.len() + max;
        // The batch call would wait for a full batch: what is there, else the first, then what is there.
        self.fetch(max, Duration::ZERO);
        if self.taken.is_empty() && !timeout.is_zero() {
            self.fetch(1, timeout);
        }
        while !self.taken.is_empty() {
            self.keep(into)?;
            if into.len() >= full {
                break;
            }
            self.fetch(full - into.len(), Duration::ZERO);
        }
        if into.len() + max > full {
            self.client.answered();
        } else {
            self.client.remind();
        }
        self.refused()
    }

    fn positions(&self) -> Vec<Offset> {
        self.slots.iter().map(|slot| Offset(slot.next)).collect()
    }

    fn pause(&mut self, slots: &[u32], paused: bool) -> Result<()> {
        let mut moved = Vec::new();
        for slot in slots {
            let index = *slot as usize;
            let found = self
                .slots
                .get(index)
                .ok_or_else(|| Error::internal(format!("slot {slot} is not assigned")))?;
            if found.paused != paused && !moved.contains(&index) {
                moved.push(index);
            }
        }
        self.move_slots(&moved, !paused)?;
        for index in moved {
            self.slots[index].paused = paused;
        }
        Ok(())
    }
}

/// Headers, if there are any.
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

/// A copy of its own.
///
/// # Safety
/// `from` is null or holds `len` bytes.
unsafe fn own(from: *mut std::ffi::c_void, len: usize) -> Option<Bytes> {
    // SAFETY: the caller's promise.
    (!from.is_null())
        .then(|| Bytes::copy_from_slice(unsafe { std::slice::from_raw_parts(from.cast(), len) }))
}

/// A copy at the front of a block that has room for it.
///
/// # Safety
/// `from` is null or holds `len` bytes.
unsafe fn part(block: &mut BytesMut, from: *mut std::ffi::c_void, len: usize) -> Option<Bytes> {
    if from.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    block.extend_from_slice(unsafe { std::slice::from_raw_parts(from.cast(), len) });
    Some(block.split().freeze())
}
