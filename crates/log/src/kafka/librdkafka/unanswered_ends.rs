//! EndTxn requests that librdkafka has sent without getting an answer.
//!
//! After a lost connection or a request timeout, librdkafka silently repeats the request with the same
//! producer epoch. The first one may still be on its way, and a broker that receives it during a later
//! transaction of the same epoch ends that transaction (Jepsen 2024; KIP-890 fixes it for clients that
//! support it). Recorded by an interceptor of librdkafka.

use rdkafka_sys as sys;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// API key of EndTxn.
const END_TXN: i16 = 26;
const NAME: *const c_char = c"stoatflow".as_ptr();
const FINE: sys::rd_kafka_resp_err_t = sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;

/// Whether there was one. A client ends one transaction at a time.
#[derive(Debug, Default)]
pub(in crate::kafka) struct UnansweredEnds {
    in_flight: AtomicBool,
    unanswered: AtomicBool,
}

impl UnansweredEnds {
    /// Records those of the client that will be created from this configuration.
    ///
    /// # Safety
    /// `config` is a live configuration; this value outlives the client created from it, and doesn't
    /// move.
    pub(in crate::kafka) unsafe fn watch(&self, config: *mut sys::rd_kafka_conf_t) {
        let own = std::ptr::from_ref(self).cast_mut().cast();
        // SAFETY: the caller's promise.
        unsafe { sys::rd_kafka_conf_interceptor_add_on_new(config, NAME, Some(on_new), own) };
    }

    pub(in crate::kafka) fn any(&self) -> bool {
        self.unanswered.load(Relaxed)
    }
}

unsafe extern "C" fn on_new(
    client: *mut sys::rd_kafka_t,
    _: *const sys::rd_kafka_conf_t,
    own: *mut c_void,
    _: *mut c_char,
    _: usize,
) -> sys::rd_kafka_resp_err_t {
    // SAFETY: librdkafka calls this with the client that it creates; `own` is the value of `watch`.
    unsafe {
        sys::rd_kafka_interceptor_add_on_request_sent(client, NAME, Some(on_sent), own);
        sys::rd_kafka_interceptor_add_on_response_received(client, NAME, Some(on_answer), own);
    }
    FINE
}

/// Called when a whole request was passed to the connection.
unsafe extern "C" fn on_sent(
    _: *mut sys::rd_kafka_t,
    _: c_int,
    _: *const c_char,
    _: i32,
    api: i16,
    _: i16,
    _: i32,
    _: usize,
    own: *mut c_void,
) -> sys::rd_kafka_resp_err_t {
    if api == END_TXN {
        // SAFETY: `own` is the value of `watch`, which outlives the client.
        let ends = unsafe { &*own.cast::<UnansweredEnds>() };
        ends.in_flight.store(true, Relaxed);
    }
    FINE
}

/// Called when a request has ended: with an answer, whatever it says, or without one, and then it may
/// never have been sent. May be called twice per request.
unsafe extern "C" fn on_answer(
    _: *mut sys::rd_kafka_t,
    _: c_int,
    _: *const c_char,
    _: i32,
    api: i16,
    _: i16,
    _: i32,
    _: usize,
    _: i64,
    code: sys::rd_kafka_resp_err_t,
    own: *mut c_void,
) -> sys::rd_kafka_resp_err_t {
    if api == END_TXN {
        // SAFETY: `own` is the value of `watch`, which outlives the client.
        let ends = unsafe { &*own.cast::<UnansweredEnds>() };
        if ends.in_flight.swap(false, Relaxed) && code != FINE {
            ends.unanswered.store(true, Relaxed);
        }
    }
    FINE
}
