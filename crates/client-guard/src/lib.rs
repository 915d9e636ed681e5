//! A guard around one function of librdkafka that could otherwise crash the process.
//!
//! After a restart, a broker lists in its fetch responses the partitions whose leader has changed, and
//! some of them have no leader yet. librdkafka 2.12 allocates a metadata row for each of these
//! partitions, fills in only those that have a leader, and then reads all of them. The other rows hold
//! uninitialised memory: their partition number is arbitrary, and with a negative one librdkafka reads
//! far outside its array (confluentinc/librdkafka#5280, open). This guard initialises every row with the
//! number of a partition that doesn't exist.
//!
//! The linker redirects the call to `__wrap_…` and makes the original function available as `__real_…`.
//! This works only where the linker is told to (`crates/python/build.rs`, on Linux), so nothing else may
//! use this crate. Remove it with the first version of librdkafka that fixes the bug; it doesn't compile
//! against any other version than the one below.

#![cfg(target_os = "linux")]

use rdkafka_sys as sys;
use std::ffi::{c_char, c_int, c_void};

/// The librdkafka version that has the signature below.
pub const VERSION: c_int = 0x020c_01ff;

const _: () = assert!(
    sys::RD_KAFKA_VERSION as c_int == VERSION,
    "look whether librdkafka#5280 is mended"
);

/// `rd_kafka_Uuid_t`: two numbers and 23 characters.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Uuid {
    bits: [i64; 2],
    text: [c_char; 23],
}

unsafe extern "C" {
    fn __real_rd_kafkap_leader_discovery_set_topic(
        room: *mut c_void,
        metadata: *mut sys::rd_kafka_metadata_t,
        at: c_int,
        id: Uuid,
        name: *mut c_char,
        partitions: c_int,
    );
}

/// Allocates the rows of a topic's partitions, then initialises each of them as "no partition".
///
/// # Safety
/// Must be called by librdkafka only, with valid arguments of the wrapped function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_rd_kafkap_leader_discovery_set_topic(
    room: *mut c_void,
    metadata: *mut sys::rd_kafka_metadata_t,
    at: c_int,
    id: Uuid,
    name: *mut c_char,
    partitions: c_int,
) {
    let none = sys::rd_kafka_metadata_partition_t {
        // Larger than any partition number: librdkafka finds no such partition and skips the row.
        id: c_int::MAX,
        err: sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR,
        leader: -1,
        replica_cnt: 0,
        replicas: std::ptr::null_mut(),
        isr_cnt: 0,
        isrs: std::ptr::null_mut(),
    };
    // SAFETY: the arguments are passed on unchanged. librdkafka has then allocated `partitions` rows for
    // topic `at`, and no other thread has a pointer to them yet. The public metadata is the first field
    // of the internal one.
    unsafe {
        __real_rd_kafkap_leader_discovery_set_topic(room, metadata, at, id, name, partitions);
        let (Ok(at), Ok(count)) = (usize::try_from(at), usize::try_from(partitions)) else {
            return;
        };
        let topic = &*(*metadata).topics.add(at);
        for row in 0..count {
            topic.partitions.add(row).write(none);
        }
    }
}
