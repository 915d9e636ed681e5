//! What a processor reaches while it is called: the lane's context, by the names that its node declares.
//!
//! Takes calls of the processor, turns keys into bytes and back, writes to stores with the lane's epoch,
//! and collects what is forwarded. Lives as long as one call. A store's lock is never held while the
//! interpreter is waited for (the stores see to it), so the processor may hold the interpreter here.

mod atomic;
mod tasks;
mod timed_stores;

use super::processor_env::{Connected, ProcessorEnv};
use super::task_scans::TaskScans;
use super::timers::LaneTimers;
use crate::api::run_coordinator::{Asked, Now};
use crate::{
    ALL_CHILDREN, Context, Keys, LaneStore, LockHolder, LockKey, LockTable, NO_ORIGIN,
    ProcessorHost, Punctuation, Punctuator, ScheduleId, UpdateFn, Version,
};
use bytes::Bytes;
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Order, Origin, Record, Result, Task};
use stoatflow_plan::StoreKind;
use stoatflow_state::{
    KeyRange, SessionEntry, Stored, TimerDomain, TimerView, VersionedRecord, WindowEntry, after,
    after_prefix,
};

/// See the module.
pub(crate) struct Host<'h, 'c> {
    env: &'h ProcessorEnv,
    context: &'h mut Context<'c>,
    /// Where forwarded records go; `None`: nothing may be forwarded.
    out: Option<&'h mut Vec<Record>>,
    /// While `init` runs: how many schedules it has asked for.
    asked: Option<u32>,
    timers: Option<&'h mut LaneTimers>,
    /// The key that is updated, by store.
    updating: Option<(usize, Bytes)>,
    /// Where the record stands that the processor is called for, if it is called for one.
    place: Option<Order>,
    /// While a schedule or a timer is called: the stream time, and in which task, if it is in one.
    now: Option<i64>,
    task: Option<Task>,
    /// If scans are to see the keys of this task only.
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
            updating: None,
            place: None,
            now: None,
            task: None,
            scans: None,
        }
    }

    /// With the timers of the lane.
    pub fn with_timers(self, timers: Option<&'h mut LaneTimers>) -> Self {
        Self { timers, ..self }
    }

    /// For the call of `init`.
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

    fn decoded(
        &self,
        store: &Connected,
        found: Vec<(Bytes, Stored)>,
    ) -> Result<Vec<(Datum, Stored)>> {
        found
            .into_iter()
            .map(|(key, stored)| Ok((store.key_of(key)?, given(store, stored)?)))
            .collect()
    }

    fn scan(&mut self, at: usize, range: &KeyRange) -> Result<Vec<(Datum, Stored)>> {
        let store = self.connected(at)?;
        let empty = matches!((&range.from, &range.to), (Some(from), Some(to)) if from >= to);
        if empty {
            return Ok(Vec::new());
        }
        let found = self.rows(at, store, range)?;
        self.decoded(store, found)
    }
}

fn given(store: &Connected, stored: Stored) -> Result<Stored> {
    Ok(Stored {
        value: store.given(stored.value)?,
        timestamp: stored.timestamp,
    })
}

/// A range of keys as bytes, both ends included.
fn ends(
    store: &Connected,
    from: Option<&Datum>,
    to: Option<&Datum>,
) -> Result<(Option<Bytes>, Option<Bytes>)> {
    let bytes = |key: Option<&Datum>| {
        key.filter(|key| !key.is_null())
            .map(|key| store.key_bytes(key))
            .transpose()
    };
    Ok((bytes(from)?, bytes(to)?))
}

impl ProcessorHost for Host<'_, '_> {
    fn forward(&mut self, record: Record, child: Option<&str>) -> Result<()> {
        let Some(out) = &mut self.out else {
            return Err(Error::user("nothing can be forwarded here").hint(
                "forward from process() or from a punctuation; a transformer returns its value",
            ));
        };
        // Where there is one child at most, the chain asks for no routes.
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
        found.map(|stored| given(store, stored)).transpose()
    }

