//! How far an index is: a row of its own among its entries, written with them.
//!
//! Without that row, or with that of another declaration, an index is built from the start. While it is built
//! it is written by commits like any other; only queries don't use it.

use bytes::Bytes;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Result, StoreId};
use stoatflow_state::{Backend, Write};

/// The key of that row: no entry begins with a zero byte.
pub const STATE_KEY: &[u8] = b"\0state";
const VERSION: u8 = 1;

/// How far an index is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexState {
    /// Rows up to this key are in it; `None`: none yet.
    Building(Option<Bytes>),
    /// All rows are in it.
    Readable,
    /// All rows are in it, and so many of a unique one have a value that another row has too: it was declared
    /// when they were there. No further ones get in.
    UniquePending(u64),
}

impl IndexState {
    /// Does it have all rows?
    #[must_use]
    pub const fn is_readable(&self) -> bool {
        matches!(self, Self::Readable | Self::UniquePending(_))
    }

    /// The row that says so.
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

    /// What a row says; `None`: nothing, or of another declaration.
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

    /// How far an index is in a back end.
    ///
    /// # Errors
    /// What reading fails with.
    pub fn of(backend: &dyn Backend, id: StoreId, fingerprint: u64) -> Result<Option<Self>> {
        let row = backend.get(id, STATE_KEY)?;
        Ok(row.and_then(|row| Self::read(&row, fingerprint)))
    }
}

/// What is shown of an index.
#[derive(Debug)]
pub struct IndexStatus {
    /// The store.
    pub store: String,
    /// The index.
    pub name: String,
    /// Rows that are in it, while it is built.
    pub done: AtomicU64,
    /// About how many there are.
    pub total: AtomicU64,
    /// Rows whose fields could not be computed, since the start.
    pub unreadable: AtomicU64,
    /// Rows with a value that another row has too, of a unique one.
    pub duplicates: AtomicU64,
    state: AtomicU64,
}

impl IndexStatus {
    /// Nothing is known of it yet.
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

    /// As `/state` shows it.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match self.state.load(Relaxed) {
            0 => "building",
            1 => "readable",
            _ => "unique_pending",
        }
    }
}
