//! `reduce`: combines a key's values, two at a time.
//!
//! Takes records at their key's lane, emits the combined value after each. The first value of a key is
//! stored as it is; a null result deletes, and the next value starts afresh. Null keys and null values
//! are dropped and counted. The result's timestamp is the highest that the key has seen since it
//! started.

use crate::Udf;
use crate::expr::combiner::Takes;
use crate::ops::aggregates::fold::{Fold, FoldFunction, Folding};
use crate::port::current_call;
use crate::support::function::Function;
use std::sync::Arc;
use stoatflow_core::{Datum, Record, Result};

/// See the module.
#[derive(Debug)]
pub(crate) struct Reducing {
    function: Function,
    reducer: Arc<dyn Udf>,
}

pub(crate) type Reduce = Folding<Reducing>;

impl Reduce {
    pub fn new(fold: Fold, function: Function) -> Self {
        let reducer = function.caller(Takes::Reduction);
        let reducing = Reducing { function, reducer };
        Self::of(fold, reducing)
    }
}

impl FoldFunction for Reducing {
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
