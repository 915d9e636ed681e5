//! `count`, `reduce` and `aggregate` of a grouped table: subtracts the old value, adds the new one.
//!
//! Takes changes at their group's lane, emits the aggregate after each; both halves of a change are one
//! step with one result. Nothing is subtracted from a group without an aggregate. A null aggregate
//! deletes and resets the timestamp; otherwise the result's timestamp is the highest that the group has
//! seen. A count that falls to zero is kept and emitted.

#[cfg(test)]
mod tests;

use crate::Udf;
use crate::expr::aggregation::Aggregation;
use crate::expr::combiner::Takes;
use crate::ops::aggregates::aggregate::Initializer;
use crate::ops::aggregates::count::counted;
use crate::ops::aggregates::fold::{Fold, FoldFunction, Folding};
use crate::ops::tables::table_update;
use crate::support::function::Function;
use std::sync::Arc;
use stoatflow_core::{Datum, Record, Result};

/// A function, to call and to name in errors.
#[derive(Debug)]
struct Called {
    function: Function,
    udf: Arc<dyn Udf>,
}

impl Called {
    fn new(function: Function, takes: Takes) -> Self {
        let udf = function.caller(takes);
        Self { function, udf }
    }

    fn call(&self, arguments: &[&Datum], record: &Record) -> Result<Datum> {
        self.udf
            .call(arguments)
            .map_err(|e| self.function.locate(e, record))
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Retracting(How);

#[derive(Debug)]
enum How {
    Count,
    Native(Aggregation),
    Reduce {
        adder: Called,
        subtractor: Called,
    },
    Aggregate {
        initializer: Initializer,
        adder: Called,
        subtractor: Called,
    },
}

pub(crate) type TableAggregate = Folding<Retracting>;

impl TableAggregate {
    pub fn count(fold: Fold) -> Self {
        Self::of(fold, Retracting(How::Count))
    }

    pub fn native(fold: Fold, aggregation: Aggregation) -> Self {
        Self::of(fold, Retracting(How::Native(aggregation)))
    }

    pub fn reduce(fold: Fold, adder: Function, subtractor: Function) -> Self {
        let how = How::Reduce {
            adder: Called::new(adder, Takes::Reduction),
            subtractor: Called::new(subtractor, Takes::Reduction),
        };
        Self::of(fold, Retracting(how))
    }

    pub fn aggregate(
        fold: Fold,
        initializer: Function,
        adder: Function,
        subtractor: Function,
    ) -> Result<Self> {
        let how = How::Aggregate {
            initializer: Initializer::new(initializer)?,
            adder: Called::new(adder, Takes::Step),
            subtractor: Called::new(subtractor, Takes::Step),
        };
        Ok(Self::of(fold, Retracting(how)))
    }
}

impl FoldFunction for Retracting {
    fn attach(&self) -> Option<Arc<dyn Udf>> {
        match &self.0 {
            How::Count | How::Native(_) => None,
            How::Reduce { adder, .. } | How::Aggregate { adder, .. } => {
                Some(Arc::clone(&adder.udf))
            }
        }
    }

    fn step(&mut self, so_far: Option<Datum>, record: &Record) -> Result<Datum> {
        let (old, new) = (
            table_update::old(&record.value),
            table_update::new(&record.value),
        );
        let mut value = so_far.unwrap_or_default();
        if !old.is_null() && !value.is_null() {
            value = match &self.0 {
                How::Count => counted(&value, -1)?,
                How::Native(aggregation) => {
                    aggregation.take(&value, &record.with_value(old.clone()))?
                }
                How::Reduce { subtractor, .. } => subtractor.call(&[&value, old], record)?,
                How::Aggregate { subtractor, .. } => {
                    subtractor.call(&[&record.key, old, &value], record)?
                }
            };
        }
        if new.is_null() {
            return Ok(value);
        }
        match &self.0 {
            How::Count if value.is_null() => Ok(Datum::Int(1)),
            How::Count => counted(&value, 1),
            How::Native(aggregation) => aggregation.step(&value, &record.with_value(new.clone())),
            How::Reduce { .. } if value.is_null() => Ok(new.clone()),
            How::Reduce { adder, .. } => adder.call(&[&value, new], record),
            How::Aggregate {
                initializer, adder, ..
            } => {
                if value.is_null() {
                    value = initializer.start(record)?;
                }
                adder.call(&[&record.key, new, &value], record)
            }
        }
    }
}
