//! Finds rows of a store by their content.
//!
//! Takes a query and the end of the previous page, gives a page. [`stoatflow_plan::find::choose`]
//! decides what is read. The whole condition is tested on each row, so an index only reduces the number
//! of rows that are read; a covering index replaces them. Reads one snapshot: rows and indexes are of the
//! same commit.

mod cursor;
mod expressions;
mod sorted;
#[cfg(test)]
mod tests;

use super::reader::StoreReader;
use crate::index::state::{IndexState, STATE_KEY};
use cursor::{Cursor, query_number};
use expressions::Expressions;
use sorted::Sorted;
use std::collections::HashSet;
use stoatflow_core::{Bytes, Datum, Error, Record, Result, StoreId, Timestamp};
use stoatflow_operators::indexing::split_entry;
use stoatflow_plan::find::covering::covered;
use stoatflow_plan::find::{
    Access, AccessPath, AccessRange, FindSpec, IndexView, KeyOrder, choose,
};
use stoatflow_plan::{IndexSpec, StoreKind};
use stoatflow_state::{Backend, KeyRange, Stored, after};

/// Maximum number of entries read at a time.
const MOST: usize = 1_000;
const LEAST: usize = 32;

/// A row that was found.
#[derive(Clone, Debug)]
pub struct FoundRow {
    /// Its key.
    pub key: Datum,
    /// Its value.
    pub value: Stored,
    /// The selected expressions of the row.
    pub selected: Option<Vec<Datum>>,
}

/// How the rows of a query are found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explained {
    /// `keys`, `key_range`, `index` or `scan`.
    pub way: &'static str,
    /// The index used.
    pub index: Option<String>,
    /// Number of key ranges that are read.
    pub ranges: usize,
    /// True if rows are sorted in memory, because they aren't stored in the requested order.
    pub sorted: bool,
    /// True if the entries of the index contain all that the query reads.
    pub covering: bool,
    /// Rows read, or entries of a covering index.
    pub rows_read: u64,
    /// Rows left out because they couldn't be decoded or the condition couldn't be computed.
    pub unreadable: u64,
}

/// A page of rows.
#[derive(Clone, Debug, Default)]
pub struct FoundPage {
    /// The rows, in order.
    pub rows: Vec<FoundRow>,
    /// Where the next page begins, if there may be more.
    pub cursor: Option<Vec<u8>>,
    /// How they were found.
    pub explained: Explained,
}

impl StoreReader {
    /// How the rows of a query would be found.
    ///
    /// # Errors
    /// `Config` if the store has no rows to find, or if the query needs a full scan and doesn't allow
    /// it.
    pub fn explain(&self, spec: &FindSpec) -> Result<Explained> {
        Ok(self.explained(spec, &self.access(spec)?))
    }

    /// A page of rows, beginning where the cursor points.
    ///
    /// # Errors
    /// As [`Self::explain`], `Config` for a cursor of another query, and errors of the state.
    pub fn find(&self, spec: &FindSpec, cursor: Option<&[u8]>) -> Result<FoundPage> {
        let access = self.access(spec)?;
        let index = self.index_of(access.path);
        let query = query_number(spec, index.map_or("", |(_, index)| &index.name));
        let whole = access.in_order && !access.repeats;
        let cursor = cursor.map(|bytes| Cursor::read(bytes, self.name(), query, !whole));
        let from = cursor.transpose()?;
        let mut finder = Finder::new(self, spec, &access, index)?;
        let at = if whole {
            finder.in_order(from)?
        } else {
            finder.sorted(from)?
        };
        let mut explained = self.explained(spec, &access);
        (explained.rows_read, explained.unreadable) = (finder.rows_read, finder.unreadable);
        let rows = std::mem::take(&mut finder.found);
        Ok(FoundPage {
            rows: rows
                .into_iter()
                .map(|row| finder.shown(row))
                .collect::<Result<_>>()?,
            cursor: at.map(|at| Cursor::write(self.name(), query, !whole, &at)),
            explained,
        })
    }

    fn access(&self, spec: &FindSpec) -> Result<Access> {
        if !matches!(
            self.spec.kind,
            StoreKind::KeyValue | StoreKind::TimestampedKeyValue
        ) {
            return Err(self.named(
                Error::config("only key-value stores are searched by what is in their rows")
                    .hint("read windows, sessions and versions by key and time"),
            ));
        }
        if self.has_headers() {
            return Err(self.named(
                Error::config("rows are found by what is in them without their headers")
                    .hint("leave headers= out, and read the headers of a found key with get()"),
            ));
        }
        let states = self.indexes.iter().map(|(id, _, fingerprint)| {
            let row = self.rows.get(*id, STATE_KEY)?;
            let state = row.and_then(|row| IndexState::read(&row, *fingerprint));
            Ok(state.is_some_and(|state| state.is_readable()))
        });
        let states: Vec<bool> = states.collect::<Result<_>>()?;
        let views: Vec<IndexView<'_>> = self
            .indexes
            .iter()
            .zip(states)
            .map(|((_, spec, _), readable)| IndexView { spec, readable })
            .collect();
        choose(spec, KeyOrder::of(&self.spec.key), &views).map_err(|e| self.named(e))
    }

