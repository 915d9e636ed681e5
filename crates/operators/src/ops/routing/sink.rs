//! `sink` (`to`): writes records to a topic.
//!
//! Takes records; appends encoded ones to the outbox. Null keys and null values are legal. A function
//! may choose the topic, a partitioner the partitions: several copies, or none (dropped and counted).
//! All windows of a key go to one partition. Headers with the schema ids of the input are removed if
//! they don't describe the output. Never produces: the outbox does, inside the epoch's transaction.

#[cfg(test)]
mod tests;

use crate::support::attach_scope::AttachScope;
use crate::support::dropped;
use crate::support::function::Function;
use crate::support::node_context::NodeContext;
use crate::support::schema_ids::SchemaIds;
use crate::{Context, Operator, Output, OutputTarget, PartitionCounts, Partitions};
use bytes::Bytes;
use std::sync::Arc;
use stoatflow_core::murmur2::partition_of;
use stoatflow_core::{Error, ErrorKind, Partition, Record, Result, Serde, SinkId};

/// The topic and partitions of a sink's records.
#[derive(Debug)]
pub(crate) struct Target {
    /// The topic named in the plan.
    pub topic: Option<Arc<str>>,
    /// Chooses the topic.
    pub choose: Option<Function>,
    /// Chooses the partitions.
    pub partitioner: Partitioner,
}

/// How the partition of a record is chosen.
#[derive(Debug)]
pub(crate) enum Partitioner {
    /// The producer, by the key's bytes.
    Producer,
    /// As Kafka Streams' `WindowedStreamPartitioner`: the bytes of the key within the window, so that all
    /// windows of a key are in one partition.
    WindowedKey(Arc<dyn PartitionCounts>),
    /// A function.
    Function {
        function: Function,
        counts: Arc<dyn PartitionCounts>,
        with_headers: bool,
    },
}

/// The bytes of a key and a value.
type Written = (Option<Bytes>, Option<Bytes>);

/// A record, and the topic and partitions that functions chose for it.
struct Directed {
    record: Record,
    topic: Option<Arc<str>>,
    partitions: Partitions,
    /// Number of partitions of the topic, if the key determines the partition.
    count: Option<u32>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Sink {
    node_context: NodeContext,
    sink: SinkId,
    key: Serde,
    value: Serde,
    ids: SchemaIds,
    target: Target,
    topics: Vec<Arc<str>>,
    sized: Vec<(Arc<str>, u32)>,
    partitions: Vec<Partitions>,
}

impl Sink {
    pub fn new(
        node_context: NodeContext,
        sink: SinkId,
        (key, value): (Serde, Serde),
        ids: SchemaIds,
        target: Target,
    ) -> Self {
        Self {
            node_context,
            sink,
            key,
            value,
            ids,
            target,
            topics: Vec::new(),
            sized: Vec::new(),
            partitions: Vec::new(),
        }
    }

    fn choose_topics(&mut self, batch: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        match &self.target.choose {
            Some(function) => function.topics(batch, &mut self.topics, context),
            None => Ok(()),
        }
    }

    fn choose_partitions(
        &mut self,
        batch: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        self.sized.clear();
        let (function, counts) = match &self.target.partitioner {
            Partitioner::Producer => return Ok(()),
            Partitioner::WindowedKey(counts) => (None, counts),
            Partitioner::Function {
                function,
                counts,
                with_headers,
            } => (Some((function, *with_headers)), counts),
        };
        for (at, record) in batch.iter().enumerate() {
            let Some(topic) = self.topics.get(at).or(self.target.topic.as_ref()) else {
                return Err(Error::internal("a sink has neither a topic nor a function"));
            };
            let sized = match self.sized.last() {
                Some((last, count)) if last == topic => (Arc::clone(last), *count),
                _ => {
                    let count = match counts.partitions(topic) {
                        // The producer reports the missing topic.
                        Err(e) if function.is_none() && e.kind() == ErrorKind::MissingTopic => 0,
                        count => count.map_err(|e| self.node_context.locate(e, &record.origin))?,
                    };
                    (Arc::clone(topic), count)
                }
            };
            self.sized.push(sized);
        }
        let Some((function, with_headers)) = function else {
            return Ok(());
        };
        let topics = &mut self.topics;
        let gone = |at: usize| {
            if at < topics.len() {
                topics.remove(at);
            }
        };
        let (sized, out) = (&mut self.sized, &mut self.partitions);
        function.partitions(batch, with_headers, sized, out, context, gone)
    }

    #[inline]
    fn encode(&self, record: &Record) -> Result<Written> {
        Ok((
            self.key.encode(&record.key)?,
            self.value.encode(&record.value)?,
        ))
    }

    #[inline]
    fn emit(&self, record: Record, written: Written, context: &mut Context<'_>) {
        context.effects.outputs.push(self.output(record, written));
    }

