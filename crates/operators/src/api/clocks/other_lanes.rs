//! How records of other lanes move this lane's time within a tick.
//!
//! Takes what all lanes know of the tick ([`Steps`]), moves a clock past the records before the current
//! one, and finds the record at which something became due. Without steps only the lane's own records
//! count.

use super::LaneClocks;
use super::steps::{Step, Steps, TriggerRecord};
use std::sync::Arc;
use stoatflow_core::{ClockId, Order, Record, Task};

impl LaneClocks {
    /// The time of a clock just before a record, however far this lane has got: for results that are
    /// emitted later than their place in the order.
    #[must_use]
    pub fn as_of(&self, clock: ClockId, record: &Record) -> i64 {
        let (order, index) = (record.origin.order, usize::from(clock.0));
        let (Some(steps), Some(group)) = (&self.steps, self.rules[index].group) else {
            return self.stream(clock, order.task());
        };
        let steps = steps.of(group, order.task());
        let before = steps.partition_point(|step| step.order < order);
        let moved = before.checked_sub(1).map_or(-1, |last| steps[last].time);
        let at_begin = self.at_begin.get(index);
        let at_begin = at_begin.and_then(|times| times.get(self.place(order.task())));
        moved.max(at_begin.map_or(-1, |time| time.stream))
    }

    /// Moves a clock by the records of other lanes up to a place in the order; `with`: the place
    /// included.
    pub(super) fn pass(&mut self, clock: ClockId, order: Order, with: bool) {
        let index = usize::from(clock.0);
        if self.rules[index].dispatched && !self.by_watermark {
            if let Some(times) = self.at_record(order) {
                self.raise_to(clock, order.task(), times.keyed_before);
            }
            return;
        }
        if let (Some(steps), Some(group)) = (&self.steps, self.rules[index].group) {
            let task = order.task();
            let steps = steps.of(group, task);
            let passed = &mut self.passed[index];
            if passed.len() <= task.index() {
                passed.resize(task.index() + 1, 0);
            }
            let from = passed[task.index()];
            let rest = &steps[from..];
            let within = |step: &Step| step.order < order || with && step.order == order;
            let more = leading(rest, within);
            if more > 0 {
                passed[task.index()] = from + more;
                let time = rest[more - 1].time;
                self.raise_to(clock, task, time);
            }
        }
    }

    /// The record of this tick that was the first to reach `time` in a task, if known: what is due since
    /// then became due at that record.
    #[must_use]
    pub fn first_at(&self, clock: ClockId, task: Task, time: i64) -> Option<&Step> {
        let group = self.rules[usize::from(clock.0)].group?;
        let steps = self.steps.as_ref()?.of(group, task);
        steps.get(steps.partition_point(|step| step.time < time))
    }

    /// The origin and headers for a result that is due since `time` in a task: those of the record of
    /// [`Self::first_at`].
    #[must_use]
    pub fn name_at(&self, clock: ClockId, task: Task, time: i64) -> Option<&TriggerRecord> {
        let group = self.rules[usize::from(clock.0)].group?;
        let step = self.first_at(clock, task, time)?;
        self.steps.as_ref()?.name(group, step)
    }

    /// Begins a tick; `steps` is what all lanes know of it.
    pub fn begin_tick(&mut self, steps: Option<Arc<Steps>>) {
        if steps.is_some() {
            self.at_begin.clone_from(&self.times);
        }
        self.steps = steps;
        self.passed.iter_mut().for_each(Vec::clear);
    }

    /// Call when all records of the tick are processed: time becomes the same in all lanes.
    pub fn end_tick(&mut self) {
        let Some(steps) = &self.steps else { return };
        let rules = self.rules.iter().enumerate();
        let followed: Vec<(usize, u16)> = rules
            .filter_map(|(at, rule)| Some((at, rule.group?)))
            .collect();
        let last = followed.into_iter().flat_map(|(clock, group)| {
            let last = steps.last(group);
            last.map(move |(task, time)| (clock, task, time))
        });
        for (clock, task, time) in last.collect::<Vec<_>>() {
            let clock = ClockId(u16::try_from(clock).unwrap_or(u16::MAX));
            self.raise_to(clock, task, time);
        }
    }
}

/// The number of steps at the front that are `within`: as `partition_point`, but faster if they are few.
fn leading(steps: &[Step], within: impl Fn(&Step) -> bool) -> usize {
    // Usually none, or only the record's own step.
    for near in 0..2 {
        if !steps.get(near).is_some_and(&within) {
            return near;
        }
    }
    let mut width = 4;
    while width < steps.len() && within(&steps[width - 1]) {
        width *= 2;
    }
    // The first half was checked by the loop.
    let low = if width > 4 { width / 2 } else { 0 };
    low + steps[low..width.min(steps.len())].partition_point(within)
}
