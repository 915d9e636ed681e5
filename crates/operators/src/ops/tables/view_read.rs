//! Reads a table by key: from its store, or computed from the stores above it.
//!
//! Takes the keys of a batch, returns for each the value in the table. It works on whole batches, so
//! that functions of the view are called once for all keys, after every store was read: no lane waits
//! for a store while it holds the interpreter. Reads keys of all lanes, at the lane's epoch. Never
//! writes.

mod lenient;
#[cfg(test)]
mod tests;

use crate::ops::joins::joiner::{Joiner, Needs};
use crate::ops::process::Process;
use crate::support::function::Function;
use crate::support::node_context::NodeContext;
use crate::{Context, LaneStore};
use lenient::LookupResult;
use stoatflow_core::{ClockId, Datum, Epoch, Error, Record, Result, Serde, StoreId, Timestamp};
use stoatflow_state::{SessionView, Stored, VersionedView, WindowView};

/// The version of a versioned table to read; other tables have only the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AsOf {
    Latest,
    /// The version at the time of the record that asks.
    Record,
    /// The newest version at the start of the epoch: its operator has forwarded all updates up to then.
    EpochStart,
}

impl AsOf {
    /// For the sides of a join, which has no versions.
    const fn whole(self) -> Self {
        match self {
            Self::Record | Self::Latest => Self::Latest,
            Self::EpochStart => Self::EpochStart,
        }
    }

    /// The epoch to read at.
    fn epoch(self, context: &Context<'_>) -> Epoch {
        match self {
            Self::EpochStart => Epoch(context.epoch.0.saturating_sub(1)),
            Self::Latest | Self::Record => context.epoch,
        }
    }
}

/// How a store's keys are built.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Plain,
    Versioned(ClockId),
    Window(ClockId),
    Session(ClockId),
}

/// A store that a view reads.
#[derive(Debug)]
pub(crate) struct Read {
    pub store: StoreId,
    /// Serde of its keys; for windowed keys, of the key without the window.
    pub key: Serde,
    pub shape: Shape,
}

/// See the module.
#[derive(Debug)]
pub(crate) enum ViewRead {
    Store(Read),
    Filter {
        of: Box<ViewRead>,
        function: Function,
        not: bool,
    },
    MapValues {
        of: Box<ViewRead>,
        function: Function,
    },
    TransformValues {
        of: Box<ViewRead>,
        transformer: Box<Process>,
    },
    Join {
        left: Box<ViewRead>,
        right: Box<ViewRead>,
        needs: Needs,
        joiner: Box<Joiner>,
    },
}

impl ViewRead {
    /// Like `read`, for an operator that may leave records out. If a function of the view fails, the
    /// index of the record in `asked` is added to `lost` (ascending), and the result has no entry for
    /// it.
    pub fn look_up(
        &mut self,
        node_context: &NodeContext,
        asked: &[Record],
        as_of: AsOf,
        lost: &mut Vec<usize>,
        context: &mut Context<'_>,
    ) -> Result<Vec<Option<Stored>>> {
        lost.clear();
        if !node_context.is_lenient() || matches!(self, Self::Store(_)) {
            let found = self.read(asked, as_of, context);
            return found.map_err(|e| node_context.name_node(e));
        }
        let mut all = Vec::with_capacity(asked.len());
        let looked = self.look_up_each(node_context, asked, as_of, context)?;
        for (at, looked) in looked.into_iter().enumerate() {
            match looked {
                LookupResult::Found(found) => all.push(found),
                LookupResult::LeftOut => lost.push(at),
            }
        }
        Ok(all)
    }

    /// The table's value for the key of each record; `None` for a null key.
    pub fn read(
        &mut self,
        asked: &[Record],
        as_of: AsOf,
        context: &mut Context<'_>,
    ) -> Result<Vec<Option<Stored>>> {
        match self {
            Self::Store(read) => read.all(asked, as_of, context),
            Self::Filter { of, .. }
            | Self::MapValues { of, .. }
            | Self::TransformValues { of, .. } => {
                let found = of.read(asked, as_of, context)?;
                self.apply(asked, found, context)
            }
            Self::Join {
                left,
                right,
                needs,
                joiner,
            } => {
                let left = left.read(asked, as_of.whole(), context)?;
                let right = right.read(asked, as_of.whole(), context)?;
                join(asked, (left, right), *needs, joiner, context)
            }
        }
    }

