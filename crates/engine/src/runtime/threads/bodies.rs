//! The loops of the intake, commit and lane threads until the run ends.

use crate::commit::Committer;
use crate::index::build::{Unbuilt, build_concurrently};
use crate::intake::Intake;
use crate::lane::LaneWorker;
use crate::runtime::shared::Shared;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_protocol::Lifecycle;
use stoatflow_state::Backend;

/// Runs intake until everything admitted is committed after a stop, or until an abort. `enter` is called
/// with `Stopping` while it drains for a stop that the user has requested, with `Paused` once reading is
/// paused and everything read is committed, and with `Running` when reading resumes.
pub(super) fn run_intake(mut room: Intake, shared: &Shared, enter: impl Fn(Lifecycle)) {
    let mut is_paused = false;
    while !(shared.is_aborting() || shared.is_stopping() && room.is_settled()) {
        // A failure also requests a stop, after the abort; then the user hasn't requested it.
        if shared.is_stopping() && !shared.is_aborting() {
            if !shared.has_new_partitions() {
                enter(Lifecycle::Stopping);
            }
            shared.pause(Duration::from_millis(2));
        } else if is_paused != (shared.is_paused() && (is_paused || room.is_settled())) {
            is_paused = !is_paused;
            enter(if is_paused {
                Lifecycle::Paused
            } else {
                Lifecycle::Running
            });
        }
        match room.step(true) {
            Err(error) if error.is_interruption() => shared.abort(),
            Err(error) => shared.fail(error),
            Ok(_) => {}
        }
    }
    shared.set_drained();
}

/// Runs commit until intake has ended, or until an abort.
pub(super) fn run_commit(mut room: Committer, shared: &Shared) {
    while !shared.is_aborting() && !shared.is_drained() {
        if let Err(error) = room.step(Duration::from_millis(50)) {
            shared.fail(error);
        }
    }
    if shared.is_aborting() {
        room.abandon();
    } else {
        room.close();
    }
}

/// Builds indexes from the rows that stores already have, one store after the other.
pub(super) fn run_index_builds(unbuilt: Vec<Unbuilt>, backend: &dyn Backend, shared: &Shared) {
    let is_over = || shared.is_stopping() || shared.is_aborting();
    for mut unbuilt in unbuilt {
        let built = build_concurrently(backend, &shared.snapshot_lock, &mut unbuilt, is_over);
        if let Err(error) = built {
            shared.fail(error);
        }
    }
}

/// Runs a lane. As a task it yields after every item; on a thread it is driven by `block_on`.
pub(super) async fn run_lane(mut lane: LaneWorker, shared: Arc<Shared>) {
    let queue = lane.id().0 as usize;
    while !shared.is_aborting() && !shared.is_drained() {
        match lane.step() {
            Ok(true) => tokio::task::yield_now().await,
            Ok(false) => shared.queues[queue].ready().await,
            Err(error) if error.is_interruption() => shared.abort(),
            // After an abort, errors no longer matter.
            Err(error) if shared.is_aborting() => tracing::debug!(%error, "after the end"),
            Err(error) => shared.fail(error),
        }
    }
    lane.close();
}
