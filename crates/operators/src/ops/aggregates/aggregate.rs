//! `aggregate`: folds a key's records into a value of another type.
//!
//! Takes records at their key's lane, emits the aggregate after each. A key starts with the result of
//! the initializer; a null aggregate deletes, and the next record starts afresh. Null keys and null
//! values are dropped and counted. The result's timestamp is the highest that the key has seen since it
//! started.

use crate::Udf;
use crate::expr::Compiled;
use crate::expr::combiner::ArgumentRoles;
use crate::ops::aggregates::fold::{Fold, FoldAggregate, FoldFunction};
use crate::port::current_call;
use crate::support::function::{Callee, Function};
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Record, Result};

/// Initial value of an aggregate.
#[derive(Debug)]
pub(crate) enum Initializer {
    Constant(Datum),
    Call(Function, Arc<dyn Udf>),
}

impl Initializer {
    pub fn new(function: Function) -> Result<Self> {
        match &function.callee {
            Callee::Native(expr) => Ok(Self::Constant(constant(expr)?)),
            Callee::Foreign(udf) => {
                let udf = Arc::clone(udf);
                Ok(Self::Call(function, udf))
            }
        }
    }

    /// Initial value for a key that has no aggregate; `record` is its first record, for errors.
    pub fn start(&self, record: &Record) -> Result<Datum> {
        match self {
            Self::Constant(start) => Ok(start.clone()),
            Self::Call(function, udf) => {
                current_call::note_record(&record.origin);
                udf.call(&[]).map_err(|e| function.locate(e, record))
            }
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct AggregateFold {
    initializer: Initializer,
    function: Function,
    aggregator: Arc<dyn Udf>,
}

pub(crate) type Aggregate = FoldAggregate<AggregateFold>;

impl Aggregate {
    pub fn new(fold: Fold, initializer: Function, function: Function) -> Result<Self> {
        let aggregating = AggregateFold {
            aggregator: function.caller(ArgumentRoles::Step),
            initializer: Initializer::new(initializer)?,
            function,
        };
        Ok(Self::of(fold, aggregating))
    }
}

impl FoldFunction for AggregateFold {
    fn attach(&self) -> Option<Arc<dyn Udf>> {
        Some(Arc::clone(&self.aggregator))
    }

    fn start(&mut self, record: &Record) -> Result<Option<Datum>> {
        self.initializer.start(record).map(Some)
    }

    fn step(&mut self, so_far: Option<Datum>, record: &Record) -> Result<Datum> {
        let so_far = so_far.unwrap_or_default();
        current_call::note_record(&record.origin);
        self.aggregator
            .call(&[&record.key, &record.value, &so_far])
            .map_err(|e| self.function.locate(e, record))
    }
}

fn constant(expr: &Compiled) -> Result<Datum> {
    if expr.reads_record() {
        return Err(Error::topology(format!(
            "the initializer {} of an aggregate reads a record, but it runs before there is one",
            expr.text()
        ))
        .hint("give a constant, such as sf.lit(0), or a function without arguments"));
    }
    expr.eval(&Record::default())
}