    /// Applies this node to the values read from the node below; stores and joins have nothing left to
    /// apply.
    fn apply(
        &mut self,
        asked: &[Record],
        mut found: Vec<Option<Stored>>,
        context: &mut Context<'_>,
    ) -> Result<Vec<Option<Stored>>> {
        match self {
            Self::Store(_) | Self::Join { .. } => {}
            Self::Filter { function, not, .. } => {
                let mut verdicts = Vec::new();
                function.test(&mut probes(asked, &found), &mut verdicts, context)?;
                let mut verdicts = verdicts.into_iter();
                for held in &mut found {
                    if held.is_some() && verdicts.next() == Some(*not) {
                        *held = None;
                    }
                }
            }
            Self::MapValues { function, .. } => {
                let mut probes = probes(asked, &found);
                let set = |probe: &mut Record, value| probe.value = value;
                function.one(&mut probes, &mut Vec::new(), context, set)?;
                let mut results = probes.into_iter().map(|probe| probe.value);
                for held in &mut found {
                    let Some(stored) = held else { continue };
                    match results.next() {
                        Some(value) if !value.is_null() => stored.value = value,
                        _ => *held = None,
                    }
                }
            }
            Self::TransformValues { transformer, .. } => {
                // As in Kafka Streams it is called even for keys that the table doesn't have.
                let keyed = || asked.iter().zip(&found).filter(|(r, _)| !r.key.is_null());
                let updates: Vec<Record> = keyed()
                    .map(|(record, held)| {
                        let value = held.as_ref().map(|held| held.value.clone());
                        record.with_value(value.unwrap_or_default())
                    })
                    .collect();
                let mut results = Vec::with_capacity(updates.len());
                transformer.transform(&updates, &mut results, context)?;
                let mut results = results.into_iter();
                for (record, held) in asked.iter().zip(&mut found) {
                    if record.key.is_null() {
                        continue;
                    }
                    let timestamp = held.as_ref().map_or(Timestamp::UNKNOWN, |h| h.timestamp);
                    let value = results.next().filter(|value| !value.is_null());
                    *held = value.map(|value| Stored { value, timestamp });
                }
            }
        }
        Ok(found)
    }
}

/// The result of a join for each record, from the values of both sides.
fn join(
    asked: &[Record],
    (left, right): (Vec<Option<Stored>>, Vec<Option<Stored>>),
    needs: Needs,
    joiner: &mut Joiner,
    context: &mut Context<'_>,
) -> Result<Vec<Option<Stored>>> {
    let mut rows = Vec::with_capacity(asked.len());
    for (record, (left, right)) in asked.iter().zip(left.into_iter().zip(right)) {
        let (left, left_at) = parts(left);
        let (right, right_at) = parts(right);
        let met = needs.is_joined(&left, &right);
        if met {
            joiner.add(&record.key, left, right, record.origin);
        }
        rows.push(met.then(|| left_at.max(right_at)));
    }
    let mut results = joiner.join(context)?.results;
    let found = rows.into_iter().map(|row| {
        let timestamp = row?;
        let value = results.next().filter(|value| !value.is_null())?;
        Some(Stored { value, timestamp })
    });
    Ok(found.collect())
}

/// Arguments of a function of the view: the key that was asked for, and the value found.
fn probes(asked: &[Record], found: &[Option<Stored>]) -> Vec<Record> {
    asked
        .iter()
        .zip(found)
        .filter_map(|(record, held)| {
            let value = held.as_ref()?.value.clone();
            Some(record.with_value(value))
        })
        .collect()
}

fn parts(stored: Option<Stored>) -> (Datum, Timestamp) {
    stored.map_or((Datum::Null, Timestamp(i64::MIN)), |stored| {
        (stored.value, stored.timestamp)
    })
}

impl Read {
    fn all(
        &self,
        asked: &[Record],
        as_of: AsOf,
        context: &mut Context<'_>,
    ) -> Result<Vec<Option<Stored>>> {
        if !matches!(self.shape, Shape::Plain) {
            let all = asked.iter().map(|record| self.one(record, as_of, context));
            return all.collect();
        }
        // Encodes all keys before the first read.
        let keys = asked.iter().map(|record| self.key.encode(&record.key));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let LaneStore { store, .. } = &context.stores[usize::from(self.store.0)];
        store.get_each(as_of.epoch(context), &keys)
    }

    /// Reads a store with windows or versions.
    fn one(
        &self,
        record: &Record,
        as_of: AsOf,
        context: &mut Context<'_>,
    ) -> Result<Option<Stored>> {
        let epoch = as_of.epoch(context);
        let (key, window) = match (&record.key, self.shape) {
            (Datum::Windowed(w), Shape::Window(_) | Shape::Session(_)) => {
                (&w.key, Some((w.start, w.end)))
            }
            (key, _) => (key, None),
        };
        let Some(bytes) = self.key.encode(key)? else {
            return Ok(None);
        };
        let clock = match self.shape {
            Shape::Versioned(clock) | Shape::Window(clock) | Shape::Session(clock) => Some(clock),
            Shape::Plain => None,
        };
        let seen = clock.map_or(-1, |clock| context.clocks.as_of(clock, record));
        let LaneStore { store, .. } = &context.stores[usize::from(self.store.0)];
        match (self.shape, window) {
            (Shape::Versioned(_), _) => {
                let view = VersionedView::new(store, epoch, seen)?;
                let version = match as_of {
                    AsOf::Latest | AsOf::EpochStart => view.get(&bytes)?,
                    AsOf::Record => view.get_as_of(&bytes, record.timestamp.0)?,
                };
                Ok(version.map(|version| Stored {
                    value: version.value,
                    timestamp: Timestamp(version.timestamp),
                }))
            }
            (Shape::Window(_), Some((start, _))) => {
                WindowView::new(store, epoch, seen)?.fetch(&bytes, start)
            }
            (Shape::Session(_), Some((start, end))) => {
                let view = SessionView::new(store, epoch, seen)?;
                let found = view.fetch_session(&bytes, start, end)?;
                // A session's result has the time of its end.
                Ok(found.map(|stored| Stored {
                    timestamp: Timestamp(end),
                    ..stored
                }))
            }
            (Shape::Plain | Shape::Window(_) | Shape::Session(_), _) => Err(Error::internal(
                "a windowed table was asked for a key without a window",
            )),
        }
    }
}
