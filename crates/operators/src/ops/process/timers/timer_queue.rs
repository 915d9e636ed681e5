//! The pending timers of one processor, shared by the lanes of a run.
//!
//! Takes registrations from any lane; at the cut, while all lanes stand still, gives each lane the timers
//! of its keys that are due. Owns the knowledge that spares reads: nothing is read while the smallest time
//! that may be pending is later, and what was fired is not read again, because reads begin behind it.
//! Memory grows with what one cut fires, never with what is pending: more than that waits for the cut
//! after. Never calls a processor, never writes a store.

use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use stoatflow_core::{Bytes, Epoch, Result};
use stoatflow_state::{TimerDomain, TimerView, TimersFrom, split_timer};

/// Most timers of a store and domain that one cut fires, to begin with.
const FIRST: usize = 16_384;
/// The bounds of that number.
const LEAST: usize = 256;
const MOST: usize = 131_072;
/// A full cut that took longer has half as many behind it, one that was faster twice as many: what an epoch
/// fires must be done well before its transaction times out.
const SLOW_MS: i64 = 2_000;
const FAST_MS: i64 = 500;

/// A timer: its row, and the place of its store among the processor's. Ordered as it is fired.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Due {
    pub row: Bytes,
    pub place: usize,
}

/// One store's timers of one domain.
#[derive(Debug)]
struct Ahead {
    /// Up to here timers were fired: what is registered for this time or before is due already.
    fired: AtomicI64,
    /// Beyond that, no pending timer is earlier.
    least: AtomicI64,
    /// A cut was full: where the next one continues.
    resume: Mutex<Option<Bytes>>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct TimerQueue {
    /// By the place of the store, then by domain.
    ahead: Vec<[Ahead; 2]>,
    /// Timers that were due when they were registered: the next cut looks at them one by one.
    overdue: Mutex<Vec<Due>>,
    /// By lane: what the cut has handed out.
    handed: Vec<Mutex<Vec<Due>>>,
    /// The epoch of the last cut.
    cut: AtomicU64,
    /// Does something wait for the next cut, and for no clock?
    waits: AtomicBool,
    pace: Mutex<Pace>,
}

/// How many timers a cut fires.
#[derive(Debug)]
struct Pace {
    most: usize,
    /// Wall time of the last cut, if it was full.
    full_at: Option<i64>,
}

impl Pace {
    fn most(&mut self, wall: i64) -> usize {
        if let Some(at) = self.full_at.take() {
            let took = wall.saturating_sub(at);
            if took > SLOW_MS {
                self.most = (self.most / 2).max(LEAST);
            } else if took < FAST_MS {
                self.most = (self.most * 2).min(MOST);
            }
        }
        self.most
    }
}

/// What the clocks say at a cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// The time of events, if there is one yet.
    pub event: Option<i64>,
    pub wall: i64,
}

impl Now {
    const fn of(self, domain: TimerDomain) -> Option<i64> {
        match domain {
            TimerDomain::Event => self.event,
            TimerDomain::Processing => Some(self.wall),
        }
    }
}

