//! One run, from start to end: builds its parts, starts their threads, and joins them.
//!
//! Takes the specification; returns how the run ended, after all its parts have stopped. Lanes that run
//! only native code are tasks of the runtime; those that call user functions have a thread each.

use super::Inner;
use super::bodies::{run_commit, run_index_builds, run_intake, run_lane};
use super::spawn::{PanicGuard, Threads, hosted, lane_span, spawn};
use crate::admin::lag_monitor::{first_report, monitor_lag};
use crate::admin::thread_activity::lane_thread;
use crate::restore::Parallelism;
use crate::runtime::shared::Shared;
use crate::startup::{EngineParts, EngineSpec, StartupContext};
use std::sync::Arc;
use stoatflow_core::Result;
use stoatflow_protocol::Lifecycle;
use stoatflow_state::Backend;
use tokio::runtime::Handle;
use tracing::Instrument;

/// More threads don't speed up a restore: one reader feeds them.
const LOADERS: usize = 4;

/// How a run without a failure ended.
pub(super) enum RunEnd {
    /// A stop was requested.
    Stopped,
    /// There are new partitions to read. The next run takes over the state: otherwise state that is only
    /// in memory and has no changelog would be lost.
    NewPartitions(Arc<dyn Backend>),
}

impl Inner {
    /// One run, from start to end. A failure is returned after all parts have stopped.
    pub(super) fn run_once(
        self: &Arc<Self>,
        spec: &EngineSpec,
        shared: &Arc<Shared>,
        runtime: &Handle,
    ) -> Result<RunEnd> {
        let (this, run) = (Arc::clone(self), Arc::clone(shared));
        spawn("stoatflow-bounds", move || this.enforce_time_limits(&run))?;
        let clock = Arc::clone(&spec.components.clock);
        let Some(parts) = self.build_parts(spec, shared)? else {
            return Ok(RunEnd::Stopped);
        };
        let started = parts.slots.iter();
        let started = started.map(|slot| (slot.partition.clone(), slot.start));
        shared.snapshot_lock.begin(started.collect());
        self.readers.begin(&parts.backend, shared);
        self.enter(Lifecycle::Running, clock.now());
        self.log_start(parts.slots.iter().map(|slot| &slot.partition));
        let foreign = spec.plan.may_block_on_user_code();
        let EngineParts {
            intake,
            lanes,
            commit,
            backend,
            slots,
            stores,
            unbuilt,
            ..
        } = parts;
        // In the order in which they end. One that can't be started ends the others.
        let mut threads = Threads::new(shared);
        let mut tasks = Vec::new();
        let guest = (spec.foreign.runtime.clone()).filter(|_| intake.calls_out());
        let (this, run) = (Arc::clone(self), Arc::clone(shared));
        threads.spawn("stoatflow-intake", move || {
            hosted(guest.as_deref(), (&run.status.intake, &run), || {
                run_intake(intake, &run, |state| this.enter(state, run.clock.now()));
            });
        });
        let run = Arc::clone(shared);
        threads.spawn("stoatflow-commit", move || run_commit(commit, &run));
        {
            let (shared, this) = (Arc::clone(shared), Arc::clone(self));
            self.status.report_partitions(first_report(&slots));
            threads.spawn("stoatflow-observe", move || {
                monitor_lag(&shared, &this.spec, &slots);
            });
        }
        if !unbuilt.is_empty() {
            let (shared, backend) = (Arc::clone(shared), Arc::clone(&backend));
            threads.spawn("stoatflow-index", move || {
                run_index_builds(unbuilt, backend.as_ref(), &shared);
            });
        }
        for lane in lanes {
            let (name, shared) = (lane_thread(lane.id()), Arc::clone(shared));
            let span = lane_span(lane.id(), &shared);
            if foreign {
                let runtime = runtime.clone();
                let guest = spec.foreign.runtime.clone();
                let body = move || {
                    let at = Arc::clone(&shared.status.lane(lane.id()).current_call);
                    let run = Arc::clone(&shared);
                    hosted(guest.as_deref(), (&at, &run), || {
                        runtime.block_on(run_lane(lane, shared));
                    });
                };
                span.in_scope(|| threads.spawn(&name, body));
            } else {
                let guard = PanicGuard::new(name, &shared);
                let body = async move {
                    run_lane(lane, shared).await;
                    drop(guard);
                };
                tasks.push(runtime.spawn(body.instrument(span)));
            }
        }
        threads.join();
        for task in tasks {
            // Its guard has reported a panic.
            drop(runtime.block_on(task));
        }
        drop(stores);
        match shared.take_failure() {
            Some(error) => Err(error),
            None if shared.has_new_partitions() => Ok(RunEnd::NewPartitions(backend)),
            None => Ok(RunEnd::Stopped),
        }
    }

    fn build_parts(&self, spec: &EngineSpec, shared: &Arc<Shared>) -> Result<Option<EngineParts>> {
        let enter = |state| self.enter(state, spec.components.clock.now());
        // One core for the reader, the others load.
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let host = StartupContext {
            on_state: &enter,
            parallelism: Parallelism::Threads(
                &|name, body| spawn(name, body),
                (cores - 1).clamp(1, LOADERS),
            ),
        };
        spec.build(shared, &host)
    }
}
