//! Reads what a request asks for, and writes it as JSON.

use super::formats::{StoreFormats, write};
use super::params::StoreParams;
use crate::admin::problem::Problem;
use crate::query::{KeySpan, StoreReader, TimedSpan};
use axum::http::StatusCode;
use serde_json::{Value, json};
use std::sync::Arc;
use stoatflow_core::{Bytes, Datum, Error, ErrorKind, Result};
use stoatflow_plan::StoreKind;
use stoatflow_plan::expression::Expression;
use stoatflow_plan::find::{FindSpec, text};
use stoatflow_state::{Stored, VersionedRecord};

/// A page ends once it has this many bytes.
const PAGE_BYTES: usize = 4 << 20;
/// Entries are read in batches of this size, so that large ones don't pile up in memory.
const BATCH_ROWS: usize = 64;
/// A page of search results ends after this many rows were read.
const MAX_ROWS_READ: u64 = 100_000;
/// Maximum number of rows per page if they are sorted in memory.
const MAX_SORTED_ROWS: usize = 1_000;
const LAST: i64 = i64::MAX;

/// The entries that a cursor reads.
#[derive(Clone, Debug)]
pub(super) enum CursorScan {
    Keys { span: KeySpan, reverse: bool },
    Timed(TimedSpan),
    Found(Arc<FindSpec>),
}

/// The result, as members of a JSON object.
#[derive(Debug)]
pub(super) enum Rows {
    /// The key has no value.
    Nothing,
    /// Members of the entry.
    One(Vec<u8>),
    /// Elements of a JSON array.
    Versions(Vec<u8>),
    /// Elements of a JSON array, and where the next page begins.
    Page {
        text: Vec<u8>,
        scan: CursorScan,
        last: Option<Bytes>,
        /// How the rows were found, if this is a search.
        plan: Option<Box<Value>>,
    },
}

/// See the module.
pub(super) struct Reading<'a> {
    pub reader: &'a StoreReader,
    pub formats: &'a StoreFormats,
    pub params: &'a StoreParams,
}

