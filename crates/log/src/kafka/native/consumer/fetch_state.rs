//! The state of a reader's partitions: positions, and fetched records that are not returned yet.
//!
//! Takes answers, returns records and what to fetch next. A partition is fetched when it has few records
//! left, and not while it is paused. Owns positions and turns. Never connects and never waits.

use crate::kafka::native::consumer::fetch::{FetchLimits, FetchTarget};
use crate::kafka::native::net::cluster::Node;
use crate::kafka::native::records::batch_reader::{
    Aborted, Record, Records, Unmarked, UnreadableBatch,
};
use bytes::Bytes;
use kafka_protocol::messages::MetadataResponse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Offset, TopicPartition};

#[cfg(test)]
mod tests;

/// How long a broker waits for records before it sends an empty answer. A partition that is resumed or
/// has room again waits for the end of that.
const MAX_WAIT: Duration = Duration::from_millis(20);
/// The same if the fetch leaves out a paused partition without fetched records, or a partition that has
/// enough for the moment.
const PAUSED: Duration = Duration::from_millis(5);
const FULL: Duration = Duration::from_millis(1);
/// Brokers with tiered storage read old records within that wait, or not at all (KAFKA-15776): if
/// answers have been empty for `STARVED` although there are records, the wait is `FAR`.
const STARVED: Duration = Duration::from_secs(1);
const FAR: Duration = Duration::from_secs(2);
/// How long a nearer replica is read before the leader is asked for one again.
const NEARER: Duration = Duration::from_secs(300);
/// How many leader epochs of fetched records are remembered.
const LEADERS: usize = 16;
/// Minimum share of one partition in a call of `deliver`.
const LEAST: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Leader {
    /// The leader, or the replica near this client that is read instead.
    node: Node,
    epoch: i32,
    /// Since when a nearer replica is read instead.
    nearer_since: Option<Duration>,
}

/// One partition.
#[derive(Debug)]
pub(in crate::kafka::native) struct FetchState {
    pub partition: TopicPartition,
    /// The offset to return next.
    pub position: i64,
    /// The offset to fetch next, behind the fetched records.
    pub from: i64,
    /// The offset of the last fetch. An answer counts only if it still equals `from`: otherwise
    /// something went wrong after the request.
    asked: i64,
    seen_epoch: i32,
    /// First offset and leader epoch of records that were written under the same leader.
    epochs: VecDeque<(i64, i32)>,
    here: VecDeque<Records>,
    unmarked: Unmarked,
    pub paused: bool,
    leader: Option<Leader>,
    /// The last stable offset in the last answer.
    stable_end: Option<i64>,
    /// Since when answers have been empty although there are records.
    starved: Option<Duration>,
    /// The topic's id, which tells it from a later one with its name.
    topic_id: u128,
}

impl FetchState {
    fn unread(&self) -> usize {
        self.here.iter().map(Records::size).sum()
    }

    /// Stores the records of an answer.
    pub(in crate::kafka::native) fn store_records(
        &mut self,
        stable_end: i64,
        records: Bytes,
        aborted: Vec<Aborted>,
        now: Duration,
    ) -> Result<(), UnreadableBatch> {
        if self.asked != self.from {
            return Ok(());
        }
        // A broker that doesn't know the end at the moment answers with -1.
        if stable_end >= 0 {
            self.stable_end = Some(stable_end);
        }
        if records.is_empty() {
            if self.from < stable_end {
                self.starved.get_or_insert(now);
            }
            return Ok(());
        }
        self.starved = None;
        let last = self.epochs.back().map_or(-1, |(_, epoch)| *epoch);
        match Records::new(records, aborted, last)? {
            Some(mut records) if records.end > self.from => {
                self.note_epochs(std::mem::take(&mut records.changes));
                self.from = records.end;
                self.seen_epoch = records.epoch;
                self.here.push_back(records);
                Ok(())
            }
            _ => {
                let why = format!("nothing whole came from offset {} on", self.from);
                Err(UnreadableBatch::Corrupt(why))
            }
        }
    }

