//! `exchange`: sends records to the lane of their key.
//!
//! Takes records; sends each to the lane chosen by the hash of its key's bytes (for a windowed key: of
//! the key without the window, so that all its windows stay together). Emits nothing in its own stage. A
//! record with a null key has no lane: it is dropped and counted, unless an outer join downstream needs
//! it; then the partition that it was read from chooses the lane. If the only child is a count whose
//! intermediate results nobody sees, one record per key is sent, as long as there is more to read. Never
//! writes to a topic (law 4).

#[cfg(test)]
mod tests;

use crate::api::key_assignment;
use crate::ops::aggregates::count::Preaggregate;
use crate::support::dropped;
use crate::support::node_context::NodeContext;
use crate::{Context, Operator, Routed, key_hash};
use stoatflow_core::murmur2::partition_of;
use stoatflow_core::{Datum, Error, Origin, Record, Result, Serde, StageId, Task};

/// See the module.
#[derive(Debug)]
pub(crate) struct Exchange {
    node_context: NodeContext,
    stage: StageId,
    key: Serde,
    keep_null: bool,
    preaggregate: Option<Preaggregate>,
    /// True if Kafka Streams has no repartition topic here.
    stays: bool,
    /// Number of partitions of that topic; `None` if records keep their task.
    tasks: Option<u16>,
    /// Number of tasks, if all keys of a task go to one lane. See [`crate::KeyAssignment`].
    by_task: Option<u16>,
}

impl Exchange {
    /// `counted`: the child counts the records, so one record may stand for many.
    pub fn new(
        node_context: NodeContext,
        stage: StageId,
        key: Serde,
        keep_null: bool,
        counted: bool,
        stays: bool,
        (tasks, by_task): (Option<u16>, Option<u16>),
    ) -> Self {
        Self {
            node_context,
            stage,
            key,
            keep_null,
            preaggregate: counted.then(Preaggregate::default),
            stays,
            tasks,
            by_task,
        }
    }

    // Same bytes as `encode(key)`, but without a copy (or even a clone) where the key already holds
    // them.
    #[inline]
    fn with_bytes<T>(&self, key: &Datum, act: impl FnOnce(&[u8], &[u8]) -> T) -> Result<T> {
        Ok(match (&self.key, key) {
            (Serde::String, Datum::Str(text)) => act(text.as_bytes(), text.as_bytes()),
            (Serde::Bytes, Datum::Bytes(bytes)) | (Serde::Json, Datum::Json(bytes)) => {
                act(bytes, bytes)
            }
            (Serde::Int64, Datum::Int(number)) => {
                let bytes = number.to_be_bytes();
                act(&bytes, &bytes)
            }
            (serde, key) => {
                let bytes = serde.encode(key)?.unwrap_or_default();
                act(&bytes, serde.affinity(&bytes))
            }
        })
    }

    fn place(&self, key: &Datum) -> Result<Destination> {
        self.with_bytes(key, |key, affinity| self.destination(key, affinity))
    }

    #[inline]
    fn destination(&self, key: &[u8], affinity: &[u8]) -> Destination {
        Destination {
            hash: key_assignment::hash(affinity, self.by_task),
            task: match self.tasks {
                // With pre-aggregation, `divide` computes the task once per key instead.
                Some(tasks) if self.preaggregate.is_none() => Some(task_of(key, tasks)),
                _ => None,
            },
        }
    }
}

fn task_of(key: &[u8], tasks: u16) -> Task {
    match tasks {
        1 => Task(0),
        _ => Task::of(partition_of(key, i32::from(tasks))),
    }
}

/// The lane and task that a record is sent to.
#[derive(Clone, Copy, Debug)]
struct Destination {
    /// Determines the lane.
    hash: u64,
    /// The new task, if it changes.
    task: Option<Task>,
}

