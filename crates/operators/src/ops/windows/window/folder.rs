//! How the values in a window become one.
//!
//! Takes the value so far and a record, or two values that come together; gives the new value. Owns the
//! user's functions. Never attaches an interpreter by itself: [`Folder::scope`] does, for a whole batch.

use crate::expr::aggregation::Aggregation;
use crate::expr::combiner::Takes;
use crate::ops::aggregates::aggregate::Initializer;
use crate::ops::windows::window::kept::{Kept, not_a_count};
use crate::port::current_call;
use crate::support::function::Function;
use crate::{Context, Udf};
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Record, Result};

/// A function, and how it is called.
pub(crate) type Called = (Function, Arc<dyn Udf>);

/// See the module.
#[derive(Debug)]
pub(crate) enum Folder {
    Count,
    Reduce(Called),
    Aggregate {
        initializer: Box<Initializer>,
        aggregator: Called,
        merger: Option<Box<Called>>,
    },
    Native(Box<Aggregation>),
}

impl Folder {
    pub fn reduce(function: Function) -> Self {
        let udf = function.caller(Takes::Reduction);
        Self::Reduce((function, udf))
    }

    pub fn aggregate(
        initializer: Function,
        function: Function,
        merger: Option<Function>,
    ) -> Result<Self> {
        let called = |function: Function, takes| -> Called {
            let udf = function.caller(takes);
            (function, udf)
        };
        let merger = merger.map(|merger| called(merger, Takes::KeyAndSides));
        Ok(Self::Aggregate {
            initializer: Box::new(Initializer::new(initializer)?),
            aggregator: called(function, Takes::Step),
            merger: merger.map(Box::new),
        })
    }

    /// Runs `body` with the interpreter attached, if there is anything to call.
    pub fn scope(&self, body: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let udf = match self {
            Self::Count | Self::Native(_) => return body(),
            Self::Reduce((_, udf))
            | Self::Aggregate {
                aggregator: (_, udf),
                ..
            } => udf,
        };
        // Should a port ever forget to run the body, records must not vanish.
        let mut done = Err(Error::internal("a function's scope did not run"));
        udf.scope(&mut || done = body());
        done
    }

    /// What a fresh window starts with; null: with its first value.
    pub fn start(&self, record: &Record) -> Result<Datum> {
        match self {
            Self::Count => Ok(Datum::Int(0)),
            Self::Reduce(_) => Ok(Datum::Null),
            Self::Aggregate { initializer, .. } => initializer.start(record),
            Self::Native(aggregation) => Ok(aggregation.start()),
        }
    }

    /// Adds a record to what a window held (`None`: nothing, so it starts): what it started from, if
    /// children need that, and the new value. `None`: the record was left out, and what was held, if
    /// `held` was kept by the caller, is as it was.
    pub fn turn(
        &self,
        kept: &Kept,
        held: Option<Datum>,
        record: &Record,
        context: &mut Context<'_>,
    ) -> Result<Option<(Datum, Datum)>> {
        let writer = &kept.writer;
        let one = |held: Option<Datum>| {
            let so_far = match held {
                Some(held) => held,
                None => self.start(record)?,
            };
            let before = kept.before(&so_far, record)?;
            let new = self.add(so_far, record);
            Ok((before, new.map_err(|e| writer.locate(e, record))?))
        };
        if !writer.node_context.is_lenient() {
            return one(held).map(Some);
        }
        writer.node_context.attempt(record, context, |_| {
            let held = held.as_ref().map(|held| writer.spare(held, record));
            let (before, new) = one(held.transpose()?)?;
            writer.check(&new)?;
            Ok((before, new))
        })
    }

    /// Adds a record. Null values are values here: who skips them doesn't call this.
    pub fn add(&self, so_far: Datum, record: &Record) -> Result<Datum> {
        self.note(record);
        match self {
            Self::Count => sum(&so_far, &Datum::Int(1)),
            Self::Reduce(_) if so_far.is_null() => Ok(record.value.clone()),
            Self::Reduce((function, udf)) => udf
                .call(&[&so_far, &record.value])
                .map_err(|e| function.locate(e, record)),
            Self::Aggregate {
                aggregator: (function, udf),
                ..
            } => udf
                .call(&[&record.key, &record.value, &so_far])
                .map_err(|e| function.locate(e, record)),
            Self::Native(aggregation) => aggregation.step(&so_far, record),
        }
    }

    /// What is native pays nothing.
    fn note(&self, record: &Record) {
        if let Self::Reduce(_) | Self::Aggregate { .. } = self {
            current_call::note_record(&record.origin);
        }
    }

    /// Puts two sessions together; `record` brought them together.
    pub fn merge(&self, so_far: Datum, other: Datum, record: &Record) -> Result<Datum> {
        self.note(record);
        match self {
            Self::Count => sum(&so_far, &other),
            Self::Reduce(_) if so_far.is_null() => Ok(other),
            Self::Reduce((function, udf)) => udf
                .call(&[&so_far, &other])
                .map_err(|e| function.locate(e, record)),
            Self::Native(aggregation) => aggregation.merge(&so_far, &other),
            Self::Aggregate { merger, .. } => {
                let Some((function, udf)) = merger.as_deref() else {
                    return Err(Error::internal("an aggregate of sessions has no merger"));
                };
                udf.call(&[&record.key, &so_far, &other])
                    .map_err(|e| function.locate(e, record))
            }
        }
    }
}

fn sum(a: &Datum, b: &Datum) -> Result<Datum> {
    match (a, b) {
        (Datum::Int(a), Datum::Int(b)) => a
            .checked_add(*b)
            .map(Datum::Int)
            .ok_or_else(|| Error::user("a count went beyond 64 bits")),
        (Datum::Int(_), other) | (other, _) => Err(not_a_count(other)),
    }
}
