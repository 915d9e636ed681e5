//! What a processor can access while it is called: the lane's context, by the names that its node
//! declares.
//!
//! Takes calls of the processor, serializes and deserializes keys, writes to stores in the lane's epoch,
//! and collects forwarded records. Lives as long as one call. Stores never hold a lock while they wait
//! for the interpreter, so the processor may hold the interpreter here.

mod atomic;
mod expiring;
mod ranges;
mod tasks;
mod timed_stores;
mod versions;
mod windows;

use super::expiry_timers::StoreExpiry;
use super::processor_env::{Connected, ProcessorEnv};
use super::task_scans::TaskScans;
use super::timers::LaneTimers;
use crate::api::run_coordinator::{ClockReadings, ScheduleRequest};
use crate::{
    ALL_CHILDREN, Context, Keys, LaneStore, LockHolder, LockKey, LockTable, NO_ORIGIN,
    ProcessorHost, Punctuation, Punctuator, ScheduleId, UpdateFn, Version,
};
use bytes::Bytes;
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Order, Origin, Record, Result, Task};
use stoatflow_plan::StoreKind;
use stoatflow_state::{Stored, TimerDomain, TimerView};

/// See the module.
pub(crate) struct Host<'h, 'c> {
    env: &'h ProcessorEnv,
    context: &'h mut Context<'c>,
    /// Receives forwarded records; `None`: nothing may be forwarded.
    out: Option<&'h mut Vec<Record>>,
    /// During `init`: number of schedules requested so far.
    asked: Option<u32>,
    timers: Option<&'h mut LaneTimers>,
    /// By index of the store: the expiry of its rows.
    expiries: &'h mut [Option<StoreExpiry>],
    /// The key that is being updated, and the index of its store.
    updating: Option<(usize, Bytes)>,
    /// Order number of the record that the processor is called for, if it is called for one.
    place: Option<Order>,
    /// While a schedule or a timer is called: its stream time, and its task, if it has one.
    now: Option<i64>,
    task: Option<Task>,
    /// Present if scans return the keys of this task only.
    scans: Option<&'h mut TaskScans>,
}

impl<'h, 'c> Host<'h, 'c> {
    pub fn new(
        env: &'h ProcessorEnv,
        context: &'h mut Context<'c>,
        out: Option<&'h mut Vec<Record>>,
    ) -> Self {
        Self {
            env,
            context,
            out,
            asked: None,
            timers: None,
            expiries: &mut [],
            updating: None,
            place: None,
            now: None,
            task: None,
            scans: None,
        }
    }

    /// Adds the timers of the lane.
    pub fn with_timers(self, timers: Option<&'h mut LaneTimers>) -> Self {
        Self { timers, ..self }
    }

    /// Adds the expiry of rows, by index of the store.
    pub fn with_expiries(self, expiries: &'h mut [Option<StoreExpiry>]) -> Self {
        Self { expiries, ..self }
    }

    /// A host for the call of `init`.
    pub fn for_init(env: &'h ProcessorEnv, context: &'h mut Context<'c>) -> Self {
        Self {
            asked: Some(0),
            ..Self::new(env, context, None)
        }
    }

    fn connected(&self, store: usize) -> Result<&'h Connected> {
        self.env
            .stores
            .get(store)
            .ok_or_else(|| Error::internal("a processor asked for a store that it doesn't have"))
    }

    fn lane_store(&mut self, store: &Connected) -> &mut LaneStore {
        self.context.store(store.id)
    }
}

fn given(store: &Connected, stored: Stored) -> Result<Stored> {
    Ok(Stored {
        value: store.given(stored.value)?,
        timestamp: stored.timestamp,
    })
}

impl ProcessorHost for Host<'_, '_> {
    fn forward(&mut self, record: Record, child: Option<&str>) -> Result<()> {
        let Some(out) = &mut self.out else {
            return Err(Error::user("nothing can be forwarded here").hint(
                "forward from process() or from a punctuation; a transformer returns its value",
            ));
        };
        // With one child at most, the chain expects no routes.
        let routed = self.env.children.len() > 1;
        let routes = &mut self.context.effects.routes;
        match child {
            Some(name) => {
                for at in self.env.child(name)? {
                    out.push(record.clone());
                    if routed {
                        routes.push(at);
                    }
                }
            }
            None => {
                out.push(record);
                if routed {
                    routes.push(ALL_CHILDREN);
                }
            }
        }
        Ok(())
    }

    fn store(&self, name: &str) -> Option<usize> {
        self.env.stores.iter().position(|store| store.name == name)
    }

