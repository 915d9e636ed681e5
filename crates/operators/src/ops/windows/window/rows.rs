//! The windows of the keys of a batch, while a function computes them.
//!
//! For windows that depend on what is there already (sliding ones, sessions): which of them a record
//! touches shows only while the records before it are computed. So everything that a batch can touch is
//! read first, one range per key, and written back afterwards. Empty between batches; keeps its buffers.

use crate::key_hash;
use bytes::Bytes;
use hashbrown::HashTable;
use stoatflow_core::{Record, Task};
use stoatflow_state::Stored;

/// A window or session of a key.
#[derive(Debug)]
pub(crate) struct Cell {
    /// Windows: their start and 0; sessions: end and start. This is their order.
    pub at: (i64, i64),
    /// Null is a deletion.
    pub current: Option<Stored>,
    /// Is it to be written?
    pub changed: bool,
    /// Did the store have it when the batch began?
    loaded: bool,
    /// Where in the batch's output its last update is.
    pub passed_on: Option<usize>,
}

impl Cell {
    /// One that the store has.
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

    /// What it holds.
    pub fn held(&self) -> Option<&Stored> {
        self.current.as_ref().filter(|held| !held.value.is_null())
    }

    /// Writes.
    pub fn put(&mut self, value: Stored) {
        self.current = Some(value);
        self.changed = true;
    }
}

/// What a key has, as far as the batch can touch it.
#[derive(Debug)]
pub(crate) struct Row {
    hash: u64,
    pub key: Bytes,
    pub task: Task,
    /// The earliest and the latest record of the batch.
    pub low: i64,
    pub high: i64,
    /// In order.
    pub cells: Vec<Cell>,
}

impl Row {
    fn find(&self, at: (i64, i64)) -> Result<usize, usize> {
        self.cells.binary_search_by(|cell| cell.at.cmp(&at))
    }

    /// A cell, made if it is missing.
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

    /// Forgets a cell that was made in this batch: its deletion need not be announced.
    pub fn forget_new(&mut self, at: (i64, i64)) {
        if let Ok(place) = self.find(at)
            && !self.cells[place].loaded
        {
            self.cells.remove(place);
        }
    }

    /// What a cell holds.
    pub fn held(&self, at: (i64, i64)) -> Option<&Stored> {
        self.find(at).ok().and_then(|at| self.cells[at].held())
    }

    /// Cells from here on.
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
    /// The next record of the batch, and its key's bytes.
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

    /// All rows, to load them.
    pub fn each(&mut self) -> impl Iterator<Item = &mut Row> {
        self.rows.iter_mut()
    }

    /// The row of the `at`-th record.
    pub fn of(&mut self, at: usize) -> &mut Row {
        &mut self.rows[self.of[at]]
    }

    /// Everything, to write it; forgets it.
    pub fn drain(&mut self) -> impl Iterator<Item = Row> {
        self.index.clear();
        self.of.clear();
        self.rows.drain(..)
    }
}
