//! Records that are too late for windows closed by the wall clock.
//!
//! The watermark doesn't reveal that such records are late, so the late policy of their source was not
//! applied to them. Takes the operator's input; records that the operator drops as late go to the
//! dead-letter topic of their source, if it has one. Never decides what is late, and calls no policy
//! function: behind other operators a record is not the one that the function was written for.

use crate::support::dropped;
use crate::support::error_policy::Handled;
use crate::support::late::{LatePolicy, LateRecord, LateVerdict};
use crate::support::node_context::NodeContext;
use crate::{Context, ForeignCode, NO_ORIGIN, Operator};
use std::sync::Arc;
use stoatflow_core::{ClockId, Datum, Error, Record, Result, Timestamp};
use stoatflow_plan::PhysicalPlan;

/// A policy that treats all late records alike, and its dead-letter topic.
type ToTopic = (Arc<LatePolicy>, Arc<str>);

/// See the module. Not created if no source has such a topic.
pub(crate) struct TooLate {
    node_context: NodeContext,
    /// By source.
    policies: Vec<Option<ToTopic>>,
}

impl TooLate {
    /// # Errors
    /// `Internal` if the plan and the table of callables don't belong together.
    pub fn new(
        plan: &PhysicalPlan,
        foreign: &ForeignCode,
        node_context: NodeContext,
    ) -> Result<Option<Self>> {
        let policies = plan.sources.iter().map(|source| {
            let policy = LatePolicy::new(&source.late, &source.name, foreign, None)?;
            Ok(policy.and_then(|policy| match policy.always() {
                Some(LateVerdict::DeadLetter(topic)) => {
                    let topic = Arc::clone(topic);
                    Some((policy, topic))
                }
                _ => None,
            }))
        });
        let policies = policies.collect::<Result<Vec<_>>>()?;
        let has_any = policies.iter().any(Option::is_some);
        Ok(has_any.then_some(Self {
            node_context,
            policies,
        }))
    }

    /// Like the operator's `process`, for the whole batch.
    pub fn process(
        &self,
        inner: &mut dyn Operator,
        time: ClockId,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let mut run = Vec::with_capacity(input.len());
        let mut highest = Timestamp(i64::MIN);
        for record in input.drain(..) {
            // A record that is not older than all before it is never late; only possibly late records
            // are processed alone.
            let now = context.clocks.as_of(time, &record).max(highest.0);
            highest = highest.max(record.timestamp);
            if record.timestamp.0 >= now {
                run.push(record);
                continue;
            }
            inner.process(&mut run, out, context)?;
            run.clear();
            let known = context.effects.dropped.len();
            let late = Record {
                value: Datum::Null,
                ..record.clone()
            };
            run.push(record);
            inner.process(&mut run, out, context)?;
            run.clear();
            self.send(&late, now, known, context);
        }
        inner.process(&mut run, out, context)
    }

    /// If the record was dropped as late (an entry of `dropped` from index `known` on), makes it a dead
    /// letter.
    fn send(&self, record: &Record, now: i64, known: usize, context: &mut Context<'_>) {
        let counted = (self.node_context.node, dropped::LATE);
        let Some(at) = context.effects.dropped[known..]
            .iter()
            .position(|d| *d == counted)
        else {
            return;
        };
        let origin = record.origin;
        let policy = self.policies.get(usize::from(origin.source.0));
        let Some((policy, to)) = policy
            .and_then(Option::as_ref)
            .filter(|_| origin != NO_ORIGIN)
        else {
            return;
        };
        context.effects.dropped.remove(known + at);
        let topic = self.node_context.topic_of(&origin).unwrap_or_default();
        let late = LateRecord {
            origin,
            topic: &topic,
            timestamp: record.timestamp,
            watermark: now,
        };
        let letter = policy.letter(Arc::clone(to), late, context.error_origin());
        let error = Error::user("the windows of a record were closed when it came");
        context.effects.handled.push(Handled {
            node: self.node_context.node,
            reason: dropped::LATE_DEAD_LETTER,
            error: self.node_context.locate(error, &origin),
            letter: Some(letter),
        });
    }
}
