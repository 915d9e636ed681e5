//! The pending timers of one processor, shared by the lanes of a run.
//!
//! Takes registrations from any lane; at the cut, while all lanes stand still, hands each lane the due
//! timers of its keys. In event time each task has its own stream time. Tracks times to avoid reads:
//! nothing is read while no pending timer can be due, and fired timers are not read again, because reads
//! begin after them. Memory grows with the timers fired by one cut, never with the pending ones: timers
//! beyond the limit wait for the next cut. Never calls a processor, never writes a store.

mod pending_timers;

use parking_lot::{Mutex, MutexGuard};
use pending_timers::PendingTimers;
use std::cmp::Ordering;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use stoatflow_core::{Bytes, Epoch, Result, Task};
use stoatflow_state::{TimerDomain, TimerView, split_timer};

/// Maximum timers of a store and domain per cut, at the start.
const INITIAL_TIMERS_PER_CUT: usize = 16_384;
/// Bounds of that maximum.
const MIN_TIMERS_PER_CUT: usize = 256;
const MAX_TIMERS_PER_CUT: usize = 131_072;
/// After a full cut slower than `SLOW_MS` the maximum is halved, after one faster than `FAST_MS` it is
/// doubled: an epoch's timers must be fired well before its transaction times out.
const SLOW_MS: i64 = 2_000;
const FAST_MS: i64 = 500;

/// A timer: its row, and the index of its store in the processor's list. Ordered as it is fired.
#[derive(Clone, Debug)]
pub(crate) struct Due {
    pub row: Bytes,
    pub place: usize,
    /// Task of the record that registered it last; not part of the timer's identity.
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
    /// By index of the store, then by domain.
    pending: Vec<[PendingTimers; 2]>,
    /// Timers that were due when they were registered: the next cut checks them one by one.
    overdue: Mutex<Vec<Due>>,
    /// By lane: the timers handed out by the cut.
    handed: Vec<Mutex<Vec<Due>>>,
    /// The epoch of the last cut.
    cut: AtomicU64,
    /// True if timers wait for the next cut, whatever the clocks.
    waits: AtomicBool,
    cut_limit: Mutex<CutLimit>,
}

/// How many timers a cut fires.
#[derive(Debug)]
struct CutLimit {
    most: usize,
    /// Wall time of the last cut, if it was full.
    full_at: Option<i64>,
}

impl CutLimit {
    fn most(&mut self, wall: i64) -> usize {
        if let Some(at) = self.full_at.take() {
            let took = wall.saturating_sub(at);
            if took > SLOW_MS {
                self.most = (self.most / 2).max(MIN_TIMERS_PER_CUT);
            } else if took < FAST_MS {
                self.most = (self.most * 2).min(MAX_TIMERS_PER_CUT);
            }
        }
        self.most
    }
}

/// The times of the clocks at a cut.
#[derive(Clone, Debug)]
pub(crate) struct TimerClocks {
    /// Event time by task; `i64::MIN`: none yet.
    pub event: Vec<i64>,
    pub wall: [i64; 1],
}

impl TimerClocks {
    /// The times by task; the wall clock is the same for all.
    fn of(&self, domain: TimerDomain) -> &[i64] {
        match domain {
            TimerDomain::Event => &self.event,
            TimerDomain::Processing => &self.wall,
        }
    }

    fn in_task(&self, domain: TimerDomain, task: Task) -> i64 {
        let now = self.of(domain);
        now[pending_timers::index(now.len(), task)]
    }
}