    #[inline]
    fn output(&self, record: Record, (key, value): Written) -> Output {
        Output {
            sink: self.sink,
            chosen: None,
            key,
            value,
            timestamp: record.timestamp,
            headers: self.ids.valid_headers(record.headers, &record.origin),
            origin: record.origin,
        }
    }

    /// Calls the error handler; `None`: the record is left out.
    #[cold]
    fn rescue(
        &self,
        error: Error,
        record: &Record,
        context: &mut Context<'_>,
    ) -> Result<Option<Written>> {
        let again = |_: &mut Context<'_>| self.encode(record);
        self.node_context.rescue(error, record, context, again)
    }

    /// Retries a record that could not be serialized, if the error handler asks for it.
    #[cold]
    fn retry_failed(&self, error: Error, record: Record, context: &mut Context<'_>) -> Result<()> {
        if let Some(written) = self.rescue(error, &record, context)? {
            self.emit(record, written, context);
        }
        Ok(())
    }

    /// Writes records up to one that can't be serialized; the caller handles it outside the runtime.
    fn write(
        &self,
        left: &mut impl Iterator<Item = Record>,
        context: &mut Context<'_>,
    ) -> Option<(Error, Record)> {
        for record in left {
            let key = match self.key.encode(&record.key) {
                Ok(key) => key,
                Err(error) => return Some((error, record)),
            };
            let value = match self.value.encode(&record.value) {
                Ok(value) => value,
                Err(error) => return Some((error, record)),
            };
            self.emit(record, (key, value), context);
        }
        None
    }

    /// Sends records to the topics and partitions that functions chose.
    fn direct(
        &mut self,
        scope: &AttachScope,
        input: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let mut topics = std::mem::take(&mut self.topics);
        let mut partitions = std::mem::take(&mut self.partitions);
        let mut sized = std::mem::take(&mut self.sized);
        let by_key = matches!(self.target.partitioner, Partitioner::WindowedKey(_));
        let mut counts_left = sized.drain(..).map(|(_, count)| count).filter(|_| by_key);
        let mut topics_left = topics.drain(..);
        let mut partitions_left = partitions.drain(..);
        let mut left = input.drain(..).map(|record| Directed {
            record,
            topic: topics_left.next(),
            partitions: partitions_left.next().flatten(),
            count: counts_left.next(),
        });
        loop {
            let failed = scope.inside(|| {
                for directed in left.by_ref() {
                    match self.encode(&directed.record) {
                        Ok(written) => self.send(directed, written, context),
                        Err(error) => return Some((error, directed)),
                    }
                }
                None
            });
            let Some((error, directed)) = failed else {
                break;
            };
            if let Some(written) = self.rescue(error, &directed.record, context)? {
                self.send(directed, written, context);
            }
        }
        drop(left);
        drop((topics_left, partitions_left, counts_left));
        (self.topics, self.partitions, self.sized) = (topics, partitions, sized);
        Ok(())
    }

    fn by_windowed_key(&self, key: &Bytes, count: u32) -> Option<Partition> {
        let count = i32::try_from(count).ok().filter(|count| *count > 1)?;
        Some(Partition(partition_of(self.key.affinity(key), count)))
    }

    fn send(&self, directed: Directed, written: Written, context: &mut Context<'_>) {
        let Directed {
            record,
            topic,
            partitions,
            count,
        } = directed;
        let to = |topic: Option<Arc<str>>, partition: Option<Partition>| {
            let chosen = topic.is_some() || partition.is_some();
            chosen.then(|| Box::new(OutputTarget { topic, partition }))
        };
        let by_key = count.and_then(|count| self.by_windowed_key(written.0.as_ref()?, count));
        let mut output = self.output(record, written);
        let effects = &mut *context.effects;
        match partitions {
            None => output.chosen = to(topic, by_key),
            Some(chosen) => {
                let Some((last, others)) = chosen.split_last() else {
                    let reason = (self.node_context.node, dropped::NO_PARTITION);
                    effects.dropped.push(reason);
                    return;
                };
                for partition in others {
                    output.chosen = to(topic.clone(), Some(*partition));
                    effects.outputs.push(output.clone());
                }
                output.chosen = to(topic, Some(*last));
            }
        }
        effects.outputs.push(output);
    }
}

impl Operator for Sink {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        _out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        self.choose_topics(input, context)?;
        self.choose_partitions(input, context)?;
        context.effects.outputs.reserve(input.len());
        let scope = AttachScope::of(&*input);
        if self.target.choose.is_some() || !matches!(self.target.partitioner, Partitioner::Producer)
        {
            return self.direct(&scope, input, context);
        }
        let mut left = input.drain(..);
        while let Some((error, record)) = scope.inside(|| self.write(&mut left, context)) {
            self.retry_failed(error, record, context)?;
        }
        Ok(())
    }
}
