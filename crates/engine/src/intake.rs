//! Reads from the broker and hands records to dispatch, on one thread.
//!
//! Owns the consumer. A step polls, assigns timestamps, dispatches to lanes and inserts a barrier
//! if one is due. Never sleeps longer than until the next barrier may be due.
//!
//! In this folder a *slot* is a partition's index in the consumer's assignment
//! ([`source_partitions`]).

pub mod dispatch;
pub mod global_table_gate;
pub mod invalid_timestamps;
pub mod source_partitions;
pub mod timestamps;
pub mod watermarks;

use crate::intake::dispatch::Dispatch;
use crate::intake::timestamps::TimestampAssigner;
use crate::runtime::failpoint::Failpoint;
use crate::runtime::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_core::Result;
use stoatflow_log::{Consumer, ConsumerRecord};
use stoatflow_protocol::Fetch;

/// Maximum records per poll.
const FETCH_MAX: usize = 4096;

/// How often a paused intake checks for work.
const PAUSED_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// See the module.
pub struct Intake {
    shared: Arc<Shared>,
    consumer: Box<dyn Consumer>,
    dispatch: Dispatch,
    timestamps: TimestampAssigner,
    fetched: Vec<ConsumerRecord>,
    /// Slots that are paused at the consumer, sorted.
    paused: Vec<u32>,
}

impl Intake {
    /// Builds the intake; the consumer must be assigned.
    #[must_use]
    pub const fn new(
        shared: Arc<Shared>,
        consumer: Box<dyn Consumer>,
        dispatch: Dispatch,
        timestamps: TimestampAssigner,
    ) -> Self {
        Self {
            shared,
            consumer,
            dispatch,
            timestamps,
            fetched: Vec::new(),
            paused: Vec::new(),
        }
    }

    /// For tests that wrap the consumer.
    #[cfg(test)]
    pub(crate) const fn consumer(&mut self) -> &mut Box<dyn Consumer> {
        &mut self.consumer
    }

    /// True if it calls user functions.
    #[must_use]
    pub fn calls_out(&self) -> bool {
        self.timestamps.calls_out()
    }

    /// Pauses and resumes partitions as dispatch requests.
    fn pause(&mut self) -> Result<()> {
        let wanted = self.dispatch.paused_slots();
        if wanted != self.paused {
            let without = |all: &[u32], others: &[u32]| {
                let rest = all.iter().filter(|slot| !others.contains(slot));
                rest.copied().collect::<Vec<_>>()
            };
            let (stop, go) = (
                without(&wanted, &self.paused),
                without(&self.paused, &wanted),
            );
            for (slots, pause) in [(stop, true), (go, false)] {
                if !slots.is_empty() {
                    self.consumer.pause(&slots, pause)?;
                }
            }
            self.paused = wanted;
        }
        Ok(())
    }

    /// Polls, dispatches, and inserts a barrier if one is due. Waits for records if `wait`. True if it
    /// made progress.
    ///
    /// # Errors
    /// Errors of the consumer, of user functions and of failpoints.
    pub fn step(&mut self, wait: bool) -> Result<bool> {
        let stopping = self.shared.is_stopping();
        let paused = self.shared.is_paused();
        let mut moved = false;
        self.dispatch.check_global_tables();
        self.pause()?;
        let reading = !stopping && !paused && self.dispatch.wants_more();
        // An unreachable broker doesn't make a source idle.
        let away = self.shared.status.broker_away.load(Relaxed);
        self.dispatch.set_reading(reading && !away);
        if reading {
            let idle = wait && (!self.dispatch.has_buffered() || self.dispatch.is_waiting());
            let timeout = if idle {
                self.dispatch.max_wait()
            } else {
                Duration::ZERO
            };
            self.shared.failpoints.reach(Failpoint::IntakeFetch)?;
            let delay = self.dispatch.fetch_delay();
            self.consumer.defer_fetch(delay);
            self.consumer.poll(FETCH_MAX, timeout, &mut self.fetched)?;
            moved |= !self.fetched.is_empty();
            let answers = match delay {
                Some(_) if self.consumer.has_asked() => Fetch::Pending,
                Some(_) if moved => Fetch::Arrived,
                _ => Fetch::Unscheduled,
            };
            self.dispatch
                .on_fetch_state(answers, self.consumer.usual_answer());
            self.timestamps.assign(&mut self.fetched)?;
            if self.fetched.is_empty() {
                self.dispatch.skip_to(&self.consumer.positions());
            }
            self.dispatch
                .accept(&mut self.fetched, self.timestamps.watermark_updates());
            let consumer = &self.consumer;
            self.dispatch.check_lagging(|slot| consumer.caught_up(slot));
        }
        if paused && !stopping {
            // Commits continue, and so does everything that is due by the clock.
            if wait {
                self.shared
                    .wait_for_credit(self.dispatch.max_wait().min(PAUSED_CHECK_INTERVAL));
            }
        } else if !stopping {
            let admitted = self.dispatch.admit();
            moved |= admitted;
            let waiting = self.dispatch.is_waiting();
            if wait && !admitted && self.dispatch.has_buffered() && !waiting {
                self.shared.wait_for_credit(Duration::from_millis(2));
            }
        }
        self.dispatch.check_barrier();
        self.dispatch.check_time();
        let consumer = &self.consumer;
        let leader_epoch = |slot, before| consumer.leader_epoch(slot, before);
        moved |= (self.dispatch).barrier_if_due(stopping, leader_epoch)?;
        if self.dispatch.is_settled() {
            let now = u64::try_from(self.shared.clock.monotonic().as_millis()).unwrap_or(u64::MAX);
            self.shared.status.progress_ms.store(now, Relaxed);
        }
        Ok(moved)
    }

    /// True if everything admitted is committed.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.dispatch.is_settled()
    }

    /// For callers that insert barriers themselves.
    pub const fn dispatch(&mut self) -> &mut Dispatch {
        &mut self.dispatch
    }
}
