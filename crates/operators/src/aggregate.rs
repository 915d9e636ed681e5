//! `aggregate`: folds a key's records into a value of another type.
//!
//! Takes records at their key's lane, gives the aggregate after each. A key starts with what the
//! initializer gives; a null aggregate deletes, and the next record starts afresh. Null keys and null
//! values are dropped and counted. The result's time is the highest the key has seen since it started.

use crate::expr::Compiled;
use crate::function::{Callee, Function};
use crate::keeper::{Keeper, Update};
use crate::working_set::WorkingSet;
use crate::{Context, Operator, Udf};
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Record, Result};
use stoatflow_state::Stored;

#[derive(Debug)]
enum Initializer {
    Constant(Datum),
    Call(Function, Arc<dyn Udf>),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Aggregate {
    keeper: Keeper,
    initializer: Initializer,
    function: Function,
    aggregator: Arc<dyn Udf>,
    working: WorkingSet,
}

impl Aggregate {
    pub fn new(keeper: Keeper, initializer: Function, function: Function) -> Result<Self> {
        let aggregator = function.reducer("aggregate")?;
        let initializer = match &initializer.callee {
            Callee::Native(expr) => Initializer::Constant(constant(expr)?),
            Callee::Foreign(udf) => {
                let udf = Arc::clone(udf);
                Initializer::Call(initializer, udf)
            }
        };
        Ok(Self { keeper, initializer, function, aggregator, working: WorkingSet::default() })
    }

    fn compute(&mut self, input: &mut Vec<Record>, out: &mut Vec<Record>) -> Result<()> {
        for (at, record) in input.drain(..).enumerate() {
            let entry = self.working.entry(at);
            let old = entry.current.take();
            let existed = old.is_some();
            let (before, timestamp) = match (old, &self.initializer) {
                (Some(old), _) => (old.value, record.timestamp.max(old.timestamp)),
                (None, Initializer::Constant(start)) => (start.clone(), record.timestamp),
                (None, Initializer::Call(function, udf)) => (udf.call(&[]).map_err(|e| function.locate(e, &record))?, record.timestamp),
            };
            let value = self.aggregator.call(&[&record.key, &record.value, &before]).map_err(|e| self.function.locate(e, &record))?;
            entry.current = (!value.is_null()).then(|| Stored { value: value.clone(), timestamp });
            self.keeper.forward(&entry.key, record, Update { existed, value, timestamp }, out);
        }
        Ok(())
    }
}

impl Operator for Aggregate {
    fn process(&mut self, input: &mut Vec<Record>, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.working.load(&self.keeper, input, context)?;
        if input.is_empty() {
            return Ok(());
        }
        let mut done = Err(Error::internal("a function's scope did not run"));
        Arc::clone(&self.aggregator).scope(&mut || done = self.compute(input, out));
        done?;
        self.working.store(&self.keeper, context)
    }

    fn barrier(&mut self, out: &mut Vec<Record>, _context: &mut Context<'_>) -> Result<()> {
        self.keeper.barrier(out);
        Ok(())
    }
}

fn constant(expr: &Compiled) -> Result<Datum> {
    if expr.reads_record() {
        return Err(Error::topology(format!("the initializer {} of an aggregate reads a record, but it runs before there is one", expr.text()))
            .hint("give a constant, such as sf.lit(0), or a function without arguments"));
    }
    expr.eval(&Record::default())
}
