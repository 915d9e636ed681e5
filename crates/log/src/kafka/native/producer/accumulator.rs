//! Records that wait to be sent or are in flight, by partition, in batches that the socket sends as they
//! are.
//!
//! Takes records and answers, returns requests. Owns batches, their sequence numbers, and the
//! acknowledged offsets. At most one batch of a partition is in flight, so that records stay in order.
//! Never connects and never waits.

use crate::ProducerRecord;
use crate::kafka::librdkafka::outgoing::weight;
use crate::kafka::native::net::cluster::Node;
use crate::kafka::native::producer::append_ends::AppendEnds;
use crate::kafka::native::records::batch_writer::{BatchWriter, Identity, TRANSACTIONAL, after};
use crate::kafka::native::records::compression::Compression;
use crate::kafka::partitioner::{StickyPartitioner, of_stick};
use bytes::{BufMut, BytesMut};
use kafka_protocol::messages::MetadataResponse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::murmur2::murmur2;
use stoatflow_core::{Offset, Partition, Timestamp};

mod answers;
mod frame;
#[cfg(test)]
mod tests;

pub(in crate::kafka::native) use answers::{PartitionError, is_producer_state_error};
use frame::{Frame, compact_length, compact_text};

/// A batch beyond this size takes no second record (the default of a topic's `max.message.bytes` is 1
/// MiB).
const FULL_BATCH_BYTES: usize = 900_000;
/// A request beyond this size takes no further batch (a broker accepts 100 MiB).
const FULL_REQUEST_BYTES: usize = 32 << 20;
/// Maximum memory of sent batches that is kept for new ones.
const MAX_SPARE_BYTES: usize = 4 << 20;
/// Stands for an unknown leader.
const UNKNOWN_LEADER: Node = -1;

/// One partition.
#[derive(Debug)]
struct Part {
    leader: Node,
    waiting: VecDeque<BatchWriter>,
    /// The sequence number of its next record.
    sequence: i32,
    /// Whether it was added to the transaction.
    added: bool,
    under_way: bool,
    /// Maximum size of its batches: reduced once the broker has refused one as too large.
    full: usize,
    /// One past the last acknowledged record.
    end: Option<i64>,
}

impl Part {
    const fn led_by(leader: Node) -> Self {
        Self {
            leader,
            waiting: VecDeque::new(),
            sequence: 0,
            added: false,
            under_way: false,
            full: FULL_BATCH_BYTES,
            end: None,
        }
    }
}

/// A topic that is written to.
#[derive(Debug)]
struct Topic {
    name: Arc<str>,
    sticks: StickyPartitioner,
    parts: Vec<Part>,
}

/// The partition of a batch, by indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kafka::native) struct BatchPartition {
    pub topic: usize,
    pub part: usize,
}

/// A request in flight.
#[derive(Debug)]
pub(in crate::kafka::native) struct RequestInFlight {
    pub version: i16,
    /// When it was sent.
    pub since: Duration,
    batches: Vec<(BatchPartition, BatchWriter)>,
}

impl RequestInFlight {
    pub(in crate::kafka::native) fn places(&self) -> impl Iterator<Item = BatchPartition> {
        self.batches.iter().map(|(place, _)| *place)
    }
}

/// The batches of one producer.
#[derive(Debug, Default)]
pub(in crate::kafka::native) struct Accumulator {
    /// Whether the records belong to transactions.
    transactional: bool,
    compression: Compression,
    topics: Vec<Topic>,
    last: usize,
    waiting: usize,
    under_way: usize,
    /// Whether a record waits for a partition that was not added to the transaction yet.
    fresh: bool,
    flights: BTreeMap<Node, RequestInFlight>,
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
    /// The broker's clock when it wrote the last batch to a topic with `LogAppendTime`.
    append_time: Option<Timestamp>,
    pub ends: AppendEnds,
}

impl Accumulator {
    pub(in crate::kafka::native) fn new(transactional: bool, compression: Compression) -> Self {
        Self {
            transactional,
            compression,
            ..Self::default()
        }
    }

