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
use crate::expr::combiner::ArgumentRoles;
use crate::ops::aggregates::aggregate::Initializer;
use crate::ops::aggregates::count::counted;
use crate::ops::aggregates::fold::{Fold, FoldAggregate, FoldFunction};
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
    fn new(function: Function, takes: ArgumentRoles) -> Self {
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
pub(crate) struct RetractingFold(FoldKind);

#[derive(Debug)]
enum FoldKind {
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

pub(crate) type TableAggregate = FoldAggregate<RetractingFold>;

impl TableAggregate {
    pub fn count(fold: Fold) -> Self {
        Self::of(fold, RetractingFold(FoldKind::Count))
    }

    pub fn native(fold: Fold, aggregation: Aggregation) -> Self {
        Self::of(fold, RetractingFold(FoldKind::Native(aggregation)))
    }

    pub fn reduce(fold: Fold, adder: Function, subtractor: Function) -> Self {
        let how = FoldKind::Reduce {
            adder: Called::new(adder, ArgumentRoles::Reduction),
            subtractor: Called::new(subtractor, ArgumentRoles::Reduction),
        };
        Self::of(fold, RetractingFold(how))
    }

    pub fn aggregate(
        fold: Fold,
        initializer: Function,
        adder: Function,
        subtractor: Function,
    ) -> Result<Self> {
        let how = FoldKind::Aggregate {
            initializer: Initializer::new(initializer)?,
            adder: Called::new(adder, ArgumentRoles::Step),
            subtractor: Called::new(subtractor, ArgumentRoles::Step),
        };
        Ok(Self::of(fold, RetractingFold(how)))
    }
}

impl FoldFunction for RetractingFold {
    fn attach(&self) -> Option<Arc<dyn Udf>> {
        match &self.0 {
            FoldKind::Count | FoldKind::Native(_) => None,
            FoldKind::Reduce { adder, .. } | FoldKind::Aggregate { adder, .. } => {
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
                FoldKind::Count => counted(&value, -1)?,
                FoldKind::Native(aggregation) => {
                    aggregation.take(&value, &record.with_value(old.clone()))?
                }
                FoldKind::Reduce { subtractor, .. } => subtractor.call(&[&value, old], record)?,
                FoldKind::Aggregate { subtractor, .. } => {
                    subtractor.call(&[&record.key, old, &value], record)?
                }
            };
        }
        if new.is_null() {
            return Ok(value);
        }
        match &self.0 {
            FoldKind::Count if value.is_null() => Ok(Datum::Int(1)),
            FoldKind::Count => counted(&value, 1),
            FoldKind::Native(aggregation) => {
                aggregation.step(&value, &record.with_value(new.clone()))
            }
            FoldKind::Reduce { .. } if value.is_null() => Ok(new.clone()),
            FoldKind::Reduce { adder, .. } => adder.call(&[&value, new], record),
            FoldKind::Aggregate {
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
