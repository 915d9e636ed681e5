//! `reduce`: combines a key's values, two at a time.
//!
//! Takes records at their key's lane, emits the combined value after each. The first value of a key is
//! stored as it is; a null result deletes, and the next value starts afresh. Null keys and null values
//! are dropped and counted. The result's timestamp is the highest that the key has seen since it
//! started.

use crate::Udf;
use crate::expr::combiner::ArgumentRoles;
use crate::ops::aggregates::fold::{Fold, FoldAggregate, FoldFunction};
use crate::port::current_call;
use crate::support::function::Function;
use std::sync::Arc;
use stoatflow_core::{Datum, Record, Result};

/// See the module.
#[derive(Debug)]
pub(crate) struct ReduceFold {
    function: Function,
    reducer: Arc<dyn Udf>,
}

pub(crate) type Reduce = FoldAggregate<ReduceFold>;

impl Reduce {
    pub fn new(fold: Fold, function: Function) -> Self {
        let reducer = function.caller(ArgumentRoles::Reduction);
        let reducing = ReduceFold { function, reducer };
        Self::of(fold, reducing)
    }
}

impl FoldFunction for ReduceFold {
    fn attach(&self) -> Option<Arc<dyn Udf>> {
        Some(Arc::clone(&self.reducer))
    }

    fn step(&mut self, so_far: Option<Datum>, record: &Record) -> Result<Datum> {
        match so_far {
            None => Ok(record.value.clone()),
            Some(so_far) => {
                current_call::note_record(&record.origin);
                self.reducer
                    .call(&[&so_far, &record.value])
                    .map_err(|e| self.function.locate(e, record))
            }
        }
    }
}
