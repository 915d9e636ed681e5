//! Reports restore progress: to the admin port, the log (every few seconds) and a listener.
//!
//! Owns the thread that calls the listener, so that loading never waits for it. [`Progress::close`]
//! returns once the listener has received everything, so the application starts after its last event.

use super::events::{RestoreEvent, RestoreListener, RestoreStep};
use super::load::Part;
use super::mailbox::Mailbox;
use super::{Parallelism, Restore, Task, describe};
use crate::admin::status::RestoreProgress;
use crate::runtime::shared::Shared;
use parking_lot::Mutex;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use stoatflow_core::{Offset, Result};
use stoatflow_protocol::WipeReason;

/// Log target of these lines; the Python package shows it by default.
const LOG: &str = "stoatflow::restore";
/// How often progress is logged.
const LOG_EVERY: Duration = Duration::from_secs(5);

/// The progress reported so far.
struct ReportState {
    progress: Vec<RestoreProgress>,
    /// Records loaded, by task.
    records: Vec<u64>,
    /// Positions loaded, by task.
    reached: Vec<Offset>,
    logged_at: Duration,
    listener: ListenerCall,
}

/// How the listener is called.
enum ListenerCall {
    NoListener,
    Inline(RestoreListener),
    Thread(Arc<Mailbox>, JoinHandle<()>),
}

struct Inner {
    shared: Arc<Shared>,
    tasks: Arc<[Task]>,
    names: Vec<String>,
    began: Duration,
    state: Mutex<ReportState>,
}

/// Shared by reader and loaders.
#[derive(Clone)]
pub(super) struct Progress(Arc<Inner>);

impl Progress {
    pub fn new(
        restore: &Restore<'_>,
        tasks: &Arc<[Task]>,
        wiped: &[(usize, WipeReason)],
    ) -> Result<Self> {
        let (shared, stores) = (restore.shared, restore.stores);
        let (listener, parallelism) = (restore.listener.clone(), restore.parallelism);
        let names: Vec<String> = stores.iter().map(|s| s.store.name().to_owned()).collect();
        let total = |store| -> u64 {
            let of_store = tasks.iter().filter(|t| t.store == store);
            of_store.map(|t| between(t.from, t.end)).sum()
        };
        let progress: Vec<RestoreProgress> = (0..)
            .zip(&names)
            .map(|(at, name)| RestoreProgress {
                store: name.clone(),
                total: total(at),
                complete: !tasks.iter().any(|t| t.store == at),
                rebuilt: (wiped.iter().find(|(store, _)| *store == at))
                    .map(|(_, why)| describe(*why)),
                ..RestoreProgress::default()
            })
            .collect();
        for (entry, store) in progress.iter().zip(stores) {
            if store.restored_from().is_some() {
                shared.status.restoring(entry.clone());
            }
        }
        let listener = match (listener.filter(|_| !tasks.is_empty()), parallelism) {
            (None, _) => ListenerCall::NoListener,
            (Some(listener), Parallelism::Sequential) => ListenerCall::Inline(listener),
            (Some(listener), Parallelism::Threads(spawn, _)) => {
                let mailbox = Arc::new(Mailbox::new(tasks.len()));
                let (events, stores) = (Arc::clone(&mailbox), names.clone());
                let tasks = Arc::clone(tasks);
                let body = Box::new(move || {
                    while let Some((task, step)) = events.take() {
                        listener(&event(&stores, &tasks[task], step));
                    }
                });
                ListenerCall::Thread(mailbox, spawn("stoatflow-restore-listener", body)?)
            }
        };
        let now = shared.clock.monotonic();
        let this = Self(Arc::new(Inner {
            shared: Arc::clone(shared),
            tasks: Arc::clone(tasks),
            names,
            began: now,
            state: Mutex::new(ReportState {
                records: vec![0; tasks.len()],
                reached: tasks.iter().map(|t| t.from).collect(),
                progress,
                logged_at: now,
                listener,
            }),
        }));
        if !tasks.is_empty() {
            let state = this.0.state.lock();
            let (_, total) = state.sums();
            tracing::info!(
                target: LOG,
                partitions = tasks.len(),
                records = total,
                "restoring state from its changelogs"
            );
            for (task, plan) in tasks.iter().enumerate() {
                let step = RestoreStep::Started {
                    from: plan.from,
                    end: plan.end,
                };
                this.report(&state, task, step);
            }
        }
        Ok(this)
    }

