//! `join` and `left_join` of a stream with a global table, by a key that a function computes.
//!
//! Takes the stream's records in any lane, emits each joined with the table's row for that key. Records
//! with a null value are dropped, and in an inner join those without a key (both counted). The joiner
//! gets the stream's key. Stateless.

#[cfg(test)]
mod tests;

use crate::ops::joins::stream_table_join::Lookup;
use crate::support::function::Function;
use crate::{Context, Operator};
use stoatflow_core::{Datum, Record, Result};

/// See the module.
#[derive(Debug)]
pub(crate) struct GlobalJoin {
    lookup: Lookup,
    key_function: Function,
    asked: Vec<Record>,
    scratch: Vec<Datum>,
}

impl GlobalJoin {
    pub fn new(lookup: Lookup, key_function: Function) -> Self {
        Self {
            lookup,
            key_function,
            asked: Vec::new(),
            scratch: Vec::new(),
        }
    }
}

impl Operator for GlobalJoin {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        // The key function is never called with null values, so they are dropped first.
        input.retain(|record| self.lookup.admits(record, true, context));
        self.asked.clear();
        self.asked.extend_from_slice(input);
        let set = |asked: &mut Record, key| asked.key = key;
        let gone = |at: usize| {
            input.remove(at);
        };
        self.key_function
            .one_telling(&mut self.asked, &mut self.scratch, context, set, gone)?;
        let lookup = &mut self.lookup;
        let mut keys = self.asked.iter();
        input.retain(|record| {
            let has_key = keys.next().is_some_and(|asked| !asked.key.is_null());
            lookup.admits(record, has_key, context)
        });
        if !lookup.outer {
            self.asked.retain(|asked| !asked.key.is_null());
        }
        lookup.join(input, Some(&self.asked), out, context)?;
        self.asked.clear();
        Ok(())
    }
}
