//! The windows of a batch, each once.
//!
//! Takes internal keys of a window store, returns their values: read from the store before the
//! interpreter is attached, written back afterwards with one write per window. Empty between batches;
//! keeps its buffers.

use crate::ops::windows::window::{Folder, Outcome, WindowedStore};
use crate::{Context, LaneStore, key_hash};
use bytes::Bytes;
use hashbrown::HashTable;
use stoatflow_core::{Datum, Epoch, Record, Result, Timestamp};
use stoatflow_state::{KeyValueStore, Stored};

/// One window.
#[derive(Debug)]
pub(crate) struct CachedWindow {
    hash: u64,
    /// Its key in the store; empty if the store doesn't keep the window any more.
    pub key: Bytes,
    pub current: Option<Stored>,
    /// Index of its last update in the batch's output.
    pub passed_on: Option<usize>,
    /// With an update cache: all updates of the batch so far, combined into one, and the index of the
    /// update that made the last one.
    pub gathered: Option<(usize, Folded)>,
    /// True if the value differs from the one in the store. Records that were left out change nothing.
    pub changed: bool,
}

impl CachedWindow {
    /// The current value: moved out, because a new one follows, or cloned (`stays`) if the record may
    /// yet be left out.
    fn held(&mut self, stays: bool) -> Option<Stored> {
        if stays {
            self.current.clone()
        } else {
            self.current.take()
        }
    }
}

/// The effect of a record on a window.
#[derive(Debug)]
pub(crate) struct Folded {
    /// True if the window had a value before.
    pub existed: bool,
    /// The value before, if children need it.
    pub before: Datum,
    pub new: Datum,
    /// The highest timestamp in the window.
    pub timestamp: Timestamp,
}

impl Folded {
    /// The outcome to forward under a windowed key.
    pub fn under(self, key: Datum) -> Outcome {
        let Self {
            existed,
            before,
            new,
            timestamp,
        } = self;
        Outcome {
            key,
            existed,
            before,
            new,
            timestamp,
        }
    }
}

impl CachedWindow {
    /// Adds a record to the window, after freezing the window's last forwarded update. `None`: the
    /// record was left out, and the window is unchanged.
    pub fn fold(
        &mut self,
        record: &Record,
        folder: &Folder,
        kept: &WindowedStore,
        out: &mut [Record],
        context: &mut Context<'_>,
    ) -> Result<Option<Folded>> {
        kept.freeze(self.passed_on.take(), out)?;
        let held = self.held(kept.writer.node_context.is_lenient());
        let held = held.filter(|held| !held.value.is_null());
        let existed = held.is_some();
        let own = record.timestamp;
        let timestamp = held.as_ref().map_or(own, |held| held.timestamp.max(own));
        let held = held.map(|held| held.value);
        let Some((before, new)) = folder.turn(kept, held, record, context)? else {
            return Ok(None);
        };
        self.changed = true;
        self.current = Some(Stored {
            value: new.clone(),
            // A tombstone has the timestamp of the record that caused it, as in Kafka Streams.
            timestamp: if new.is_null() {
                record.timestamp
            } else {
                timestamp
            },
        });
        Ok(Some(Folded {
            existed,
            before,
            new,
            timestamp,
        }))
    }

    /// Combines all updates of the window in this batch into one, as the cache would: the old value of
    /// the first and the new value of the last.
    pub fn gather(&mut self, last: usize, folded: Folded) {
        self.gathered = Some(match self.gathered.take() {
            None => (last, folded),
            Some((_, first)) => {
                let Folded { new, timestamp, .. } = folded;
                let both = Folded {
                    new,
                    timestamp,
                    ..first
                };
                (last, both)
            }
        });
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct WindowCache {
    index: HashTable<usize>,
    windows: Vec<CachedWindow>,
}

impl WindowCache {
    /// The entry of a window, loaded if it is new.
    pub fn load(&mut self, store: &KeyValueStore, epoch: Epoch, key: Bytes) -> Result<usize> {
        let hash = key_hash(&key);
        let Self { index, windows } = self;
        if let Some(&at) = index.find(hash, |&at| windows[at].key == key) {
            return Ok(at);
        }
        let current = store.get(epoch, &key)?;
        index.insert_unique(hash, windows.len(), |&at| windows[at].hash);
        windows.push(CachedWindow {
            hash,
            key,
            current,
            passed_on: None,
            gathered: None,
            changed: false,
        });
        Ok(windows.len() - 1)
    }

    /// An entry for a window that the store doesn't keep any more.
    pub fn forgotten(&mut self) -> usize {
        self.windows.push(CachedWindow {
            hash: 0,
            key: Bytes::new(),
            current: None,
            passed_on: None,
            gathered: None,
            changed: false,
        });
        self.windows.len() - 1
    }

    pub fn get(&mut self, at: usize) -> &mut CachedWindow {
        &mut self.windows[at]
    }

    /// Removes all windows without writing.
    pub fn forget(&mut self) {
        self.index.clear();
        self.windows.clear();
    }

    /// Writes all changed windows. Without left-out records that is all of them.
    pub fn store(&mut self, into: &mut LaneStore, epoch: Epoch) -> Result<()> {
        self.index.clear();
        let LaneStore { store, dirty } = into;
        self.windows
            .drain(..)
            .filter(|window| window.changed && !window.key.is_empty())
            .try_for_each(|window| store.put(epoch, dirty, &window.key, window.current))
    }
}
