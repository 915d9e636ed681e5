//! One record among the sliding windows of its key.
//!
//! Takes a record and the windows around it; updates those that contain it and creates the missing ones.
//! Owns nothing. If a window starts as a copy, foreign aggregates are cloned: two windows must not share
//! an object that a function may change in place.

use crate::Context;
use crate::ops::windows::window::{Closing, Folder, Outcome, Row, WindowedStore};
use stoatflow_core::{Datum, Record, Result};
use stoatflow_state::{Stored, window_changelog_key};

/// Initial content of a window.
enum Base {
    /// Its current value.
    Itself,
    /// Nothing.
    Empty,
    /// A copy of another window's value.
    Copy(Stored),
}

/// See the module.
pub(super) struct RecordUpdate<'a, 'c> {
    pub kept: &'a mut WindowedStore,
    pub folder: &'a Folder,
    pub closing: &'a mut Closing,
    pub context: &'a mut Context<'c>,
    pub difference: i64,
    pub close_time: i64,
    pub out: &'a mut Vec<Record>,
    pub record: &'a Record,
    /// True if the record was left out.
    pub lost: bool,
}

impl RecordUpdate<'_, '_> {
    pub fn take(&mut self, row: &mut Row) -> Result<()> {
        if self.record.timestamp.0 < self.difference {
            self.early(row)
        } else {
            self.usual(row)
        }
    }

    /// Whether the store still shows a window that starts here.
    fn shows(&self, start: i64) -> bool {
        (self.kept).shows(self.context.clocks, self.record.task(), start)
    }

    /// Starts and timestamps of the windows that start between `from` and just after the record.
    fn around(&self, row: &Row, from: i64) -> Vec<(i64, i64)> {
        let to = self.record.timestamp.0.saturating_add(1);
        let near = row.from((from, 0)).iter();
        near.take_while(|cell| cell.at.0 <= to)
            .filter(|cell| self.shows(cell.at.0))
            .filter_map(|cell| Some((cell.at.0, cell.held()?.timestamp.0)))
            .collect()
    }

    /// Updates the windows around a record, the latest first, then creates the missing ones.
    fn usual(&mut self, row: &mut Row) -> Result<()> {
        let (at, difference) = (self.record.timestamp.0, self.difference);
        let around = self.around(row, (at - difference.saturating_mul(2)).max(0));
        let has_right = around
            .last()
            .is_some_and(|last| last.0 == at.saturating_add(1));
        let (mut right, mut left, mut previous) = (None, None, None);
        let mut in_reach = false;
        let mut has_left = false;
        let mut seen = around.len();
        for (nth, &(start, stamp)) in around.iter().enumerate().rev() {
            seen = nth;
            let end = start.saturating_add(difference);
            if start > at {
                continue;
            }
            if end > at {
                // The latest of these contains exactly the later records within reach.
                if !std::mem::replace(&mut in_reach, true) && !has_right && stamp > at {
                    right = self.copy(row, start)?;
                }
                self.update(row, start, Base::Itself)?;
            } else if end == at {
                has_left = true;
                self.update(row, start, Base::Itself)?;
                if stamp >= at {
                    // There is a record with this timestamp: all windows exist.
                    return Ok(());
                }
                previous = Some(stamp);
            } else {
                // The timestamp of the latest window that ended before is that of the previous record.
                (left, previous) = (Some(start), Some(stamp));
                break;
            }
        }
        if let Some(previous) = previous {
            let start = previous.saturating_add(1);
            let exists = around[seen..].iter().any(|window| window.0 == start);
            if !exists && start.saturating_add(difference) >= at {
                self.update(row, start, Base::Empty)?;
            }
        }
        if !has_left {
            let reaches = previous.is_some_and(|previous| at - difference <= previous);
            let base = match left.filter(|_| reaches) {
                Some(left) => self.copy(row, left)?.map_or(Base::Empty, |copy| {
                    Base::Copy(Stored {
                        timestamp: self.record.timestamp,
                        ..copy
                    })
                }),
                None => Base::Empty,
            };
            self.update(row, at - difference, base)?;
        }
        self.make_right(row, right)
    }

