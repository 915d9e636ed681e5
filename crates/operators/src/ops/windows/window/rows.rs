//! The windows of the keys of a batch, while a function computes them.
//!
//! For windows that depend on existing ones (sliding windows, sessions): which of them a record touches
//! is known only once the records before it are computed. So everything that a batch can touch is read
//! first, one range per key, and written back afterwards. Empty between batches; keeps its buffers.

use crate::key_hash;
use bytes::Bytes;
use hashbrown::HashTable;
use stoatflow_core::{Record, Task};
use stoatflow_state::Stored;

/// A window or session of a key.
#[derive(Debug)]
pub(crate) struct Cell {
    /// Windows: their start and 0; sessions: end and start. Cells are sorted by it.
    pub at: (i64, i64),
    /// A null value is a deletion.
    pub current: Option<Stored>,
    /// True if it has to be written.
    pub changed: bool,
    /// True if the store had it when the batch began.
    loaded: bool,
    /// Index of its last update in the batch's output.
    pub passed_on: Option<usize>,
}

impl Cell {
    /// A cell read from the store.
    pub fn loaded(at: (i64, i64), current: Stored) -> Self {
        Self {
            current: Some(current),
            loaded: true,
            ..Self::new(at)
        }
    }

    const fn new(at: (i64, i64)) -> Self {
        Self {
            at,
            current: None,
            changed: false,
            loaded: false,
            passed_on: None,
        }
    }

    /// The current value; `None` if it is deleted.
    pub fn held(&self) -> Option<&Stored> {
        self.current.as_ref().filter(|held| !held.value.is_null())
    }

    /// Sets the value.
    pub fn put(&mut self, value: Stored) {
        self.current = Some(value);
        self.changed = true;
    }
}

/// A key's windows, as far as the batch can touch them.
#[derive(Debug)]
pub(crate) struct Row {
    hash: u64,
    pub key: Bytes,
    pub task: Task,
    /// Timestamps of the earliest and the latest record of the batch.
    pub low: i64,
    pub high: i64,
    /// Sorted by `at`.
    pub cells: Vec<Cell>,
}

impl Row {
    fn find(&self, at: (i64, i64)) -> Result<usize, usize> {
        self.cells.binary_search_by(|cell| cell.at.cmp(&at))
    }

    /// The cell, created if it is missing.
    pub fn cell(&mut self, at: (i64, i64)) -> &mut Cell {
        let place = match self.find(at) {
            Ok(place) => place,
            Err(place) => {
                self.cells.insert(place, Cell::new(at));
                place
            }
        };
        &mut self.cells[place]
    }

    /// Removes a cell that was created in this batch: its deletion need not be written.
    pub fn forget_new(&mut self, at: (i64, i64)) {
        if let Ok(place) = self.find(at)
            && !self.cells[place].loaded
        {
            self.cells.remove(place);
        }
    }

    /// The value of a cell.
    pub fn held(&self, at: (i64, i64)) -> Option<&Stored> {
        self.find(at).ok().and_then(|at| self.cells[at].held())
    }

    /// Cells from `at` on.
    pub fn from(&self, at: (i64, i64)) -> &[Cell] {
        let (Ok(place) | Err(place)) = self.find(at);
        &self.cells[place..]
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    index: HashTable<usize>,
    rows: Vec<Row>,
    of: Vec<usize>,
}

impl Rows {
    /// Adds the next record of the batch, with its key's bytes.
    pub fn add(&mut self, key: Bytes, record: &Record) {
        let time = record.timestamp.0;
        let hash = key_hash(&key);
        let Self { index, rows, of } = self;
        if let Some(&at) = index.find(hash, |&at| rows[at].key == key) {
            let row = &mut rows[at];
            (row.low, row.high) = (row.low.min(time), row.high.max(time));
            of.push(at);
            return;
        }
        index.insert_unique(hash, rows.len(), |&at| rows[at].hash);
        of.push(rows.len());
        rows.push(Row {
            hash,
            key,
            task: record.task(),
            low: time,
            high: time,
            cells: Vec::new(),
        });
    }

    /// All rows, for loading.
    pub fn each(&mut self) -> impl Iterator<Item = &mut Row> {
        self.rows.iter_mut()
    }

    /// The row of record `at`.
    pub fn of(&mut self, at: usize) -> &mut Row {
        &mut self.rows[self.of[at]]
    }

    /// Removes and returns all rows, for writing.
    pub fn drain(&mut self) -> impl Iterator<Item = Row> {
        self.index.clear();
        self.of.clear();
        self.rows.drain(..)
    }
}
