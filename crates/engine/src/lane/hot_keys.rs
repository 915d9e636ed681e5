//! The most frequent keys of a lane, estimated from a sample.
//!
//! Samples batches as they enter an operator chain; returns counts by entry and key. Space-Saving
//! (Metwally, Agrawal and El Abbadi, 2005): a fixed number of counters; a new key takes over the
//! smallest one. Counts cover the last 30 to 60 seconds. One record in 32 is sampled; a batch without a
//! sampled record costs one subtraction.

#[cfg(test)]
mod tests;

use super::LaneWorker;
use std::time::Duration;
use stoatflow_core::{Datum, NodeId, Record};

/// The mean distance between two sampled records.
const MEAN_SAMPLE_DISTANCE: u32 = 32;
/// Keys that are counted per entry.
const MAX_COUNTERS: usize = 64;
/// Maximum characters kept of a key. Keys that differ only after them are counted as one.
const MAX_KEY_CHARS: usize = 100;
/// Counters are replaced this often. The previous ones are included in results until the next
/// replacement.
const GENERATION_AGE: Duration = Duration::from_secs(30);

/// Chooses which records are sampled, at random distances: the input may have a pattern of its own.
#[derive(Debug)]
pub(super) struct Sampler {
    /// Records to skip before the next one.
    gap: u32,
    random: u32,
}

impl Sampler {
    pub(super) const fn new(lane: u32) -> Self {
        Self {
            gap: 0,
            random: lane.wrapping_mul(0x9E37_79B9) | 1,
        }
    }

    /// The index of the next record to sample in a batch of this length; `None` when there is no further one.
    pub(super) fn next_in(&mut self, length: usize) -> Option<usize> {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        if self.gap >= length {
            self.gap -= length;
            return None;
        }
        let at = self.gap;
        // Xorshift (Marsaglia, 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.gap = at + 1 + self.random % (2 * MEAN_SAMPLE_DISTANCE - 1);
        Some(at as usize)
    }
}

/// How often a key was seen in the sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyCount {
    /// The key as text.
    pub key: String,
    /// Upper bound of the count.
    pub most: u64,
    /// The part of `most` that the counter had from earlier keys.
    taken_over: u64,
}

impl KeyCount {
    /// Lower bound of the count.
    pub(crate) const fn least(&self) -> u64 {
        self.most - self.taken_over
    }
}

/// The sampled keys at one entry of a chain.
#[derive(Clone, Debug)]
pub(crate) struct EntryKeys {
    /// The node that records enter by.
    pub entry: NodeId,
    /// Sampled records, including those without a key.
    pub sampled: u64,
    /// Their keys, in no particular order.
    pub keys: Vec<KeyCount>,
}

impl EntryKeys {
    const fn new(entry: NodeId) -> Self {
        Self {
            entry,
            sampled: 0,
            keys: Vec::new(),
        }
    }

    fn count(&mut self, key: Option<String>) {
        self.sampled += 1;
        let Some(key) = key else { return };
        if let Some(known) = self.keys.iter_mut().find(|k| k.key == key) {
            known.most += 1;
        } else if self.keys.len() < MAX_COUNTERS {
            let (most, taken_over) = (1, 0);
            self.keys.push(KeyCount {
                key,
                most,
                taken_over,
            });
        } else if let Some(rarest) = self.keys.iter_mut().min_by_key(|k| k.most) {
            rarest.key = key;
            rarest.taken_over = rarest.most;
            rarest.most += 1;
        }
    }

    /// Adds the counts of another lane or an earlier generation.
    pub(crate) fn add(&mut self, other: &Self) {
        self.sampled += other.sampled;
        for more in &other.keys {
            match self.keys.iter_mut().find(|k| k.key == more.key) {
                Some(known) => {
                    known.most += more.most;
                    known.taken_over += more.taken_over;
                }
                None => self.keys.push(more.clone()),
            }
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct HotKeys {
    since: Duration,
    now: Vec<EntryKeys>,
    before: Vec<EntryKeys>,
}

impl HotKeys {
    /// Counts the key of a record. `now`: monotonic.
    pub(crate) fn count(&mut self, entry: NodeId, key: &Datum, now: Duration) {
        self.age(now);
        let at = self.now.iter().position(|e| e.entry == entry);
        let at = at.unwrap_or_else(|| {
            self.now.push(EntryKeys::new(entry));
            self.now.len() - 1
        });
        self.now[at].count(text(key));
    }

    fn age(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.since);
        if passed < GENERATION_AGE {
            return;
        }
        self.before = std::mem::take(&mut self.now);
        if passed >= 2 * GENERATION_AGE {
            self.before.clear();
        }
        self.since = now;
    }

    /// The counts of the last 30 to 60 seconds.
    pub(crate) fn recent(&mut self, now: Duration) -> Vec<EntryKeys> {
        self.age(now);
        let mut all = self.now.clone();
        for before in &self.before {
            match all.iter_mut().find(|e| e.entry == before.entry) {
                Some(entry) => entry.add(before),
                None => all.push(before.clone()),
            }
        }
        all
    }
}

impl LaneWorker {
    /// Counts the keys of the sampled records.
    pub(super) fn sample(&mut self, entry: NodeId, batch: &[Record]) {
        while let Some(at) = self.sampler.next_in(batch.len()) {
            let now = self.shared.clock.monotonic();
            let mut hot_keys = self.status().hot_keys.lock();
            hot_keys.count(entry, &batch[at].key, now);
        }
    }
}

/// A key as readable text; `None` for null keys, lists, changes and Python objects.
fn text(key: &Datum) -> Option<String> {
    let text = match key {
        Datum::Str(text) => text.as_str().to_owned(),
        Datum::Int(number) => number.to_string(),
        Datum::Float(number) => number.to_string(),
        Datum::Bool(word) => word.to_string(),
        Datum::Json(text) => String::from_utf8_lossy(text).into_owned(),
        Datum::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains(char::is_control) => text.to_owned(),
            _ => hex(&bytes[..bytes.len().min(MAX_KEY_CHARS / 2)]),
        },
        Datum::Windowed(windowed) => return self::text(&windowed.key),
        Datum::Null | Datum::List(_) | Datum::Change(_) | Datum::Opaque(_) => return None,
    };
    Some(match text.char_indices().nth(MAX_KEY_CHARS) {
        Some((end, _)) => text[..end].to_owned(),
        None => text,
    })
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::from("0x");
    for byte in bytes {
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}
