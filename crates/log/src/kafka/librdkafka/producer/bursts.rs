//! Sends records in bursts: while a partition has a request in flight, librdkafka sends no second one.
//!
//! Keeps new records back until the ones sent before are acknowledged, then passes them on as the next
//! burst; flushes. A small transaction is passed on at once.

use super::KafkaProducer;
use crate::kafka::errors::error;
use crate::kafka::librdkafka::client::millis;
use crate::kafka::librdkafka::outgoing::weight;
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka_sys as sys;
use std::time::Duration;
use stoatflow_core::{Clock, Result, SystemClock};

/// Bytes sent to a partition at a time: what fits into one request (`batch.size`, and
/// `max.message.bytes` of a topic).
const BURST_BYTES: usize = 900_000;
/// So many bytes of a transaction are passed on at once. If no more is written between two commits, a
/// burst would save little, and waiting for its answer takes longer than everything else.
const SMALL_TRANSACTION_BYTES: usize = 2 << 20;
/// How long to wait for a burst before doing other work.
const BURST_WAIT: Duration = Duration::from_millis(1);
/// How long a flush sends one burst after another.
const MAX_BURST_TIME: Duration = Duration::from_millis(40);

impl KafkaProducer {
    /// How many records in the client are not acknowledged.
    fn unacknowledged(&self) -> i32 {
        // SAFETY: the client is alive.
        unsafe { sys::rd_kafka_outq_len(self.client.ptr()) }
    }

    /// Passes the first kept record to the client; returns how many of its bytes may go to one
    /// partition.
    pub(super) fn hand_over(&mut self) -> Result<usize> {
        let Some(record) = self.kept.pop_front() else {
            return Ok(0);
        };
        let weight = weight(&record);
        self.kept_bytes -= weight;
        self.sent += weight;
        let target = self.write(&record)?;
        let spread = if record.partition.is_none() {
            self.targets[target].spread
        } else {
            1
        };
        Ok(weight / spread)
    }

    /// Passes one burst to the client.
    fn burst(&mut self) -> Result<()> {
        let mut most = 0;
        while most < BURST_BYTES && !self.kept.is_empty() {
            most += self.hand_over()?;
        }
        Ok(())
    }

    /// Makes the client send everything it has at once, and waits until it is acknowledged.
    fn push(&self, timeout: Duration) -> Result<Code> {
        // SAFETY: the client is alive.
        let code = Code::from(unsafe { sys::rd_kafka_flush(self.client.ptr(), millis(timeout)) });
        self.delivered()?;
        Ok(code)
    }

    /// Fails if not everything in the client is acknowledged in time.
    fn acknowledge(&self, timeout: Duration) -> Result<()> {
        let code = self.push(timeout)?;
        if code == Code::NoError {
            return Ok(());
        }
        let left = self.unacknowledged();
        let fault = self.client.fatal().unwrap_or((
            code,
            format!("{left} records are not acknowledged after {timeout:?}"),
        ));
        Err(error(fault.0, &fault.1, self.doing("flushing", None)))
    }

    /// Sends one burst after another. While a partition has a request in flight, librdkafka sends no
    /// second one, but its thread spins as long as there is something to send. So new records wait here
    /// for the next burst.
    pub(super) fn send_kept(&mut self) -> Result<usize> {
        self.client.serve(Duration::ZERO);
        self.delivered()?;
        while self.sent < SMALL_TRANSACTION_BYTES && !self.kept.is_empty() {
            self.hand_over()?;
        }
        if !self.kept.is_empty() && self.unacknowledged() == 0 {
            self.burst()?;
            self.push(BURST_WAIT)?;
        }
        Ok(self.kept_bytes)
    }

    pub(super) fn flush_all(&mut self, timeout: Duration) -> Result<()> {
        let clock = SystemClock::new();
        while !self.kept.is_empty() {
            self.acknowledge(timeout.saturating_sub(clock.monotonic()))?;
            let far = clock.monotonic() > MAX_BURST_TIME;
            while far && !self.kept.is_empty() {
                self.hand_over()?;
            }
            self.burst()?;
        }
        self.acknowledge(timeout.saturating_sub(clock.monotonic()))
    }
}