    pub(in crate::kafka::native) const fn is_transactional(&self) -> bool {
        self.transactional
    }

    /// The topic with this name, if its partitions are known.
    pub(in crate::kafka::native) fn find(&mut self, name: &Arc<str>) -> Option<usize> {
        let same = |topic: &Topic| Arc::ptr_eq(&topic.name, name);
        if self.topics.get(self.last).is_some_and(same) {
            return Some(self.last);
        }
        let found = self.topics.iter().position(|t| t.name == *name)?;
        self.topics[found].name = Arc::clone(name);
        self.last = found;
        Some(found)
    }

    /// Topics with waiting records.
    pub(in crate::kafka::native) fn awaited(&self) -> Vec<Arc<str>> {
        let waits = |topic: &&Topic| topic.parts.iter().any(|part| !part.waiting.is_empty());
        let waiting = self.topics.iter().filter(waits);
        waiting.map(|t| Arc::clone(&t.name)).collect()
    }

    pub(in crate::kafka::native) fn name(&self, topic: usize) -> &str {
        &self.topics[topic].name
    }

    pub(in crate::kafka::native) fn partitions(&self, topic: usize) -> usize {
        self.topics[topic].parts.len()
    }

    /// Takes leaders from metadata. Adds topics that are new; a topic that is no longer there stays as
    /// it is.
    pub(in crate::kafka::native) fn learn(
        &mut self,
        answer: &MetadataResponse,
        wanted: &[Arc<str>],
    ) {
        for name in wanted {
            let said = (answer.topics.iter())
                .find(|t| t.name.as_ref().is_some_and(|n| *n.0 == **name) && t.error_code == 0);
            let Some(said) = said else { continue };
            let index = self.find(name).unwrap_or_else(|| {
                self.topics.push(Topic {
                    name: Arc::clone(name),
                    sticks: StickyPartitioner::new(),
                    parts: Vec::new(),
                });
                self.topics.len() - 1
            });
            let parts = &mut self.topics[index].parts;
            if parts.len() < said.partitions.len() {
                parts.resize_with(said.partitions.len(), || Part::led_by(UNKNOWN_LEADER));
            }
            for partition in &said.partitions {
                let index = usize::try_from(partition.partition_index).ok();
                if let Some(part) = index.and_then(|i| parts.get_mut(i)) {
                    part.leader = partition.leader_id.0;
                }
            }
        }
    }

    /// The partition of a record; `None` if it doesn't exist.
    pub(in crate::kafka::native) fn place(
        &mut self,
        topic: usize,
        record: &ProducerRecord,
    ) -> Option<BatchPartition> {
        let Topic { sticks, parts, .. } = &mut self.topics[topic];
        let count = i32::try_from(parts.len()).unwrap_or(i32::MAX);
        let chosen = match (record.partition, &record.key) {
            (Some(partition), _) => partition.0,
            (None, Some(key)) => (murmur2(key) & i32::MAX) % count.max(1),
            (None, None) => {
                let stick = sticks.take(weight(record));
                of_stick(stick, count, |p| {
                    let part = usize::try_from(p).ok().and_then(|p| parts.get(p));
                    part.is_some_and(|part| part.leader != UNKNOWN_LEADER)
                })
            }
        };
        let part = usize::try_from(chosen).ok().filter(|p| *p < parts.len())?;
        Some(BatchPartition { topic, part })
    }

    pub(in crate::kafka::native) fn append(
        &mut self,
        place: BatchPartition,
        record: &ProducerRecord,
    ) {
        let part = &mut self.topics[place.topic].parts[place.part];
        let room = part.full.saturating_sub(weight(record));
        let open = |batch: &BatchWriter| !batch.is_sealed() && batch.size() <= room;
        if !part.waiting.back().is_some_and(open) {
            let room = self.spare.pop().unwrap_or_default();
            self.spare_bytes -= room.capacity();
            let batch = BatchWriter::new(room, self.compression);
            self.waiting += batch.size();
            part.waiting.push_back(batch);
        }
        if let Some(batch) = part.waiting.back_mut() {
            let before = batch.size();
            batch.append(record);
            self.waiting += batch.size() - before;
        }
        self.fresh |= !part.added;
    }

