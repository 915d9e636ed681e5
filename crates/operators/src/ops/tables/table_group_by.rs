//! `group_by` of a table: an update moves from the old value's group to the new one's.
//!
//! Takes changes, emits changes under the keys that the function returns. If both keys are the same it
//! emits one change (so that the aggregation subtracts and adds in one step), else one that subtracts,
//! then one that adds. A null value, and a pair with a null key or value, belongs to no group. Updates
//! that aren't the newest of a versioned table are left out.

#[cfg(test)]
mod tests;

use crate::ops::tables::table_update;
use crate::support::function::{Function, batch_or_single_records};
use crate::{Context, Operator};
use stoatflow_core::{Change, Datum, Record, Result, Serde};

/// See the module.
#[derive(Debug)]
pub(crate) struct TableGroupBy {
    function: Function,
    key: Serde,
    probes: Vec<Record>,
    pairs: Vec<(Datum, Datum)>,
}

impl TableGroupBy {
    pub fn new(function: Function, key: Serde) -> Self {
        Self {
            function: function.together(),
            key,
            probes: Vec::new(),
            pairs: Vec::new(),
        }
    }

    /// Whether two keys are the same: equal, or with equal bytes (foreign objects).
    fn same(&self, a: &Datum, b: &Datum) -> Result<bool> {
        Ok(a == b || self.key.encode(a)? == self.key.encode(b)?)
    }
}

impl TableGroupBy {
    fn take(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        input.retain(|record| table_update::is_latest(&record.value));
        table_update::probe(input, true, &mut self.probes);
        let asked = self.probes.len();
        self.function
            .pair(&mut self.probes, &mut self.pairs, context)?;
        let whole = self.probes.len() == asked;
        self.probes.clear();
        if !whole {
            input.clear();
            return Ok(());
        }
        let mut pairs = std::mem::take(&mut self.pairs);
        let mut results = pairs.drain(..);
        let mut grouped = |value: &Datum| {
            if value.is_null() {
                return None;
            }
            results
                .next()
                .filter(|(key, value)| !key.is_null() && !value.is_null())
        };
        for mut record in input.drain(..) {
            let Change { old, new, .. } = table_update::split(std::mem::take(&mut record.value));
            let change = |old, new| Datum::change(old, new, true);
            match (grouped(&new), grouped(&old)) {
                (Some((key, new)), Some((old_key, old))) => {
                    let same = |_: &mut Context<'_>| {
                        self.same(&key, &old_key)
                            .map_err(|e| self.function.locate(e, &record))
                    };
                    let node_context = &self.function.node_context;
                    let Some(same) = node_context.attempt(&record, context, same)? else {
                        continue;
                    };
                    if same {
                        out.push(record.with_pair(key, change(old, new)));
                    } else {
                        out.push(record.with_pair(old_key, change(old, Datum::Null)));
                        out.push(record.with_pair(key, change(Datum::Null, new)));
                    }
                }
                (Some((key, new)), None) => {
                    out.push(record.with_pair(key, change(Datum::Null, new)));
                }
                (None, Some((key, old))) => {
                    out.push(record.with_pair(key, change(old, Datum::Null)));
                }
                (None, None) => {}
            }
        }
        drop(results);
        self.pairs = pairs;
        Ok(())
    }
}

impl Operator for TableGroupBy {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let singly = self.function.singly(input.len());
        batch_or_single_records(singly, input, |batch| self.take(batch, out, context))
    }
}
