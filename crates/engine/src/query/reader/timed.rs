//! Windows and sessions of a store page by page, without reading those of other pages.
//!
//! Rows are sorted by segment (a slice of time), then by key, then by time. A page goes from segment to
//! segment, and reads of each only the range that may contain the wanted keys. It ends at a row.

use super::{NOW, StoreReader};
use crate::startup::store_spec::layout;
use stoatflow_core::{Bytes, Datum, Error, Result};
use stoatflow_plan::StoreKind;
use stoatflow_state::{
    KeyRange, Layout, Stored, after, after_prefix, segment, split_session, split_window,
};

/// Rows read at a time.
const ROWS: usize = 256;
/// A page ends after this many rows were read, however few of them were wanted.
const MAX_ROWS_READ: usize = 65_536;

/// A range of windows or sessions.
#[derive(Clone, Debug)]
pub struct TimedSpan {
    /// From one key to another, both inclusive; `None`: no bound.
    pub keys: (Option<Datum>, Option<Datum>),
    /// Windows that start between both times, inclusive; sessions that end at or after the first and
    /// start at or before the second.
    pub times: (i64, i64),
    /// True for descending order.
    pub reverse: bool,
}

/// A window or a session.
#[derive(Clone, Debug)]
pub struct TimedEntry {
    /// The key.
    pub key: Datum,
    /// Its start.
    pub start: i64,
    /// Its end.
    pub end: i64,
    /// The value.
    pub value: Stored,
}

/// A page of windows or sessions, and where the next one begins.
#[derive(Clone, Debug, Default)]
pub struct TimedPage {
    /// In the order of the rows.
    pub entries: Vec<TimedEntry>,
    /// The last row, if there may be more.
    pub last: Option<Bytes>,
}

/// The span, with its keys as bytes.
struct EncodedSpan<'a> {
    lo: Option<Bytes>,
    hi: Option<Bytes>,
    span: &'a TimedSpan,
    segment_ms: i64,
    is_session: bool,
}

impl EncodedSpan<'_> {
    /// The rows of a segment that may contain wanted ones.
    fn range(&self, number: u64) -> KeyRange {
        let prefix = number.to_be_bytes();
        let from = [prefix.as_slice(), self.lo.as_deref().unwrap_or_default()].concat();
        // A key is followed by a time, which may be greater than what follows it in a longer key with
        // the same beginning.
        let to = self.hi.as_deref().map_or_else(
            || after_prefix(&prefix),
            |key| {
                let last = |n: usize| {
                    [
                        prefix.as_slice(),
                        &key[..n],
                        i64::MAX.to_be_bytes().as_slice(),
                        &[0xff; 17],
                    ]
                    .concat()
                };
                (0..=key.len()).map(last).max().map(Bytes::from)
            },
        );
        KeyRange {
            from: Some(from.into()),
            to,
            reverse: self.span.reverse,
        }
    }

    /// Key, start and end of a row, if it is wanted.
    fn row(&self, row: &Bytes, size_ms: i64) -> Result<Option<(Bytes, i64, i64)>> {
        let (key, start, end, at) = if self.is_session {
            let parts = split_session(row).ok_or_else(short)?;
            (parts.key.len(), parts.start, parts.end, parts.end)
        } else {
            let parts = split_window(row).ok_or_else(short)?;
            let end = parts.start.saturating_add(size_ms);
            (parts.key.len(), parts.start, end, parts.start)
        };
        let key = row.slice(8..8 + key);
        let (from, to) = self.span.times;
        let is_wanted = self.lo.as_ref().is_none_or(|lo| key >= *lo)
            && self.hi.as_ref().is_none_or(|hi| key <= *hi)
            && at >= from
            && start <= to;
        Ok(is_wanted.then_some((key, start, end)))
    }

    /// The segments that may contain wanted rows.
    fn bounds(&self) -> KeyRange {
        let (from, to) = self.span.times;
        let first = segment(self.segment_ms, from);
        // A session that starts early may end in any later segment.
        let last = (!self.is_session && to < i64::MAX).then(|| segment(self.segment_ms, to));
        KeyRange {
            from: Some(Bytes::copy_from_slice(&first.to_be_bytes())),
            to: last.and_then(|last| after_prefix(&last.to_be_bytes())),
            reverse: self.span.reverse,
        }
    }
}

