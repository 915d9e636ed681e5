//! The log itself: the open database, the ends of all partitions, the fences.
//!
//! Takes staged chunks and offsets, assigns record offsets, and writes everything as one batch. Owns the
//! RocksDB, the order of commits (one lock) and the wake-up of readers. Readers never take that lock:
//! the end of a partition is an atomic that moves only after the batch is written. Never buffers:
//! uncommitted records are the producer's.

use super::chunk::{ChunkWriter, count_of};
use super::codec::{TopicRow, decode_committed, encode_committed};
use super::errors::{corrupt, storage};
use super::keys;
use super::registry::Registered;
use super::temporary::TemporaryDirectory;
use crate::{Committed, CutEntry, NewTopic};
use parking_lot::{Condvar, Mutex};
use rocksdb::{DB, Direction, IteratorMode, Options, ReadOptions, WriteBatch};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use stoatflow_core::{Clock, Error, Result, SystemClock, TopicPartition};

/// A topic in use.
#[derive(Debug)]
pub(super) struct Topic {
    pub name: Arc<str>,
    pub id: u32,
    ends: Box<[AtomicI64]>,
    deleted: AtomicBool,
}

impl Topic {
    fn new(name: Arc<str>, id: u32, ends: Box<[AtomicI64]>) -> Arc<Self> {
        Arc::new(Self {
            name,
            id,
            ends,
            deleted: AtomicBool::new(false),
        })
    }

    /// Empties the topic for those that still hold it; nobody may write to it any more.
    fn forget(&self) {
        self.deleted.store(true, Ordering::Release);
        for end in &self.ends {
            end.store(0, Ordering::Release);
        }
    }

    /// Whether it was deleted after it had been looked up.
    pub(super) fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Acquire)
    }

    pub(super) fn partitions(&self) -> i32 {
        i32::try_from(self.ends.len()).unwrap_or(i32::MAX)
    }

    /// One past the last committed record.
    pub(super) fn end(&self, partition: u32) -> i64 {
        self.ends[partition as usize].load(Ordering::Acquire)
    }
}

/// The right to write under a transactional id, until a newer producer takes it over.
#[derive(Debug)]
pub(super) struct Fence {
    id: String,
    epoch: u64,
    newest: Arc<AtomicU64>,
}

impl Fence {
    pub(super) fn check(&self) -> Result<()> {
        if self.newest.load(Ordering::Acquire) == self.epoch {
            return Ok(());
        }
        Err(Error::fenced(format!(
            "a newer producer with the transactional id '{}' took over",
            self.id
        )))
    }
}

/// Finished chunks of one partition.
#[derive(Debug)]
pub(super) struct Staged {
    pub topic: Arc<Topic>,
    pub partition: u32,
    pub chunks: Vec<ChunkWriter>,
}

#[derive(Debug, Default)]
struct State {
    topics: HashMap<Arc<str>, Arc<Topic>>,
    fences: HashMap<String, Arc<AtomicU64>>,
    next_topic: u32,
}

/// The open log. Fields drop in order: database, directory, then the registration.
#[derive(Debug)]
pub(super) struct Log {
    db: DB,
    state: Mutex<State>,
    commits: Mutex<u64>,
    /// Whether writing to a missing topic creates it.
    makes_topics: AtomicBool,
    woken: Condvar,
    path: PathBuf,
    address: String,
    _temporary: Option<TemporaryDirectory>,
    _registered: Option<Registered>,
}