impl Reading<'_> {
    /// Reads several keys of a store.
    pub(super) fn store(&self) -> Result<Rows, Problem> {
        let params = self.params;
        let scan = match self.reader.kind() {
            StoreKind::Versioned { .. } => {
                return Err(Problem::bad(
                    "a versioned store is read by key",
                    "ask for /stores/<name>/<key>, with as_of= or from_time= and to_time=",
                ));
            }
            StoreKind::Window { .. } | StoreKind::Session { .. } => CursorScan::Timed(TimedSpan {
                keys: ends(params, self.formats)?,
                times: (
                    params.from_time.unwrap_or(0),
                    params.to_time.unwrap_or(LAST),
                ),
                reverse: params.reverse,
            }),
            _ if params.condition.is_some() || params.order_by.is_some() => {
                CursorScan::Found(Arc::new(self.query()?))
            }
            _ => CursorScan::Keys {
                span: span(params, self.formats)?,
                reverse: params.reverse,
            },
        };
        self.scan(scan, None)
    }

    /// Reads one key of a store.
    pub(super) fn key(&self, given: &[u8]) -> Result<Rows, Problem> {
        let params = self.params;
        let key = self.formats.key.key(given, params.key_format)?;
        let (from, to) = (
            params.from_time.unwrap_or(0),
            params.to_time.unwrap_or(LAST),
        );
        let both = (Some(key.clone()), Some(key.clone()));
        let timed = |times| {
            let span = TimedSpan {
                keys: both,
                times,
                reverse: params.reverse,
            };
            self.scan(CursorScan::Timed(span), None)
        };
        match self.reader.kind() {
            StoreKind::Window { size_ms, .. } => match params.time {
                Some(start) => {
                    let found = self.reader.window(&key, start).map_err(problem)?;
                    let times = Some((start, start.saturating_add(size_ms)));
                    self.one(&key, times, found)
                }
                None => timed((from, to)),
            },
            StoreKind::Session { .. } => match params.time {
                Some(time) => timed((time, time)),
                None => timed((from, to)),
            },
            StoreKind::Versioned { .. } => self.versions(&key),
            _ => {
                let found = self.reader.get(&key).map_err(problem)?;
                self.one(&key, None, found)
            }
        }
    }

    /// Reads the page after `last`.
    pub(super) fn scan(&self, scan: CursorScan, last: Option<&Bytes>) -> Result<Rows, Problem> {
        let (mut text, mut plan) = (Vec::new(), None);
        let last = match &scan {
            CursorScan::Keys { span, reverse } => self.keys(span, *reverse, last, &mut text),
            CursorScan::Timed(span) => self.timed(span, last, &mut text),
            CursorScan::Found(query) => {
                // Errors in a query are reported before any row is read.
                let sorted = self.reader.explain(query).map_err(refused)?.sorted;
                let found = self.found(query, sorted, last, &mut text);
                found.map(|(last, explained)| {
                    plan = Some(Box::new(explained));
                    last
                })
            }
        };
        Ok(Rows::Page {
            last: last.map_err(problem)?,
            text,
            scan,
            plan,
        })
    }

    /// The search that the request asks for.
    fn query(&self) -> Result<FindSpec, Problem> {
        let (params, values) = (self.params, self.formats.value.as_named());
        let condition = params.condition.as_ref();
        let order_by = params.order_by.as_ref();
        let query = FindSpec {
            condition: condition
                .map(|text| text::condition(text, values))
                .transpose()
                .map_err(refused)?,
            order_by: order_by
                .map(|text| text::order(text, values))
                .transpose()
                .map_err(refused)?
                .unwrap_or_default(),
            limit: Some(params.limit),
            allow_scan: params.allow_scan,
            most_read: Some(MAX_ROWS_READ),
            ..FindSpec::default()
        };
        query.check().map_err(refused)?;
        let orders = query.order_by.iter().map(|by| &by.expr);
        if self.formats.key.needs_user_runtime()
            && query.condition.iter().chain(orders).any(reads_key)
        {
            return Err(Problem::bad(
                "the keys are written by a serde in Python, so they are bytes without an order",
                "search for what is in the values, or ask for one key with key_format=base64",
            ));
        }
        Ok(query)
    }

    fn found(
        &self,
        query: &FindSpec,
        sorted: bool,
        last: Option<&Bytes>,
        text: &mut Vec<u8>,
    ) -> Result<(Option<Bytes>, Value)> {
        let (mut last, mut count, mut read, mut unreadable) = (last.cloned(), 0, 0, 0);
        let most = if sorted { MAX_SORTED_ROWS } else { BATCH_ROWS };
        loop {
            let query = FindSpec {
                limit: Some(most.min(self.params.limit - count)),
                ..query.clone()
            };
            let page = self.reader.find(&query, last.as_deref())?;
            count += page.rows.len();
            read += page.explained.rows_read;
            unreadable += page.explained.unreadable;
            for row in &page.rows {
                element(text, |out| entry(&row.key, None, &row.value, out))?;
            }
            last = page.cursor.map(Bytes::from);
            let is_full = sorted
                || count >= self.params.limit
                || text.len() >= PAGE_BYTES
                || read >= MAX_ROWS_READ;
            if last.is_none() || is_full {
                let plan = json!({
                    "way": page.explained.way,
                    "index": page.explained.index,
                    "sorted": sorted,
                    "rows_read": read,
                    "unreadable": unreadable,
                });
                return Ok((last, plan));
            }
        }
    }

    fn keys(
        &self,
        span: &KeySpan,
        reverse: bool,
        last: Option<&Bytes>,
        text: &mut Vec<u8>,
    ) -> Result<Option<Bytes>> {
        let (mut last, mut count) = (last.cloned(), 0);
        while count < self.params.limit && text.len() < PAGE_BYTES {
            let rows = BATCH_ROWS.min(self.params.limit - count);
            let page = self.reader.page(span, reverse, last.as_ref(), rows)?;
            count += page.entries.len();
            for (key, stored) in &page.entries {
                element(text, |out| entry(key, None, stored, out))?;
            }
            last = page.last;
            if last.is_none() {
                return Ok(None);
            }
        }
        // The last page must have no cursor, so check whether anything follows.
        let more = self.reader.page(span, reverse, last.as_ref(), 1)?;
        Ok(last.filter(|_| !more.entries.is_empty()))
    }

    fn timed(
        &self,
        span: &TimedSpan,
        last: Option<&Bytes>,
        text: &mut Vec<u8>,
    ) -> Result<Option<Bytes>> {
        let most = (self.params.limit, PAGE_BYTES);
        let page = self.reader.timed_page(span, last, most)?;
        for found in &page.entries {
            let times = Some((found.start, found.end));
            element(text, |out| entry(&found.key, times, &found.value, out))?;
        }
        Ok(page.last)
    }

    fn one(
        &self,
        key: &Datum,
        times: Option<(i64, i64)>,
        found: Option<Stored>,
    ) -> Result<Rows, Problem> {
        let Some(stored) = found else {
            return Ok(Rows::Nothing);
        };
        let mut text = Vec::new();
        entry(key, times, &stored, &mut text).map_err(problem)?;
        Ok(Rows::One(text))
    }

    fn versions(&self, key: &Datum) -> Result<Rows, Problem> {
        let params = self.params;
        let mut text = Vec::new();
        if params.from_time.is_none() && params.to_time.is_none() {
            let found = self.reader.version(key, params.as_of).map_err(problem)?;
            let Some(record) = found else {
                return Ok(Rows::Nothing);
            };
            text.extend_from_slice(b"\"key\":");
            write(key, &mut text).map_err(problem)?;
            text.push(b',');
            version(&record, &mut text).map_err(problem)?;
            return Ok(Rows::One(text));
        }
        if params.as_of.is_some() {
            return Err(Problem::bad(
                "as_of stands beside from_time or to_time",
                "ask for one version, or for those of a time",
            ));
        }
        let (from, to) = (
            params.from_time.unwrap_or(0),
            params.to_time.unwrap_or(LAST),
        );
        let found = self.reader.history(key, from, to).map_err(problem)?;
        if found.len() > params.limit {
            return Err(Problem::bad(
                format!(
                    "the key has {} versions between these times, more than limit={}",
                    found.len(),
                    params.limit
                ),
                "ask for a shorter time, or raise limit",
            ));
        }
        for record in &found {
            element(&mut text, |out| version(record, out)).map_err(problem)?;
        }
        Ok(Rows::Versions(text))
    }
}

