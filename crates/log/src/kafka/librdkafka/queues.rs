//! The queues that librdkafka fills for a consumer.
//!
//! Takes messages from them in batches, or waits for the first one. There is one queue for all
//! partitions, or one for each: then a paused partition's queue is not read, and its fetched records
//! stay in it. Owns the flag that librdkafka's threads set when an empty queue gets a message, so that
//! hundreds of empty queues need not be polled.

use super::client::millis;
use parking_lot::{Condvar, Mutex};
use rdkafka_sys as sys;
use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Release};
use std::time::Duration;
use stoatflow_core::{Error, Result, TopicPartition};

/// Wakes the reader when any of the queues gets a message.
#[derive(Debug, Default)]
struct WakeUp {
    notified: Mutex<bool>,
    changed: Condvar,
}

impl WakeUp {
    fn notify(&self) {
        *self.notified.lock() = true;
        self.changed.notify_one();
    }

    fn wait(&self, timeout: Duration) {
        let mut notified = self.notified.lock();
        if !*notified {
            self.changed.wait_for(&mut notified, timeout);
        }
    }

    fn clear(&self) {
        *self.notified.lock() = false;
    }
}

/// The part of a queue that librdkafka's threads use.
#[derive(Debug)]
struct QueueSignal {
    /// Whether the queue got a message since it was last read.
    got: AtomicBool,
    wake_up: Arc<WakeUp>,
}

unsafe extern "C" fn on_message(_client: *mut sys::rd_kafka_t, signal: *mut c_void) {
    // SAFETY: the queue's `QueueSignal` lives until the callback is removed, in `drop`.
    let signal = unsafe { &*signal.cast::<QueueSignal>() };
    signal.got.store(true, Release);
    signal.wake_up.notify();
}

#[derive(Debug)]
struct Queue {
    native: *mut sys::rd_kafka_queue_t,
    signal: Box<QueueSignal>,
    /// Whether the last read returned messages. Then there may be more, for which there is no callback.
    more: bool,
}

// SAFETY: librdkafka's queues are thread-safe.
unsafe impl Send for Queue {}

impl Queue {
    /// Takes over a reference.
    fn new(native: *mut sys::rd_kafka_queue_t, wake_up: &Arc<WakeUp>) -> Self {
        let signal = Box::new(QueueSignal {
            got: AtomicBool::new(false),
            wake_up: Arc::clone(wake_up),
        });
        let known = ptr::from_ref::<QueueSignal>(&signal).cast_mut().cast();
        // SAFETY: the queue is alive, and the signal lives as long as the callback.
        unsafe { sys::rd_kafka_queue_cb_event_enable(native, Some(on_message), known) };
        Self {
            native,
            signal,
            // It may have got messages before.
            more: true,
        }
    }

    fn take(&mut self, max: usize, into: &mut Vec<*mut sys::rd_kafka_message_t>) {
        self.signal.got.store(false, Release);
        into.reserve(max);
        // SAFETY: `into` has room for `max` more pointers; the call returns how many it wrote.
        unsafe {
            let end = into.as_mut_ptr().add(into.len());
            let count =
                sys::rd_kafka_consume_batch_queue(self.native, millis(Duration::ZERO), end, max);
            let count = usize::try_from(count).unwrap_or(0);
            into.set_len(into.len() + count);
            self.more = count > 0;
        }
    }

    fn may_have_some(&self) -> bool {
        self.more || self.signal.got.swap(false, AcqRel)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the reference is ours and is released once. The callback is called under the queue's
        // lock, which removing it takes too: nobody uses the signal afterwards.
        unsafe {
            sys::rd_kafka_queue_cb_event_enable(self.native, None, ptr::null_mut());
            sys::rd_kafka_queue_destroy(self.native);
        }
    }
}

/// The queues of a consumer.
#[derive(Debug)]
pub(in crate::kafka) struct Queues {
    wake_up: Arc<WakeUp>,
    /// Messages that belong to no partition; without separate queues, all messages.
    common: Queue,
    /// One per slot, if each partition has its own queue.
    slots: Vec<Queue>,
    /// The queue to read first: where the last read ran out of room.
    turn: usize,
}

impl Queues {
    /// # Safety
    /// The consumer is alive, and outlives the queues.
    pub unsafe fn new(client: *mut sys::rd_kafka_t) -> Self {
        let wake_up = Arc::new(WakeUp::default());
        // SAFETY: the caller's promise.
        let native = unsafe {
            sys::rd_kafka_poll_set_consumer(client);
            sys::rd_kafka_queue_get_consumer(client)
        };
        Self {
            common: Queue::new(native, &wake_up),
            wake_up,
            slots: Vec::new(),
            turn: 0,
        }
    }

    /// Gives each partition a queue of its own. Call it before they are assigned: records fetched
    /// earlier would be in the common queue.
    ///
    /// # Safety
    /// The consumer is alive, and outlives the queues.
    ///
    /// # Errors
    /// `Internal` if a name can't be a topic's.
    pub unsafe fn divide<'a>(
        &mut self,
        client: *mut sys::rd_kafka_t,
        partitions: impl Iterator<Item = &'a TopicPartition>,
    ) -> Result<()> {
        self.slots.clear();
        for partition in partitions {
            let topic = CString::new(&*partition.topic)
                .map_err(|_| Error::internal(format!("'{partition}' holds a zero byte")))?;
            // SAFETY: the client is alive; the name is copied.
            let native = unsafe {
                sys::rd_kafka_queue_get_partition(client, topic.as_ptr(), partition.partition.0)
            };
            if native.is_null() {
                return Err(Error::internal(format!("{partition} has no queue")));
            }
            // SAFETY: the queue is alive. Without a forward target it keeps its messages.
            unsafe { sys::rd_kafka_queue_forward(native, ptr::null_mut()) };
            self.slots.push(Queue::new(native, &self.wake_up));
        }
        Ok(())
    }

    /// Takes up to `max` messages: first those that belong to no partition, then a share from every
    /// queue that is `wanted`.
    pub fn take(
        &mut self,
        max: usize,
        wanted: impl Fn(usize) -> bool,
        into: &mut Vec<*mut sys::rd_kafka_message_t>,
    ) {
        /// Smaller shares are not worth the call.
        const MIN_SHARE_BYTES: usize = 64;
        // Before reading: later callbacks must not be lost.
        self.wake_up.clear();
        if self.common.may_have_some() {
            self.common.take(max, into);
        }
        let count = self.slots.len();
        let reading = (0..count).filter(|at| wanted(*at)).count();
        let share = (max / reading.max(1)).max(MIN_SHARE_BYTES);
        for step in 0..count {
            let at = (self.turn + step) % count;
            let room = max.saturating_sub(into.len()).min(share);
            if room == 0 {
                self.turn = at;
                return;
            }
            if wanted(at) && self.slots[at].may_have_some() {
                self.slots[at].take(room, into);
            }
        }
    }

    /// Waits until any of the queues gets a message, wanted or not.
    pub fn wait(&self, timeout: Duration) {
        self.wake_up.wait(timeout);
    }
}
