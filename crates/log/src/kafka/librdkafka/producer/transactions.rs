//! The transactions of one id through librdkafka: taking the id over, adding offsets, ending.
//!
//! librdkafka implements the first version of transactions, in which consecutive transactions have the
//! same producer epoch. A late request of an earlier transaction could reach the broker during the next
//! one and be applied to it. So if there may be such a request, the next transaction fails, and a
//! restart gets a new epoch.

use super::KafkaProducer;
use crate::kafka::librdkafka::client::{RdKafkaError, c_text, list, millis};
use crate::{CommitOutcome, CutEntry};
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka_sys as sys;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Clock, Error, ErrorKind, Result, SystemClock};

/// How much longer than its timeout a call of librdkafka may take before it counts as hanging.
const GRACE: Duration = Duration::from_secs(2);
const AGAIN: &str = "start again: nothing of it is visible, and its records are read again";

/// librdkafka's metadata of a group, for a transaction.
#[derive(Debug)]
pub(super) struct Group(String, NonNull<sys::rd_kafka_consumer_group_metadata_t>);

// SAFETY: an immutable object, used under `&mut self`.
unsafe impl Send for Group {}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: made in `group`, freed once.
        unsafe { sys::rd_kafka_consumer_group_metadata_destroy(self.1.as_ptr()) };
    }
}

impl KafkaProducer {
    /// Takes over the transactional id: older producers with it are fenced, their open transactions are
    /// aborted.
    pub(in crate::kafka) fn open(&self, timeout: Duration) -> Result<()> {
        // librdkafka looks for the coordinator once, and half a second later if no broker was connected.
        let clock = SystemClock::new();
        self.guard().connect(timeout);
        let left = timeout.saturating_sub(clock.monotonic());
        let rk = self.guard().ptr();
        // SAFETY: the client is alive.
        let opened = self.retried(left, |wait| unsafe {
            sys::rd_kafka_init_transactions(rk, wait)
        });
        opened.map_err(|fault| self.fail(&fault, "opening the producer"))
    }

    /// Repeats a call while librdkafka calls the error retriable and there is time.
    fn retried(
        &self,
        timeout: Duration,
        call: impl Fn(i32) -> *mut sys::rd_kafka_error_t,
    ) -> Result<(), RdKafkaError> {
        let clock = SystemClock::new();
        loop {
            let left = timeout.saturating_sub(clock.monotonic());
            // SAFETY: librdkafka's transactional calls return an error object that is ours, or null.
            match unsafe { RdKafkaError::take(call(millis(left))) } {
                None => return Ok(()),
                Some(fault)
                    if fault.retriable && !timeout.saturating_sub(clock.monotonic()).is_zero() =>
                {
                    self.guard().serve(Duration::from_millis(5));
                }
                Some(fault) => return Err(fault),
            }
        }
    }

    fn group(&mut self, name: &str) -> Result<*mut sys::rd_kafka_consumer_group_metadata_t> {
        if let Some(Group(known, metadata)) = &self.group
            && known == name
        {
            return Ok(metadata.as_ptr());
        }
        let text = c_text(name)?;
        // SAFETY: the name lives as long as the call.
        let metadata = unsafe { sys::rd_kafka_consumer_group_metadata_new(text.as_ptr()) };
        let metadata = NonNull::new(metadata).ok_or_else(|| {
            Error::internal(format!("the client gives no metadata for group '{name}'"))
        })?;
        self.group = Some(Group(name.to_owned(), metadata));
        Ok(metadata.as_ptr())
    }

    /// Reports `Fenced` only if another producer must have taken the id. After a transaction timeout,
    /// the broker ends the epoch itself, and then answers as if a newer producer had begun. The next
    /// start finds out: see `refuse_successor` of the engine.
    pub(super) fn classify_fencing(&self, error: Error) -> Error {
        let open = self.clock.monotonic().saturating_sub(self.begun);
        if error.kind() != ErrorKind::Fenced || open < self.silence {
            return error;
        }
        Error::unavailable(format!(
            "a transaction of '{}' was open for {:.1} s, longer than transaction.timeout.ms, and the broker at {} has \
                ended it",
            self.id,
            open.as_secs_f64(),
            self.address
        ))
        .hint(AGAIN)
        .caused_by(error)
    }

    /// The request that ends a transaction was repeated, because it got no answer. librdkafka keeps its
    /// epoch, so the first request, arriving late, would end the next transaction. A new client would
    /// get another epoch, but would also take the id from an instance that has started meanwhile: only a
    /// restart finds out whether there is one.
    pub(super) fn end_in_doubt(&self) -> Error {
        Error::unavailable(format!(
            "the broker at {} didn't answer the end of a transaction of '{}', and the request was repeated",
            self.address, self.id
        ))
        .hint("start again: the transaction is committed, and the next one needs a new producer epoch")
    }