impl TimerQueue {
    /// Of these stores, before anything is registered in this run.
    pub fn open(stores: &[TimerView<'_>], lanes: u32, now: Now) -> Result<Self> {
        let mut ahead = Vec::with_capacity(stores.len());
        let mut waits = false;
        for view in stores {
            let first = |domain| -> Result<Ahead> {
                let least = view.first_after(domain, None)?.unwrap_or(i64::MAX);
                Ok(Ahead {
                    fired: AtomicI64::new(i64::MIN),
                    least: AtomicI64::new(least),
                    resume: Mutex::default(),
                })
            };
            let [event, processing] = TimerDomain::ALL;
            let both = [first(event)?, first(processing)?];
            // Left over from a run that ended between two cuts: no record need come for them.
            waits |= now
                .event
                .is_some_and(|now| both[0].least.load(Relaxed) <= now);
            ahead.push(both);
        }
        Ok(Self {
            ahead,
            overdue: Mutex::default(),
            handed: (0..lanes).map(|_| Mutex::default()).collect(),
            cut: AtomicU64::new(0),
            waits: AtomicBool::new(waits),
            pace: Mutex::new(Pace {
                most: FIRST,
                full_at: None,
            }),
        })
    }

    /// With another number of timers to begin with.
    #[cfg(test)]
    pub fn beginning_with(self, most: usize) -> Self {
        self.pace.lock().most = most;
        self
    }

    fn ahead(&self, place: usize, domain: TimerDomain) -> &Ahead {
        &self.ahead[place][domain as usize]
    }

    /// Were timers of this time fired before?
    pub fn is_past(&self, place: usize, domain: TimerDomain, at: i64) -> bool {
        at <= self.ahead(place, domain).fired.load(Relaxed)
    }

    /// A timer that is not past was registered.
    pub fn expect(&self, place: usize, domain: TimerDomain, at: i64) {
        let least = &self.ahead(place, domain).least;
        // Mostly there is an earlier one: then no cache line is written.
        if at < least.load(Relaxed) {
            least.fetch_min(at, Relaxed);
        }
    }

    /// A timer that is past was registered: the next cut fires it, if it is still there. `waits`: the cut
    /// is to come even if no record does.
    pub fn put_off(&self, due: Due, waits: bool) {
        self.overdue.lock().push(due);
        if waits {
            self.waits.store(true, Relaxed);
        }
    }

    /// Was this epoch's cut made?
    pub fn is_cut(&self, epoch: Epoch) -> bool {
        self.cut.load(Relaxed) == epoch.0
    }

    /// Does something wait for the next cut, and for no clock?
    pub fn waits(&self) -> bool {
        self.waits.load(Relaxed)
    }

    /// The wall time at which the next cut has something to do; `i64::MAX`: none is known.
    pub fn next_wall(&self) -> i64 {
        if self.waits() {
            return i64::MIN;
        }
        let least = |both: &[Ahead; 2]| both[TimerDomain::Processing as usize].least.load(Relaxed);
        self.ahead.iter().map(least).min().unwrap_or(i64::MAX)
    }

    /// All lanes stand still: hands out what is due.
    pub fn cut(
        &self,
        epoch: Epoch,
        now: Now,
        stores: &[TimerView<'_>],
        lane_of: impl Fn(&Due) -> usize,
    ) -> Result<()> {
        let most = self.pace.lock().most(now.wall);
        self.waits.store(false, Relaxed);
        let mut due = self.overdue(now, stores)?;
        let mut full = false;
        for (place, view) in stores.iter().enumerate() {
            for domain in TimerDomain::ALL {
                if let Some(now) = now.of(domain) {
                    full |= self.collect((place, domain), *view, now, most, &mut due)?;
                }
            }
        }
        if full {
            self.waits.store(true, Relaxed);
            self.pace.lock().full_at = Some(now.wall);
        }
        due.sort_unstable();
        // A timer registered again behind the end of the last cut is in the list twice.
        due.dedup();
        let mut hands: Vec<MutexGuard<'_, Vec<Due>>> =
            self.handed.iter().map(Mutex::lock).collect();
        for one in due {
            hands[lane_of(&one)].push(one);
        }
        self.cut.store(epoch.0, Relaxed);
        Ok(())
    }

    /// What a lane was handed.
    pub fn take(&self, lane: u32) -> Vec<Due> {
        let handed = self.handed.get(lane as usize);
        handed.map_or_else(Vec::new, |handed| std::mem::take(&mut *handed.lock()))
    }

    /// What was put off and is still there.
    fn overdue(&self, now: Now, stores: &[TimerView<'_>]) -> Result<Vec<Due>> {
        let mut due = std::mem::take(&mut *self.overdue.lock());
        due.sort_unstable();
        due.dedup();
        let mut kept = Vec::with_capacity(due.len());
        for one in due {
            let Some(timer) = split_timer(&one.row) else {
                continue;
            };
            if now.of(timer.domain).is_none_or(|now| timer.at > now) {
                // The machine's clock went back.
                self.expect(one.place, timer.domain, timer.at);
            } else if stores[one.place].is_pending(&one.row)? {
                kept.push(one);
            }
        }
        Ok(kept)
    }

    /// Reads what is due of one store and domain; says whether there may be more.
    fn collect(
        &self,
        (place, domain): (usize, TimerDomain),
        view: TimerView<'_>,
        now: i64,
        most: usize,
        due: &mut Vec<Due>,
    ) -> Result<bool> {
        let ahead = self.ahead(place, domain);
        let least = ahead.least.load(Relaxed);
        if least > now {
            // Where the clock went back, what is registered from now on may come before it.
            *ahead.resume.lock() = None;
            ahead.fired.store(now, Relaxed);
            return Ok(false);
        }
        let mut resume = ahead.resume.lock();
        let time = |row: &Bytes| split_timer(row).map_or(i64::MIN, |timer| timer.at);
        let from = match resume.take() {
            Some(row) if time(&row) <= least => TimersFrom::Row(row),
            _ => TimersFrom::Time(least),
        };
        let rows = view.due(domain, &from, now, most)?;
        let last = rows.last().filter(|_| rows.len() == most).cloned();
        due.extend(rows.into_iter().map(|row| Due { row, place }));
        let Some(last) = last else {
            let next = view.first_after(domain, Some(now))?;
            ahead.least.store(next.unwrap_or(i64::MAX), Relaxed);
            ahead.fired.store(now, Relaxed);
            return Ok(false);
        };
        ahead.least.store(time(&last), Relaxed);
        ahead.fired.store(time(&last), Relaxed);
        *resume = Some(last);
        Ok(true)
    }
}