    fn has_headers(&self, store: usize) -> bool {
        let store = self.env.stores.get(store);
        store.is_some_and(|store| store.headers)
    }

    fn store_kind(&self, store: usize) -> StoreKind {
        self.env
            .stores
            .get(store)
            .map_or(StoreKind::KeyValue, |store| store.kind)
    }

    fn store_is_read_only(&self, store: usize) -> bool {
        self.env.stores.get(store).is_none_or(|s| s.read_only)
    }

    fn store_names(&self) -> Vec<String> {
        self.env.stores.iter().map(|s| s.name.clone()).collect()
    }

    fn get(&mut self, store: usize, key: &Datum) -> Result<Option<Stored>> {
        let store = self.connected(store)?;
        let key = store.key_bytes(key)?;
        let epoch = self.context.epoch;
        let found = self.lane_store(store).store.get(epoch, &key)?;
        let found = self.alive(store, &key, found)?;
        found.map(|stored| given(store, stored)).transpose()
    }

    fn put(&mut self, store: usize, key: &Datum, value: Stored) -> Result<()> {
        let (at, store) = (store, self.connected(store)?);
        store.writable()?;
        let key = store.key_bytes(key)?;
        self.not_updating(at, store, &key)?;
        let value = taken(store, value)?;
        let expiry = Self::expiry(store, &key, &value)?;
        self.watch_key(store, &key)?;
        self.wrote(at, store, &key);
        let epoch = self.context.epoch;
        let LaneStore { store: kept, dirty } = self.lane_store(store);
        kept.admit(epoch, &key, Some(&value))?;
        kept.put(epoch, dirty, &key, Some(value))?;
        self.expect((at, store), &key, expiry)
    }

    fn update(&mut self, store: usize, key: &Datum, f: &mut UpdateFn<'_>) -> Result<()> {
        self.update_key(store, key, f)
    }

    fn put_if_absent(
        &mut self,
        store: usize,
        key: &Datum,
        value: Stored,
    ) -> Result<Option<Stored>> {
        self.put_missing(store, key, value)
    }

    fn delete(&mut self, store: usize, key: &Datum, time: i64) -> Result<Option<Stored>> {
        self.take_out(store, key, time)
    }

    fn lock_key(&self, store: usize, key: &Datum) -> Result<LockKey> {
        let store = self.connected(store)?;
        Ok(LockKey::Row(store.id, store.key_bytes(key)?))
    }

    fn check_one_step(&self, store: usize) -> Result<()> {
        self.connected(store)?.one_step()
    }

    fn locks(&self) -> Arc<LockTable> {
        Arc::clone(&self.context.run.locks)
    }

    fn lock_holder(&self, origin: &Origin) -> LockHolder {
        LockHolder {
            node: self.env.node_context.name(),
            lane: self.context.assignment.lane,
            origin: *origin,
        }
    }

    fn range(
        &mut self,
        store: usize,
        from: Option<&Datum>,
        to: Option<&Datum>,
        reverse: bool,
    ) -> Result<Vec<(Datum, Stored)>> {
        self.keys_between(store, from, to, reverse)
    }

    fn prefix(&mut self, store: usize, prefix: &Datum) -> Result<Vec<(Datum, Stored)>> {
        self.keys_with_prefix(store, prefix)
    }

    fn approximate_len(&mut self, store: usize) -> u64 {
        self.connected(store)
            .map_or(0, |store| self.lane_store(store).store.approximate_len())
    }

    fn window_put(&mut self, store: usize, key: &Datum, start: i64, value: Stored) -> Result<()> {
        self.put_window(store, key, start, value)
    }

    fn window_get(&mut self, store: usize, key: &Datum, start: i64) -> Result<Option<Stored>> {
        self.window_at(store, key, start)
    }

    fn window_fetch(
        &mut self,
        store: usize,
        keys: Keys<'_>,
        from: i64,
        to: i64,
        reverse: bool,
    ) -> Result<Vec<(Datum, i64, Stored)>> {
        self.windows_between(store, keys, from, to, reverse)
    }

    fn session_put(
        &mut self,
        store: usize,
        key: &Datum,
        start: i64,
        end: i64,
        value: Stored,
    ) -> Result<()> {
        self.put_session(store, key, start, end, value)
    }

    fn session_get(
        &mut self,
        store: usize,
        key: &Datum,
        start: i64,
        end: i64,
    ) -> Result<Option<Datum>> {
        self.session_at(store, key, start, end)
    }