    fn put(&mut self, store: usize, key: &Datum, value: Stored) -> Result<()> {
        let (at, store) = (store, self.connected(store)?);
        store.writable()?;
        let key = store.key_bytes(key)?;
        self.not_updating(at, store, &key)?;
        let value = taken(store, value)?;
        self.watch_key(store, &key)?;
        self.wrote(at, store, &key);
        let epoch = self.context.epoch;
        let LaneStore { store, dirty } = self.lane_store(store);
        store.admit(epoch, &key, Some(&value))?;
        store.put(epoch, dirty, &key, Some(value))
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
            lane: self.context.share.lane,
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
        let (at, store) = (store, self.connected(store)?);
        let (from, to) = ends(store, from, to)?;
        let to = to.as_ref().map(|key| after(key));
        self.scan(at, &KeyRange { from, to, reverse })
    }

    fn prefix(&mut self, store: usize, prefix: &Datum) -> Result<Vec<(Datum, Stored)>> {
        let (at, store) = (store, self.connected(store)?);
        let from = match prefix {
            Datum::Bytes(bytes) => bytes.clone(),
            key => store.key_bytes(key)?,
        };
        let range = KeyRange {
            to: after_prefix(&from),
            from: Some(from),
            reverse: false,
        };
        self.scan(at, &range)
    }

    fn approximate_len(&mut self, store: usize) -> u64 {
        self.connected(store)
            .map_or(0, |store| self.lane_store(store).store.approximate_len())
    }

    fn window_put(&mut self, store: usize, key: &Datum, start: i64, value: Stored) -> Result<()> {
        let store = self.connected(store)?;
        store.writable()?;
        let key = store.key_bytes(key)?;
        let value = taken(store, value)?;
        let (mut view, dirty) = self.windows(store, Some(&key))?;
        // A window that is too old is not written: the store's retention says so, as in Kafka Streams.
        if matches!(
            store.kind,
            StoreKind::Window {
                duplicates: true,
                ..
            }
        ) {
            view.put_duplicate(dirty, &key, start, value)?;
        } else {
            view.put(dirty, &key, start, Some(value))?;
        }
        self.see(store, &key, start)
    }

    fn window_get(&mut self, store: usize, key: &Datum, start: i64) -> Result<Option<Stored>> {
        let store = self.connected(store)?;
        let key = store.key_bytes(key)?;
        let found = self.windows(store, Some(&key))?.0.fetch(&key, start)?;
        found.map(|stored| given(store, stored)).transpose()
    }

    fn window_fetch(
        &mut self,
        store: usize,
        keys: Keys<'_>,
        from: i64,
        to: i64,
        reverse: bool,
    ) -> Result<Vec<(Datum, i64, Stored)>> {
        let store = self.connected(store)?;
        let entries: Vec<WindowEntry> = match keys {
            Keys::One(key) => {
                let key = store.key_bytes(key)?;
                let (view, _) = self.windows(store, Some(&key))?;
                let found = view.fetch_range(&key, from, to, reverse, usize::MAX)?;
                found
                    .into_iter()
                    .map(|(start, stored)| (key.clone(), start, stored))
                    .collect()
            }
            Keys::Between(first, last) => {
                let (first, last) = ends(store, first, last)?;
                let (view, _) = self.windows(store, None)?;
                let mut found =
                    view.fetch_keys(first.as_deref(), last.as_deref(), from, to, reverse)?;
                self.keep_own(store, &mut found, |(key, ..)| key);
                found
            }
        };
        let given = entries
            .into_iter()
            .map(|(key, start, stored)| Ok((store.key_of(key)?, start, given(store, stored)?)));
        given.collect()
    }

    fn session_put(
        &mut self,
        store: usize,
        key: &Datum,
        start: i64,
        end: i64,
        value: Stored,
    ) -> Result<()> {
        let store = self.connected(store)?;
        store.writable()?;
        let key = store.key_bytes(key)?;
        let value = taken(store, value)?;
        let (mut view, dirty) = self.sessions(store, Some(&key))?;
        view.put(dirty, &key, start, end, Some(value))?;
        self.see(store, &key, end)
    }

