//! Whether an application is ready, and the reason if not.

use super::{PartitionStatus, Status};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_protocol::Lifecycle;

/// A source held back this long by an open transaction makes the application not ready.
const HELD_BACK_MS: i64 = 60_000;

/// All reasons that `/health/ready` and the metrics use.
pub(in crate::admin) const REASONS: [&str; 8] = [
    "restoring",
    "stalled",
    "broker_away",
    "open_transaction",
    "health_check",
    "paused",
    "not_running",
    "failed",
];

impl Status {
    /// A source partition that an open transaction has held back for long, as a sentence.
    fn held_back(&self, now_ms: i64) -> Option<String> {
        let detail = self.detail.lock();
        let long = |p: &&PartitionStatus| {
            let held = p.held_back.as_ref();
            held.is_some_and(|held| now_ms - held.since_ms >= HELD_BACK_MS)
        };
        let partition = detail.partitions.iter().find(long)?;
        let held = partition.held_back.as_ref()?;
        let whose = held
            .producer_id
            .map_or(String::new(), |id| format!(" of producer {id}"));
        Some(format!(
            "a transaction{whose} has been open in '{}' partition {} for {} s: nothing from offset {} \
                on can be read",
            partition.topic,
            partition.partition,
            (now_ms - held.since_ms) / 1000,
            held.start_offset
        ))
    }

    /// Since when the broker hasn't answered an application that starts or runs, as a sentence.
    pub fn is_broker_away(&self, now: Duration) -> Option<String> {
        let asks = matches!(
            self.state(),
            Lifecycle::Starting | Lifecycle::Restoring | Lifecycle::Running
        );
        let since = self.detail.lock().silent_since.filter(|_| asks)?;
        Some(format!(
            "the broker has not answered for {:.1} s",
            now.saturating_sub(since).as_secs_f64()
        ))
    }

    /// `Ok` if the application is ready.
    ///
    /// # Errors
    /// The reason, as an identifier and as a sentence.
    pub fn ready(
        &self,
        now: Duration,
        now_ms: i64,
        stall_after: Duration,
    ) -> Result<(), (&'static str, String)> {
        if let Some(away) = self.is_broker_away(now) {
            return Err(("broker_away", away));
        }
        let state = self.state();
        if state != Lifecycle::Running {
            return Err((
                "not_running",
                format!("the application is {}", state.name()),
            ));
        }
        if let Some(held) = self.held_back(now_ms) {
            return Err(("open_transaction", held));
        }
        let last = Duration::from_millis(self.progress_ms.load(Relaxed));
        let silent = now.saturating_sub(last);
        if silent > stall_after {
            return Err((
                "stalled",
                format!(
                    "no commit for {:.1} s although records wait",
                    silent.as_secs_f64()
                ),
            ));
        }
        if let Some(failing) = self.health_checks.failing(now) {
            return Err(("health_check", failing));
        }
        Ok(())
    }

    /// The reason why the application isn't ready, one of `REASONS`.
    pub fn not_ready(
        &self,
        now: Duration,
        now_ms: i64,
        stall_after: Duration,
    ) -> Option<&'static str> {
        match self.state() {
            Lifecycle::Restoring if self.is_broker_away(now).is_none() => Some("restoring"),
            Lifecycle::Paused => Some("paused"),
            Lifecycle::Failed => Some("failed"),
            _ => Some(self.ready(now, now_ms, stall_after).err()?.0),
        }
    }
}