    fn session_find(
        &mut self,
        store: usize,
        keys: Keys<'_>,
        earliest_end: i64,
        latest_start: i64,
        reverse: bool,
    ) -> Result<Vec<(Datum, i64, i64, Datum)>> {
        self.sessions_between(store, keys, earliest_end, latest_start, reverse)
    }

    fn versioned_put(
        &mut self,
        store: usize,
        key: &Datum,
        value: Datum,
        timestamp: i64,
    ) -> Result<i64> {
        self.put_version(store, key, value, timestamp)
    }

    fn versioned_delete(
        &mut self,
        store: usize,
        key: &Datum,
        timestamp: i64,
    ) -> Result<Option<Version>> {
        self.end_version(store, key, timestamp)
    }

    fn versioned_get(
        &mut self,
        store: usize,
        key: &Datum,
        as_of: Option<i64>,
    ) -> Result<Option<Version>> {
        self.version_as_of(store, key, as_of)
    }

    fn timer_register(
        &mut self,
        store: usize,
        key: &Datum,
        at: i64,
        domain: TimerDomain,
    ) -> Result<()> {
        let connected = self.connected(store)?;
        let key = connected.key_bytes(key)?;
        let task = self.timer_task(connected, &key);
        let timers = self.timers.as_mut().ok_or_else(no_timers)?;
        timers.register(self.context, (store, connected), (domain, at, &key), task)
    }

    fn timer_cancel(
        &mut self,
        store: usize,
        key: &Datum,
        at: i64,
        domain: TimerDomain,
    ) -> Result<()> {
        let connected = self.connected(store)?;
        let key = connected.key_bytes(key)?;
        let timers = self.timers.as_mut().ok_or_else(no_timers)?;
        timers.cancel(self.context, (store, connected), (domain, at, &key))
    }

    fn timers_of(&mut self, store: usize, key: &Datum) -> Result<Vec<(TimerDomain, i64)>> {
        let connected = self.connected(store)?;
        let key = connected.key_bytes(key)?;
        let epoch = self.context.epoch;
        let kept = &self.lane_store(connected).store;
        TimerView::new(kept, epoch)?.of_key(&key)
    }

    fn schedule(
        &mut self,
        interval_ms: i64,
        kind: Punctuation,
        start_ms: Option<i64>,
        punctuator: Arc<dyn Punctuator>,
    ) -> Result<ScheduleId> {
        let place = self.asked;
        if let Some(asked) = &mut self.asked {
            *asked += 1;
        }
        let now = ClockReadings {
            wall: self.wall_time(),
            punctuated: self.env.marks(self.context.clocks),
        };
        let asked = ScheduleRequest {
            node: self.env.node_context.node,
            place,
            kind,
            interval_ms,
            start_ms,
            runs: self.context.assignment.lane == 0,
            punctuator,
        };
        self.context.run.add(asked, now)
    }

    fn cancel(&mut self, schedule: ScheduleId) {
        self.context.run.cancel(schedule);
    }

    fn commit(&mut self) {
        self.context.effects.commit_asked = true;
    }

    fn at(&mut self, place: Order) {
        self.place = Some(place).filter(|place| place.number() > 0);
    }

    fn stream_time(&mut self) -> i64 {
        if let Some(now) = self.now {
            return now;
        }
        let clocks = &mut self.context.clocks;
        let stream_time = match self.place {
            Some(place) if !clocks.by_watermark => clocks.task_stream_time(self.env.time, place),
            _ => None,
        };
        stream_time.unwrap_or_else(|| clocks.event_time(self.env.clock))
    }

    fn watermark(&self) -> i64 {
        self.context.clocks.watermark
    }

    fn advance_watermark(&mut self, to: i64) {
        self.context.clocks.request_watermark(self.env.clock, to);
        self.context.effects.commit_asked = true;
    }

    fn wall_time(&self) -> i64 {
        self.context.clocks.wall.0
    }

    fn topic(&self, origin: &Origin) -> Option<String> {
        (*origin != NO_ORIGIN)
            .then(|| self.env.node_context.topic_of(origin))
            .flatten()
    }

    fn application_id(&self) -> String {
        self.context.run.application_id().to_owned()
    }

    fn lane(&self) -> u32 {
        self.context.assignment.lane
    }
}

fn no_timers() -> Error {
    Error::internal("a processor without timers was asked for one")
}

fn taken(store: &Connected, stored: Stored) -> Result<Stored> {
    Ok(Stored {
        value: store.taken(stored.value)?,
        timestamp: stored.timestamp,
    })
}
