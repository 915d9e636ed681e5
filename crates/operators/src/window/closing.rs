//! `on_window_close`: when closed windows are given, and which.
//!
//! Takes the times of records, says when a pass over the closed windows is due. Owns the index of what
//! waits to be closed. Up to where windows were given is the mark of the operator's clock: it is kept
//! with the commit, so that a restart gives nothing twice.
//!
//! With one lane the passes are those of Kafka Streams: one per record that moves the time, but not
//! more than one per interval of wall time; looking counts, whether anything closed since or not. With
//! several lanes there is one pass per barrier, without an interval: barriers are far enough apart.

use crate::time_index::TimeIndex;
use crate::window::Kept;
use crate::{Context, LaneClocks, LaneStore};
use stoatflow_core::{ClockId, Datum, Headers, Origin, Record, Result};
use stoatflow_state::WindowView;

/// A pass that is to be made: everything up to `until`, in the name of a record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Due {
    /// Times up to here (start of a window, end of a session).
    pub until: i64,
    /// Headers of the record that moved the time.
    pub headers: Headers,
    /// And where it came from.
    pub origin: Origin,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Closing {
    enabled: bool,
    clock: ClockId,
    /// From the start of a window (the end of a session) to when it is closed.
    reach: i64,
    /// No pass before this wall time.
    next: Option<i64>,
    pub index: TimeIndex,
    /// The newest record: what closes with a barrier comes in its name.
    origin: Origin,
}

impl Closing {
    pub fn new(enabled: bool, clock: ClockId, reach: i64) -> Self {
        Self {
            enabled,
            clock,
            reach,
            next: None,
            index: TimeIndex::default(),
            origin: Origin::default(),
        }
    }

    /// Are windows given when they close (and only then)?
    pub const fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// The first time that wasn't given yet.
    pub fn frontier(&self, clocks: &LaneClocks) -> i64 {
        match clocks.mark(self.clock) {
            mark if mark < 0 => 0,
            mark => mark.saturating_sub(self.reach).saturating_add(1).max(0),
        }
    }

    /// After a record: is a pass due that finds something? `earliest` is the earliest time that windows
    /// can have which are not in the index yet.
    pub fn after(
        &mut self,
        clocks: &mut LaneClocks,
        close_time: i64,
        earliest: i64,
        record: &Record,
    ) -> Option<Due> {
        if !self.enabled {
            return None;
        }
        self.origin = record.origin;
        if !clocks.is_eager() {
            return None;
        }
        if self.next.is_some_and(|next| clocks.wall.0 < next) {
            return None;
        }
        self.next = Some(clocks.wall.0.saturating_add(clocks.emit_interval_ms));
        let until = close_time.saturating_sub(self.reach);
        if clocks.mark(self.clock) >= close_time || until < 0 {
            return None;
        }
        clocks.set_mark(self.clock, close_time);
        (earliest <= until || self.index.is_due(until)).then(|| Due {
            until,
            headers: record.headers.clone(),
            origin: record.origin,
        })
    }

    /// At the barrier, with the clocks of all lanes merged.
    pub fn at_barrier(&self, clocks: &mut LaneClocks, close_time: i64) -> Option<Due> {
        let until = close_time.saturating_sub(self.reach);
        if !self.enabled || until < 0 {
            return None;
        }
        clocks.set_mark(self.clock, close_time);
        Some(Due {
            until,
            headers: None,
            origin: self.origin,
        })
    }

    /// Gives the windows that are due and that the store still shows, by start, then by key.
    pub fn give_windows(
        &mut self,
        kept: &Kept,
        due: &Due,
        size: i64,
        observed: i64,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let epoch = context.epoch;
        // With several lanes time moves by a whole epoch at a time, which may be longer than a window is
        // kept: what closes within the epoch must still be shown. With one it is as in Kafka Streams, whose store gives
        // what starts at `observed - retention` when it closes, though it hides it from who reads a key: a window
        // without a grace is that old when the next one begins, and closes it.
        let observed = if context.clocks.is_eager() {
            observed.saturating_sub(1)
        } else {
            -1
        };
        let LaneStore { store, .. } = context.store(kept.store());
        let view = WindowView::new(store, epoch, observed).map_err(|e| kept.name(e))?;
        while let Some((start, key)) = self.index.pop_due(due.until) {
            let Some(held) = view.fetch(&key, start).map_err(|e| kept.name(e))? else {
                continue;
            };
            out.push(Record {
                key: kept.windowed(key, start, start.saturating_add(size))?,
                value: kept.keeper.update(true, Datum::Null, held.value),
                timestamp: held.timestamp,
                headers: due.headers.clone(),
                origin: due.origin,
            });
        }
        Ok(())
    }

    /// After a restart: what this lane's keys have in the store and wasn't given yet.
    pub fn load_windows(&mut self, kept: &Kept, context: &mut Context<'_>) -> Result<()> {
        if !self.enabled {
            return Ok(());
        }
        let (epoch, share) = (context.epoch, context.share);
        let observed = context.clocks.stream(kept.clock);
        let frontier = self.frontier(context.clocks);
        let LaneStore { store, .. } = context.store(kept.store());
        let found = WindowView::new(store, epoch, observed)
            .and_then(|view| view.fetch_all(frontier, i64::MAX, false))
            .map_err(|e| kept.name(e))?;
        for (key, start, _) in found
            .into_iter()
            .filter(|found| share.owns(kept.key.affinity(&found.0)))
        {
            self.index.insert(start, key);
        }
        Ok(())
    }
}
