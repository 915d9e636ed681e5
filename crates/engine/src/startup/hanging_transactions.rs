//! Ends hanging transactions before a start: those that the coordinator has ended, while a partition still
//! has them open.
//!
//! Kafka 4.4.0 drops the markers for partitions without a leader, as when a killed broker comes back after
//! the transaction has timed out. `read_committed` readers, a restore among them, then see nothing behind
//! the first record of that transaction, and the next commit of the same producer commits its records.
//!
//! The coordinator tells how the last transaction of each producer has ended, but only until the producer
//! is opened again. So lost markers are written before, and behind any other hanging transaction the start
//! is refused.

use super::EngineSpec;
use crate::commit::offsets_topic::topic_name;
use crate::runtime::shared::Shared;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, ErrorKind, Guarantee, Handler, Offset, Result, TopicPartition};
use stoatflow_log::{ClusterExpiry, LastTransaction, OpenTransaction, Producer};

/// How long a transaction that has ended may look open.
const SETTLED_WITHIN: Duration = Duration::from_secs(5);
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The topics that the application's transactions may have written to.
#[derive(Default)]
pub(super) struct WrittenTopics {
    /// Changelogs and the offsets topic: only this application writes to them. Empty where no transaction
    /// can hang.
    own: BTreeSet<Arc<str>>,
    /// Sinks and dead letters may have other producers.
    sinks: BTreeSet<Arc<str>>,
}

/// A transaction that is open in a partition, from this offset on; `None` if it isn't known whose it is.
type Hanging = (TopicPartition, Offset, Option<OpenTransaction>);

impl EngineSpec {
    /// Ends the last transactions of the application, and writes the markers that were lost. To be called
    /// before the producer is opened. Returns the topics that may hold others; `None` if a stop was
    /// requested.
    ///
    /// # Errors
    /// `Unavailable`; `Unauthorized` if a marker may not be written.
    pub(super) fn end_hanging_transactions(
        &self,
        shared: &Shared,
        changelogs: &[Option<Arc<str>>],
    ) -> Result<Option<WrittenTopics>> {
        let (settings, broker) = (&self.settings, &self.components.broker);
        if settings.guarantee != Guarantee::ExactlyOnceV2 || broker.expiry() == ClusterExpiry::Never
        {
            return Ok(Some(WrittenTopics::default()));
        }
        let ended = broker.end_last_transactions(&settings.application_id, settings.broker_wait);
        let last = if_permitted(ended)?.unwrap_or_default();
        let written = self.written(changelogs, !last.is_empty())?;
        if last.is_empty() {
            return Ok(Some(written));
        }
        let partitions = self.partitions(written.own.union(&written.sinks))?;
        let is_own = |open: &OpenTransaction| last.iter().any(|last| last.is(open));
        // Each producer may have left one in the same partition.
        for _ in &last {
            let hanging = || self.open_transactions(&partitions, is_own);
            let Some(hanging) = self.still_open(shared, hanging)? else {
                return Ok(None);
            };
            if hanging.is_empty() {
                break;
            }
            self.write_markers(&hanging, &last)?;
        }
        Ok(Some(written))
    }

    /// Refuses a start behind a transaction that is still open. To be called once the producer is open.
    /// `false` if a stop was requested.
    ///
    /// # Errors
    /// `Unavailable`, with the command that ends the transaction.
    pub(super) fn refuse_hanging_transactions(
        &self,
        shared: &Shared,
        producer: &dyn Producer,
        written: &WrittenTopics,
    ) -> Result<bool> {
        if written.own.is_empty() {
            return Ok(true);
        }
        let sinks = self.partitions(&written.sinks)?;
        let ids = producer.producer_ids();
        let hanging = self.still_open(shared, || {
            let mut hanging = self.held_back(&written.own)?;
            if !ids.is_empty() {
                hanging
                    .extend(self.open_transactions(&sinks, |open| ids.contains(&open.producer))?);
            }
            Ok(hanging)
        })?;
        match hanging.as_deref() {
            None => Ok(false),
            Some([]) => Ok(true),
            Some([(first, start, _), ..]) => {
                let count = hanging.as_ref().map_or(0, Vec::len);
                Err(refused(count, first, *start))
            }
        }
    }

    /// If a function chooses topics, every topic may have been written to; `all` includes those.
    fn written(&self, changelogs: &[Option<Arc<str>>], all: bool) -> Result<WrittenTopics> {
        let (plan, settings) = (&self.plan, &self.settings);
        let offsets = Arc::from(topic_name(&settings.application_id));
        let own: BTreeSet<Arc<str>> = changelogs
            .iter()
            .flatten()
            .cloned()
            .chain([offsets])
            .collect();
        let mut handlers = settings.handlers.each();
        let chooses = plan.chooses_topics() || handlers.any(Handler::names_topics);
        let sinks: BTreeSet<Arc<str>> = if all && chooses {
            let all = (self.components.broker).topic_names(settings.broker_wait)?;
            all.into_iter()
                .filter(|name| !name.starts_with("__"))
                .collect()
        } else {
            let sinks = plan.sinks.iter().filter_map(|sink| sink.topic.as_deref());
            let dead = settings.handlers.each().flat_map(Handler::topics);
            let dead = plan.dead_letter_topics().into_iter().chain(dead);
            sinks.chain(dead).map(Arc::from).collect()
        };
        let sinks = sinks.difference(&own).cloned().collect();
        Ok(WrittenTopics { own, sinks })
    }

