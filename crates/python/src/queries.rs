//! Reads of committed state from Python: snapshots and the readers of their stores.
//!
//! Takes Python keys and timestamps, returns Python values. Reads with the interpreter detached, so any
//! thread may query while the application and other readers go on.

pub mod changes;
mod find;

use crate::convert::{key_from_py, to_py};
use crate::errors::to_py_err;
use crate::processor::headers_to_py;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Bytes, Datum, Error, Result};
use stoatflow_engine::query::{CommittedSnapshot, KeySpan, StoreReader};
use stoatflow_plan::StoreKind;
use stoatflow_plan::find::FindSpec;
use stoatflow_state::{Stored, VersionedRecord};

/// Number of entries per page.
const PAGE_ROWS: usize = 1000;

/// A value and its timestamp.
type Found<'py> = (Bound<'py, PyAny>, i64);
/// A value, the time it is valid from, and the time it is valid to.
type FoundVersion<'py> = (Bound<'py, PyAny>, i64, Option<i64>);
/// A windowed key, the value, its timestamp.
type FoundWindow<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, i64);

/// A snapshot of one committed epoch, of one store or of all.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct StateSnapshot {
    engine: stoatflow_engine::Engine,
    of: CommittedSnapshot,
    closed: Arc<AtomicBool>,
}

impl StateSnapshot {
    pub fn new(engine: stoatflow_engine::Engine, of: CommittedSnapshot) -> Self {
        Self {
            engine,
            of,
            closed: Arc::default(),
        }
    }
}

#[pymethods]
impl StateSnapshot {
    /// The number of the epoch in this run; 0 is the state that earlier runs left.
    #[getter]
    fn epoch(&self) -> u64 {
        self.of.cut().epoch.0
    }

    /// Topic, partition and the next offset to read.
    fn positions(&self) -> Vec<(String, i32, i64)> {
        let positions = self.of.cut().positions.iter();
        let position =
            positions.map(|(of, offset)| (of.topic.to_string(), of.partition.0, offset.0));
        position.collect()
    }

    /// A reader for a store of the snapshot.
    #[pyo3(signature = (store, headers=false))]
    fn reader(&self, py: Python<'_>, store: &str, headers: bool) -> PyResult<StateReader> {
        check(&self.closed)?;
        let reader = py.detach(|| self.engine.reader(&self.of, store));
        let mut reader = reader.map_err(to_py_err)?;
        if headers {
            reader = reader.with_headers();
            if !reader.has_headers() {
                return Err(to_py_err(no_headers(store)));
            }
        }
        Ok(StateReader {
            reader: Arc::new(reader),
            closed: Arc::clone(&self.closed),
        })
    }

    /// Releases the snapshot. Calling it again has no effect.
    fn close(&self, py: Python<'_>) {
        self.closed.store(true, Relaxed);
        py.detach(|| self.of.close());
    }
}

fn no_headers(store: &str) -> Error {
    Error::config(format!("the store '{store}' keeps no headers")).hint(
        "leave headers= out, or declare the store with headers=True, as a store of a processor",
    )
}

fn check(closed: &AtomicBool) -> PyResult<()> {
    if !closed.load(Relaxed) {
        return Ok(());
    }
    Err(to_py_err(
        Error::config("this snapshot is closed")
            .hint("read within its `with`, or take another one"),
    ))
}

/// The Python name of a kind of store that can be read.
pub const fn kind_name(kind: StoreKind) -> &'static str {
    match kind {
        StoreKind::Window { .. } => "window",
        StoreKind::Session { .. } => "session",
        StoreKind::Versioned { .. } => "versioned",
        _ => "key_value",
    }
}

/// Reads a store of a snapshot.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct StateReader {
    reader: Arc<StoreReader>,
    closed: Arc<AtomicBool>,
}

impl StateReader {
    fn read<T: Send>(
        &self,
        py: Python<'_>,
        read: impl FnOnce(&StoreReader) -> Result<T> + Send,
    ) -> PyResult<T> {
        check(&self.closed)?;
        py.detach(|| read(&self.reader)).map_err(to_py_err)
    }
}

/// The headers that a reader with headers returns beside a value.
#[pyfunction]
pub fn headers_from_bytes<'py>(py: Python<'py>, data: Vec<u8>) -> PyResult<Bound<'py, PyAny>> {
    let headers = stoatflow_core::headers_from_bytes(data.into()).map_err(to_py_err)?;
    headers_to_py(py, headers.as_deref().unwrap_or_default())
}

fn key(object: &Bound<'_, PyAny>) -> PyResult<Datum> {
    key_from_py(object).map_err(to_py_err)
}