    /// Adds positions of a group to the transaction.
    pub(super) fn send_offsets(
        &mut self,
        group: &str,
        cut: &[CutEntry],
        timeout: Duration,
    ) -> Result<()> {
        self.settle();
        let metadata = self.group(group)?;
        let positions = Arc::new(list(cut.iter().map(|entry| {
            (
                &entry.partition,
                entry.offset.0,
                Some(entry.metadata.as_str()),
            )
        }))?);
        let rk = self.guard().ptr();
        let what = "adding offsets to the transaction";
        let clock = SystemClock::new();
        let arguments = Arguments(rk, positions, metadata);
        loop {
            let left = timeout.saturating_sub(clock.monotonic());
            let (wait, given) = (millis(left), arguments.clone());
            // While a group has no coordinator, librdkafka looks for it forever
            // (confluentinc/librdkafka#5511).
            let sent = self.caller.call(left + GRACE, move || given.send(wait));
            match sent {
                None => {
                    self.leak();
                    return Err(Error::unavailable(format!(
                        "{what} of '{}': librdkafka gave no answer within {timeout:?}; the group '{group}' may have \
                            no coordinator at {}",
                        self.id, self.address
                    ))
                    .hint(AGAIN));
                }
                Some(None) => return Ok(()),
                Some(Some(fault))
                    if fault.retriable && !timeout.saturating_sub(clock.monotonic()).is_zero() =>
                {
                    self.guard().serve(Duration::from_millis(5));
                }
                Some(Some(fault)) if fault.code == Code::State && !fault.fatal => {
                    return Err(self.given_up(&fault, what));
                }
                Some(Some(fault)) => return Err(self.fail(&fault, what)),
            }
        }
    }

    /// librdkafka allows only an abort now, after a record that the broker refused or a broker that
    /// didn't answer, and returns "erroneous state" from every other call. The error has the cause if a
    /// delivery report names it.
    fn given_up(&self, fault: &RdKafkaError, what: &str) -> Error {
        self.guard().serve(Duration::ZERO);
        if let Err(reason) = self.delivered() {
            return reason;
        }
        Error::unavailable(format!(
            "{what} of '{}': librdkafka has given the transaction up ({})",
            self.id, fault.said
        ))
        .hint(AGAIN)
    }

    /// A call of librdkafka never returned: everything it uses must stay allocated.
    fn leak(&mut self) {
        std::mem::forget(self.group.take());
        self.guard().leak();
    }

    /// Ends the transaction.
    pub(super) fn end(&mut self, timeout: Duration) -> Result<CommitOutcome> {
        let clock = SystemClock::new();
        if !self.kept.is_empty() {
            return Err(Error::internal("a commit before a flush"));
        }
        let rk = self.guard().ptr();
        // SAFETY: the client is alive.
        let Err(fault) = self.retried(timeout, |wait| unsafe {
            sys::rd_kafka_commit_transaction(rk, wait)
        }) else {
            self.markers.begin(self.clock.monotonic());
            return Ok(CommitOutcome::Committed);
        };
        if fault.abortable {
            tracing::warn!(
                target: "stoatflow::kafka",
                id = self.id,
                code = ?fault.code,
                "the commit failed and is aborted: {}",
                fault.said
            );
            let left = timeout
                .saturating_sub(clock.monotonic())
                .max(Duration::from_secs(1));
            self.roll_back(left)
                .map_err(|fault| self.fail(&fault, "aborting the transaction"))?;
            return Ok(CommitOutcome::Aborted);
        }
        let known = self.fail(&fault, "committing the transaction");
        if matches!(known.kind(), ErrorKind::Fenced | ErrorKind::Unauthorized)
            || fault.code == Code::State
        {
            return Err(known);
        }
        Err(Error::unknown_outcome(format!(
            "the broker at {} didn't say within {timeout:?} whether '{}' is committed",
            self.address, self.id
        ))
        .caused_by(known))
    }

    pub(super) fn roll_back(&mut self, timeout: Duration) -> Result<(), RdKafkaError> {
        self.kept.clear();
        self.kept_bytes = 0;
        let rk = self.guard().ptr();
        // SAFETY: the client is alive.
        let aborted = self.retried(timeout, |wait| unsafe {
            sys::rd_kafka_abort_transaction(rk, wait)
        });
        if self.guard.is_none() {
            self.client.events.reports.lock().clear_failure();
        }
        aborted
    }
}

/// The arguments for adding offsets. The client and the group outlive it: see [`KafkaProducer::leak`].
#[derive(Clone)]
struct Arguments(
    *mut sys::rd_kafka_t,
    Arc<TopicPartitionList>,
    *mut sys::rd_kafka_consumer_group_metadata_t,
);

// SAFETY: librdkafka's handles are thread-safe, and the list is only read.
unsafe impl Send for Arguments {}

impl Arguments {
    fn send(self, wait: i32) -> Option<RdKafkaError> {
        let Self(rk, positions, metadata) = self;
        // SAFETY: client, list and metadata are alive; the error object is ours.
        unsafe {
            RdKafkaError::take(sys::rd_kafka_send_offsets_to_transaction(
                rk,
                positions.ptr(),
                metadata,
                wait,
            ))
        }
    }
}
