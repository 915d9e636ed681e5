//! Safe wrappers of librdkafka's objects.
//!
//! Takes configurations, returns clients, lists and errors that free themselves. Owns the pointers and
//! the callbacks (log, error, delivery). Never waits and never maps an error.

use crate::kafka::librdkafka::delivery_reports::Reports;
use crate::kafka::librdkafka::unanswered_ends::UnansweredEnds;
use crate::kafka::partitioner::Label;
use parking_lot::Mutex;
use rdkafka::config::ClientConfig;
use rdkafka::topic_partition_list::{Offset as ListOffset, TopicPartitionList};
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka_sys as sys;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::time::Duration;
use stoatflow_core::{Clock, Error, Result, SystemClock, TopicPartition};

/// How long after the error "all brokers are down" the bootstrap list is added to a client again.
const FIRST_REMINDER: Duration = Duration::from_secs(2);
/// Closing doesn't leave the group: the client never joined.
const NO_CONSUMER_CLOSE: c_int = 0x8;

/// Written by the callbacks of one client.
#[derive(Debug, Default)]
pub(in crate::kafka) struct Events {
    /// The last error that concerns no record: connections, authentication.
    pub last: Mutex<Option<(Code, String)>>,
    /// Delivery reports.
    pub reports: Mutex<Reports>,
    /// The broker's clock at the last record of a topic with `LogAppendTime`; 0 if unknown.
    pub append_time: AtomicI64,
    /// Whether "all brokers are down" was reported since the last reminder.
    pub alone: AtomicBool,
    /// Requests that end a transaction, sent and not answered.
    pub ends: UnansweredEnds,
}

/// When the bootstrap list is added to a client that may have dropped all its brokers.
#[derive(Debug, Default)]
struct Reminder {
    at: Option<Duration>,
    /// How often it was added since the last connection.
    told: u32,
}

impl Reminder {
    /// Short at first, then longer while no broker answers, because librdkafka keeps what is added.
    fn pause(&self) -> Duration {
        FIRST_REMINDER * 2_u32.pow(self.told.min(7))
    }
}

/// A librdkafka client.
#[derive(Debug)]
pub(in crate::kafka) struct Client {
    ptr: NonNull<sys::rd_kafka_t>,
    /// Callbacks hold a plain pointer to it, so it is dropped after the client is destroyed.
    pub events: Arc<Events>,
    consumer: bool,
    /// Whether the client is never destroyed, because one of its calls never returned.
    leaked: AtomicBool,
    bootstrap: CString,
    clock: SystemClock,
    reminder: Mutex<Reminder>,
}

// SAFETY: librdkafka's handle is documented to be thread-safe; `Events` is `Sync`.
unsafe impl Send for Client {}
// SAFETY: as above.
unsafe impl Sync for Client {}

impl Client {
    pub(in crate::kafka) fn new(consumer: bool, config: &ClientConfig) -> Result<Self> {
        let refused = |said: String| {
            Error::config(format!("the Kafka client can't be made: {said}"))
                .hint("fix the client properties that the message names")
        };
        let native = config
            .create_native_config()
            .map_err(|e| refused(e.to_string()))?;
        let bootstrap = config.get("bootstrap.servers").unwrap_or_default();
        let bootstrap = CString::new(bootstrap).map_err(|e| refused(e.to_string()))?;
        let events = Arc::new(Events::default());
        let kind = if consumer {
            sys::rd_kafka_type_t::RD_KAFKA_CONSUMER
        } else {
            sys::rd_kafka_type_t::RD_KAFKA_PRODUCER
        };
        let mut said = [0 as c_char; 512];
        // SAFETY: `native` is a live configuration; the copy belongs to us until `rd_kafka_new` takes
        // it. The opaque pointer stays valid: `events` is dropped after `rd_kafka_destroy_flags`.
        let ptr = unsafe {
            let copy = sys::rd_kafka_conf_dup(native.ptr());
            sys::rd_kafka_conf_set_opaque(copy, Arc::as_ptr(&events).cast_mut().cast());
            sys::rd_kafka_conf_set_log_cb(copy, Some(on_log));
            sys::rd_kafka_conf_set_error_cb(copy, Some(on_error));
            if !consumer {
                sys::rd_kafka_conf_set_dr_msg_cb(copy, Some(on_delivery));
                events.ends.watch(copy);
            }
            let ptr = sys::rd_kafka_new(kind, copy, said.as_mut_ptr(), said.len());
            if ptr.is_null() {
                sys::rd_kafka_conf_destroy(copy);
            }
            ptr
        };
        // SAFETY: librdkafka ends the text with a zero within the size it was given.
        let ptr = NonNull::new(ptr).ok_or_else(|| refused(unsafe { text(said.as_ptr()) }))?;
        Ok(Self {
            ptr,
            events,
            consumer,
            leaked: AtomicBool::new(false),
            bootstrap,
            clock: SystemClock::new(),
            reminder: Mutex::default(),
        })
    }

    pub(in crate::kafka) const fn ptr(&self) -> *mut sys::rd_kafka_t {
        self.ptr.as_ptr()
    }