fn keys(
    lo: Option<&Bound<'_, PyAny>>,
    hi: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Option<Datum>, Option<Datum>)> {
    Ok((lo.map(key).transpose()?, hi.map(key).transpose()?))
}

fn span(
    lo: Option<&Bound<'_, PyAny>>,
    hi: Option<&Bound<'_, PyAny>>,
    prefix: Option<&Bound<'_, PyAny>>,
) -> PyResult<KeySpan> {
    Ok(match prefix {
        Some(prefix) => KeySpan::Prefix(key(prefix)?),
        None => {
            let (lo, hi) = keys(lo, hi)?;
            KeySpan::Between(lo, hi)
        }
    })
}

fn found<'py>(py: Python<'py>, stored: &Stored) -> PyResult<Found<'py>> {
    Ok((to_py(py, &stored.value)?, stored.timestamp.0))
}

fn version<'py>(py: Python<'py>, record: &VersionedRecord) -> PyResult<FoundVersion<'py>> {
    Ok((to_py(py, &record.value)?, record.timestamp, record.valid_to))
}

fn window<'py>(
    py: Python<'py>,
    (of, start, end): (Datum, i64, i64),
    stored: &Stored,
) -> PyResult<FoundWindow<'py>> {
    let windowed = to_py(py, &Datum::windowed(of, start, end))?;
    let (value, time) = found(py, stored)?;
    Ok((windowed, value, time))
}

#[pymethods]
impl StateReader {
    /// The kind of the store.
    #[getter]
    fn kind(&self) -> &'static str {
        kind_name(self.reader.kind())
    }

    /// Value and timestamp of a key.
    fn get<'py>(&self, py: Python<'py>, of: &Bound<'py, PyAny>) -> PyResult<Option<Found<'py>>> {
        let of = key(of)?;
        let got = self.read(py, |reader| reader.get(&of))?;
        got.map(|stored| found(py, &stored)).transpose()
    }

    /// Value and timestamp of each of these keys.
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        of: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Vec<Option<Found<'py>>>> {
        let of: Vec<Datum> = of.iter().map(key).collect::<PyResult<_>>()?;
        let got = self.read(py, |reader| {
            let values = of.iter().map(|key| reader.get(key));
            values.collect::<Result<Vec<_>>>()
        })?;
        let shown = got.into_iter();
        let shown = shown.map(|stored| stored.map(|stored| found(py, &stored)).transpose());
        shown.collect()
    }

    /// Entries in the order of the keys' bytes: key, value, timestamp.
    #[pyo3(signature = (lo=None, hi=None, prefix=None, reverse=false))]
    fn rows(
        &self,
        lo: Option<&Bound<'_, PyAny>>,
        hi: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<StateRows> {
        check(&self.closed)?;
        Ok(StateRows {
            reader: Arc::clone(&self.reader),
            closed: Arc::clone(&self.closed),
            span: span(lo, hi, prefix)?,
            reverse,
            cursor: Mutex::new(PageCursor::default()),
        })
    }

    /// The number of keys in a range.
    #[pyo3(signature = (lo=None, hi=None, prefix=None))]
    fn count(
        &self,
        py: Python<'_>,
        lo: Option<&Bound<'_, PyAny>>,
        hi: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let span = span(lo, hi, prefix)?;
        self.read(py, |reader| reader.count(&span))
    }

    /// A page of rows that meet a condition, the cursor of the next page, and how the rows were found.
    #[pyo3(signature = (query_json, cursor=None))]
    fn find<'py>(
        &self,
        py: Python<'py>,
        query_json: &[u8],
        cursor: Option<&[u8]>,
    ) -> PyResult<find::PyPage<'py>> {
        let spec = FindSpec::decode(query_json).map_err(to_py_err)?;
        let page = self.read(py, |reader| reader.find(&spec, cursor))?;
        find::to_py_page(py, &page)
    }

    /// How the rows of a query would be found.
    fn explain<'py>(&self, py: Python<'py>, query_json: &[u8]) -> PyResult<find::Explanation> {
        let spec = FindSpec::decode(query_json).map_err(to_py_err)?;
        Ok(find::explanation(
            &self.read(py, |reader| reader.explain(&spec))?,
        ))
    }

    /// Value and timestamp of one window.
    fn window<'py>(
        &self,
        py: Python<'py>,
        of: &Bound<'py, PyAny>,
        start: i64,
    ) -> PyResult<Option<Found<'py>>> {
        let of = key(of)?;
        let got = self.read(py, |reader| reader.window(&of, start))?;
        got.map(|stored| found(py, &stored)).transpose()
    }

    /// Windows of a range of keys that start between two times.
    fn windows<'py>(
        &self,
        py: Python<'py>,
        lo: Option<&Bound<'py, PyAny>>,
        hi: Option<&Bound<'py, PyAny>>,
        frm: i64,
        to: i64,
        reverse: bool,
    ) -> PyResult<Vec<FoundWindow<'py>>> {
        let StoreKind::Window { size_ms, .. } = self.reader.kind() else {
            return Ok(Vec::new());
        };
        let (lo, hi) = keys(lo, hi)?;
        let got = self.read(py, |reader| {
            reader.windows_of((lo.as_ref(), hi.as_ref()), (frm, to), reverse)
        })?;
        let shown = got.into_iter().map(|(key, start, stored)| {
            window(py, (key, start, start.saturating_add(size_ms)), &stored)
        });
        shown.collect()
    }

    /// Sessions of a range of keys that end at `earliest_end` or later and start at `latest_start` or
    /// earlier.
    fn sessions<'py>(
        &self,
        py: Python<'py>,
        lo: Option<&Bound<'py, PyAny>>,
        hi: Option<&Bound<'py, PyAny>>,
        earliest_end: i64,
        latest_start: i64,
        reverse: bool,
    ) -> PyResult<Vec<FoundWindow<'py>>> {
        let (lo, hi) = keys(lo, hi)?;
        let got = self.read(py, |reader| {
            let times = (earliest_end, latest_start);
            reader.sessions_of((lo.as_ref(), hi.as_ref()), times, reverse)
        })?;
        let shown = got.into_iter();
        let shown = shown.map(|(key, start, end, stored)| window(py, (key, start, end), &stored));
        shown.collect()
    }

    /// The version of a key that is valid now or was valid at `as_of`.
    #[pyo3(signature = (of, as_of=None))]
    fn version<'py>(
        &self,
        py: Python<'py>,
        of: &Bound<'py, PyAny>,
        as_of: Option<i64>,
    ) -> PyResult<Option<FoundVersion<'py>>> {
        let of = key(of)?;
        let got = self.read(py, |reader| reader.version(&of, as_of))?;
        got.map(|record| version(py, &record)).transpose()
    }

    /// The versions of a key that were valid at some time between `frm` and `to`, ascending.
    fn history<'py>(
        &self,
        py: Python<'py>,
        of: &Bound<'py, PyAny>,
        frm: i64,
        to: i64,
    ) -> PyResult<Vec<FoundVersion<'py>>> {
        let of = key(of)?;
        let got = self.read(py, |reader| reader.history(&of, frm, to))?;
        got.iter().map(|record| version(py, record)).collect()
    }
}