    fn note_epochs(&mut self, changes: Vec<(i64, i32)>) {
        for (from, epoch) in changes {
            // Records that are fetched again repeat their epochs.
            self.epochs.retain(|(known, _)| *known < from);
            self.epochs.push_back((from, epoch));
            if self.epochs.len() > LEADERS {
                self.epochs.pop_front();
            }
        }
    }

    /// The leader epoch of the last fetched record before this offset.
    pub(in crate::kafka::native) fn epoch_before(&self, offset: i64) -> Option<i32> {
        let mut epochs = self.epochs.iter().rev();
        let (_, epoch) = epochs.find(|(from, _)| *from < offset)?;
        (*epoch >= 0).then_some(*epoch)
    }

    /// Clears the last fetched epoch, so that the broker doesn't check for divergence; true if there was
    /// one. To be called before an answer that may result from that check is believed.
    pub(in crate::kafka::native) const fn forget_seen(&mut self) -> bool {
        std::mem::replace(&mut self.seen_epoch, -1) >= 0
    }

    /// Drops fetched records that can't be read, and fetches them again.
    fn ask_again(&mut self) {
        self.here.clear();
        self.from = self.position;
        self.seen_epoch = -1;
    }

    pub(in crate::kafka::native) const fn forget_leader(&mut self) {
        self.leader = None;
    }

    /// Reads from a replica that the leader has named.
    pub(in crate::kafka::native) const fn read_nearer(&mut self, node: Node, now: Duration) {
        if let Some(leader) = &mut self.leader {
            leader.node = node;
            leader.nearer_since = Some(now);
        }
    }

    /// Whether a nearer replica is read instead of the leader.
    pub(in crate::kafka::native) fn reads_nearer(&self) -> bool {
        self.leader
            .is_some_and(|leader| leader.nearer_since.is_some())
    }

    /// Whether every record that is known to be readable has been returned.
    pub(in crate::kafka::native) fn has_caught_up(&self) -> bool {
        self.here.is_empty() && self.stable_end.is_some_and(|end| self.position >= end)
    }

    /// Moves to the next record; false if there is none here.
    fn seek(&mut self) -> Result<bool, UnreadableBatch> {
        while let Some(records) = self.here.front_mut() {
            if records.seek(&mut self.position, &mut self.unmarked)? {
                return Ok(true);
            }
            self.position = self.position.max(records.end);
            self.here.pop_front();
        }
        Ok(false)
    }

    /// Passes up to `room` records to `each`, and moves past what follows them and is no record.
    fn deliver(
        &mut self,
        room: usize,
        mut each: impl FnMut(Record<'_>) -> Result<(), UnreadableBatch>,
    ) -> Result<usize, UnreadableBatch> {
        let mut given = 0;
        while self.seek()? {
            let Some(records) = self.here.front_mut().filter(|_| given < room) else {
                break;
            };
            let (position, unmarked) = (&mut self.position, &mut self.unmarked);
            while given < room && records.take(position, unmarked, &mut each)? {
                given += 1;
            }
        }
        Ok(given)
    }
}

/// What metadata told about the leaders.
#[derive(Debug, Default)]
pub(in crate::kafka::native) struct LeaderUpdates {
    /// Partitions that are missing, with the topic's error code.
    pub missing: Vec<(usize, i16)>,
    /// Partitions of a new topic with the same name.
    pub replaced: Vec<usize>,
}

/// All assigned partitions.
#[derive(Debug, Default)]
pub(in crate::kafka::native) struct FetchStates {
    pub all: Vec<FetchState>,
    places: HashMap<Arc<str>, HashMap<i32, usize>>,
    /// The name of each topic, by its id.
    names: HashMap<u128, Arc<str>>,
    /// The first slot to return records of.
    turn: usize,
    /// The first slot to fetch, by broker.
    asked: BTreeMap<Node, usize>,
}

/// What to fetch from a broker.
#[derive(Debug)]
pub(in crate::kafka::native) struct FetchPlan {
    pub wanted: Vec<FetchTarget>,
    /// How long the broker may wait for records.
    pub max_wait: Duration,
}

impl FetchStates {
    pub(in crate::kafka::native) fn new(partitions: &[(TopicPartition, Offset)]) -> Self {
        let mut slots = Self::default();
        for (index, (partition, offset)) in partitions.iter().enumerate() {
            let of_topic = slots.places.entry(partition.topic.clone()).or_default();
            of_topic.insert(partition.partition.0, index);
            slots.all.push(FetchState {
                partition: partition.clone(),
                position: offset.0,
                from: offset.0,
                asked: offset.0,
                seen_epoch: -1,
                epochs: VecDeque::new(),
                here: VecDeque::new(),
                unmarked: Unmarked::default(),
                paused: false,
                leader: None,
                stable_end: None,
                starved: None,
                topic_id: 0,
            });
        }
        slots
    }

