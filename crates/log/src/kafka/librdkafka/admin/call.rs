//! One admin call: sends the request, waits for the answer, and retries while it is "not yet".
//!
//! Never waits longer than its timeout. While it waits, it checks for authentication errors, because
//! librdkafka would retry those forever.

use super::Admin;
use crate::kafka::errors::{ErrorContext, error};
use crate::kafka::librdkafka::client::{millis, text};
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka_sys as sys;
use std::ptr;
use std::time::Duration;
use stoatflow_core::{Clock, Error, ErrorKind, Result, SystemClock};
use sys::rd_kafka_admin_op_t as Op;

/// How often authentication errors are checked while waiting for an answer.
const ERROR_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The longest time between two such checks.
const MAX_ERROR_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// A call in progress: its timeout, and what it does, for messages.
pub(super) struct Call<'a> {
    pub(super) admin: &'a Admin,
    pub(super) clock: SystemClock,
    pub(super) timeout: Duration,
    pub(super) what: &'a str,
}

/// An answer, freed on drop.
pub(super) struct Answer(pub(super) *mut sys::rd_kafka_event_t);

impl Drop for Answer {
    fn drop(&mut self) {
        // SAFETY: the event came from `rd_kafka_queue_poll` and is freed here only.
        unsafe { sys::rd_kafka_event_destroy(self.0) };
    }
}

/// The result for each topic of a request: code, name, error text.
///
/// # Safety
/// There are `count` results, and they are alive.
pub(super) unsafe fn outcomes(
    results: *mut *const sys::rd_kafka_topic_result_t,
    count: usize,
) -> Vec<(Code, String, String)> {
    // SAFETY: the caller's promise.
    unsafe {
        let result = |index| *results.add(index);
        let outcome = |result| {
            (
                Code::from(sys::rd_kafka_topic_result_error(result)),
                text(sys::rd_kafka_topic_result_name(result)),
                text(sys::rd_kafka_topic_result_error_string(result)),
            )
        };
        (0..count).map(result).map(outcome).collect()
    }
}

const CA_LOCATION: &str = "ssl.ca.location";

impl Call<'_> {
    pub(super) fn left(&self) -> Duration {
        self.timeout.saturating_sub(self.clock.monotonic())
    }

    pub(super) fn fail(&self, code: Code, said: &str, topic: Option<&str>) -> Error {
        let last = self.admin.client.events.last.lock().clone();
        let said = match last {
            // Only the longer of librdkafka's texts about it names the property.
            Some((_, reason))
                if reason.contains("certificate verify failed")
                    && !reason.contains(CA_LOCATION) =>
            {
                format!("{said}; last: {reason}; see {CA_LOCATION}")
            }
            Some((last, reason)) if last != code => format!("{said}; last: {reason}"),
            _ => said.to_owned(),
        };
        error(
            code,
            &said,
            ErrorContext {
                address: &self.admin.address,
                what: self.what,
                topic,
            },
        )
    }

    /// Sends a request and waits for the answer.
    pub(super) fn ask(
        &self,
        op: Op,
        send: impl FnOnce(*mut sys::rd_kafka_AdminOptions_t, *mut sys::rd_kafka_queue_t),
    ) -> Result<Answer> {
        self.ask_for(self.left(), op, send)
    }

    /// Like [`Call::ask`], with a request timeout of its own (`given_up`) for librdkafka.
    pub(super) fn ask_for(
        &self,
        given_up: Duration,
        op: Op,
        send: impl FnOnce(*mut sys::rd_kafka_AdminOptions_t, *mut sys::rd_kafka_queue_t),
    ) -> Result<Answer> {
        let rk = self.admin.client.ptr();
        // SAFETY: the client outlives options and queue, which are freed below on every path; the
        // request copies the options, and its late answer is dropped with the queue.
        unsafe {
            let options = sys::rd_kafka_AdminOptions_new(rk, op);
            let given_up = millis(given_up).max(1);
            sys::rd_kafka_AdminOptions_set_request_timeout(options, given_up, ptr::null_mut(), 0);
            let queue = sys::rd_kafka_queue_new(rk);
            send(options, queue);
            sys::rd_kafka_AdminOptions_destroy(options);
            let answer = self.wait(queue);
            sys::rd_kafka_queue_destroy(queue);
            answer
        }
    }

    fn wait(&self, queue: *mut sys::rd_kafka_queue_t) -> Result<Answer> {
        loop {
            // SAFETY: the queue is alive during `ask`.
            let event = unsafe {
                sys::rd_kafka_queue_poll(queue, millis(self.left().min(ERROR_CHECK_INTERVAL)))
            };
            if !event.is_null() {
                let answer = Answer(event);
                // SAFETY: the event is alive as long as `answer`.
                let (code, said) = unsafe {
                    (
                        Code::from(sys::rd_kafka_event_error(event)),
                        text(sys::rd_kafka_event_error_string(event)),
                    )
                };
                return if code == Code::NoError {
                    Ok(answer)
                } else {
                    Err(self.fail(code, &said, None))
                };
            }
            self.look()?;
            if self.left().is_zero() {
                return Err(self.fail(
                    Code::OperationTimedOut,
                    &format!("no answer within {:?}", self.timeout),
                    None,
                ));
            }
        }
    }

    /// Waits until a broker is connected. Without one, librdkafka would try to connect without a pause
    /// as long as a request for the controller waits: it would use most of a core for the whole outage.
    pub(super) fn reach(self) -> Result<Self> {
        let mut patience = ERROR_CHECK_INTERVAL;
        loop {
            let wait = self.left().min(patience).max(Duration::from_millis(1));
            if self.admin.client.connect(wait) {
                // An old connection error must not explain a new failure. Without a connection it does:
                // librdkafka reports a cause that repeats only once.
                *self.admin.client.events.last.lock() = None;
                return Ok(self);
            }
            self.look()?;
            // A broker that has just started may be slow to answer: the waits grow.
            patience = (patience * 2).min(MAX_ERROR_CHECK_INTERVAL);
            if self.left().is_zero() {
                let said = format!("no broker is connected within {:?}", self.timeout);
                return Err(self.fail(Code::OperationTimedOut, &said, None));
            }
        }
    }

    /// Fails if authentication was refused.
    fn look(&self) -> Result<()> {
        self.admin.client.serve(Duration::ZERO);
        let last = self.admin.client.events.last.lock().clone();
        match last
            .filter(|(code, _)| crate::kafka::errors::kind_of(*code) == ErrorKind::Unauthorized)
        {
            Some((code, reason)) => Err(self.fail(code, &reason, None)),
            None => Ok(()),
        }
    }

    /// Repeats `ask` while the answer is "not yet".
    pub(super) fn until_ready<T>(&self, ask: impl Fn() -> Result<T>) -> Result<T> {
        loop {
            match ask() {
                Err(e)
                    if e.kind() == ErrorKind::Unavailable && self.left() > ERROR_CHECK_INTERVAL =>
                {
                    self.admin.client.serve(ERROR_CHECK_INTERVAL / 4)
                }
                other => return other,
            }
        }
    }
}
