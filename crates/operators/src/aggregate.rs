//! `aggregate`: folds a key's records into a value of another type.
//!
//! Takes records at their key's lane, gives the aggregate after each. A key starts with what the
//! initializer gives; a null aggregate deletes, and the next record starts afresh. Null keys and null
//! values are dropped and counted. The result's time is the highest the key has seen since it started.

use crate::expr::Compiled;
use crate::fold::Fold;
use crate::function::{Callee, Function};
use crate::{Context, Operator, Udf};
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Record, Result};

#[derive(Debug)]
enum Initializer {
    Constant(Datum),
    Call(Function, Arc<dyn Udf>),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Aggregate {
    fold: Fold,
    initializer: Initializer,
    function: Function,
    aggregator: Arc<dyn Udf>,
}

impl Aggregate {
    pub fn new(fold: Fold, initializer: Function, function: Function) -> Result<Self> {
        let aggregator = function.reducer("aggregate")?;
        let initializer = match &initializer.callee {
            Callee::Native(expr) => Initializer::Constant(constant(expr)?),
            Callee::Foreign(udf) => {
                let udf = Arc::clone(udf);
                Initializer::Call(initializer, udf)
            }
        };
        Ok(Self {
            fold,
            initializer,
            function,
            aggregator,
        })
    }
}

impl Operator for Aggregate {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let Self {
            fold,
            initializer,
            function,
            aggregator,
        } = self;
        fold.run(
            aggregator.as_ref(),
            input,
            out,
            context,
            &mut |old, record| {
                let before = match (old, &*initializer) {
                    (Some(old), _) => old,
                    (None, Initializer::Constant(start)) => start.clone(),
                    (None, Initializer::Call(function, udf)) => {
                        udf.call(&[]).map_err(|e| function.locate(e, record))?
                    }
                };
                aggregator
                    .call(&[&record.key, &record.value, &before])
                    .map_err(|e| function.locate(e, record))
            },
        )
    }

    fn barrier(&mut self, out: &mut Vec<Record>, _context: &mut Context<'_>) -> Result<()> {
        self.fold.keeper.barrier(out);
        Ok(())
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