    /// How many bytes wait to be sent.
    pub(in crate::kafka::native) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many bytes are not acknowledged.
    pub(in crate::kafka::native) const fn unacknowledged(&self) -> usize {
        self.waiting + self.under_way
    }

    pub(in crate::kafka::native) const fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Brokers with waiting batches and no request in flight. Unknown leaders are included, as
    /// [`UNKNOWN_LEADER`].
    pub(in crate::kafka::native) fn idle_leaders(&self) -> Vec<Node> {
        let parts = self.topics.iter().flat_map(|t| &t.parts);
        let mut leaders: Vec<_> = parts
            .filter(|part| !part.waiting.is_empty())
            .map(|part| part.leader)
            .filter(|leader| !self.flights.contains_key(leader))
            .collect();
        leaders.sort_unstable();
        leaders.dedup();
        leaders
    }

    pub(in crate::kafka::native) const fn is_known(leader: Node) -> bool {
        leader != UNKNOWN_LEADER
    }

    pub(in crate::kafka::native) fn in_flight(&self) -> impl Iterator<Item = Node> {
        self.flights.keys().copied()
    }

    pub(in crate::kafka::native) fn has_in_flight(&self) -> bool {
        !self.flights.is_empty()
    }

    pub(in crate::kafka::native) fn flight(&self, node: Node) -> Option<&RequestInFlight> {
        self.flights.get(&node)
    }

    /// Takes the first batch of each partition of a broker, sealed with producer id and sequence number.
    /// `None` if no batch waits.
    pub(in crate::kafka::native) fn gather(
        &mut self,
        node: Node,
        owner: Identity,
        version: i16,
    ) -> Option<RequestInFlight> {
        let mut batches = Vec::new();
        let mut load = 0;
        let attributes = if self.transactional { TRANSACTIONAL } else { 0 };
        for (t, topic) in self.topics.iter_mut().enumerate() {
            for (p, part) in topic.parts.iter_mut().enumerate() {
                if part.leader != node || part.under_way || load > FULL_REQUEST_BYTES {
                    continue;
                }
                let Some(mut batch) = part.waiting.pop_front() else {
                    continue;
                };
                if !batch.is_sealed() {
                    batch.seal(owner, attributes, part.sequence);
                    part.sequence = after(part.sequence, batch.count());
                }
                part.under_way = true;
                load += batch.size();
                self.waiting -= batch.size();
                self.under_way += batch.size();
                batches.push((BatchPartition { topic: t, part: p }, batch));
            }
        }
        (!batches.is_empty()).then_some(RequestInFlight {
            version,
            since: Duration::ZERO,
            batches,
        })
    }

    /// The partitions of a request that were not added to the transaction, by topic.
    pub(in crate::kafka::native) fn unknown(
        &self,
        flight: &RequestInFlight,
    ) -> Vec<(Arc<str>, Vec<i32>)> {
        let mut topics: Vec<(Arc<str>, Vec<i32>)> = Vec::new();
        for place in flight.places() {
            let topic = &self.topics[place.topic];
            if topic.parts[place.part].added {
                continue;
            }
            let number = i32::try_from(place.part).unwrap_or(i32::MAX);
            match topics.last_mut() {
                Some((name, parts)) if Arc::ptr_eq(name, &topic.name) => parts.push(number),
                _ => topics.push((Arc::clone(&topic.name), vec![number])),
            }
        }
        topics
    }

    /// The partitions of this request were added to the transaction.
    pub(in crate::kafka::native) fn added(&mut self, flight: &RequestInFlight) {
        for place in flight.places() {
            self.topics[place.topic].parts[place.part].added = true;
        }
        let parts = || self.topics.iter().flat_map(|t| &t.parts);
        self.fresh = parts().any(|part| !part.added && !part.waiting.is_empty());
    }

