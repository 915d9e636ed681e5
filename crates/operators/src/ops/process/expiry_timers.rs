//! Registers the timers that delete expired rows.
//!
//! Takes the expiry of a row that was written, registers a timer at its rounded time. Remembers recent
//! registrations, so that a hot key doesn't write its timer with each update. The node that deletes the
//! rows (`ops::tables::expire`) owns the queue of timers; processors that write its store register in
//! the same queue.

use super::processor_env::ProcessorEnv;
use super::timers::LaneTimers;
use crate::support::row_ttl::{RowExpiry, RowTtl};
use crate::{Context, key_hash};
use bytes::Bytes;
use std::sync::Arc;
use stoatflow_core::{Error, Result, Task};
use stoatflow_state::TimerDomain;

/// Indexes of the stores in the environment of the node that deletes expired rows.
pub(crate) const TABLE: usize = 0;
pub(crate) const TIMERS: usize = 1;
/// Number of recent registrations remembered.
const RECENT: usize = 4_096;

/// See the module.
#[derive(Debug)]
pub(crate) struct ExpiryTimers {
    pub timers: LaneTimers,
    /// Hashes of recent registrations.
    recent: Box<[u64]>,
}

impl ExpiryTimers {
    /// Opens the timers of a store's rows. `env`: of the node that deletes them. `fires`: whether that
    /// node opens them, and not a processor.
    pub fn open(env: &ProcessorEnv, fires: bool, context: &mut Context<'_>) -> Result<Self> {
        let timers = LaneTimers::open(env, context)?;
        let timers = timers.ok_or_else(|| Error::internal("a ttl without a store of timers"))?;
        Ok(Self {
            timers: if fires { timers } else { timers.of_another() },
            recent: vec![0; RECENT].into(),
        })
    }

    /// Registers a timer for a row's expiry. `in_one_task`: whether all writes of the key are in one task.
    /// Otherwise a timer may have fired in another task since it was registered here.
    pub fn expect(
        &mut self,
        env: &ProcessorEnv,
        (domain, expiry, key): (TimerDomain, RowExpiry, &Bytes),
        (task, in_one_task): (Task, bool),
        context: &mut Context<'_>,
    ) -> Result<()> {
        let at = expiry.rounded;
        let hash = key_hash(key) ^ at.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = usize::try_from(hash >> 32).unwrap_or(0) % RECENT;
        let is_registered = std::mem::replace(&mut self.recent[slot], hash) == hash;
        // A timer that has fired already is no longer pending.
        if is_registered && in_one_task && !self.timers.is_past(TIMERS, domain, (task, at))? {
            return Ok(());
        }
        let store = (TIMERS, &env.stores[TIMERS]);
        self.timers
            .register(context, store, (domain, at, key), task)
    }
}

/// What a processor needs to write a store whose rows expire.
#[derive(Debug)]
pub(crate) struct StoreExpiry {
    /// The environment of the node that deletes the rows.
    env: ProcessorEnv,
    ttl: Arc<RowTtl>,
    timers: Option<ExpiryTimers>,
}

impl StoreExpiry {
    pub const fn new(env: ProcessorEnv, ttl: Arc<RowTtl>) -> Self {
        Self {
            env,
            ttl,
            timers: None,
        }
    }

    /// Call before the store is written.
    pub fn open(&mut self, context: &mut Context<'_>) -> Result<()> {
        self.timers = Some(ExpiryTimers::open(&self.env, false, context)?);
        Ok(())
    }

    /// Registers the timer of a row that was written.
    pub fn expect(
        &mut self,
        expiry: RowExpiry,
        key: &Bytes,
        task: (Task, bool),
        context: &mut Context<'_>,
    ) -> Result<()> {
        let timers = self.timers.as_mut();
        let timers = timers.ok_or_else(|| Error::internal("a store with a ttl was not opened"))?;
        let (env, domain) = (&self.env, self.ttl.domain);
        timers.expect(env, (domain, expiry, key), task, context)
    }
}
