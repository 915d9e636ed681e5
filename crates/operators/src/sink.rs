//! `sink` (`to`): writes records to a topic.
//!
//! Takes records, gives encoded ones to the outbox. Null keys and null values are legal. A function may
//! choose the topic, a partitioner the partitions: several copies, or none (dropped and counted). Headers that name the
//! schema of what was read go no further than they are true.
//! Never produces: that is the outbox, inside the epoch's transaction.

#[cfg(test)]
mod tests;

use crate::function::Function;
use crate::guest::Guest;
use crate::schema_ids::SchemaIds;
use crate::site::Site;
use crate::{Chosen, Context, Operator, Output, PartitionCounts, Partitions, dropped};
use bytes::Bytes;
use std::sync::Arc;
use stoatflow_core::{Error, Partition, Record, Result, Serde, SinkId};

/// Where the records of a sink go.
#[derive(Debug)]
pub(crate) struct Target {
    /// The topic that the plan names.
    pub topic: Option<Arc<str>>,
    /// Chooses the topic.
    pub choose: Option<Function>,
    /// Chooses the partitions.
    pub partitioner: Option<(Function, Arc<dyn PartitionCounts>)>,
}

/// The bytes of a key and a value.
type Written = (Option<Bytes>, Option<Bytes>);

/// A record, and where functions send it.
struct Directed {
    record: Record,
    topic: Option<Arc<str>>,
    partitions: Partitions,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Sink {
    site: Site,
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
        site: Site,
        sink: SinkId,
        (key, value): (Serde, Serde),
        ids: SchemaIds,
        target: Target,
    ) -> Self {
        Self {
            site,
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
        let Some((function, counts)) = &self.target.partitioner else {
            return Ok(());
        };
        self.sized.clear();
        for (at, record) in batch.iter().enumerate() {
            let Some(topic) = self.topics.get(at).or(self.target.topic.as_ref()) else {
                return Err(Error::internal("a sink has neither a topic nor a function"));
            };
            let sized = match self.sized.last() {
                Some((last, count)) if last == topic => (Arc::clone(last), *count),
                _ => {
                    let count = counts.partitions(topic);
                    let count = count.map_err(|e| self.site.locate(e, &record.origin))?;
                    (Arc::clone(topic), count)
                }
            };
            self.sized.push(sized);
        }
        let topics = &mut self.topics;
        let gone = |at: usize| {
            if at < topics.len() {
                topics.remove(at);
            }
        };
        function.partitions(batch, &mut self.sized, &mut self.partitions, context, gone)
    }

    #[inline]
    fn encode(&self, record: &Record) -> Result<Written> {
        Ok((
            self.key.encode(&record.key)?,
            self.value.encode(&record.value)?,
        ))
    }

    #[inline]
    fn give(&self, record: Record, written: Written, context: &mut Context<'_>) {
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
            headers: self.ids.true_of(record.headers, &record.origin),
            origin: record.origin,
        }
    }

    /// Asks the handler; `None`: the record is left out.
    #[cold]
    fn rescue(
        &self,
        error: Error,
        record: &Record,
        context: &mut Context<'_>,
    ) -> Result<Option<Written>> {
        let again = |_: &mut Context<'_>| self.encode(record);
        self.site.rescue(error, record, context, again)
    }

    /// Gives a record that could not be written at once, if the handler says so.
    #[cold]
    fn late(&self, error: Error, record: Record, context: &mut Context<'_>) -> Result<()> {
        if let Some(written) = self.rescue(error, &record, context)? {
            self.give(record, written, context);
        }
        Ok(())
    }

    /// Writes records up to one that can't be written: what becomes of it is decided outside of its runtime.
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
            self.give(record, (key, value), context);
        }
        None
    }

    /// Sends records where functions said.
    fn direct(
        &mut self,
        guest: &Guest,
        input: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let mut topics = std::mem::take(&mut self.topics);
        let mut partitions = std::mem::take(&mut self.partitions);
        let mut topics_left = topics.drain(..);
        let mut partitions_left = partitions.drain(..);
        let mut left = input.drain(..).map(|record| Directed {
            record,
            topic: topics_left.next(),
            partitions: partitions_left.next().flatten(),
        });
        loop {
            let failed = guest.inside(|| {
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
        drop((topics_left, partitions_left));
        (self.topics, self.partitions) = (topics, partitions);
        Ok(())
    }

    fn send(&self, directed: Directed, written: Written, context: &mut Context<'_>) {
        let Directed {
            record,
            topic,
            partitions,
        } = directed;
        let to = |topic: Option<Arc<str>>, partition: Option<Partition>| {
            let chosen = topic.is_some() || partition.is_some();
            chosen.then(|| Box::new(Chosen { topic, partition }))
        };
        let mut output = self.output(record, written);
        let effects = &mut *context.effects;
        match partitions {
            None => output.chosen = to(topic, None),
            Some(chosen) => {
                let Some((last, others)) = chosen.split_last() else {
                    let reason = (self.site.node, dropped::NO_PARTITION);
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
        let guest = Guest::of(&*input);
        if self.target.choose.is_some() || self.target.partitioner.is_some() {
            return self.direct(&guest, input, context);
        }
        let mut left = input.drain(..);
        while let Some((error, record)) = guest.inside(|| self.write(&mut left, context)) {
            self.late(error, record, context)?;
        }
        Ok(())
    }
}