    /// The name of the topic with this id.
    pub(in crate::kafka::native) fn name_of(&self, topic_id: u128) -> Option<Arc<str>> {
        self.names.get(&topic_id).cloned()
    }

    pub(in crate::kafka::native) fn find(&self, topic: &str, partition: i32) -> Option<usize> {
        self.places.get(topic)?.get(&partition).copied()
    }

    /// Whether a partition that is not paused has no known leader.
    pub(in crate::kafka::native) fn is_unled(&self) -> bool {
        (self.all.iter()).any(|slot| slot.leader.is_none() && !slot.paused)
    }

    /// The topics of partitions without a known leader.
    pub(in crate::kafka::native) fn unled_topics(&self) -> Vec<Arc<str>> {
        let unled = self.all.iter().filter(|slot| slot.leader.is_none());
        let mut names: Vec<_> = unled.map(|slot| slot.partition.topic.clone()).collect();
        names.dedup();
        names
    }

    /// Sets the leaders of partitions that have none.
    pub(in crate::kafka::native) fn learn(&mut self, answer: &MetadataResponse) -> LeaderUpdates {
        let mut learned = LeaderUpdates::default();
        for (index, slot) in self.all.iter_mut().enumerate() {
            if slot.leader.is_some() {
                continue;
            }
            let TopicPartition { topic, partition } = &slot.partition;
            let of_topic = (answer.topics.iter())
                .find(|t| t.name.as_ref().is_some_and(|name| *name.0 == **topic));
            let found = of_topic.and_then(|t| {
                let mut parts = t.partitions.iter();
                parts.find(|p| p.partition_index == partition.0)
            });
            match found {
                Some(part) if part.leader_id.0 >= 0 => {
                    // 0 means that there is none.
                    let id = of_topic.map_or(0, |t| t.topic_id.as_u128());
                    if ![0, id].contains(&slot.topic_id) {
                        learned.replaced.push(index);
                        continue;
                    }
                    if slot.topic_id != id {
                        slot.topic_id = id;
                        self.names.insert(id, topic.clone());
                    }
                    slot.leader = Some(Leader {
                        node: part.leader_id.0,
                        epoch: part.leader_epoch,
                        nearer_since: None,
                    });
                }
                // It exists and has no leader.
                Some(_) => {}
                None => {
                    let code = of_topic.map_or(0, |t| t.error_code);
                    learned.missing.push((index, code));
                }
            }
        }
        learned
    }

