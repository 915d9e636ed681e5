//! The function of a join, called for many rows with one attach of its interpreter.
//!
//! Takes both sides of each row, gives the results in the same order. A row is told from nothing by the
//! operator, not here. Never reads a store: rows are gathered before, written after.

use crate::function::{Callee, Function};
use crate::{Failed, Udf};
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Origin, Record, Result};
use stoatflow_plan::JoinKind;

/// See the module.
#[derive(Debug)]
pub(crate) struct Joiner {
    function: Function,
    udf: Arc<dyn Udf>,
    with_key: bool,
    arguments: Vec<Datum>,
    origins: Vec<Origin>,
    results: Vec<Datum>,
}

impl Joiner {
    pub fn new(function: Function, with_key: bool) -> Result<Self> {
        let udf = match &function.callee {
            Callee::Foreign(udf) => Arc::clone(udf),
            Callee::Native(expr) => {
                return Err(Error::topology(format!(
                    "a join can't use the expression {}: it would see one side only",
                    expr.text()
                ))
                .hint(
                    "give a function of (left, right), or of (key, left, right) with with_key=True",
                ));
            }
        };
        Ok(Self {
            function,
            udf,
            with_key,
            arguments: Vec::new(),
            origins: Vec::new(),
            results: Vec::new(),
        })
    }

    /// One more row.
    pub fn add(&mut self, key: &Datum, left: Datum, right: Datum, origin: Origin) {
        if self.with_key {
            self.arguments.push(key.clone());
        }
        self.arguments.extend([left, right]);
        self.origins.push(origin);
    }

    /// Runs `body` with the joiner's interpreter attached.
    pub fn scope(&self, body: &mut dyn FnMut()) {
        self.udf.scope(body);
    }

    /// The results of all rows that were added, in their order. Forgets the rows.
    pub fn join(&mut self) -> Result<std::vec::Drain<'_, Datum>> {
        let arity = if self.with_key { 3 } else { 2 };
        self.results.clear();
        let rows = self.origins.len();
        let called = if rows == 0 {
            Ok(())
        } else {
            self.udf.calls(arity, &self.arguments, &mut self.results)
        };
        self.arguments.clear();
        let origins = std::mem::take(&mut self.origins);
        if let Err(Failed { at, error }) = called {
            let record = Record {
                origin: origins.get(at).copied().unwrap_or_default(),
                ..Record::default()
            };
            return Err(self.function.locate(error, &record));
        }
        if self.results.len() != rows {
            return Err(Error::internal("a joiner gave too few results"));
        }
        self.origins = origins;
        self.origins.clear();
        Ok(self.results.drain(..))
    }
}

/// Which sides a join of two tables can't do without.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    pub left: bool,
    pub right: bool,
}

impl Needs {
    pub fn of(kind: JoinKind) -> Self {
        Self {
            left: kind != JoinKind::Outer,
            right: kind == JoinKind::Inner,
        }
    }

    /// Is there a row of these two?
    pub fn met(self, left: &Datum, right: &Datum) -> bool {
        let (no_left, no_right) = (left.is_null(), right.is_null());
        !(no_left && (self.left || no_right) || no_right && self.right)
    }
}