impl Log {
    pub(super) fn open(
        path: &Path,
        temporary: Option<TemporaryDirectory>,
        registered: Option<Registered>,
    ) -> Result<Self> {
        let db = DB::open(&options(), path).map_err(|e| storage(e, path))?;
        let address = if temporary.is_some() {
            "embedded:".to_owned()
        } else {
            format!("embedded:{}", path.display())
        };
        let mut log = Self {
            db,
            state: Mutex::default(),
            commits: Mutex::new(0),
            makes_topics: AtomicBool::new(false),
            woken: Condvar::new(),
            path: path.to_owned(),
            address,
            _temporary: temporary,
            _registered: registered,
        };
        log.check_format()?;
        log.load_topics()?;
        Ok(log)
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn check_format(&self) -> Result<()> {
        let shown = self.path.display();
        let Some(found) = self.get(keys::FORMAT_KEY)? else {
            if self.db.iterator(IteratorMode::Start).next().is_some() {
                return Err(Error::incompatible(format!(
                    "{shown} holds a RocksDB that is not an embedded broker"
                ))
                .hint("choose an empty directory for the embedded broker"));
            }
            return self
                .db
                .put(keys::FORMAT_KEY, keys::FORMAT.to_le_bytes())
                .map_err(|e| storage(e, &self.path));
        };
        let found = <[u8; 4]>::try_from(found.as_slice())
            .map(u32::from_le_bytes)
            .map_err(|_| corrupt("the format number"))?;
        if found == keys::FORMAT {
            return Ok(());
        }
        Err(Error::incompatible(format!(
            "the embedded broker at {shown} has format {found}, this version reads format {}",
            keys::FORMAT
        ))
        .hint("use the version of stoatflow that wrote it, or choose another path"))
    }

    fn load_topics(&mut self) -> Result<()> {
        let mut state = State::default();
        for row in self
            .db
            .iterator(IteratorMode::From(&[keys::TOPIC], Direction::Forward))
        {
            let (key, value) = row.map_err(|e| storage(e, &self.path))?;
            if key.first() != Some(&keys::TOPIC) {
                break;
            }
            let name: Arc<str> = std::str::from_utf8(&key[1..])
                .map_err(|_| corrupt("a topic name is not UTF-8"))?
                .into();
            let row = TopicRow::decode(&value)?;
            let ends = (0..row.partitions)
                .map(|p| Ok(AtomicI64::new(self.find_end(row.id, p)?)))
                .collect::<Result<_>>()?;
            state.next_topic = state.next_topic.max(row.id + 1);
            let topic = Topic::new(name.clone(), row.id, ends);
            state.topics.insert(name, topic);
        }
        self.state = Mutex::new(state);
        Ok(())
    }

    /// One past the last record on disk.
    fn find_end(&self, topic: u32, partition: u32) -> Result<i64> {
        let mut rows = self.db.raw_iterator();
        rows.seek_for_prev(keys::chunk(topic, partition, u64::MAX));
        rows.status().map_err(|e| storage(e, &self.path))?;
        match (
            rows.key()
                .and_then(|key| keys::base_of(key, topic, partition)),
            rows.value(),
        ) {
            (Some(base), Some(chunk)) => Ok(base + i64::from(count_of(chunk)?)),
            _ => Ok(0),
        }
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.db.get(key).map_err(|e| storage(e, &self.path))
    }

    pub(super) fn topic(&self, name: &str) -> Option<Arc<Topic>> {
        self.state.lock().topics.get(name).cloned()
    }

    pub(super) fn topics(&self) -> Vec<Arc<Topic>> {
        let mut topics: Vec<_> = self.state.lock().topics.values().cloned().collect();
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        topics
    }

    /// The topic and number of a partition, if it exists.
    pub(super) fn partition(&self, partition: &TopicPartition) -> Result<(Arc<Topic>, u32)> {
        let topic = self
            .topic(&partition.topic)
            .ok_or_else(|| self.missing(&partition.topic))?;
        match u32::try_from(partition.partition.0) {
            Ok(p) if partition.partition.0 < topic.partitions() => Ok((topic, p)),
            _ => Err(Error::missing_topic(format!(
                "topic '{}' has {} partitions, partition {} was asked for",
                topic.name,
                topic.partitions(),
                partition.partition
            ))
            .hint("choose an existing partition, or create the topic with more of them")),
        }
    }

    pub(super) fn make_topics_when_written(&self) {
        self.makes_topics.store(true, Ordering::Release);
    }

    /// The topic to write to; created if it is missing and that is allowed.
    pub(super) fn target(&self, name: &str) -> Result<Arc<Topic>> {
        if let Some(topic) = self.topic(name) {
            return Ok(topic);
        }
        if self.makes_topics.load(Ordering::Acquire) {
            self.create(&[NewTopic {
                name: name.to_owned(),
                partitions: 1,
                replication: 1,
                config: Vec::new(),
            }])?;
        }
        self.topic(name).ok_or_else(|| self.missing(name))
    }

    pub(super) fn missing(&self, topic: &str) -> Error {
        Error::missing_topic(format!(
            "topic '{topic}' does not exist at {}",
            self.address
        ))
        .hint(format!(
            "create the topic '{topic}', or fix its name in the topology"
        ))
    }

    /// Creates the topics that don't exist, all at once.
    pub(super) fn create(&self, topics: &[NewTopic]) -> Result<()> {
        let mut state = self.state.lock();
        let mut batch = WriteBatch::default();
        let mut made: Vec<Arc<Topic>> = Vec::new();
        for topic in topics {
            if state.topics.contains_key(topic.name.as_str())
                || made.iter().any(|m| *m.name == *topic.name)
            {
                continue;
            }
            check_name(&topic.name)?;
            let partitions = u32::try_from(topic.partitions)
                .ok()
                .filter(|p| (1..=100_000).contains(p))
                .ok_or_else(|| {
                    Error::config(format!(
                        "topic '{}' can't have {} partitions",
                        topic.name, topic.partitions
                    ))
                    .hint("choose between 1 and 100000 partitions")
                })?;
            #[allow(clippy::cast_possible_truncation)] // as many topics as the list is long
            let id = state.next_topic + made.len() as u32;
            batch.put(
                keys::topic(&topic.name),
                TopicRow {
                    id,
                    partitions,
                    config: topic.config.clone(),
                }
                .encode(),
            );
            let ends = (0..partitions).map(|_| AtomicI64::new(0)).collect();
            made.push(Topic::new(topic.name.as_str().into(), id, ends));
        }
        self.db.write(batch).map_err(|e| storage(e, &self.path))?;
        for topic in made {
            state.next_topic = topic.id + 1;
            state.topics.insert(topic.name.clone(), topic);
        }
        Ok(())
    }

    /// Deletes the topics that exist, all at once, with their records and the offsets that groups have
    /// committed for them.
    pub(super) fn delete(&self, names: &[&str]) -> Result<()> {
        let mut state = self.state.lock();
        let found = names.iter().filter_map(|name| state.topics.get(*name));
        let gone: Vec<Arc<Topic>> = found.cloned().collect();
        if gone.is_empty() {
            return Ok(());
        }
        let mut batch = WriteBatch::default();
        for topic in &gone {
            batch.delete(keys::topic(&topic.name));
            batch.delete_range(keys::chunk(topic.id, 0, 0), keys::chunk(topic.id + 1, 0, 0));
        }
        let from = IteratorMode::From(&keys::OFFSETS, Direction::Forward);
        for row in self.db.iterator(from) {
            let (key, _) = row.map_err(|e| storage(e, &self.path))?;
            let Some(name) = keys::topic_of_offset(&key) else {
                break;
            };
            if gone.iter().any(|topic| topic.name.as_bytes() == name) {
                batch.delete(&key);
            }
        }
        self.db.write(batch).map_err(|e| storage(e, &self.path))?;
        for topic in gone {
            state.topics.remove(&topic.name);
            topic.forget();
        }
        Ok(())
    }

    /// Takes over a transactional id, durably: older producers are fenced at their next call.
    pub(super) fn take_over(&self, id: &str) -> Result<Fence> {
        let mut state = self.state.lock();
        let stored = self.get(&keys::fence(id))?;
        let stored = stored
            .and_then(|b| <[u8; 8]>::try_from(b.as_slice()).ok())
            .map_or(0, u64::from_le_bytes);
        let epoch = stored + 1;
        self.db
            .put(keys::fence(id), epoch.to_le_bytes())
            .map_err(|e| storage(e, &self.path))?;
        let newest = state.fences.entry(id.to_owned()).or_default();
        newest.store(epoch, Ordering::Release);
        Ok(Fence {
            id: id.to_owned(),
            epoch,
            newest: newest.clone(),
        })
    }

    /// Writes records and offsets as one batch, or nothing. The fence is checked under the lock that
    /// [`Self::take_over`] takes, so an older producer can't write a batch once a newer one has been
    /// opened.
    pub(super) fn write(
        &self,
        fence: Option<&Fence>,
        staged: &[Staged],
        offsets: &[(String, CutEntry)],
    ) -> Result<()> {
        let state = self.state.lock();
        if let Some(fence) = fence {
            fence.check()?;
        }
        let mut batch = WriteBatch::default();
        let mut ends = Vec::with_capacity(staged.len());
        for part in staged {
            // A topic created later may get the number of the deleted one.
            if part.topic.is_deleted() {
                return Err(self.missing(&part.topic.name));
            }
            let mut next = part.topic.end(part.partition);
            for chunk in &part.chunks {
                batch.put(
                    keys::chunk(part.topic.id, part.partition, next.cast_unsigned()),
                    chunk.bytes(),
                );
                next += i64::from(chunk.count());
            }
            ends.push(next);
        }
        for (group, entry) in offsets {
            let key = keys::offset(group, &entry.partition.topic, entry.partition.partition.0);
            batch.put(key, encode_committed(entry.offset, &entry.metadata));
        }
        self.db.write(batch).map_err(|e| storage(e, &self.path))?;
        for (part, end) in staged.iter().zip(ends) {
            part.topic.ends[part.partition as usize].store(end, Ordering::Release);
        }
        drop(state);
        if !staged.is_empty() {
            *self.commits.lock() += 1;
            self.woken.notify_all();
        }
        Ok(())
    }

    pub(super) fn committed(
        &self,
        group: &str,
        partition: &TopicPartition,
    ) -> Result<Option<Committed>> {
        let row = self.get(&keys::offset(
            group,
            &partition.topic,
            partition.partition.0,
        ))?;
        row.map(|row| decode_committed(&row)).transpose()
    }

    /// Waits until `ready` returns true, at most `timeout`; checks after every commit.
    pub(super) fn wait(&self, timeout: Duration, ready: impl Fn() -> bool) {
        let clock = SystemClock::new();
        let mut commits = self.commits.lock();
        // A commit moves its ends before it takes this lock, so none can slip in between the check and
        // the wait.
        while !ready() {
            let left = timeout.saturating_sub(clock.monotonic());
            if left.is_zero() || self.woken.wait_for(&mut commits, left).timed_out() {
                return;
            }
        }
    }

    /// Iterates over the chunks of a partition, starting with the one that holds `from`; `take` returns
    /// false to stop.
    pub(super) fn chunks(
        &self,
        topic: &Topic,
        partition: u32,
        from: i64,
        mut take: impl FnMut(i64, &[u8]) -> Result<bool>,
    ) -> Result<()> {
        let mut bounds = ReadOptions::default();
        bounds.set_iterate_upper_bound(keys::chunk(topic.id, partition, u64::MAX).to_vec());
        let mut rows = self.db.raw_iterator_opt(bounds);
        rows.seek_for_prev(keys::chunk(topic.id, partition, from.cast_unsigned()));
        while let Some((key, value)) = rows.item() {
            let base = keys::base_of(key, topic.id, partition)
                .ok_or_else(|| corrupt("a partition has no chunk at its position"))?;
            if !take(base, value)? {
                return Ok(());
            }
            rows.next();
        }
        rows.status().map_err(|e| storage(e, &self.path))
    }
}

fn check_name(name: &str) -> Result<()> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if !name.is_empty()
        && name.len() <= 249
        && name != "."
        && name != ".."
        && name.chars().all(legal)
    {
        return Ok(());
    }
    Err(Error::config(format!("'{name}' is not a legal topic name"))
        .hint("use 1 to 249 letters, digits, dots, underscores and hyphens, as Kafka demands"))
}

/// Small buffers: this is a log for one machine that shares its memory with state and Python.
fn options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_write_buffer_size(16 * 1024 * 1024);
    options.set_max_write_buffer_number(3);
    options.set_compression_type(rocksdb::DBCompressionType::Lz4);
    options.set_keep_log_file_num(2);
    options.set_max_open_files(256);
    options.set_max_total_wal_size(64 * 1024 * 1024);
    options
}
