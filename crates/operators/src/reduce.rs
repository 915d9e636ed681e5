//! `reduce`: combines a key's values, two at a time.
//!
//! Takes records at their key's lane, gives the combined value after each. A key's first value is
//! taken as it is; a null result deletes, and the next value starts afresh. Null keys and null values
//! are dropped and counted. The result's time is the highest the key has seen since it started.

use crate::fold::Fold;
use crate::function::Function;
use crate::{Context, Operator, Udf};
use std::sync::Arc;
use stoatflow_core::{Record, Result};

/// See the module.
#[derive(Debug)]
pub(crate) struct Reduce {
    fold: Fold,
    function: Function,
    reducer: Arc<dyn Udf>,
}

impl Reduce {
    pub fn new(fold: Fold, function: Function) -> Result<Self> {
        let reducer = function.reducer("reduce")?;
        Ok(Self {
            fold,
            function,
            reducer,
        })
    }
}

impl Operator for Reduce {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let Self {
            fold,
            function,
            reducer,
        } = self;
        fold.run(
            reducer.as_ref(),
            input,
            out,
            context,
            &mut |old, record| match old {
                None => Ok(record.value.clone()),
                Some(old) => reducer
                    .call(&[&old, &record.value])
                    .map_err(|e| function.locate(e, record)),
            },
        )
    }

    fn barrier(&mut self, out: &mut Vec<Record>, _context: &mut Context<'_>) -> Result<()> {
        self.fold.keeper.barrier(out);
        Ok(())
    }
}
