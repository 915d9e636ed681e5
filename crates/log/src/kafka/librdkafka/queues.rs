//! The queues that librdkafka fills for a consumer.
//!
//! Gives what waits in them, batch by batch, and a wait for the first of it. One queue for all
//! partitions, or one for each: then a partition can be left alone while others are read, and what
//! has been fetched of it stays where it is. Owns the bell that librdkafka's threads ring when an
//! empty queue gets something, so that nobody has to look into hundreds of empty ones.

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

/// Rings when any of the queues gets something.
#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock() = true;
        self.changed.notify_one();
    }

    fn wait(&self, timeout: Duration) {
        let mut rung = self.rung.lock();
        if !*rung {
            self.changed.wait_for(&mut rung, timeout);
        }
    }

    fn silence(&self) {
        *self.rung.lock() = false;
    }
}

/// What librdkafka's threads know of a queue of ours.
#[derive(Debug)]
struct Line {
    /// Has it got something since it was looked into?
    got: AtomicBool,
    bell: Arc<Bell>,
}

unsafe extern "C" fn rung(_client: *mut sys::rd_kafka_t, line: *mut c_void) {
    // SAFETY: the queue's `Line` lives until the call-back is taken away, in `drop`.
    let line = unsafe { &*line.cast::<Line>() };
    line.got.store(true, Release);
    line.bell.ring();
}

#[derive(Debug)]
struct Queue {
    native: *mut sys::rd_kafka_queue_t,
    line: Box<Line>,
    /// Did the last look bring something? Then there may be more, and nobody rings for that.
    more: bool,
}

// SAFETY: librdkafka's queues are thread-safe.
unsafe impl Send for Queue {}

impl Queue {
    /// Takes a reference over.
    fn new(native: *mut sys::rd_kafka_queue_t, bell: &Arc<Bell>) -> Self {
        let line = Box::new(Line {
            got: AtomicBool::new(false),
            bell: Arc::clone(bell),
        });
        let known = ptr::from_ref::<Line>(&line).cast_mut().cast();
        // SAFETY: the queue is alive, and the line lives as long as the call-back.
        unsafe { sys::rd_kafka_queue_cb_event_enable(native, Some(rung), known) };
        Self {
            native,
            line,
            // It may have got something before.
            more: true,
        }
    }

    fn take(&mut self, max: usize, into: &mut Vec<*mut sys::rd_kafka_message_t>) {
        self.line.got.store(false, Release);
        into.reserve(max);
        // SAFETY: there is room for `max` pointers behind those that are there; the call says how
        // many it wrote.
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
        self.more || self.line.got.swap(false, AcqRel)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the reference is ours and is given back once. The call-back is called under the
        // queue's lock, which taking it away takes too: nobody looks at the line afterwards.
        unsafe {
            sys::rd_kafka_queue_cb_event_enable(self.native, None, ptr::null_mut());
            sys::rd_kafka_queue_destroy(self.native);
        }
    }
}

/// The queues of a consumer.
#[derive(Debug)]
pub(in crate::kafka) struct Queues {
    bell: Arc<Bell>,
    /// What belongs to no partition, and where nothing was divided, everything.
    common: Queue,
    /// One per slot, where divided.
    slots: Vec<Queue>,
    /// Who is looked at first: where the last look had no more room.
    turn: usize,
}

impl Queues {
    /// # Safety
    /// The consumer is alive, and outlives the queues.
    pub unsafe fn new(client: *mut sys::rd_kafka_t) -> Self {
        let bell = Arc::new(Bell::default());
        // SAFETY: the caller's promise.
        let native = unsafe {
            sys::rd_kafka_poll_set_consumer(client);
            sys::rd_kafka_queue_get_consumer(client)
        };
        Self {
            common: Queue::new(native, &bell),
            bell,
            slots: Vec::new(),
            turn: 0,
        }
    }

    /// Gives each partition a queue of its own. Before they are assigned: what was fetched already
    /// would be in the common one.
    ///
    /// # Safety
    /// The consumer is alive, and outlives the queues.
    ///
    /// # Errors
    /// `Internal` if a name cannot be one of a topic.
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
            // SAFETY: the queue is alive. Without a target it keeps what it gets.
            unsafe { sys::rd_kafka_queue_forward(native, ptr::null_mut()) };
            self.slots.push(Queue::new(native, &self.bell));
        }
        Ok(())
    }

    /// Takes up to `max` messages: what belongs to no partition first, then of every queue that is
    /// `wanted` its share.
    pub fn take(
        &mut self,
        max: usize,
        wanted: impl Fn(usize) -> bool,
        into: &mut Vec<*mut sys::rd_kafka_message_t>,
    ) {
        /// Less than this of one partition is not worth the call.
        const LEAST: usize = 64;
        // Before looking: whoever rings from here on is heard.
        self.bell.silence();
        if self.common.may_have_some() {
            self.common.take(max, into);
        }
        let count = self.slots.len();
        let reading = (0..count).filter(|at| wanted(*at)).count();
        let share = (max / reading.max(1)).max(LEAST);
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

    /// Waits until one of them gets something; also one that is not wanted.
    pub fn wait(&self, timeout: Duration) {
        self.bell.wait(timeout);
    }
}
