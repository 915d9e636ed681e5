//! `reduce`: combines a key's values, two at a time.
//!
//! Takes records at their key's lane, gives the combined value after each. A key's first value is
//! taken as it is; a null result deletes, and the next value starts afresh. Null keys and null values
//! are dropped and counted. The result's time is the highest the key has seen since it started.

use crate::function::Function;
use crate::keeper::{Keeper, Update};
use crate::working_set::WorkingSet;
use crate::{Context, Operator, Udf};
use std::sync::Arc;
use stoatflow_core::{Error, Record, Result};
use stoatflow_state::Stored;

/// See the module.
#[derive(Debug)]
pub(crate) struct Reduce {
    keeper: Keeper,
    function: Function,
    reducer: Arc<dyn Udf>,
    working: WorkingSet,
}

impl Reduce {
    pub fn new(keeper: Keeper, function: Function) -> Result<Self> {
        let reducer = function.reducer("reduce")?;
        Ok(Self { keeper, function, reducer, working: WorkingSet::default() })
    }

    fn compute(&mut self, input: &mut Vec<Record>, out: &mut Vec<Record>) -> Result<()> {
        for (at, record) in input.drain(..).enumerate() {
            let entry = self.working.entry(at);
            let old = entry.current.take();
            let existed = old.is_some();
            let (value, timestamp) = match old {
                None => (record.value.clone(), record.timestamp),
                Some(old) => {
                    let value = self.reducer.call(&[&old.value, &record.value]).map_err(|e| self.function.locate(e, &record))?;
                    (value, record.timestamp.max(old.timestamp))
                }
            };
            entry.current = (!value.is_null()).then(|| Stored { value: value.clone(), timestamp });
            self.keeper.forward(&entry.key, record, Update { existed, value, timestamp }, out);
        }
        Ok(())
    }
}

impl Operator for Reduce {
    fn process(&mut self, input: &mut Vec<Record>, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.working.load(&self.keeper, input, context)?;
        if input.is_empty() {
            return Ok(());
        }
        let mut done = Err(Error::internal("a function's scope did not run"));
        Arc::clone(&self.reducer).scope(&mut || done = self.compute(input, out));
        done?;
        self.working.store(&self.keeper, context)
    }

    fn barrier(&mut self, out: &mut Vec<Record>, _context: &mut Context<'_>) -> Result<()> {
        self.keeper.barrier(out);
        Ok(())
    }
}
