//! The pending timers of one store and domain: which are due, task by task.
//!
//! Rows are ordered by time, those of all tasks mixed. Tasks whose time ranges overlap are read
//! together, once; a row that its task hasn't reached yet stays. So a task that is far behind costs the
//! others nothing, and its timers wait in the store.

use super::Due;
use parking_lot::Mutex;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Bytes, Result, Task};
use stoatflow_state::{TimerDomain, TimerView, TimersFrom, split_timer};

/// Minimum rows to read at a time after rows that had to stay.
const PAGE: usize = 1_024;

/// Progress of one task.
#[derive(Debug)]
struct TaskProgress {
    /// Timers up to this time were fired: one registered for this time or before is due already.
    fired: AtomicI64,
    /// After `fired`, no pending timer is earlier than this.
    least: AtomicI64,
}

/// Where to continue after a full cut, if the next one reads for the same tasks.
#[derive(Debug)]
struct Resume {
    row: Bytes,
    tasks: Vec<usize>,
}

/// A time range to read, and the tasks to read it for.
#[derive(Debug)]
struct Span {
    from: i64,
    to: i64,
    tasks: Vec<usize>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct PendingTimers {
    domain: TimerDomain,
    tasks_progress: Vec<TaskProgress>,
    resume: Mutex<Option<Resume>>,
}

/// The index of a task; a single clock serves all tasks.
pub(super) fn index(tasks: usize, task: Task) -> usize {
    if task.index() < tasks {
        task.index()
    } else {
        0
    }
}

fn time(row: &Bytes) -> i64 {
    split_timer(row).map_or(i64::MIN, |timer| timer.at)
}

impl PendingTimers {
    /// For this number of tasks; none has a timer before `least`.
    pub fn new(domain: TimerDomain, tasks: usize, least: i64) -> Self {
        let new = || TaskProgress {
            fired: AtomicI64::new(i64::MIN),
            least: AtomicI64::new(least),
        };
        Self {
            domain,
            tasks_progress: std::iter::repeat_with(new).take(tasks.max(1)).collect(),
            resume: Mutex::default(),
        }
    }

    fn progress(&self, task: Task) -> &TaskProgress {
        &self.tasks_progress[index(self.tasks_progress.len(), task)]
    }

    /// Whether timers of this time were fired before.
    pub fn is_past(&self, task: Task, at: i64) -> bool {
        at <= self.progress(task).fired.load(Relaxed)
    }

    /// Notes that a timer that is not past was registered.
    pub fn expect(&self, task: Task, at: i64) {
        let least = &self.progress(task).least;
        // Usually there is an earlier one: then no cache line is written.
        if at < least.load(Relaxed) {
            least.fetch_min(at, Relaxed);
        }
    }

    /// Lower bound of the times of all pending timers.
    pub fn least(&self) -> i64 {
        let least = self
            .tasks_progress
            .iter()
            .map(|progress| progress.least.load(Relaxed));
        least.min().unwrap_or(i64::MAX)
    }

    /// Whether anything may be due, as far as is known without reading.
    pub fn may_be_due(&self, now: &[i64]) -> bool {
        let both = self.tasks_progress.iter().zip(now);
        both.into_iter()
            .any(|(progress, now)| progress.least.load(Relaxed) <= *now)
    }

    /// Reads the timers that are due at these times, by task; returns whether there may be more. `take`:
    /// makes a timer of a row.
    pub fn collect(
        &self,
        view: TimerView<'_>,
        now: &[i64],
        most: usize,
        take: impl Fn((Bytes, Option<Task>)) -> Due,
        due: &mut Vec<Due>,
    ) -> Result<bool> {
        let mut room = most;
        for span in self.spans(now) {
            let before = due.len();
            if self.read(&span, view, now, room, &take, due)? {
                return Ok(true);
            }
            room = room.saturating_sub(due.len() - before).max(1);
        }
        Ok(false)
    }

    /// The time ranges to read.
    fn spans(&self, now: &[i64]) -> Vec<Span> {
        let mut resume = self.resume.lock();
        let mut open = Vec::new();
        for (at, (progress, now)) in self.tasks_progress.iter().zip(now).enumerate() {
            let least = progress.least.load(Relaxed);
            if least <= *now {
                open.push((least, *now, at));
                continue;
            }
            // If the clock went back, timers registered from now on may be before the row to continue
            // from.
            if resume.as_ref().is_some_and(|r| r.tasks.contains(&at)) {
                *resume = None;
            }
            progress.fired.store(*now, Relaxed);
        }
        open.sort_unstable();
        let mut spans: Vec<Span> = Vec::new();
        for (from, to, at) in open {
            match spans.last_mut() {
                Some(last) if from <= last.to => {
                    last.to = last.to.max(to);
                    last.tasks.push(at);
                }
                _ => spans.push(Span {
                    from,
                    to,
                    tasks: vec![at],
                }),
            }
        }
        for span in &mut spans {
            span.tasks.sort_unstable();
        }
        spans
    }

    /// Where reading a span begins.
    fn begin(&self, span: &Span) -> TimersFrom {
        let mut resume = self.resume.lock();
        match resume.take_if(|resume| resume.tasks == span.tasks) {
            Some(Resume { row, .. }) if time(&row) <= span.from => TimersFrom::Row(row),
            _ => TimersFrom::Time(span.from),
        }
    }

    fn read(
        &self,
        span: &Span,
        view: TimerView<'_>,
        now: &[i64],
        most: usize,
        take: impl Fn((Bytes, Option<Task>)) -> Due,
        due: &mut Vec<Due>,
    ) -> Result<bool> {
        let mut from = self.begin(span);
        let begin = due.len();
        // The first timer of each task that stays.
        let mut stays = vec![i64::MAX; self.tasks_progress.len()];
        let mut page = most;
        loop {
            let rows = view.due(self.domain, &from, span.to, page)?;
            let last = rows.last().map(|(row, _)| row.clone());
            let full = rows.len() == page;
            for row in rows {
                let one = take(row);
                let (at, task) = (time(&one.row), index(self.tasks_progress.len(), one.task));
                if at <= now[task] {
                    due.push(one);
                } else {
                    stays[task] = stays[task].min(at);
                }
            }
            let Some(last) = last.filter(|_| full) else {
                let next = view.first_after(self.domain, Some(span.to))?;
                for &task in &span.tasks {
                    let next = next.unwrap_or(i64::MAX).min(stays[task]);
                    self.tasks_progress[task].least.store(next, Relaxed);
                    self.tasks_progress[task].fired.store(now[task], Relaxed);
                }
                return Ok(false);
            };
            let taken = due.len() - begin;
            if taken >= most {
                self.interrupt(span, now, last, &stays);
                return Ok(true);
            }
            page = (most - taken).max(PAGE);
            from = TimersFrom::Row(last);
        }
    }

    /// Stops at this row, because the maximum of timers was read.
    fn interrupt(&self, span: &Span, now: &[i64], last: Bytes, stays: &[i64]) {
        let reached = time(&last);
        let mut tasks = Vec::new();
        for &task in &span.tasks {
            let progress = &self.tasks_progress[task];
            if now[task] < reached {
                progress.least.store(reached.min(stays[task]), Relaxed);
                progress.fired.store(now[task], Relaxed);
            } else {
                progress.least.store(reached, Relaxed);
                progress.fired.store(reached, Relaxed);
                tasks.push(task);
            }
        }
        *self.resume.lock() = Some(Resume { row: last, tasks });
    }
}
