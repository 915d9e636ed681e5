//! Native aggregations: `sf.sum(sf.value["amount"])` without an interpreter.
//!
//! Takes a shape once; provides what an aggregating operator needs: an initial value, adding a record,
//! taking it away again, and merging two values. Null is left out of every measure. The aggregate of a
//! count, a sum, a minimum, maximum, first or last is a plain datum; any other is a [`State`], which
//! never changes once it was returned (so it is shared, not copied) and becomes JSON where bytes are
//! needed: once per key and epoch. Never touches a store.

mod base64;
mod cell;
mod items;
mod sketch;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use state::State;

use super::{Compiled, json};
use cell::{Cell, MeasureInput};
use smallvec::SmallVec;
use state::{Cells, MeasureKind, Shape};
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Record, Result};
use stoatflow_plan::{Aggregation as Spec, AggregationKind, Expression, Measure};

/// A record's input for each measure.
pub(crate) type Inputs = SmallVec<[MeasureInput; 2]>;

/// How a measure reads records.
#[derive(Debug)]
enum Input {
    /// Every record counts.
    Every,
    /// No input: the measure belongs to another stream.
    None,
    /// The value of an expression.
    Of(Compiled),
    /// The value of an expression, ranked by another one.
    Ranked(Compiled, Compiled),
}

/// An aggregation that is ready to run.
#[derive(Debug)]
pub(crate) struct Aggregation {
    shape: Arc<Shape>,
    inputs: Vec<Input>,
    start: Datum,
}

impl Aggregation {
    /// Checks and prepares an aggregation.
    pub fn new(spec: &Spec) -> Result<Self> {
        let shape = Arc::new(Shape::new(spec));
        let inputs = spec.measures().into_iter().map(input);
        let start = if shape.is_plain() {
            shape.measures[0].start().datum()?
        } else {
            let cells = shape.measures.iter().map(MeasureKind::start).collect();
            State::datum(Arc::clone(&shape), cells)
        };
        Ok(Self {
            inputs: inputs.collect::<Result<_>>()?,
            shape,
            start,
        })
    }

    /// The initial aggregate.
    pub fn start(&self) -> Datum {
        self.start.clone()
    }

    /// Reads a record's inputs. Anything that can be wrong with a record shows here or in `add`.
    pub fn read(&self, record: &Record) -> Result<Inputs> {
        let each = self.inputs.iter().map(|input| {
            let (of, by) = match input {
                Input::Every => (Datum::Bool(true), Datum::Null),
                Input::None => (Datum::Null, Datum::Null),
                Input::Of(of) => (json::plain(of.eval(record)?)?, Datum::Null),
                Input::Ranked(of, by) => (
                    json::plain(of.eval(record)?)?,
                    json::plain(by.eval(record)?)?,
                ),
            };
            Ok(MeasureInput { of, by })
        });
        each.collect::<Result<_>>().map_err(|e| self.name(e))
    }

    /// Adds a record's inputs to an aggregate (null: none yet).
    pub fn add(&self, so_far: &Datum, inputs: &Inputs) -> Result<Datum> {
        if let (true, [given]) = (self.shape.is_plain(), inputs.as_slice()) {
            return self.add_plain(so_far, given).map_err(|e| self.name(e));
        }
        self.change(so_far, inputs, Cell::add)
    }

    /// The most common case: no state is built around the datum.
    fn add_plain(&self, so_far: &Datum, given: &MeasureInput) -> Result<Datum> {
        let held = self.plain(so_far)?;
        if given.of.is_null() {
            return Ok(held);
        }
        let new = cell::plain(self.shape.measures[0].kind, &held, &given.of)?;
        Ok(new.unwrap_or(held))
    }

    /// A plain aggregate, as computed or as read from a store.
    fn plain(&self, held: &Datum) -> Result<Datum> {
        let held = if held.is_null() { &self.start } else { held };
        if let Datum::Int(_) | Datum::Float(_) = held {
            return Ok(held.clone());
        }
        let held = json::settled(json::plain(held.clone())?)?;
        self.shape.plain(0, held)
    }

    /// As `add`, for a record that is read here.
    pub fn step(&self, so_far: &Datum, record: &Record) -> Result<Datum> {
        self.add(so_far, &self.read(record)?)
    }

    /// Takes a record away from an aggregate that includes it.
    pub fn take(&self, so_far: &Datum, record: &Record) -> Result<Datum> {
        self.change(so_far, &self.read(record)?, Cell::take)
    }

    /// Merges two aggregates; `later` holds the later records.
    pub fn merge(&self, earlier: &Datum, later: &Datum) -> Result<Datum> {
        let merged = || {
            let mut cells = self.cells(earlier)?;
            let others = self.cells(later)?;
            let each = cells.iter_mut().zip(others).zip(&*self.shape.measures);
            for ((cell, other), measuring) in each {
                cell.merge(other, measuring)?;
            }
            self.datum(cells)
        };
        merged().map_err(|e| self.name(e))
    }

    fn change(
        &self,
        so_far: &Datum,
        inputs: &Inputs,
        how: impl Fn(&mut Cell, &MeasureInput, &MeasureKind) -> Result<()>,
    ) -> Result<Datum> {
        let changed = || {
            let mut cells = self.cells(so_far)?;
            let each = cells.iter_mut().zip(inputs).zip(&*self.shape.measures);
            for ((cell, given), measuring) in each {
                if !given.of.is_null() {
                    how(cell, given, measuring)?;
                }
            }
            self.datum(cells)
        };
        changed().map_err(|e| self.name(e))
    }

    /// The cells of an aggregate, as computed or as read from a store.
    fn cells(&self, held: &Datum) -> Result<Cells> {
        let held = if held.is_null() { &self.start } else { held };
        if self.shape.is_plain() {
            return Ok(SmallVec::from_elem(Cell::Plain(self.plain(held)?), 1));
        }
        match held {
            Datum::Opaque(object) => match object.as_any().downcast_ref::<State>() {
                Some(state) if state.is_of(&self.shape) => Ok(state.cells().clone()),
                _ => self.shape.read(&object.to_json()?),
            },
            Datum::Json(bytes) => self.shape.read(bytes),
            other => Err(self.shape.foreign(&other.type_name())),
        }
    }

    fn datum(&self, mut cells: Cells) -> Result<Datum> {
        if self.shape.is_plain() {
            return cells.remove(0).datum();
        }
        Ok(State::datum(Arc::clone(&self.shape), cells))
    }

    fn name(&self, error: Error) -> Error {
        error.at(|at| at.function = Some(self.shape.text.clone()))
    }
}

fn input(measure: &Measure) -> Result<Input> {
    let compiled = |e: &Expression| Compiled::new(e);
    Ok(match (&measure.of, &measure.by) {
        _ if measure.elsewhere => Input::None,
        (None, _) if measure.kind == AggregationKind::Count => Input::Every,
        (None, _) => {
            let what = measure.kind.name();
            return Err(Error::topology(format!("{what} has nothing to measure"))
                .hint("give an expression, such as sf.value[\"amount\"]"));
        }
        (Some(of), None) => Input::Of(compiled(of)?),
        (Some(of), Some(by)) => Input::Ranked(compiled(of)?, compiled(by)?),
    })
}