/// The keys that the request asks for.
pub(super) fn span(params: &StoreParams, formats: &StoreFormats) -> Result<KeySpan, Problem> {
    if let Some(prefix) = &params.prefix {
        let prefix = formats.key.prefix(prefix, params.key_format)?;
        return Ok(KeySpan::Prefix(prefix));
    }
    let (from, to) = ends(params, formats)?;
    Ok(KeySpan::Between(from, to))
}

fn ends(
    params: &StoreParams,
    formats: &StoreFormats,
) -> Result<(Option<Datum>, Option<Datum>), Problem> {
    let key = |given: &Option<Vec<u8>>| {
        let given = given.as_ref();
        given
            .map(|given| formats.key.key(given, params.key_format))
            .transpose()
    };
    Ok((key(&params.from)?, key(&params.to)?))
}

/// Appends an object to a JSON array.
pub(super) fn element(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    out.extend_from_slice(if out.is_empty() { b"{" } else { b",{" });
    write(out)?;
    out.push(b'}');
    Ok(())
}

/// Writes the members of an entry.
fn entry(key: &Datum, times: Option<(i64, i64)>, stored: &Stored, out: &mut Vec<u8>) -> Result<()> {
    row(key, times, Some(stored), out)
}

/// Writes the members of a row, which may be deleted.
pub(super) fn row(
    key: &Datum,
    times: Option<(i64, i64)>,
    stored: Option<&Stored>,
    out: &mut Vec<u8>,
) -> Result<()> {
    out.extend_from_slice(b"\"key\":");
    write(key, out)?;
    if let Some((start, end)) = times {
        out.extend_from_slice(format!(",\"start\":{start},\"end\":{end}").as_bytes());
    }
    out.extend_from_slice(b",\"value\":");
    let Some(stored) = stored else {
        out.extend_from_slice(b"null");
        return Ok(());
    };
    write(&stored.value, out)?;
    out.extend_from_slice(format!(",\"timestamp\":{}", stored.timestamp.0).as_bytes());
    Ok(())
}

/// Writes the members of a version.
fn version(record: &VersionedRecord, out: &mut Vec<u8>) -> Result<()> {
    out.extend_from_slice(b"\"value\":");
    write(&record.value, out)?;
    let until = record
        .valid_to
        .map_or_else(|| "null".to_owned(), |to| to.to_string());
    out.extend_from_slice(
        format!(",\"timestamp\":{},\"valid_to\":{until}", record.timestamp).as_bytes(),
    );
    Ok(())
}

fn reads_key(expression: &Expression) -> bool {
    *expression == Expression::Key || expression.args().iter().any(reads_key)
}

/// The answer for a query that can't be run.
fn refused(error: Error) -> Problem {
    if error.kind() != ErrorKind::Config {
        return problem(error);
    }
    let hint = error.next_step();
    // As this port spells it.
    let hint = hint.replace("allow_scan=True", "allow_scan=true");
    Problem::bad(error.message(), hint)
}

/// The answer for a failed read.
pub(super) fn problem(error: Error) -> Problem {
    match error.kind() {
        ErrorKind::Config => {
            Problem::of(StatusCode::SERVICE_UNAVAILABLE, "not_running", &error).retry_after(1)
        }
        ErrorKind::ChangesLost => Problem::of(StatusCode::GONE, "changes_lost", &error).with(
            "epoch",
            json!(error.coordinates().epoch.map(|epoch| epoch.0)),
        ),
        ErrorKind::Serde => Problem::of(StatusCode::INTERNAL_SERVER_ERROR, "undecodable", &error),
        _ => Problem::of(StatusCode::INTERNAL_SERVER_ERROR, "internal", &error),
    }
}