impl StoreReader {
    /// A page of windows or sessions after the row `last`: at most `rows` of them, fewer if they exceed
    /// `bytes`, or if too many rows had to be read. `last` of the page is `None` at the end.
    ///
    /// # Errors
    /// As `get`.
    pub fn timed_page(
        &self,
        span: &TimedSpan,
        last: Option<&Bytes>,
        (rows, bytes): (usize, usize),
    ) -> Result<TimedPage> {
        let (segment_ms, is_session) = match layout(self.spec.kind) {
            Layout::Window { segment_ms, .. } => (segment_ms, false),
            Layout::Session { segment_ms, .. } => (segment_ms, true),
            _ => return Ok(TimedPage::default()),
        };
        let (lo, hi) = self.ends((span.keys.0.as_ref(), span.keys.1.as_ref()))?;
        let encoded = EncodedSpan {
            lo,
            hi,
            span,
            segment_ms,
            is_session,
        };
        let mut rest = encoded.bounds();
        continue_behind(&mut rest, last);
        let mut page = TimedPage::default();
        let (mut read, mut size) = (0, 0);
        // The first remaining row determines the next segment.
        while !is_empty(&rest)
            && let Some((first, _)) = self.kept.scan(NOW, &rest, 1)?.pop()
        {
            let prefix = *first.first_chunk::<8>().ok_or_else(short)?;
            let mut range = within(encoded.range(u64::from_be_bytes(prefix)), &rest);
            while !is_empty(&range) {
                let found = self.kept.scan(NOW, &range, ROWS)?;
                let is_last = found.len() < ROWS;
                read += found.len();
                let mut at = None;
                for (row, stored) in found {
                    let entry = encoded.row(&row, self.window_size())?;
                    at = Some(row);
                    let Some((key, start, end)) = entry else {
                        continue;
                    };
                    let time = if is_session { end } else { start };
                    if time <= self.expired_until(&key) {
                        continue;
                    }
                    size += key.len() + stored.value.weight();
                    page.entries.push(TimedEntry {
                        key: self.datum(key)?,
                        start,
                        end,
                        value: self.owned_copy(stored)?,
                    });
                    if page.entries.len() >= rows || size >= bytes {
                        page.last = at;
                        return Ok(page);
                    }
                }
                if is_last {
                    break;
                }
                if read >= MAX_ROWS_READ {
                    page.last = at;
                    return Ok(page);
                }
                continue_behind(&mut range, at.as_ref());
            }
            if span.reverse {
                rest.to = Some(Bytes::copy_from_slice(&prefix));
            } else {
                rest.from = after_prefix(&prefix);
                if rest.from.is_none() {
                    break;
                }
            }
        }
        Ok(page)
    }

    const fn window_size(&self) -> i64 {
        match self.spec.kind {
            StoreKind::Window { size_ms, .. } => size_ms,
            _ => 0,
        }
    }
}

fn short() -> Error {
    Error::state_corrupt("a row of windows or sessions is too short")
}

/// Whether the range is empty.
fn is_empty(range: &KeyRange) -> bool {
    matches!((&range.from, &range.to), (Some(from), Some(to)) if from >= to)
}

/// Excludes a row and those before it.
fn continue_behind(range: &mut KeyRange, row: Option<&Bytes>) {
    match (row, range.reverse) {
        (Some(row), false) => range.from = Some(after(row)),
        (Some(row), true) => range.to = Some(row.clone()),
        (None, _) => {}
    }
}

/// The intersection of two ranges.
fn within(mut range: KeyRange, other: &KeyRange) -> KeyRange {
    if other.from > range.from {
        range.from.clone_from(&other.from);
    }
    range.to = match (range.to.take(), &other.to) {
        (Some(one), Some(two)) => Some(one.min(two.clone())),
        (one, two) => one.or_else(|| two.clone()),
    };
    range
}
