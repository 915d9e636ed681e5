//! The pending timers of one processor, shared by the lanes of a run.
//!
//! Takes registrations from any lane; at the cut, while all lanes stand still, gives each lane the
//! timers of its keys that are due. By event time each task has its own time. Owns the knowledge
//! that spares reads: nothing is read while the smallest time that may be pending is later, and
//! what was fired is not read again, because reads begin behind it. Memory grows with what one cut
//! fires, never with what is pending: more than that waits for the cut after. Never calls a
//! processor, never writes a store.

mod line;

use line::Line;
use parking_lot::{Mutex, MutexGuard};
use std::cmp::Ordering;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use stoatflow_core::{Bytes, Epoch, Result, Task};
use stoatflow_state::{TimerDomain, TimerView, split_timer};

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
#[derive(Clone, Debug)]
pub(crate) struct Due {
    pub row: Bytes,
    pub place: usize,
    /// That of the record which registered it last; it is the same timer in any.
    pub task: Task,
}

impl Due {
    fn rank(&self) -> (&Bytes, usize) {
        (&self.row, self.place)
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct TimerQueue {
    /// By the place of the store, then by domain.
    lines: Vec<[Line; 2]>,
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
#[derive(Clone, Debug)]
pub(crate) struct Now {
    /// The time of events by task; -1: none yet.
    pub event: Vec<i64>,
    pub wall: [i64; 1],
}

impl Now {
    /// By task; the machine's clock is the same in all.
    fn of(&self, domain: TimerDomain) -> &[i64] {
        match domain {
            TimerDomain::Event => &self.event,
            TimerDomain::Processing => &self.wall,
        }
    }

    fn in_task(&self, domain: TimerDomain, task: Task) -> i64 {
        let now = self.of(domain);
        now[line::index(now.len(), task)]
    }
}

impl TimerQueue {
    /// Of these stores, before anything is registered in this run.
    pub fn open(stores: &[TimerView<'_>], lanes: u32, now: &Now) -> Result<Self> {
        let mut lines = Vec::with_capacity(stores.len());
        let mut waits = false;
        for view in stores {
            let first = |domain| -> Result<Line> {
                let least = view.first_after(domain, None)?.unwrap_or(i64::MAX);
                Ok(Line::new(domain, now.of(domain).len(), least))
            };
            let [event, processing] = TimerDomain::ALL;
            let both = [first(event)?, first(processing)?];
            // Left over from a run that ended between two cuts: no record need come for them.
            waits |= both[0].may_be_due(&now.event);
            lines.push(both);
        }
        Ok(Self {
            lines,
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

    fn line(&self, place: usize, domain: TimerDomain) -> &Line {
        &self.lines[place][domain as usize]
    }

    /// Were timers of this time fired before, in this task?
    pub fn is_past(&self, place: usize, domain: TimerDomain, (task, at): (Task, i64)) -> bool {
        self.line(place, domain).is_past(task, at)
    }

    /// A timer that is not past was registered.
    pub fn expect(&self, place: usize, domain: TimerDomain, (task, at): (Task, i64)) {
        self.line(place, domain).expect(task, at);
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
        let least = |both: &[Line; 2]| both[TimerDomain::Processing as usize].least();
        self.lines.iter().map(least).min().unwrap_or(i64::MAX)
    }

    /// All lanes stand still: hands out what is due. `task_of`: the task of a row that doesn't say it.
    pub fn cut(
        &self,
        epoch: Epoch,
        now: &Now,
        stores: &[TimerView<'_>],
        task_of: impl Fn(usize, &Bytes) -> Task,
        lane_of: impl Fn(&Due) -> usize,
    ) -> Result<()> {
        let most = self.pace.lock().most(now.wall[0]);
        self.waits.store(false, Relaxed);
        let mut due = self.overdue(now, stores)?;
        let mut full = false;
        for (place, view) in stores.iter().enumerate() {
            for domain in TimerDomain::ALL {
                let take = |(row, task): (Bytes, Option<Task>)| {
                    let task = task.unwrap_or_else(|| task_of(place, &row));
                    Due { row, place, task }
                };
                let line = self.line(place, domain);
                full |= line.collect(*view, now.of(domain), most, take, &mut due)?;
            }
        }
        if full {
            self.waits.store(true, Relaxed);
            self.pace.lock().full_at = Some(now.wall[0]);
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
    fn overdue(&self, now: &Now, stores: &[TimerView<'_>]) -> Result<Vec<Due>> {
        let mut due = std::mem::take(&mut *self.overdue.lock());
        due.sort_unstable();
        due.dedup();
        let mut kept = Vec::with_capacity(due.len());
        for one in due {
            let Some(timer) = split_timer(&one.row) else {
                continue;
            };
            if timer.at > now.in_task(timer.domain, one.task) {
                // The machine's clock went back.
                self.expect(one.place, timer.domain, (one.task, timer.at));
            } else if stores[one.place].is_pending(&one.row)? {
                kept.push(one);
            }
        }
        Ok(kept)
    }
}