impl TimerQueue {
    /// For these stores, before anything is registered in this run.
    pub fn open(stores: &[TimerView<'_>], lanes: u32, now: &TimerClocks) -> Result<Self> {
        let mut pending = Vec::with_capacity(stores.len());
        let mut waits = false;
        for view in stores {
            let first = |domain| -> Result<PendingTimers> {
                let least = view.first_after(domain, None)?.unwrap_or(i64::MAX);
                Ok(PendingTimers::new(domain, now.of(domain).len(), least))
            };
            let [event, processing] = TimerDomain::ALL;
            let both = [first(event)?, first(processing)?];
            // Timers left over from a run that ended between two cuts: they must not wait for a record.
            waits |= both[0].may_be_due(&now.event);
            pending.push(both);
        }
        Ok(Self {
            pending,
            overdue: Mutex::default(),
            handed: (0..lanes).map(|_| Mutex::default()).collect(),
            cut: AtomicU64::new(0),
            waits: AtomicBool::new(waits),
            cut_limit: Mutex::new(CutLimit {
                most: INITIAL_TIMERS_PER_CUT,
                full_at: None,
            }),
        })
    }

    /// Sets the maximum to start with.
    #[cfg(test)]
    pub fn beginning_with(self, most: usize) -> Self {
        self.cut_limit.lock().most = most;
        self
    }

    fn pending(&self, place: usize, domain: TimerDomain) -> &PendingTimers {
        &self.pending[place][domain as usize]
    }

    /// Whether timers of this time were fired before, in this task.
    pub fn is_past(&self, place: usize, domain: TimerDomain, (task, at): (Task, i64)) -> bool {
        self.pending(place, domain).is_past(task, at)
    }

    /// Notes that a timer that is not past was registered.
    pub fn expect(&self, place: usize, domain: TimerDomain, (task, at): (Task, i64)) {
        self.pending(place, domain).expect(task, at);
    }

    /// Notes that a timer that is past was registered: the next cut fires it, if it still exists.
    /// `waits`: the cut must happen even if no record arrives.
    pub fn postpone(&self, due: Due, waits: bool) {
        self.overdue.lock().push(due);
        if waits {
            self.waits.store(true, Relaxed);
        }
    }

    /// Whether this epoch's cut was made.
    pub fn is_cut(&self, epoch: Epoch) -> bool {
        self.cut.load(Relaxed) == epoch.0
    }

    /// Whether timers wait for the next cut, whatever the clocks.
    pub fn waits(&self) -> bool {
        self.waits.load(Relaxed)
    }

    /// The wall time at which the next cut has something to do; `i64::MAX`: none is known.
    pub fn next_wall(&self) -> i64 {
        if self.waits() {
            return i64::MIN;
        }
        let least = |both: &[PendingTimers; 2]| both[TimerDomain::Processing as usize].least();
        self.pending.iter().map(least).min().unwrap_or(i64::MAX)
    }

    /// While all lanes stand still: hands out due timers. `task_of`: the task of a row that doesn't
    /// contain it.
    pub fn cut(
        &self,
        epoch: Epoch,
        now: &TimerClocks,
        stores: &[TimerView<'_>],
        task_of: impl Fn(usize, &Bytes) -> Task,
        lane_of: impl Fn(&Due) -> usize,
    ) -> Result<()> {
        let most = self.cut_limit.lock().most(now.wall[0]);
        self.waits.store(false, Relaxed);
        let mut due = self.overdue(now, stores)?;
        let mut full = false;
        for (place, view) in stores.iter().enumerate() {
            for domain in TimerDomain::ALL {
                let take = |(row, task): (Bytes, Option<Task>)| {
                    let task = task.unwrap_or_else(|| task_of(place, &row));
                    Due { row, place, task }
                };
                let timers = self.pending(place, domain);
                full |= timers.collect(*view, now.of(domain), most, take, &mut due)?;
            }
        }
        if full {
            self.waits.store(true, Relaxed);
            self.cut_limit.lock().full_at = Some(now.wall[0]);
        }
        due.sort_unstable();
        // A timer registered again beyond the row where the last cut stopped is in the list twice.
        due.dedup();
        let mut hands: Vec<MutexGuard<'_, Vec<Due>>> =
            self.handed.iter().map(Mutex::lock).collect();
        for one in due {
            hands[lane_of(&one)].push(one);
        }
        self.cut.store(epoch.0, Relaxed);
        Ok(())
    }

    /// Takes the timers handed to a lane.
    pub fn take(&self, lane: u32) -> Vec<Due> {
        let handed = self.handed.get(lane as usize);
        handed.map_or_else(Vec::new, |handed| std::mem::take(&mut *handed.lock()))
    }

    /// Postponed timers that still exist.
    fn overdue(&self, now: &TimerClocks, stores: &[TimerView<'_>]) -> Result<Vec<Due>> {
        let mut due = std::mem::take(&mut *self.overdue.lock());
        due.sort_unstable();
        due.dedup();
        let mut kept = Vec::with_capacity(due.len());
        for one in due {
            let Some(timer) = split_timer(&one.row) else {
                continue;
            };
            if timer.at > now.in_task(timer.domain, one.task) {
                // The wall clock went back.
                self.expect(one.place, timer.domain, (one.task, timer.at));
            } else if stores[one.place].is_pending(&one.row)? {
                kept.push(one);
            }
        }
        Ok(kept)
    }
}