    /// If rows are found by an index: its store and its declaration.
    fn index_of(&self, path: AccessPath) -> Option<(StoreId, &IndexSpec)> {
        let AccessPath::Index(at) = path else {
            return None;
        };
        let (id, spec, _) = &self.indexes[at];
        Some((*id, spec))
    }

    fn explained(&self, query: &FindSpec, access: &Access) -> Explained {
        let index = self.index_of(access.path);
        Explained {
            way: match access.path {
                AccessPath::Keys => "keys",
                AccessPath::KeyRange => "key_range",
                AccessPath::Index(_) => "index",
                AccessPath::Scan => "scan",
            },
            index: index.map(|(_, index)| index.name.clone()),
            covering: index.is_some_and(|(_, index)| covered(query, index).is_some()),
            ranges: access.ranges.len(),
            sorted: !access.in_order,
            ..Explained::default()
        }
    }
}

/// A row that matches: as it is stored, or as a covering index keeps it.
struct Match {
    row: Record,
    from_index: bool,
}

/// Called with each match and its position; returns the position to stop at, if any.
type Take<'t, F> = dyn FnMut(&mut F, &Bytes, Match) -> Result<Option<Bytes>> + 't;

/// A run of a query.
struct Finder<'a> {
    reader: &'a StoreReader,
    access: &'a Access,
    /// The store of the index, and the number of its fields.
    index: Option<(StoreId, usize)>,
    /// The query's expressions over rows.
    over_rows: Expressions,
    /// The same over what the entries of a covering index keep.
    over_entries: Option<Expressions>,
    limit: usize,
    /// Stop reading rows in stored order after about this many.
    most_read: u64,
    found: Vec<Match>,
    rows_read: u64,
    unreadable: u64,
}

impl<'a> Finder<'a> {
    fn new(
        reader: &'a StoreReader,
        spec: &FindSpec,
        access: &'a Access,
        index: Option<(StoreId, &IndexSpec)>,
    ) -> Result<Self> {
        let covered = index.and_then(|(_, index)| covered(spec, index));
        Ok(Self {
            reader,
            access,
            index: index.map(|(id, spec)| (id, spec.fields.len())),
            over_rows: Expressions::new(spec)?,
            over_entries: covered.as_ref().map(Expressions::new).transpose()?,
            limit: spec.limit.unwrap_or(usize::MAX),
            most_read: spec.most_read.unwrap_or(u64::MAX),
            found: Vec::new(),
            rows_read: 0,
            unreadable: 0,
        })
    }

    /// Finds rows in stored order, after a position; returns the position of the last one if there may
    /// be more.
    fn in_order(&mut self, from: Option<Bytes>) -> Result<Option<Bytes>> {
        self.each(from, &mut |finder, position, found| {
            finder.found.push(found);
            Ok((finder.found.len() == finder.limit).then(|| position.clone()))
        })
    }

    /// Finds the first rows of the requested order, after a position in it.
    fn sorted(&mut self, from: Option<Bytes>) -> Result<Option<Bytes>> {
        let mut sorted = Sorted::new(self.limit, from);
        // The first row is known only once all have been read.
        self.most_read = u64::MAX;
        let mut seen = HashSet::new();
        self.each(None, &mut |finder, position, found| {
            let key = finder.key_of(position);
            if !finder.access.repeats || seen.insert(key.clone()) {
                let place = finder.expressions(&found).place(&found.row);
                sorted.add(place, &key, found);
            }
            Ok(None)
        })?;
        let (found, last) = sorted.finish();
        self.found = found;
        Ok(last)
    }

    /// The key of the row that an entry belongs to.
    fn key_of(&self, entry: &Bytes) -> Bytes {
        match self.index {
            None => entry.clone(),
            Some((_, width)) => {
                split_entry(entry, width).map_or_else(Bytes::new, |(_, key)| entry.slice_ref(key))
            }
        }
    }

    /// Reads the ranges and passes each matching row and its position to `take`, until that returns a
    /// position to stop at. Returns this position, unless no entry follows it.
    fn each(&mut self, from: Option<Bytes>, take: &mut Take<'_, Self>) -> Result<Option<Bytes>> {
        let mut ranges: Vec<&AccessRange> = self.access.ranges.iter().collect();
        if self.access.reverse {
            ranges.reverse();
        }
        let count = ranges.len();
        for (at, access_range) in ranges.into_iter().enumerate() {
            let Some(mut range) = rest(access_range, self.access.reverse, from.as_ref()) else {
                continue;
            };
            let mut most = self.limit.clamp(LEAST, MOST);
            loop {
                let page = self.page(access_range, &range, most)?;
                let last = page.last().map(|(entry, _)| entry.clone());
                let is_whole = page.len() < most;
                for (entry, stored) in page {
                    let Some(row) = self.row(&entry, stored)? else {
                        continue;
                    };
                    if let Some(stop) = take(self, &entry, row)? {
                        let over = is_whole && at + 1 == count && Some(&entry) == last.as_ref();
                        return Ok((!over).then_some(stop));
                    }
                }
                match last {
                    Some(last) if !is_whole && self.rows_read >= self.most_read => {
                        return Ok(Some(last));
                    }
                    Some(last) if !is_whole && self.access.reverse => range.to = Some(last),
                    Some(last) if !is_whole => range.from = Some(after(&last)),
                    _ => break,
                }
                most = (most * 2).min(MOST);
            }
        }
        Ok(None)
    }