    /// The frame of a request: its fields, and the batches between them.
    pub(in crate::kafka::native) fn frame<'a>(
        &self,
        flight: &'a RequestInFlight,
        head: BytesMut,
        id: &str,
        timeout_ms: i32,
    ) -> Frame<'a> {
        let mut frame = Frame::new(head);
        let into = &mut frame.between;
        if self.transactional {
            compact_text(into, id);
        } else {
            into.put_u8(0); // no transaction
        }
        into.put_i16(-1); // all replicas
        into.put_i32(timeout_ms);
        let by_topic = || (flight.batches).chunk_by(|(a, _), (b, _)| a.topic == b.topic);
        compact_length(into, by_topic().count());
        for of_topic in by_topic() {
            let into = &mut frame.between;
            compact_text(into, &self.topics[of_topic[0].0.topic].name);
            compact_length(into, of_topic.len());
            for (place, batch) in of_topic {
                let into = &mut frame.between;
                into.put_i32(i32::try_from(place.part).unwrap_or(i32::MAX));
                compact_length(into, batch.bytes().len());
                frame.insert(batch.bytes());
                frame.between.put_u8(0); // no tagged fields of the partition
            }
            frame.between.put_u8(0); // nor of the topic
        }
        frame.between.put_u8(0); // nor of the request
        frame.close();
        frame
    }

    pub(in crate::kafka::native) fn mark_in_flight(
        &mut self,
        node: Node,
        mut flight: RequestInFlight,
        now: Duration,
    ) {
        flight.since = now;
        let before = self.flights.insert(node, flight);
        assert!(before.is_none(), "one request at a time");
    }

    pub(in crate::kafka::native) fn take_flight(&mut self, node: Node) -> Option<RequestInFlight> {
        self.flights.remove(&node)
    }

    /// A new transaction begins: no partition was added to it yet.
    pub(in crate::kafka::native) fn forget_added(&mut self) {
        for part in self.topics.iter_mut().flat_map(|t| &mut t.parts) {
            part.added = false;
        }
        self.fresh = self.waiting > 0;
    }

    /// Whether a batch that was sent may still arrive.
    pub(in crate::kafka::native) fn is_in_doubt(&self) -> bool {
        let mut parts = self.topics.iter().flat_map(|t| &t.parts);
        self.has_in_flight() || parts.any(|part| part.waiting.iter().any(|batch| batch.lost))
    }

    /// Drops batches that were not sent, or that the broker refused.
    pub(in crate::kafka::native) fn drop_certain(&mut self) {
        for part in self.topics.iter_mut().flat_map(|t| &mut t.parts) {
            part.waiting.retain(|batch| {
                let keep = batch.lost;
                self.waiting -= if keep { 0 } else { batch.size() };
                keep
            });
        }
    }

    /// Drops everything that is not acknowledged.
    pub(in crate::kafka::native) fn clear(&mut self) {
        self.flights.clear();
        for part in self.topics.iter_mut().flat_map(|t| &mut t.parts) {
            part.waiting.clear();
            part.under_way = false;
        }
        (self.waiting, self.under_way, self.fresh) = (0, 0, false);
    }

    /// Restarts sequence numbers for a new identity.
    pub(in crate::kafka::native) fn renumber(&mut self) {
        for part in self.topics.iter_mut().flat_map(|t| &mut t.parts) {
            part.sequence = 0;
        }
    }

    pub(in crate::kafka::native) const fn append_time(&self) -> Option<Timestamp> {
        self.append_time
    }

    /// The ends of the acknowledged records.
    pub(in crate::kafka::native) fn acknowledged(&self, topic: &str) -> Vec<(Partition, Offset)> {
        let Some(topic) = self.topics.iter().find(|t| *t.name == *topic) else {
            return Vec::new();
        };
        (0..)
            .zip(&topic.parts)
            .filter_map(|(p, part)| Some((Partition(p), Offset(part.end?))))
            .collect()
    }
}
