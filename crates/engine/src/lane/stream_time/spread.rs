//! Times, where there are other tasks than at the last commit: a source has got more partitions, or
//! a pattern has found a wider topic.
//!
//! Takes the times that were committed, gives those that the run begins with. Where murmur2 of a
//! key says its task, keys have moved to other tasks. A task goes on from the highest time of those
//! whose keys it may have now: so no window that was given is open again, in this run or a later
//! one. What a key has in a task that was behind is given by the lanes in their first epoch.
//! Straight behind a source a task is a partition, and goes on by itself.

#[cfg(test)]
mod tests;

use super::Timing;
use std::sync::Arc;
use stoatflow_operators::{ClockRule, Time, Times};
use stoatflow_plan::PhysicalPlan;

impl Timing {
    /// Takes the committed times over into the tasks that there are now.
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
            // How long nothing has come is known of the tasks that there were only: the wait begins anew.
            let clock = usize::from(clock.0);
            if self.initial[clock] != before[clock] {
                self.initial[usize::from(idle.seen.0)].clear();
            }
        }
        self.before = Some(Arc::new(before));
    }
}

/// True if a clock has another number of tasks.
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
        // A clock of no operator counts as one with one task.
        changed |= rule.by_key || tasks > 1;
    }
    changed
}

/// The number of a key, modulo the number of tasks, is its task: so two tasks of the same key are
/// equal modulo what divides both numbers.
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
