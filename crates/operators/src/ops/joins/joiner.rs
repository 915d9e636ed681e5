//! The function of a join, called for many rows with one attach of its interpreter; an async one is
//! called concurrently for rows with different keys.
//!
//! Takes both sides of each row, returns the results in the same order. The operator decides whether a
//! row exists, not the joiner. Never reads a store: rows are gathered before, written after.

#[cfg(test)]
mod tests;

use crate::expr::combiner::ArgumentRoles;
use crate::ops::async_ops::{ConcurrentCalls, order};
use crate::support::error_policy::Outcome;
use crate::support::function::Function;
use crate::support::node_context::NodeContext;
use crate::{Arguments, Context, Failed, Udf};
use bytes::Bytes;
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Origin, Record, Result};
use stoatflow_plan::JoinKind;

/// See the module.
#[derive(Debug)]
pub(crate) struct Joiner {
    function: Function,
    udf: Arc<dyn Udf>,
    /// Only for an async function: how it is called, and the keys that order the rows.
    calls: Option<ConcurrentCalls>,
    order: Vec<Option<Bytes>>,
    with_key: bool,
    arguments: Vec<Datum>,
    origins: Vec<Origin>,
    results: Vec<Datum>,
    lost: Vec<usize>,
}

impl Joiner {
    pub fn new(function: Function, with_key: bool, calls: Option<ConcurrentCalls>) -> Self {
        let takes = if with_key {
            ArgumentRoles::KeyAndSides
        } else {
            ArgumentRoles::Sides
        };
        let udf = function.caller(takes);
        Self {
            function,
            udf,
            calls,
            order: Vec::new(),
            with_key,
            arguments: Vec::new(),
            origins: Vec::new(),
            results: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn add(&mut self, key: &Datum, left: Datum, right: Datum, origin: Origin) {
        if self.with_key {
            self.arguments.push(key.clone());
        }
        if self.calls.is_some() {
            self.order.push(order(key));
        }
        self.arguments.extend([left, right]);
        self.origins.push(origin);
    }

    /// Runs `body` with the joiner's interpreter attached.
    pub fn scope(&self, body: &mut dyn FnMut()) {
        self.udf.scope(body);
    }

    /// True if the function is async.
    pub const fn awaits(&self) -> bool {
        self.calls.is_some()
    }

    /// Computes and returns the results of all added rows, in order; null for rows that were left out.
    /// Removes the rows.
    pub fn join(&mut self, context: &mut Context<'_>) -> Result<Joined<'_>> {
        self.join_all(None, context)
    }

    /// The same with an async function for records that ask, one for each row: the error handler of the
    /// asking operator decides about failures.
    pub fn join_for(
        &mut self,
        node_context: &NodeContext,
        asking: &[&Record],
        context: &mut Context<'_>,
    ) -> Result<Joined<'_>> {
        self.join_all(Some((node_context, asking)), context)
    }

    fn join_all(
        &mut self,
        asker: Option<(&NodeContext, &[&Record])>,
        context: &mut Context<'_>,
    ) -> Result<Joined<'_>> {
        self.results.clear();
        self.lost.clear();
        let rows = self.origins.len();
        let done = match self.calls.take() {
            None => self.call_in_turn(context),
            Some(mut calls) => {
                let done = self.call_side_by_side(&mut calls, asker, context);
                self.calls = Some(calls);
                done
            }
        };
        // After a failure too: a read of a table through a join may continue with another record.
        self.arguments.clear();
        self.origins.clear();
        self.order.clear();
        done?;
        if self.results.len() != rows {
            return Err(Error::internal("a joiner gave too few results"));
        }
        Ok(Joined {
            results: self.results.drain(..),
            lost: &self.lost,
        })
    }

    const fn arity(&self) -> usize {
        if self.with_key { 3 } else { 2 }
    }

    fn call_in_turn(&mut self, context: &mut Context<'_>) -> Result<()> {
        let (arity, rows) = (self.arity(), self.origins.len());
        let (mut from, mut attempts) = (0, 0);
        while from < rows {
            let rest = &self.arguments[from * arity..];
            let origins = &self.origins[from..];
            let called = self.udf.calls(arity, origins, rest, &mut self.results);
            let Err(Failed { at, error }) = called else {
                break;
            };
            attempts = if at > 0 { 0 } else { attempts };
            from += at;
            let call = self.arguments.chunks_exact(arity).nth(from);
            let record = self.record(from, call.unwrap_or_default());
            let error = self.function.locate(error, &record);
            let node_context = &self.function.node_context;
            let outcome = node_context.handle(error, &record, attempts, context)?;
            self.results.truncate(from);
            match outcome {
                Outcome::Again => attempts += 1,
                Outcome::Gone => {
                    self.lost.push(from);
                    self.results.push(Datum::Null);
                    (from, attempts) = (from + 1, 0);
                }
            }
        }
        Ok(())
    }

    fn call_side_by_side(
        &mut self,
        calls: &mut ConcurrentCalls,
        asker: Option<(&NodeContext, &[&Record])>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let (arity, run) = (self.arity(), Arc::clone(context.run));
        let name = calls.name().to_owned();
        let arguments = self.arguments.chunks_exact(arity).map(Arguments::from);
        let rows = self.order.drain(..).zip(arguments).collect();
        let decide = |row: usize, error: Error, attempts: u32| {
            let own = &self.function.node_context;
            let asks =
                asker.and_then(|(node_context, asking)| Some((node_context, *asking.get(row)?)));
            if let Some((node_context, record)) = asks {
                let error = own.locate_call(error, &record.origin, Some(&name));
                return node_context.decide(error, record, attempts, context);
            }
            let call = self.arguments.chunks_exact(arity).nth(row);
            let record = self.record(row, call.unwrap_or_default());
            let error = own.locate_call(error, &record.origin, Some(&name));
            own.decide(error, &record, attempts, context)
        };
        let results = calls.call(rows, &run, decide)?;
        for (row, result) in results.into_iter().enumerate() {
            if result.is_none() {
                self.lost.push(row);
            }
            self.results.push(result.unwrap_or_default());
        }
        Ok(())
    }

    /// The record passed to the error handler: the key if the joiner gets it, and the left side, or else
    /// the right.
    fn record(&self, row: usize, call: &[Datum]) -> Record {
        let (key, sides) = match call {
            [key, sides @ ..] if self.with_key => (key.clone(), sides),
            sides => (Datum::Null, sides),
        };
        let value = sides.iter().find(|side| !side.is_null());
        Record {
            key,
            value: value.cloned().unwrap_or_default(),
            origin: self.origins.get(row).copied().unwrap_or_default(),
            ..Record::default()
        }
    }
}

/// Results of the joined rows.
#[derive(Debug)]
pub(crate) struct Joined<'a> {
    pub results: std::vec::Drain<'a, Datum>,
    /// Indexes of rows that were left out, ascending.
    pub lost: &'a [usize],
}

impl Joined<'_> {
    /// Stores each result in its record of `out`, from index `at` on, and removes the rows that were
    /// left out.
    pub fn fill(self, at: usize, out: &mut Vec<Record>) {
        for (record, result) in out[at..].iter_mut().zip(self.results) {
            record.value = result;
        }
        for row in self.lost.iter().rev() {
            out.remove(at + row);
        }
    }
}

/// Which sides a join of two tables requires.
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

    /// Whether the join has a row for these two sides.
    pub fn is_joined(self, left: &Datum, right: &Datum) -> bool {
        let (no_left, no_right) = (left.is_null(), right.is_null());
        !(no_left && (self.left || no_right) || no_right && self.right)
    }
}