    /// Records before `difference` share the window from 0 to `difference` as their left window.
    fn early(&mut self, row: &mut Row) -> Result<()> {
        let at = self.record.timestamp.0;
        let around = self.around(row, 0);
        let combined = around.first().filter(|first| first.0 == 0).copied();
        let has_right = around.last().is_some_and(|last| last.0 == at + 1);
        let inner = around
            .iter()
            .filter(|window| window.0 > 0 && window.0 <= at);
        // The later records within reach are in the latest window that contains the record.
        let right = match inner.clone().next_back() {
            Some(&(start, stamp)) if stamp > at && !has_right => self.copy(row, start)?,
            Some(_) => None,
            None if combined.is_some_and(|c| c.1 > at) && !has_right => self.copy(row, 0)?,
            None => None,
        };
        for &(start, _) in inner {
            self.update(row, start, Base::Itself)?;
        }
        self.make_right(row, right)?;
        if let Some((_, stamp)) = combined.filter(|c| c.1 < at)
            && around.iter().all(|window| window.0 != stamp + 1)
        {
            self.update(row, stamp + 1, Base::Empty)?;
        }
        let base = if combined.is_some() {
            Base::Itself
        } else {
            Base::Empty
        };
        self.update(row, 0, base)
    }

    /// Creates the window after the record, with the content from before it; the record itself is not in
    /// it.
    fn make_right(&mut self, row: &mut Row, right: Option<Stored>) -> Result<()> {
        match right {
            Some(right) if !self.lost => {
                let start = self.record.timestamp.0.saturating_add(1);
                self.put(row, start, false, Datum::Null, right)
            }
            _ => Ok(()),
        }
    }

    fn copy(&self, row: &Row, start: i64) -> Result<Option<Stored>> {
        let Some(held) = row.held((start, 0)) else {
            return Ok(None);
        };
        Ok(Some(Stored {
            value: self.kept.own(&held.value, self.record)?,
            timestamp: held.timestamp,
        }))
    }

    /// Adds the record to a window, if the window is still open.
    fn update(&mut self, row: &mut Row, start: i64, base: Base) -> Result<()> {
        // If a record fails in one of its windows, the later ones skip it, as in Kafka Streams.
        if self.lost {
            return Ok(());
        }
        if start.saturating_add(self.difference).saturating_add(1) <= self.close_time {
            return Ok(());
        }
        let cell = row.cell((start, 0));
        self.kept.freeze(cell.passed_on.take(), self.out)?;
        let existed = cell.held().is_some() && self.shows(start);
        let held = match base {
            Base::Itself if self.kept.writer.node_context.is_lenient() => cell.current.clone(),
            Base::Itself => cell.current.take(),
            Base::Empty => None,
            Base::Copy(held) => Some(held),
        };
        let own = self.record.timestamp;
        let timestamp = held.as_ref().map_or(own, |held| held.timestamp.max(own));
        let held = held.map(|held| held.value);
        let turned = self
            .folder
            .turn(self.kept, held, self.record, self.context)?;
        let Some((before, value)) = turned else {
            self.lost = true;
            return Ok(());
        };
        self.put(row, start, existed, before, Stored { value, timestamp })
    }

    fn put(
        &mut self,
        row: &mut Row,
        start: i64,
        existed: bool,
        before: Datum,
        new: Stored,
    ) -> Result<()> {
        let (value, timestamp) = (new.value.clone(), new.timestamp);
        let task = self.record.task();
        self.context.clocks.see(self.kept.clock, task, start);
        let shown = self.shows(start);
        if shown {
            // A tombstone has the timestamp of the record that caused it, as in Kafka Streams.
            let timestamp = if value.is_null() {
                self.record.timestamp
            } else {
                timestamp
            };
            row.cell((start, 0)).put(Stored {
                value: new.value,
                timestamp,
            });
        }
        if self.closing.is_enabled() {
            let task = self.context.clocks.task(task);
            let waiting = self.closing.waiting();
            return waiting.insert(task, (start, row.key.clone()), self.context);
        }
        let end = start.saturating_add(self.difference);
        let outcome = Outcome {
            key: Datum::windowed(self.record.key.clone(), start, end),
            existed,
            before,
            new: value,
            timestamp,
        };
        let place = if self.kept.writer.is_cached() {
            window_changelog_key(&row.key, start, 0)
        } else {
            bytes::Bytes::new()
        };
        let passed_on = self.kept.forward(&place, self.record, outcome, self.out)?;
        if shown {
            row.cell((start, 0)).passed_on = passed_on;
        }
        Ok(())
    }
}