    /// Brokers that lead a partition.
    pub(in crate::kafka::native) fn leaders(&self) -> Vec<Node> {
        let leaders = self.all.iter().filter_map(|slot| slot.leader);
        let mut nodes: Vec<_> = leaders.map(|leader| leader.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Whether all records that this broker is known to have were fetched; paused partitions don't
    /// count.
    pub(in crate::kafka::native) fn has_all(&self, node: Node) -> bool {
        let led = |slot: &&FetchState| slot.leader.is_some_and(|leader| leader.node == node);
        (self.all.iter().filter(led).filter(|slot| !slot.paused))
            .all(|slot| slot.stable_end.is_some_and(|end| slot.from >= end))
    }

    /// The broker can't be reached: clears it as leader.
    pub(in crate::kafka::native) fn lose(&mut self, node: Node) {
        for slot in &mut self.all {
            if slot.leader.is_some_and(|leader| leader.node == node) {
                slot.leader = None;
            }
        }
    }

    /// What to fetch from a broker, beginning with another partition each time.
    pub(in crate::kafka::native) fn plan_fetch(
        &mut self,
        node: Node,
        fetch_limits: FetchLimits,
        now: Duration,
    ) -> FetchPlan {
        let count = self.all.len();
        let turn = self.asked.entry(node).or_default();
        let mut wanted = Vec::with_capacity(count);
        let mut max_wait = MAX_WAIT;
        let unpaused = self.all.iter().filter(|slot| !slot.paused);
        let enough = unpaused.map(FetchState::unread).sum::<usize>() > 2 * fetch_limits.all;
        let starved = |slot: &FetchState| slot.starved.is_some_and(|since| now > since + STARVED);
        let mut is_starved = false;
        for step in 0..count {
            let slot = &mut self.all[(*turn + step) % count];
            let nearer_since = slot.leader.and_then(|leader| leader.nearer_since);
            if nearer_since.is_some_and(|since| now > since + NEARER) {
                slot.leader = None;
            }
            let Some(leader) = slot.leader.filter(|leader| leader.node == node) else {
                continue;
            };
            let unread = slot.unread();
            if slot.paused || enough || unread > fetch_limits.each / 2 {
                // A partition that is left out may be fetched again soon.
                max_wait = match (slot.paused, unread) {
                    (true, 0) => max_wait.min(PAUSED),
                    (true, _) => max_wait,
                    (false, _) => max_wait.min(FULL),
                };
                continue;
            }
            is_starved |= starved(slot);
            slot.asked = slot.from;
            wanted.push(FetchTarget {
                topic: slot.partition.topic.clone(),
                topic_id: slot.topic_id,
                partition: slot.partition.partition.0,
                from: slot.from,
                leader_epoch: leader.epoch,
                seen_epoch: slot.seen_epoch,
            });
        }
        if !wanted.is_empty() {
            *turn = (*turn + 1) % count;
        }
        if is_starved {
            max_wait = FAR;
        }
        FetchPlan { wanted, max_wait }
    }

    /// Copies fetched records that may stay for long, to release the memory of their answer.
    pub(in crate::kafka::native) fn detach(&mut self) {
        for slot in self.all.iter_mut().filter(|slot| slot.paused) {
            slot.here.iter_mut().for_each(Records::detach);
        }
    }

    /// Passes up to `max` fetched records to `each`, a share from each partition; returns how many, and
    /// the slot and error of a batch that couldn't be read.
    pub(in crate::kafka::native) fn deliver(
        &mut self,
        max: usize,
        mut each: impl FnMut(u32, Record<'_>) -> Result<(), UnreadableBatch>,
    ) -> (usize, Option<(usize, UnreadableBatch)>) {
        let count = self.all.len();
        let reading = |slot: &&FetchState| !slot.paused && !slot.here.is_empty();
        let share = (max / self.all.iter().filter(reading).count().max(1)).max(LEAST);
        let mut given = 0;
        loop {
            let before = given;
            for step in 0..count {
                let at = (self.turn + step) % count;
                let room = (max - given).min(share);
                if room == 0 {
                    self.turn = at;
                    return (given, None);
                }
                let slot = &mut self.all[at];
                if slot.paused || slot.here.is_empty() {
                    continue;
                }
                let index = u32::try_from(at).unwrap_or(u32::MAX);
                match slot.deliver(room, |record| each(index, record)) {
                    Ok(some) => given += some,
                    Err(why) => {
                        slot.ask_again();
                        return (given, Some((at, why)));
                    }
                }
            }
            if given == before {
                return (given, None);
            }
        }
    }
}
