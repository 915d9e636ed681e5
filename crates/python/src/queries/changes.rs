//! Changes of a store for Python.
//!
//! A thread blocks in `wait`, detached. An event loop watches a file descriptor instead, which becomes
//! readable when there are changes: the commit thread writes a byte to it and never needs the
//! interpreter.

use super::{FoundWindow, span};
use crate::convert::to_py;
use crate::errors::to_py_err;
use pyo3::prelude::*;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::task::{Wake, Waker};
use std::time::Duration;
use stoatflow_core::{Datum, Error, Offset, Result, TopicPartition};
use stoatflow_engine::query::{ChangeBatch, ChangedRow, FollowSpec, Follower};
use stoatflow_plan::find::FindSpec;
use stoatflow_state::Page;

/// Approximate size of a batch.
const BATCH_LIMIT: Page = Page {
    rows: 10_000,
    bytes: 16 << 20,
};

/// First key, last key, prefix.
pub type FollowedKeys<'py> = (
    Option<Bound<'py, PyAny>>,
    Option<Bound<'py, PyAny>>,
    Option<Bound<'py, PyAny>>,
);
/// Topic, partition and the next offset to read.
type Positions = Vec<(String, i32, i64)>;
/// Epoch, positions, whether it belongs to the snapshot, whether it is the last one of its commit, rows
/// (key, value or `None`, timestamp).
type PyBatch<'py> = (u64, Positions, bool, bool, Vec<FoundWindow<'py>>);

/// What to follow, from the arguments of `Engine.follow`.
pub fn spec(
    (snapshot, buffer_bytes): (bool, usize),
    (lo, hi, prefix): &FollowedKeys<'_>,
    query_json: &[u8],
) -> PyResult<FollowSpec> {
    Ok(FollowSpec {
        snapshot,
        keys: span(lo.as_ref(), hi.as_ref(), prefix.as_ref())?,
        condition: FindSpec::decode(query_json).map_err(to_py_err)?.condition,
        buffer_bytes,
    })
}

/// Converts positions from Python.
pub fn min_positions(at_least: Positions) -> Vec<(TopicPartition, Offset)> {
    let positions = at_least.into_iter();
    let positions = positions
        .map(|(topic, partition, offset)| (TopicPartition::new(topic, partition), Offset(offset)));
    positions.collect()
}

/// A socket pair whose outer end becomes readable on a wake.
#[derive(Debug)]
struct WakeSocket {
    read_end: UnixStream,
    write_end: UnixStream,
}

impl WakeSocket {
    fn new() -> Result<Arc<Self>> {
        let failed = |e| Error::internal("there is no descriptor to wait with").caused_by(e);
        let (read_end, write_end) = UnixStream::pair().map_err(failed)?;
        read_end.set_nonblocking(true).map_err(failed)?;
        write_end.set_nonblocking(true).map_err(failed)?;
        Ok(Arc::new(Self {
            read_end,
            write_end,
        }))
    }

    /// Discards earlier wakes.
    fn clear(&self) {
        let mut bytes = [0; 64];
        loop {
            match (&self.read_end).read(&mut bytes) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }
}

impl Wake for WakeSocket {
    fn wake(self: Arc<Self>) {
        // If the buffer is full, the descriptor is readable already.
        let _full = (&self.write_end).write(&[1]);
    }
}

/// Follows the changes of a store.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct StateChanges {
    follower: Follower,
    wake_socket: OnceLock<Arc<WakeSocket>>,
}

impl StateChanges {
    pub const fn new(follower: Follower) -> Self {
        Self {
            follower,
            wake_socket: OnceLock::new(),
        }
    }

    fn wake_socket(&self) -> PyResult<&Arc<WakeSocket>> {
        if self.wake_socket.get().is_none() {
            let _other = self.wake_socket.set(WakeSocket::new().map_err(to_py_err)?);
        }
        Ok(self.wake_socket.get().expect("it was set above"))
    }
}

#[pymethods]
impl StateChanges {
    /// The next batch; `None` if there is none now, or no more.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<PyBatch<'py>>> {
        let batch = py
            .detach(|| self.follower.next(BATCH_LIMIT))
            .map_err(to_py_err)?;
        let made = batch.map(|batch| to_py_batch(py, &batch)).transpose();
        // A batch that can't be converted ends the follower, so that its reader doesn't miss changes
        // silently.
        made.inspect_err(|_| py.detach(|| self.follower.close()))
    }

    /// Whether the follower has ended, once `next` returns `None`.
    fn is_over(&self, py: Python<'_>) -> bool {
        py.detach(|| self.follower.is_over())
    }

    /// Waits until `next` may return a batch, at most this long.
    fn wait(&self, py: Python<'_>, seconds: f64) {
        let at_most = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO);
        py.detach(|| self.follower.wait(at_most));
    }

    /// The file descriptor to watch.
    fn fileno(&self) -> PyResult<i32> {
        Ok(self.wake_socket()?.read_end.as_raw_fd())
    }

    /// Makes the descriptor readable once `next` may return a batch. Returns false if it may already.
    fn wake_later(&self, py: Python<'_>) -> PyResult<bool> {
        let wake_socket = self.wake_socket()?;
        wake_socket.clear();
        let waker = Waker::from(Arc::clone(wake_socket));
        Ok(py.detach(|| self.follower.wake(&waker)))
    }

    /// Ends the follower. Calling it again has no effect.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.follower.close());
    }
}

fn to_py_batch<'py>(py: Python<'py>, batch: &ChangeBatch) -> PyResult<PyBatch<'py>> {
    let positions = batch.cut.positions.iter();
    let positions = positions.map(|(of, offset)| (of.topic.to_string(), of.partition.0, offset.0));
    let rows = batch.rows.iter().map(|changed| to_py_row(py, changed));
    Ok((
        batch.cut.epoch.0,
        positions.collect(),
        batch.is_snapshot,
        batch.is_complete,
        rows.collect::<PyResult<_>>()?,
    ))
}

fn to_py_row<'py>(py: Python<'py>, changed: &ChangedRow) -> PyResult<FoundWindow<'py>> {
    let key = match changed.times {
        Some((start, end)) => to_py(py, &Datum::windowed(changed.key.clone(), start, end))?,
        None => to_py(py, &changed.key)?,
    };
    Ok(match &changed.value {
        Some(stored) => (key, to_py(py, &stored.value)?, stored.timestamp.0),
        None => (key, py.None().into_bound(py), 0),
    })
}