    fn session_get(
        &mut self,
        store: usize,
        key: &Datum,
        start: i64,
        end: i64,
    ) -> Result<Option<Datum>> {
        let store = self.connected(store)?;
        let key = store.key_bytes(key)?;
        let (view, _) = self.sessions(store, Some(&key))?;
        let found = view.fetch_session(&key, start, end)?;
        found.map(|stored| store.given(stored.value)).transpose()
    }

    fn session_find(
        &mut self,
        store: usize,
        keys: Keys<'_>,
        earliest_end: i64,
        latest_start: i64,
        reverse: bool,
    ) -> Result<Vec<(Datum, i64, i64, Datum)>> {
        let store = self.connected(store)?;
        let entries: Vec<SessionEntry> = match keys {
            Keys::One(key) => {
                let key = store.key_bytes(key)?;
                let (view, _) = self.sessions(store, Some(&key))?;
                view.find_sessions(&key, earliest_end, latest_start, reverse)?
            }
            Keys::Between(first, last) => {
                let (first, last) = ends(store, first, last)?;
                let (view, _) = self.sessions(store, None)?;
                let mut found = view.find_keys(
                    first.as_deref(),
                    last.as_deref(),
                    earliest_end,
                    latest_start,
                    reverse,
                )?;
                self.keep_own(store, &mut found, |entry| &entry.key);
                found
            }
        };
        let given = entries.into_iter().map(|e| {
            let key = store.key_of(e.key)?;
            Ok((key, e.start, e.end, store.given(e.value.value)?))
        });
        given.collect()
    }

    fn versioned_put(
        &mut self,
        store: usize,
        key: &Datum,
        value: Datum,
        timestamp: i64,
    ) -> Result<i64> {
        let store = self.connected(store)?;
        store.writable()?;
        let key = store.key_bytes(key)?;
        let value = store.taken(value)?;
        let (mut view, dirty) = self.versions(store, Some(&key))?;
        let code = view
            .put(dirty, &key, Some(value).filter(|v| !v.is_null()), timestamp)?
            .code();
        self.see(store, &key, timestamp)?;
        Ok(code)
    }

    fn versioned_delete(
        &mut self,
        store: usize,
        key: &Datum,
        timestamp: i64,
    ) -> Result<Option<Version>> {
        let store = self.connected(store)?;
        store.writable()?;
        let key = store.key_bytes(key)?;
        let (mut view, dirty) = self.versions(store, Some(&key))?;
        let ended = view.delete(dirty, &key, timestamp)?;
        self.see(store, &key, timestamp)?;
        ended.map(|record| version(store, record)).transpose()
    }

    fn versioned_get(
        &mut self,
        store: usize,
        key: &Datum,
        as_of: Option<i64>,
    ) -> Result<Option<Version>> {
        let store = self.connected(store)?;
        let key = store.key_bytes(key)?;
        let (view, _) = self.versions(store, Some(&key))?;
        let found = match as_of {
            Some(time) => view.get_as_of(&key, time)?,
            None => view.get(&key)?,
        };
        found.map(|record| version(store, record)).transpose()
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
        let now = Now {
            wall: self.wall_time(),
            punctuated: self.env.marks(self.context.clocks),
        };
        let asked = Asked {
            node: self.env.node_context.node,
            place,
            kind,
            interval_ms,
            start_ms,
            runs: self.context.share.lane == 0,
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
        let of_task = match self.place {
            Some(place) if !clocks.by_watermark => clocks.of_task(self.env.time, place),
            _ => None,
        };
        of_task.unwrap_or_else(|| clocks.event_time(self.env.clock))
    }

    fn watermark(&self) -> i64 {
        self.context.clocks.watermark
    }

    fn advance_watermark(&mut self, to: i64) {
        self.context.clocks.ask_watermark(self.env.clock, to);
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
        self.context.share.lane
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

fn version(store: &Connected, record: VersionedRecord) -> Result<Version> {
    let value = store.given(record.value)?;
    Ok((value, record.timestamp, record.valid_to))
}