    /// Reports that a run was written to its store.
    pub fn loaded(&self, store: usize, parts: &[Part], last: bool) {
        let mut state = self.0.state.lock();
        for part in parts {
            state.records[part.task] += part.records;
            let moved = between(state.reached[part.task], part.reached);
            state.reached[part.task] = part.reached;
            state.progress[store].done += moved;
            let step = RestoreStep::Batch {
                reached: part.reached,
                records: part.records,
            };
            self.report(&state, part.task, step);
        }
        if last {
            state.progress[store].complete = true;
            for task in 0..self.0.tasks.len() {
                if self.0.tasks[task].store == store {
                    let records = state.records[task];
                    self.report(&state, task, RestoreStep::Ended { records });
                }
            }
        }
        self.0
            .shared
            .status
            .restoring(state.progress[store].clone());
        let now = self.0.shared.clock.monotonic();
        if now.saturating_sub(state.logged_at) >= LOG_EVERY {
            state.logged_at = now;
            let (done, total) = state.sums();
            tracing::info!(
                target: LOG,
                records = done,
                of = total,
                percent = done * 100 / total.max(1),
                "restoring state from its changelogs"
            );
        }
    }

    /// Whether every store has caught up.
    pub fn is_complete(&self) -> bool {
        self.0.state.lock().progress.iter().all(|p| p.complete)
    }

    /// Reports the end; returns once the listener has received everything.
    pub fn close(&self) {
        let whole = self.is_complete();
        let mut state = self.0.state.lock();
        for (task, plan) in self.0.tasks.iter().enumerate() {
            if !state.progress[plan.store].complete {
                let records = state.records[task];
                self.report(&state, task, RestoreStep::Suspended { records });
            }
        }
        let records: u64 = state.records.iter().sum();
        let listener = std::mem::replace(&mut state.listener, ListenerCall::NoListener);
        drop(state);
        if let ListenerCall::Thread(mailbox, thread) = listener {
            mailbox.close();
            if thread.join().is_err() {
                tracing::error!("a restore listener panicked");
            }
        }
        let ms = self
            .0
            .shared
            .clock
            .monotonic()
            .saturating_sub(self.0.began)
            .as_millis();
        let ms = u64::try_from(ms).unwrap_or(u64::MAX);
        if whole {
            tracing::info!(target: LOG, records, ms, "state is restored");
        } else {
            tracing::info!(
                target: LOG,
                records,
                ms,
                "restoring was interrupted; the next start continues from here"
            );
        }
    }

    fn report(&self, state: &ReportState, task: usize, step: RestoreStep) {
        match &state.listener {
            ListenerCall::NoListener => {}
            ListenerCall::Inline(listener) => {
                listener(&event(&self.0.names, &self.0.tasks[task], step))
            }
            ListenerCall::Thread(mailbox, _) => mailbox.put(task, step),
        }
    }
}

fn event(stores: &[String], task: &Task, step: RestoreStep) -> RestoreEvent {
    RestoreEvent {
        store: stores[task.store].clone(),
        partition: task.partition.clone(),
        step,
    }
}

impl ReportState {
    fn sums(&self) -> (u64, u64) {
        let done = self.progress.iter().map(|p| p.done).sum();
        (done, self.progress.iter().map(|p| p.total).sum())
    }
}

fn between(from: Offset, to: Offset) -> u64 {
    u64::try_from(to.0 - from.0).unwrap_or(0)
}