impl Exchange {
    /// Routes a record whose key could not be serialized, if the error handler asks for a retry.
    #[cold]
    fn retry_failed(
        &mut self,
        error: Error,
        record: Record,
        context: &mut Context<'_>,
    ) -> Result<()> {
        // Repeats `place` instead of calling it: with one caller, `place` is inlined into the loop.
        let again = |_: &mut Context<'_>| {
            let bytes = self.key.encode(&record.key)?.unwrap_or_default();
            Ok(self.destination(&bytes, self.key.affinity(&bytes)))
        };
        if let Some(destination) = self.node_context.rescue(error, &record, context, again)? {
            self.send(destination, record, context);
        }
        Ok(())
    }

    /// Assigns the task of the key to records that leave. A pre-aggregated record has the order number
    /// of its last input record, whatever that record's task was.
    fn divide(&self, routed: &mut [Routed]) {
        let Some(tasks) = self.tasks else {
            return;
        };
        for Routed { record, .. } in routed {
            // It was serialized once before, so this can't fail.
            if let Ok(task) = self.with_bytes(&record.key, |key, _| task_of(key, tasks)) {
                record.origin.order = record.origin.order.in_task(task);
            }
        }
    }

    /// Sends the record, or adds it to the pre-aggregation.
    #[inline]
    fn send(&mut self, destination: Destination, mut record: Record, context: &mut Context<'_>) {
        if let Some(task) = destination.task {
            record.origin.order = record.origin.order.in_task(task);
        }
        let routed = Routed {
            via: self.node_context.node,
            stage: self.stage,
            hash: destination.hash,
            record,
        };
        let Some(preaggregate) = &mut self.preaggregate else {
            return context.effects.routed.push(routed);
        };
        let from = context.effects.routed.len();
        // Null values aren't pre-aggregated: the count drops and reports them itself.
        if routed.record.value.is_null() {
            context.effects.routed.push(routed);
        } else {
            preaggregate.add(routed, &mut context.effects.routed);
        }
        self.divide(&mut context.effects.routed[from..]);
    }
}

impl Operator for Exchange {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        _out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        if self.preaggregate.is_none() {
            context.effects.routed.reserve(input.len());
        }
        for record in input.drain(..) {
            let destination = if !record.key.is_null() {
                match self.place(&record.key) {
                    Ok(destination) => destination,
                    // Kafka Streams has no topic here: the downstream operator decides what happens to
                    // the record.
                    Err(_) if self.stays => self.by_origin(&record.origin),
                    Err(error) => {
                        self.retry_failed(error, record, context)?;
                        continue;
                    }
                }
            } else if self.keep_null {
                self.by_origin(&record.origin)
            } else {
                context
                    .effects
                    .dropped
                    .push((self.node_context.node, dropped::NULL_KEY));
                continue;
            };
            self.send(destination, record, context);
        }
        Ok(())
    }

    fn buffers(&self) -> bool {
        self.preaggregate.is_some()
    }

    fn on_idle(&mut self, context: &mut Context<'_>) {
        if let Some(preaggregate) = &mut self.preaggregate {
            let from = context.effects.routed.len();
            preaggregate.release(&mut context.effects.routed);
            self.divide(&mut context.effects.routed[from..]);
        }
    }

    fn barrier(&mut self, _out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.on_idle(context);
        Ok(())
    }
}

impl Exchange {
    /// Records without a key keep the order of the partition they were read from.
    fn by_origin(&self, origin: &Origin) -> Destination {
        let mut bytes = [0; 8];
        bytes[..2].copy_from_slice(&origin.source.0.to_be_bytes());
        bytes[2..4].copy_from_slice(&origin.topic.to_be_bytes());
        bytes[4..].copy_from_slice(&origin.partition.0.to_be_bytes());
        let partition = origin.partition.0.max(0);
        let hash = match self.by_task {
            None => key_hash(&bytes),
            Some(tasks) => key_assignment::task_hash(Task::of(partition % i32::from(tasks.max(1)))),
        };
        Destination {
            hash,
            task: (self.tasks).map(|tasks| Task::of(partition % i32::from(tasks.max(1)))),
        }
    }
}