    /// What stays open for longer than it takes to write markers. `None` if a stop was requested.
    fn still_open(
        &self,
        shared: &Shared,
        ask: impl Fn() -> Result<Vec<Hanging>>,
    ) -> Result<Option<Vec<Hanging>>> {
        let clock = &self.components.clock;
        let began = clock.monotonic();
        let mut suspects: Option<Vec<Hanging>> = None;
        loop {
            let mut hanging = ask()?;
            // Transactions of another instance come and go.
            if let Some(suspects) = &suspects {
                hanging.retain(|open| suspects.contains(open));
            }
            if hanging.is_empty() || clock.monotonic().saturating_sub(began) >= SETTLED_WITHIN {
                return Ok(Some(hanging));
            }
            if shared.is_stopping() {
                return Ok(None);
            }
            suspects = Some(hanging);
            shared.pause(CHECK_INTERVAL);
        }
    }

    fn write_markers(&self, hanging: &[Hanging], last: &[LastTransaction]) -> Result<()> {
        let (wait, broker) = (self.settings.broker_wait, &self.components.broker);
        for (partition, start, open) in hanging {
            let Some(open) = open else { continue };
            let Some(ended) = last.iter().find(|last| last.is(open)) else {
                continue;
            };
            let written = broker.write_marker(partition, open, ended.outcome, wait);
            written.map_err(|error| match error.kind() {
                ErrorKind::Unauthorized => not_permitted(hanging.len(), partition, error),
                _ => error,
            })?;
            tracing::warn!(
                %partition, start = start.0, producer = open.producer, epoch = open.epoch, outcome = ?ended.outcome,
                "a transaction of this application was still open, although its coordinator has ended it: the \
                    broker had lost its marker, which is written now"
            );
        }
        Ok(())
    }

    /// The partitions of some topics in which a transaction is open.
    fn held_back(&self, topics: &BTreeSet<Arc<str>>) -> Result<Vec<Hanging>> {
        let (wait, broker) = (self.settings.broker_wait, &self.components.broker);
        let partitions = self.partitions(topics)?;
        let ranges = broker.ranges(&partitions, wait)?;
        let ends = broker.high_watermarks(&partitions, wait)?;
        let both = partitions.into_iter().zip(ranges).zip(ends);
        let open = both.filter(|((_, range), end)| range.stable_end < *end);
        Ok(open
            .map(|((partition, range), _)| (partition, range.stable_end, None))
            .collect())
    }

    /// Some open transactions of these partitions; none if the client or the permissions don't allow to ask.
    fn open_transactions(
        &self,
        partitions: &[TopicPartition],
        wanted: impl Fn(&OpenTransaction) -> bool,
    ) -> Result<Vec<Hanging>> {
        let wait = self.settings.broker_wait;
        let asked = self.components.broker.open_transactions(partitions, wait);
        let open = partitions
            .iter()
            .zip(if_permitted(asked)?.unwrap_or_default());
        let open = open.filter_map(|(partition, open)| {
            let open = open.filter(&wanted)?;
            Some((partition.clone(), open.start, Some(open)))
        });
        Ok(open.collect())
    }

    /// All partitions of the topics that exist.
    fn partitions<'a>(
        &self,
        topics: impl IntoIterator<Item = &'a Arc<str>>,
    ) -> Result<Vec<TopicPartition>> {
        let names: Vec<&str> = topics.into_iter().map(AsRef::as_ref).collect();
        let broker = &self.components.broker;
        let known = broker.topics(&names, self.settings.broker_wait)?;
        let partitions = known.into_iter().flatten().flat_map(|topic| {
            let name = Arc::clone(&topic.name);
            (0..topic.partitions).map(move |p| TopicPartition::new(Arc::clone(&name), p))
        });
        Ok(partitions.collect())
    }
}

/// `None` if the user may not ask.
fn if_permitted<T>(asked: Result<T>) -> Result<Option<T>> {
    match asked {
        Err(error) if error.kind() == ErrorKind::Unauthorized => {
            tracing::debug!(%error, "transactions are not known");
            Ok(None)
        }
        asked => asked.map(Some),
    }
}

fn hangs(count: usize, first: &TopicPartition) -> String {
    format!(
        "a transaction of this application hangs in {count} partitions, the first {first}: the broker has \
            ended it, but lost its markers"
    )
}

#[cold]
fn not_permitted(count: usize, first: &TopicPartition, cause: Error) -> Error {
    Error::new(ErrorKind::Unauthorized, hangs(count, first))
        .hint("grant this user Alter on the cluster, for writing the markers, and start again")
        .caused_by(cause)
}

#[cold]
fn refused(count: usize, first: &TopicPartition, start: Offset) -> Error {
    let (topic, partition) = (&first.topic, first.partition.0);
    Error::unavailable(hangs(count, first)).hint(format!(
        "end it in each partition that kafka-transactions.sh find-hanging lists, here with \
            kafka-transactions.sh --bootstrap-server BROKER abort --topic {topic} --partition {partition} \
            --start-offset {start}; then start again"
    ))
}
