//! Stream times after the number of tasks has changed since the last commit: a source has more
//! partitions, or a pattern matches a topic that has more.
//!
//! Converts the committed times into those that the run begins with. Where the murmur2 hash of a key
//! determines its task, keys have moved to other tasks. A task continues from the highest time of all
//! tasks whose keys it may have now, so no window that was emitted opens again, in this run or a later
//! one. If the old task of a key was behind that time, the lanes emit what is now due for the key in
//! their first epoch. Directly below a source a task is a partition, and keeps its own time.

#[cfg(test)]
mod tests;

use super::Timing;
use std::sync::Arc;
use stoatflow_operators::{ClockRule, Time, Times};
use stoatflow_plan::PhysicalPlan;

impl Timing {
    /// Converts the committed times to the current tasks.
    pub(super) fn spread(&mut self, plan: &PhysicalPlan) {
        let Some(rules) = self.rules.first().filter(|_| !self.by_watermark) else {
            return;
        };
        let before = self.initial.clone();
        if !spread(&mut self.initial, rules) {
            return;
        }
        for node in &plan.nodes {
            let (idle, clock) = (node.idle.as_ref(), node.op.clock());
            let (Some(idle), Some(clock)) = (idle, clock) else {
                continue;
            };
            // Only the old tasks know how long they were idle: the wait starts again.
            let clock = usize::from(clock.0);
            if self.initial[clock] != before[clock] {
                self.initial[usize::from(idle.seen.0)].clear();
            }
        }
        self.before = Some(Arc::new(before));
    }
}

/// True if the number of tasks of a clock has changed.
fn spread(times: &mut Times, rules: &[ClockRule]) -> bool {
    let mut changed = false;
    for (times, rule) in times.iter_mut().zip(rules) {
        let tasks = usize::from(rule.tasks);
        if times.is_empty() || times.len() == tasks {
            continue;
        }
        if rule.by_key {
            *times = into_tasks(times, tasks);
        }
        // A clock without an operator counts as one with one task.
        changed |= rule.by_key || tasks > 1;
    }
    changed
}

/// The task of a key is its hash modulo the number of tasks. So the old and the new task of a key are
/// equal modulo the greatest common divisor of both numbers.
fn into_tasks(before: &[Time], tasks: usize) -> Vec<Time> {
    let apart = greatest_common_divisor(before.len(), tasks).max(1);
    let of = |task: usize| {
        let same = before.iter().skip(task % apart).step_by(apart);
        same.fold(Time::NONE, |one, other| one.merge(*other))
    };
    (0..tasks).map(of).collect()
}

const fn greatest_common_divisor(mut one: usize, mut other: usize) -> usize {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}
