//! How the values in a window are aggregated.
//!
//! Takes the value so far and a record, or the values of two merged sessions; returns the new value.
//! Owns the user's functions. Never attaches an interpreter by itself: [`Folder::scope`] does, for a
//! whole batch.

use crate::expr::aggregation::Aggregation;
use crate::expr::combiner::ArgumentRoles;
use crate::ops::aggregates::aggregate::Initializer;
use crate::ops::windows::window::windowed_store::{WindowedStore, not_a_count};
use crate::port::current_call;
use crate::support::function::Function;
use crate::{Context, Udf};
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Record, Result};

/// A function, and how to call it.
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
        let udf = function.caller(ArgumentRoles::Reduction);
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
        let merger = merger.map(|merger| called(merger, ArgumentRoles::KeyAndSides));
        Ok(Self::Aggregate {
            initializer: Box::new(Initializer::new(initializer)?),
            aggregator: called(function, ArgumentRoles::Step),
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
        // If an implementation of the port ever fails to run the body, records must not be lost
        // silently.
        let mut done = Err(Error::internal("a function's scope did not run"));
        udf.scope(&mut || done = body());
        done
    }

    /// Initial value of a new window; null if it starts with its first record's value.
    pub fn start(&self, record: &Record) -> Result<Datum> {
        match self {
            Self::Count => Ok(Datum::Int(0)),
            Self::Reduce(_) => Ok(Datum::Null),
            Self::Aggregate { initializer, .. } => initializer.start(record),
            Self::Native(aggregation) => Ok(aggregation.start()),
        }
    }

    /// Adds a record to a window's value (`None` for a new window). Returns the value before, if
    /// children need it, and the new value. `None`: the record was left out; the caller's copy of
    /// `held`, if it kept one, is still valid.
    pub fn turn(
        &self,
        kept: &WindowedStore,
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
            let held = held.as_ref().map(|held| writer.mutable_copy(held, record));
            let (before, new) = one(held.transpose()?)?;
            writer.check(&new)?;
            Ok((before, new))
        })
    }

    /// Adds a record. Null values are added too: operators that skip them don't call this.
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

    /// Native aggregations skip this, so it costs them nothing.
    fn note(&self, record: &Record) {
        if let Self::Reduce(_) | Self::Aggregate { .. } = self {
            current_call::note_record(&record.origin);
        }
    }

    /// Merges two sessions; `record` is the one that connected them.
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
