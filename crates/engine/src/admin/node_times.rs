//! How much of the lanes' time each node takes, by sampling.
//!
//! Looks several times per second at the node that each busy lane is running, and adds the time since
//! the last look to it. Never touches a lane, and costs it no clock reading.

#[cfg(test)]
mod tests;

use super::Shared;
use crate::admin::status::Status;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The shortest time between two looks.
const SHORTEST_PAUSE_MS: u64 = 30;
/// The longest one is this much longer, less a millisecond.
const PAUSE_RANGE_MS: u64 = 41;

/// Runs as long as the port is open.
pub(super) async fn sample_nodes(shared: Arc<Shared>) {
    let mut sampler = NodeSampler::new(shared.clock.monotonic());
    loop {
        tokio::time::sleep(sampler.pause()).await;
        sampler.look(&shared.status, shared.clock.monotonic());
    }
}

/// See the module.
#[derive(Debug)]
struct NodeSampler {
    /// The last look, monotonic.
    at: Duration,
    random: u32,
}

impl NodeSampler {
    const fn new(now: Duration) -> Self {
        Self { at: now, random: 1 }
    }

    /// The time until the next look. Commits are periodic, so even intervals could meet the same part of
    /// every epoch.
    fn pause(&mut self) -> Duration {
        self.random = self
            .random
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        Duration::from_millis(SHORTEST_PAUSE_MS + u64::from(self.random >> 16) % PAUSE_RANGE_MS)
    }

    fn look(&mut self, status: &Status, now: Duration) {
        let since = now.saturating_sub(self.at);
        self.at = now;
        let since = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let busy = status
            .lanes
            .iter()
            .filter(|lane| lane.busy_since_ms.load(Relaxed) > 0);
        for node in busy.filter_map(|lane| lane.active_node.node()) {
            if let Some(time) = status.node_times.get(node.0 as usize) {
                time.fetch_add(since, Relaxed);
            }
        }
    }
}