    fn page(
        &self,
        access_range: &AccessRange,
        range: &KeyRange,
        most: usize,
    ) -> Result<Vec<(Bytes, Bytes)>> {
        let rows = &self.reader.rows;
        match (self.index, &range.from) {
            (Some((id, _)), _) => rows.scan(id, range, most),
            (None, Some(key)) if access_range.point => {
                let found = rows.get(self.reader.spec.id, key)?;
                Ok(found
                    .into_iter()
                    .map(|stored| (key.clone(), stored))
                    .collect())
            }
            (None, _) => rows.scan(self.reader.spec.id, range, most),
        }
    }

    /// The match of an entry, if there is one.
    fn row(&mut self, entry: &Bytes, stored: Bytes) -> Result<Option<Match>> {
        let key = self.key_of(entry);
        self.rows_read += 1;
        if let Some(expressions) = &self.over_entries
            && let Some(row) = self.kept(&key, &stored)
            // If it fails on what the index keeps, the row decides.
            && let Ok(matches) = expressions.test(&row)
        {
            let from_index = true;
            return Ok(matches.then_some(Match { row, from_index }));
        }
        let stored = match self.index {
            None => stored,
            Some(_) => self.stored_row(&key)?,
        };
        let found = self.decoded(&key, &stored).and_then(|row| {
            let matches = self.over_rows.test(&row)?;
            let from_index = false;
            Ok(matches.then_some(Match { row, from_index }))
        });
        if found.is_err() {
            self.unreadable += 1;
        }
        Ok(found.ok().flatten())
    }

    /// What an entry of a covering index keeps of its row; `None` if it keeps nothing.
    fn kept(&self, key: &Bytes, entry: &Bytes) -> Option<Record> {
        let kept = entry.get(8..).filter(|kept| !kept.is_empty())?;
        Some(Record {
            key: self.reader.key.decode(Some(key.clone())).ok()?,
            value: Datum::Json(entry.slice_ref(kept)),
            ..Record::default()
        })
    }

    /// The row that an entry of an index leads to.
    fn stored_row(&self, key: &Bytes) -> Result<Bytes> {
        let stored = self.reader.rows.get(self.reader.spec.id, key)?;
        stored.ok_or_else(|| {
            let missing = Error::state_corrupt("an index leads to a row that isn't there");
            self.reader.named(missing)
        })
    }

    fn decoded(&self, key: &Bytes, stored: &Bytes) -> Result<Record> {
        let Some((time, value)) = stored.split_first_chunk::<8>() else {
            let short = Error::state_corrupt("a row is shorter than its timestamp");
            return Err(self.reader.named(short));
        };
        Ok(Record {
            key: self.reader.key.decode(Some(key.clone()))?,
            value: self.reader.value.decode(Some(stored.slice_ref(value)))?,
            timestamp: Timestamp(i64::from_be_bytes(*time)),
            ..Record::default()
        })
    }

    /// The query's expressions for a match.
    fn expressions(&self, found: &Match) -> &Expressions {
        let over_entries = self.over_entries.as_ref().filter(|_| found.from_index);
        over_entries.unwrap_or(&self.over_rows)
    }

    fn shown(&self, found: Match) -> Result<FoundRow> {
        let mut selected = self.expressions(&found).select(&found.row);
        let Match {
            mut row,
            from_index,
        } = found;
        if from_index
            && selected.is_err()
            && let Some(key) = self.reader.key.encode(&row.key)?
        {
            // The error of the row names the expressions as the user wrote them.
            row = self.decoded(&key, &self.stored_row(&key)?)?;
            selected = self.over_rows.select(&row);
        }
        Ok(FoundRow {
            selected: selected.map_err(|e| self.reader.named(e))?,
            key: row.key,
            value: Stored {
                value: row.value,
                timestamp: row.timestamp,
            },
        })
    }
}

/// The part of a range that follows a position.
fn rest(access_range: &AccessRange, reverse: bool, position: Option<&Bytes>) -> Option<KeyRange> {
    let mut range = KeyRange {
        from: Some(Bytes::copy_from_slice(&access_range.from)),
        to: access_range.to.as_deref().map(Bytes::copy_from_slice),
        reverse,
    };
    let Some(position) = position else {
        return Some(range);
    };
    if reverse {
        if range.to.as_ref().is_none_or(|to| to > position) {
            range.to = Some(position.clone());
        }
    } else if range.from.as_ref().is_some_and(|from| from <= position) {
        range.from = Some(after(position));
    }
    let is_empty = range
        .to
        .as_ref()
        .is_some_and(|to| Some(to) <= range.from.as_ref());
    (!is_empty).then_some(range)
}
