//! What joins give: rows that are gathered first and computed together.
//!
//! Takes records without a value, and for each what its joiner is called with; gives them with the
//! results, in order. So stores are read without an interpreter, and the joiner is called without a
//! store: once attached for a batch. Never reorders.

use crate::Udf;
use crate::function::Function;
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Record, Result};

/// So many rows at most wait for the joiner: a record may have any number of partners.
const FULL: usize = 16 * 1024;

/// See the module.
#[derive(Debug)]
pub(crate) struct Rows {
    function: Function,
    joiner: Arc<dyn Udf>,
    with_key: bool,
    records: Vec<Record>,
    arguments: Vec<Datum>,
    results: Vec<Datum>,
}

impl Rows {
    pub fn new(function: Function, with_key: bool) -> Result<Self> {
        Ok(Self {
            joiner: function.joiner()?,
            function,
            with_key,
            records: Vec::new(),
            arguments: Vec::new(),
            results: Vec::new(),
        })
    }

    /// The joiner, as a function with a scope.
    pub fn joiner(&self) -> &dyn Udf {
        self.joiner.as_ref()
    }

    /// Adds what will be `record` with the joiner's result as its value.
    pub fn add(&mut self, record: Record, left: Datum, right: Datum) {
        if self.with_key {
            self.arguments.push(record.key.clone());
        }
        self.arguments.push(left);
        self.arguments.push(right);
        self.records.push(record);
    }

    /// Computes if many rows wait.
    pub fn relieve(&mut self, out: &mut Vec<Record>) -> Result<()> {
        if self.records.len() < FULL {
            return Ok(());
        }
        self.finish(out)
    }

    /// Computes all rows and passes them on.
    pub fn finish(&mut self, out: &mut Vec<Record>) -> Result<()> {
        if self.records.is_empty() {
            return Ok(());
        }
        self.results.clear();
        let arity = if self.with_key { 3 } else { 2 };
        let called = self.joiner.calls(arity, &self.arguments, &mut self.results);
        called.map_err(|failed| match self.records.get(failed.at) {
            Some(record) => self.function.locate(failed.error, record),
            None => failed.error,
        })?;
        self.arguments.clear();
        let (rows, results) = (self.records.len(), self.results.len());
        if rows != results {
            return Err(Error::internal(format!(
                "a joiner gave {results} results for {rows} rows"
            )));
        }
        let computed = self.records.drain(..).zip(self.results.drain(..));
        out.extend(computed.map(|(mut record, value)| {
            record.value = value;
            record
        }));
        Ok(())
    }
}