/// The entries of the current page, and the position of the next one.
#[derive(Default)]
struct PageCursor {
    rows: VecDeque<(Datum, Stored)>,
    last: Option<Bytes>,
    is_last_page: bool,
    closed: bool,
}

/// Entries of a store, read page by page.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct StateRows {
    reader: Arc<StoreReader>,
    closed: Arc<AtomicBool>,
    span: KeySpan,
    reverse: bool,
    cursor: Mutex<PageCursor>,
}

impl StateRows {
    fn next(&self) -> Result<Option<(Datum, Stored)>> {
        let mut cursor = self.cursor.lock();
        if cursor.closed {
            return Err(Error::config("these entries are closed")
                .hint("read them within their `with`, or ask again"));
        }
        if cursor.rows.is_empty() && !cursor.is_last_page {
            let page =
                self.reader
                    .page(&self.span, self.reverse, cursor.last.as_ref(), PAGE_ROWS)?;
            cursor.is_last_page = page.last.is_none();
            cursor.last = page.last;
            cursor.rows = page.entries.into();
        }
        Ok(cursor.rows.pop_front())
    }
}

#[pymethods]
impl StateRows {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<FoundWindow<'py>>> {
        check(&self.closed)?;
        let next = py.detach(|| self.next()).map_err(to_py_err)?;
        let shown = next.map(|(key, stored)| {
            let (value, time) = found(py, &stored)?;
            Ok((to_py(py, &key)?, value, time))
        });
        shown.transpose()
    }

    /// Closes the iterator and drops the remaining entries.
    fn close(&self, py: Python<'_>) {
        let closed = PageCursor {
            closed: true,
            ..PageCursor::default()
        };
        // Detached, because another thread may hold this lock while it decodes with a serde in Python.
        let cursor = py.detach(|| std::mem::replace(&mut *self.cursor.lock(), closed));
        drop(cursor);
    }
}