    /// Leaks the client, because one of its calls has not returned.
    pub(in crate::kafka) fn leak(&self) {
        if !self.leaked.swap(true, Relaxed) {
            // The callbacks point to the events.
            std::mem::forget(Arc::clone(&self.events));
        }
    }

    /// Serves callbacks; waits for the first one.
    pub(in crate::kafka) fn serve(&self, wait: Duration) {
        // SAFETY: the client is alive.
        unsafe { sys::rd_kafka_poll(self.ptr(), millis(wait)) };
        self.remind();
    }

    /// Adds the bootstrap brokers again if librdkafka may have dropped them: a broker that has just
    /// restarted can answer that the cluster has no brokers, itself included. librdkafka then removes
    /// all brokers it knows, including the bootstrap brokers, and never connects again
    /// (confluentinc/librdkafka#5301). To be called from time to time.
    pub(in crate::kafka) fn remind(&self) {
        if !self.events.alone.load(Relaxed) {
            return;
        }
        let (now, mut reminder) = (self.clock.monotonic(), self.reminder.lock());
        let pause = reminder.pause();
        // Not at once: the brokers that librdkafka is about to remove still count as known.
        if now < *reminder.at.get_or_insert(now + pause) {
            return;
        }
        self.events.alone.store(false, Relaxed);
        reminder.at = None;
        reminder.told += 1;
        drop(reminder);
        // SAFETY: the client is alive; the call copies the text. Brokers it knows are not added twice.
        let added = unsafe { sys::rd_kafka_brokers_add(self.ptr(), self.bootstrap.as_ptr()) };
        if added > 0 {
            tracing::debug!(target: "stoatflow::kafka", added, "the client had forgotten its brokers");
        }
    }

    /// Notes that a broker has answered.
    pub(in crate::kafka) fn answered(&self) {
        self.reminder.lock().told = 0;
    }

    /// Waits until any broker is connected and answers, at most this long; `false` if none did.
    pub(in crate::kafka) fn connect(&self, wait: Duration) -> bool {
        let mut metadata = std::ptr::null();
        // SAFETY: the client is alive; the answer, if there is one, is ours to free, and is not read.
        unsafe {
            let topic = std::ptr::null_mut();
            sys::rd_kafka_metadata(self.ptr(), 0, topic, &raw mut metadata, millis(wait));
            if !metadata.is_null() {
                sys::rd_kafka_metadata_destroy(metadata);
            }
        }
        if metadata.is_null() {
            return false;
        }
        self.answered();
        true
    }

    /// The cause of a fatal error, if there was one.
    pub(in crate::kafka) fn fatal(&self) -> Option<(Code, String)> {
        let mut said = [0 as c_char; 512];
        // SAFETY: the client is alive; the buffer and its size belong together.
        let code = unsafe { sys::rd_kafka_fatal_error(self.ptr(), said.as_mut_ptr(), said.len()) };
        if code == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
            return None;
        }
        // SAFETY: librdkafka has written a text that ends with a zero.
        Some((code.into(), unsafe { text(said.as_ptr()) }))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if self.leaked.load(Relaxed) {
            return;
        }
        // SAFETY: nobody else has the pointer: topics and queues made from it are dropped before it.
        unsafe {
            sys::rd_kafka_destroy_flags(
                self.ptr(),
                if self.consumer { NO_CONSUMER_CLOSE } else { 0 },
            )
        };
    }
}

unsafe extern "C" fn on_log(
    _: *const sys::rd_kafka_t,
    level: c_int,
    facility: *const c_char,
    line: *const c_char,
) {
    // SAFETY: librdkafka passes two texts that live as long as the call.
    let (facility, line) = unsafe { (text(facility), text(line)) };
    match level {
        0..=3 => tracing::error!(target: "stoatflow::kafka", facility, "{line}"),
        4 => tracing::warn!(target: "stoatflow::kafka", facility, "{line}"),
        5 | 6 => tracing::info!(target: "stoatflow::kafka", facility, "{line}"),
        _ => tracing::debug!(target: "stoatflow::kafka", facility, "{line}"),
    }
}

unsafe extern "C" fn on_error(
    _: *mut sys::rd_kafka_t,
    code: c_int,
    reason: *const c_char,
    opaque: *mut c_void,
) {
    // SAFETY: `opaque` is the `Events` that was set in `Client::new` and outlives the client.
    let events = unsafe { &*opaque.cast::<Events>() };
    // SAFETY: librdkafka passes a text that lives as long as the call.
    let reason = unsafe { text(reason) };
    let code = numbered(code);
    tracing::debug!(target: "stoatflow::kafka", ?code, "{reason}");
    if code == Code::AllBrokersDown {
        events.alone.store(true, Relaxed);
    }
    let mut last = events.last.lock();
    // "All brokers are down" follows the cause (refused, unresolved) and must not hide it.
    if code != Code::AllBrokersDown || last.is_none() {
        *last = Some((code, reason));
    }
}

