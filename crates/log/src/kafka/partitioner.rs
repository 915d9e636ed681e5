//! The partition of a record whose sink names none.
//!
//! Takes keys, and for records without one the number of a stick; returns partitions. A key gets the
//! partition that Java's default partitioner chooses. Records without a key stay with one partition for
//! `STICKY_BATCH_BYTES` bytes and then move on: by bytes, as in Java. librdkafka's own partitioner moves
//! on by time, so that a busy application writes to one partition at a time. Shares no state between
//! threads: the stick travels with its record.

use crate::kafka::librdkafka::client::Client;
use rdkafka_sys as sys;
use std::ffi::c_void;
use std::hash::{BuildHasher, RandomState};
use std::ptr;

#[cfg(test)]
mod tests;

/// Small enough to spread the records of one commit, large enough to fill a batch.
const STICKY_BATCH_BYTES: usize = 128 << 10;

/// Travels with a record through the client, packed into a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label {
    /// Index of the topic in the producer's own list, so that a delivery report needs no look-up by
    /// name.
    pub topic: u32,
    /// The stick of a record without a key.
    pub stick: u32,
}

impl Label {
    pub(super) fn pack(self) -> *mut c_void {
        const { assert!(usize::BITS == 64, "a label is as large as a pointer") };
        ptr::without_provenance_mut(((self.stick as usize) << 32) | self.topic as usize)
    }

    #[allow(clippy::cast_possible_truncation)] // both halves
    pub(super) fn unpack(packed: *mut c_void) -> Self {
        let packed = packed.addr();
        Self {
            topic: packed as u32,
            stick: (packed >> 32) as u32,
        }
    }
}

/// The sticks of one topic.
#[derive(Debug)]
pub(super) struct StickyPartitioner {
    current: u32,
    bytes: usize,
}

impl StickyPartitioner {
    /// Starts at a random partition: applications that write little and start often would otherwise all
    /// use the first one.
    pub(super) fn new() -> Self {
        let anywhere = RandomState::new().hash_one(()) >> 32;
        Self {
            current: u32::try_from(anywhere).unwrap_or(0),
            bytes: 0,
        }
    }

    /// Returns the stick for a record of this size.
    pub(super) fn take(&mut self, weight: usize) -> u32 {
        if self.bytes >= STICKY_BATCH_BYTES {
            self.current = self.current.wrapping_add(1);
            self.bytes = 0;
        }
        self.bytes += weight;
        self.current
    }
}

/// The client's topic configuration, with `choose` as partitioner. The caller must pass it on or destroy
/// it.
pub(super) fn topic_config(client: &Client) -> *mut sys::rd_kafka_topic_conf_t {
    // SAFETY: the client is alive; the copy is the caller's.
    unsafe {
        let config = sys::rd_kafka_default_topic_conf_dup(client.ptr());
        sys::rd_kafka_topic_conf_set_partitioner_cb(config, Some(choose));
        config
    }
}

/// The partition of a stick, or the next one whose leader is known.
pub(super) fn of_stick(stick: u32, count: i32, available: impl Fn(i32) -> bool) -> i32 {
    let count = u32::try_from(count).unwrap_or(0).max(1);
    let at = |n: u32| i32::try_from((stick % count + n) % count).unwrap_or(0);
    (0..count)
        .map(at)
        .find(|p| available(*p))
        .unwrap_or_else(|| at(0))
}

unsafe extern "C" fn choose(
    topic: *const sys::rd_kafka_topic_t,
    key: *const c_void,
    size: usize,
    count: i32,
    of_topic: *mut c_void,
    of_record: *mut c_void,
) -> i32 {
    // SAFETY: these are librdkafka's own arguments, passed on; it allows both calls here.
    unsafe {
        if key.is_null() {
            of_stick(Label::unpack(of_record).stick, count, |p| {
                sys::rd_kafka_topic_partition_available(topic, p) != 0
            })
        } else {
            sys::rd_kafka_msg_partitioner_murmur2(topic, key, size, count, of_topic, of_record)
        }
    }
}
