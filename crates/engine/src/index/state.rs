//! The state of an index: a row among its entries, written together with them.
//!
//! If that row is missing or belongs to another declaration, the index is built from the start. While it
//! is being built, commits write it like any other; only queries don't use it.

use bytes::Bytes;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Result, StoreId};
use stoatflow_state::{Backend, Write};

/// The key of that row: no entry begins with a zero byte.
pub const STATE_KEY: &[u8] = b"\0state";
const VERSION: u8 = 1;

/// How far an index is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexState {
    /// It contains the rows up to this key; `None`: none yet.
    Building(Option<Bytes>),
    /// It contains all rows.
    Readable,
    /// It is unique and contains all rows, but this many of them share a value with another row: they
    /// existed when it was declared. New duplicates are refused.
    UniquePending(u64),
}

impl IndexState {
    /// Whether it contains all rows.
    #[must_use]
    pub const fn is_readable(&self) -> bool {
        matches!(self, Self::Readable | Self::UniquePending(_))
    }

    /// The row that stores this state.
    #[must_use]
    pub fn write(&self, fingerprint: u64) -> Write {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&fingerprint.to_be_bytes());
        match self {
            Self::Building(None) => bytes.push(0),
            Self::Building(Some(key)) => {
                bytes.push(1);
                bytes.extend_from_slice(key);
            }
            Self::Readable => bytes.push(2),
            Self::UniquePending(rows) => {
                bytes.push(3);
                bytes.extend_from_slice(&rows.to_be_bytes());
            }
        }
        Write {
            key: Bytes::from_static(STATE_KEY),
            value: Some(bytes.into()),
        }
    }

    /// Decodes a row; `None` if it is unknown or of another declaration.
    #[must_use]
    pub fn read(row: &[u8], fingerprint: u64) -> Option<Self> {
        let rest = row.strip_prefix(&[VERSION])?;
        let rest = rest.strip_prefix(&fingerprint.to_be_bytes())?;
        let (kind, rest) = rest.split_first()?;
        Some(match kind {
            0 => Self::Building(None),
            1 => Self::Building(Some(Bytes::copy_from_slice(rest))),
            2 => Self::Readable,
            3 => Self::UniquePending(u64::from_be_bytes(rest.try_into().ok()?)),
            _ => return None,
        })
    }

    /// Reads the state of an index from a back end.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn of(backend: &dyn Backend, id: StoreId, fingerprint: u64) -> Result<Option<Self>> {
        let row = backend.get(id, STATE_KEY)?;
        Ok(row.and_then(|row| Self::read(&row, fingerprint)))
    }
}

/// Progress of an index, for the admin port.
#[derive(Debug)]
pub struct IndexStatus {
    /// The store.
    pub store: String,
    /// The index.
    pub name: String,
    /// Rows indexed so far, while it is being built.
    pub done: AtomicU64,
    /// Approximate number of rows.
    pub total: AtomicU64,
    /// Rows whose fields could not be computed, since the start.
    pub unreadable: AtomicU64,
    /// In a unique index, rows that share a value with another row.
    pub duplicates: AtomicU64,
    state: AtomicU64,
}

impl IndexStatus {
    /// The status before the state is read.
    #[must_use]
    pub fn new(store: &str, name: &str) -> Self {
        Self {
            store: store.to_owned(),
            name: name.to_owned(),
            done: AtomicU64::new(0),
            total: AtomicU64::new(0),
            unreadable: AtomicU64::new(0),
            duplicates: AtomicU64::new(0),
            state: AtomicU64::new(0),
        }
    }

    pub(super) fn enter(&self, state: &IndexState) {
        let number = match state {
            IndexState::Building(_) => 0,
            IndexState::Readable => 1,
            IndexState::UniquePending(rows) => {
                self.duplicates.store(*rows, Relaxed);
                2
            }
        };
        self.state.store(number, Relaxed);
    }

    /// The state as `/state` shows it.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match self.state.load(Relaxed) {
            0 => "building",
            1 => "readable",
            _ => "unique_pending",
        }
    }
}