unsafe extern "C" fn on_delivery(
    _: *mut sys::rd_kafka_t,
    message: *const sys::rd_kafka_message_t,
    opaque: *mut c_void,
) {
    // SAFETY: `message` lives as long as the call.
    let code = numbered(unsafe { (&raw const (*message).err).cast::<c_int>().read() });
    let ok = code == Code::NoError;
    let failed = (!ok).then_some(code);
    // SAFETY: `opaque` is the `Events` that was set in `Client::new`; `message` lives as long as the call.
    let (events, message) = unsafe { (&*opaque.cast::<Events>(), &*message) };
    let mut kind = sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
    // SAFETY: the message is alive, and `kind` is written to.
    let time = unsafe { sys::rd_kafka_message_timestamp(message, &raw mut kind) };
    if ok && kind == sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME {
        events.append_time.fetch_max(time, Relaxed);
    }
    events.reports.lock().take(
        Label::unpack(message._private).topic as usize,
        message.partition,
        message.offset,
        failed,
    );
}

/// TRANSACTION_ABORTABLE (KIP-890), which librdkafka has no name for.
const ABORTABLE: c_int = 120;

/// The code with this number. librdkafka passes on a broker's number unchanged, even if its enumeration
/// has no such value: it must not be read as one.
pub(in crate::kafka) fn numbered(number: c_int) -> Code {
    match sys::rd_kafka_resp_err_t::try_from(number) {
        Ok(code) => Code::from(code),
        Err(_) if number == ABORTABLE => Code::InvalidTransactionalState,
        Err(_) => Code::Unknown,
    }
}

unsafe extern "C" {
    /// As `sys` declares it, except for the return type.
    #[link_name = "rd_kafka_error_code"]
    #[allow(clashing_extern_declarations)] // an enumeration of C is an `int`
    fn rd_kafka_error_number(error: *const sys::rd_kafka_error_t) -> c_int;
}

/// An error object of librdkafka, taken apart.
#[derive(Debug)]
pub(in crate::kafka) struct RdKafkaError {
    pub code: Code,
    pub said: String,
    pub fatal: bool,
    pub retriable: bool,
    pub abortable: bool,
}

impl RdKafkaError {
    /// Takes ownership of the object; null means success.
    ///
    /// # Safety
    /// `error` is null or an error object that nobody else will free.
    pub(in crate::kafka) unsafe fn take(error: *mut sys::rd_kafka_error_t) -> Option<Self> {
        if error.is_null() {
            return None;
        }
        // SAFETY: the object is alive until the last line, which frees it.
        unsafe {
            let fault = Self::look(error);
            sys::rd_kafka_error_destroy(error);
            Some(fault)
        }
    }

    /// Reads an object that stays with its owner.
    ///
    /// # Safety
    /// `error` is a live error object.
    pub(in crate::kafka) unsafe fn look(error: *const sys::rd_kafka_error_t) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            Self {
                code: numbered(rd_kafka_error_number(error)),
                said: text(sys::rd_kafka_error_string(error)),
                fatal: sys::rd_kafka_error_is_fatal(error) != 0,
                retriable: sys::rd_kafka_error_is_retriable(error) != 0,
                abortable: sys::rd_kafka_error_txn_requires_abort(error) != 0,
            }
        }
    }
}

/// Copies a C string.
///
/// # Safety
/// `from` is null or a text that ends with a zero.
pub(in crate::kafka) unsafe fn text(from: *const c_char) -> String {
    if from.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(from) }
        .to_string_lossy()
        .into_owned()
}

/// A name as a C string.
pub(in crate::kafka) fn c_text(name: &str) -> Result<CString> {
    CString::new(name).map_err(|_| {
        Error::config(format!("the name {name:?} holds a zero byte")).hint("remove it")
    })
}

/// A duration in librdkafka's milliseconds: rounded up, so that a short wait doesn't become zero.
pub(in crate::kafka) fn millis(duration: Duration) -> c_int {
    c_int::try_from(duration.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX)
}

/// A list with an offset per partition.
pub(in crate::kafka) fn list<'a>(
    entries: impl IntoIterator<Item = (&'a TopicPartition, i64, Option<&'a str>)>,
) -> Result<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for (partition, offset, metadata) in entries {
        c_text(&partition.topic)?;
        let mut row = list.add_partition(&partition.topic, partition.partition.0);
        let placed = row.set_offset(ListOffset::from_raw(offset));
        placed.map_err(|e| {
            Error::internal(format!("{partition} can't be put at {offset}")).caused_by(e)
        })?;
        if let Some(metadata) = metadata.filter(|m| !m.is_empty()) {
            c_text(metadata)?;
            row.set_metadata(metadata);
        }
    }
    Ok(list)
}

/// The rows of a list from librdkafka.
///
/// # Safety
/// `list` is a live list that outlives the slice.
pub(in crate::kafka) unsafe fn rows<'a>(
    list: *const sys::rd_kafka_topic_partition_list_t,
) -> &'a [sys::rd_kafka_topic_partition_t] {
    // SAFETY: the caller's promise; librdkafka keeps `cnt` rows at `elems`, none if it is null.
    unsafe {
        let list = &*list;
        if list.elems.is_null() {
            &[]
        } else {
            std::slice::from_raw_parts(list.elems, usize::try_from(list.cnt).unwrap_or(0))
        }
    }
}
