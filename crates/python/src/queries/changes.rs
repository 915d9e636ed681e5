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
const BATCH: Page = Page {
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
type BatchParts<'py> = (u64, Positions, bool, bool, Vec<FoundWindow<'py>>);

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
pub fn wanted(at_least: Positions) -> Vec<(TopicPartition, Offset)> {
    let wanted = at_least.into_iter();
    let wanted = wanted
        .map(|(topic, partition, offset)| (TopicPartition::new(topic, partition), Offset(offset)));
    wanted.collect()
}

/// A socket pair whose outer end becomes readable on a wake.
#[derive(Debug)]
struct Bell {
    outside: UnixStream,
    inside: UnixStream,
}

impl Bell {
    fn new() -> Result<Arc<Self>> {
        let failed = |e| Error::internal("there is no descriptor to wait with").caused_by(e);
        let (outside, inside) = UnixStream::pair().map_err(failed)?;
        outside.set_nonblocking(true).map_err(failed)?;
        inside.set_nonblocking(true).map_err(failed)?;
        Ok(Arc::new(Self { outside, inside }))
    }

    /// Discards earlier wakes.
    fn quieten(&self) {
        let mut bytes = [0; 64];
        loop {
            match (&self.outside).read(&mut bytes) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // If the buffer is full, the descriptor is readable already.
        let _full = (&self.inside).write(&[1]);
    }
}

/// Follows the changes of a store.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct StateChanges {
    follower: Follower,
    bell: OnceLock<Arc<Bell>>,
}

impl StateChanges {
    pub const fn new(follower: Follower) -> Self {
        Self {
            follower,
            bell: OnceLock::new(),
        }
    }

    fn bell(&self) -> PyResult<&Arc<Bell>> {
        if self.bell.get().is_none() {
            let _other = self.bell.set(Bell::new().map_err(to_py_err)?);
        }
        Ok(self.bell.get().expect("it was set above"))
    }
}

#[pymethods]
impl StateChanges {
    /// The next batch; `None` if there is none now, or no more.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<BatchParts<'py>>> {
        let batch = py.detach(|| self.follower.next(BATCH)).map_err(to_py_err)?;
        let shown = batch.map(|batch| parts(py, &batch)).transpose();
        // A batch that can't be converted ends the follower, so that its reader doesn't miss changes
        // silently.
        shown.inspect_err(|_| py.detach(|| self.follower.close()))
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
        Ok(self.bell()?.outside.as_raw_fd())
    }

    /// Makes the descriptor readable once `next` may return a batch. Returns false if it may already.
    fn wake_later(&self, py: Python<'_>) -> PyResult<bool> {
        let bell = self.bell()?;
        bell.quieten();
        let waker = Waker::from(Arc::clone(bell));
        Ok(py.detach(|| self.follower.wake(&waker)))
    }

    /// Ends the follower. Calling it again has no effect.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.follower.close());
    }
}

fn parts<'py>(py: Python<'py>, batch: &ChangeBatch) -> PyResult<BatchParts<'py>> {
    let positions = batch.cut.positions.iter();
    let positions = positions.map(|(of, offset)| (of.topic.to_string(), of.partition.0, offset.0));
    let rows = batch.rows.iter().map(|changed| row(py, changed));
    Ok((
        batch.cut.epoch.0,
        positions.collect(),
        batch.is_snapshot,
        batch.is_complete,
        rows.collect::<PyResult<_>>()?,
    ))
}

fn row<'py>(py: Python<'py>, changed: &ChangedRow) -> PyResult<FoundWindow<'py>> {
    let key = match changed.times {
        Some((start, end)) => to_py(py, &Datum::windowed(changed.key.clone(), start, end))?,
        None => to_py(py, &changed.key)?,
    };
    Ok(match &changed.value {
        Some(stored) => (key, to_py(py, &stored.value)?, stored.timestamp.0),
        None => (key, py.None().into_bound(py), 0),
    })
}
