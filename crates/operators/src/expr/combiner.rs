//! A native expression of several values, in place of a function of two sides, or of an aggregate.
//!
//! Takes the arguments that the function would get, and evaluates the expression, as a [`Udf`] without
//! an interpreter: operators don't see which kind they call. The two values are put into a record as the
//! old and the new value of an update, and one record serves all calls of a batch. Never attaches the
//! interpreter.

use super::Compiled;
use crate::{Failed, Udf};
use stoatflow_core::{Datum, Error, Origin, Record, Result};

/// The meaning of the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArgumentRoles {
    /// `(left, right)` of a join.
    Sides,
    /// `(key, left, right)` of a join, `(key, one, two)` of a merger.
    KeyAndSides,
    /// `(agg, value)` of a reducer.
    Reduction,
    /// `(key, value, agg)` of an aggregator.
    Step,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Combiner {
    expr: Compiled,
    takes: ArgumentRoles,
}

impl Combiner {
    pub fn new(expr: Compiled, takes: ArgumentRoles) -> Self {
        Self { expr, takes }
    }

    /// Puts the arguments of a call into the record.
    fn lay<'a>(
        &self,
        record: &mut Record,
        arguments: &mut impl Iterator<Item = &'a Datum>,
    ) -> Result<()> {
        let mut next = || {
            let argument = arguments.next().cloned();
            argument.ok_or_else(|| Error::internal("an expression was called with too little"))
        };
        let (key, old, new) = match self.takes {
            ArgumentRoles::Sides | ArgumentRoles::Reduction => (Datum::Null, next()?, next()?),
            ArgumentRoles::KeyAndSides => (next()?, next()?, next()?),
            ArgumentRoles::Step => {
                let (key, new) = (next()?, next()?);
                (key, next()?, new)
            }
        };
        record.key = key;
        if let Datum::Change(change) = &mut record.value {
            (change.old, change.new) = (old, new);
        } else {
            record.value = Datum::change(old, new, true);
        }
        Ok(())
    }
}

impl Udf for Combiner {
    fn name(&self) -> &str {
        self.expr.text()
    }

    fn call(&self, arguments: &[&Datum]) -> Result<Datum> {
        let mut record = Record::default();
        self.lay(&mut record, &mut arguments.iter().copied())?;
        self.expr.eval(&record)
    }

    fn calls(
        &self,
        arity: usize,
        _origins: &[Origin],
        arguments: &[Datum],
        out: &mut Vec<Datum>,
    ) -> Result<(), Failed> {
        let mut record = Record::default();
        for (at, call) in arguments.chunks_exact(arity).enumerate() {
            let one = self
                .lay(&mut record, &mut call.iter())
                .and_then(|()| self.expr.eval(&record));
            out.push(one.map_err(|error| Failed { at, error })?);
        }
        Ok(())
    }

    fn scope(&self, body: &mut dyn FnMut()) {
        body();
    }
}
