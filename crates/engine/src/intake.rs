//! Intake: the consumer and dispatch on one thread.
//!
//! Takes from the broker while dispatch has room, gives nothing back but credit checks. Owns the
//! consumer. Never waits longer than the next barrier allows.

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

/// How many records one fetch may bring.
const FETCH_MAX: usize = 4096;

/// The room.
pub struct Intake {
    shared: Arc<Shared>,
    consumer: Box<dyn Consumer>,
    dispatch: Dispatch,
    timestamps: TimestampAssigner,
    fetched: Vec<ConsumerRecord>,
    /// Slots that must not be fetched now; in order.
    paused: Vec<u32>,
}

impl Intake {
    /// With an assigned consumer.
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

    /// Who reads: tests put one in between that has to ask.
    #[cfg(test)]
    pub(crate) const fn consumer(&mut self) -> &mut Box<dyn Consumer> {
        &mut self.consumer
    }

    /// Does it call functions of the user?
    #[must_use]
    pub fn calls_out(&self) -> bool {
        self.timestamps.calls_out()
    }

    /// Fetches only what may be fetched.
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

    /// Fetches, admits, and puts a barrier in if one is due. Waits for records if `wait`.
    /// True if anything moved.
    ///
    /// # Errors
    /// What the consumer fails with.
    pub fn step(&mut self, wait: bool) -> Result<bool> {
        let stopping = self.shared.is_stopping();
        let mut moved = false;
        self.dispatch.check_global_tables();
        self.pause()?;
        let reading = !stopping && self.dispatch.wants_more();
        // What nobody can send nobody is silent about.
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
            self.consumer.defer(delay);
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
        if !stopping {
            let admitted = self.dispatch.admit();
            moved |= admitted;
            let waiting = self.dispatch.is_waiting();
            if wait && !admitted && self.dispatch.has_buffered() && !waiting {
                self.shared.wait_for_credit(Duration::from_millis(2));
            }
        }
        self.dispatch.check_barrier();
        self.dispatch.check_time();
        moved |= self.dispatch.barrier_if_due(stopping)?;
        if self.dispatch.is_settled() {
            let now = u64::try_from(self.shared.clock.monotonic().as_millis()).unwrap_or(u64::MAX);
            self.shared.status.progress_ms.store(now, Relaxed);
        }
        Ok(moved)
    }

    /// After a stop was asked for: is everything that was admitted committed?
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.dispatch.is_settled()
    }

    /// Dispatch, for hosts that put barriers in themselves.
    pub const fn dispatch(&mut self) -> &mut Dispatch {
        &mut self.dispatch
    }
}
