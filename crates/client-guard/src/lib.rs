//! A guard around one function of librdkafka, which would end the process otherwise.
//!
//! A broker that has just come back tells with an answer to a fetch which partitions have another leader, and
//! of some that there is none yet. librdkafka 2.12 makes room for all of them, fills in those that have one,
//! and then reads all: what lies behind is whatever the memory held, a partition's number among it, and a
//! negative one is read far outside of its array (confluentinc/librdkafka#5280, open). Here each row is that
//! of no partition until it is filled in.
//!
//! The linker has the fetcher call `__wrap_…` instead of the function, and gives us the function as
//! `__real_…`: so it works where the link is told to (`crates/python/build.rs`, on Linux), and
//! nothing else may use this crate. To be taken out with the first version that has the mend: with
//! any other version than this one it does not compile.

#![cfg(target_os = "linux")]

use rdkafka_sys as sys;
use std::ffi::{c_char, c_int, c_void};

/// The version that the signature below is of.
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

/// Makes room for a topic's partitions, none of which is any yet.
///
/// # Safety
/// Called by librdkafka alone, with what the function that it stands for takes.
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
        // Beyond any: who reads it says that there is no such partition, and goes on.
        id: c_int::MAX,
        err: sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR,
        leader: -1,
        replica_cnt: 0,
        replicas: std::ptr::null_mut(),
        isr_cnt: 0,
        isrs: std::ptr::null_mut(),
    };
    // SAFETY: the arguments are handed on as they came. librdkafka has then allocated `partitions`
    // rows for topic `at`, and no other thread has a pointer to them yet. The public metadata is the
    // first field of the internal one.
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
