//! What `reduce` and `aggregate` share: fold a batch into its keys' values with a foreign function.
//!
//! Takes a batch and a step (value so far, record → value), gives updates. Loads the batch's entries
//! before the interpreter is attached, attaches it once, writes afterwards.
//!
//! Owns a promise: what was passed on doesn't change any more. A foreign value may be changed in place
//! by the next step (`agg.append(x); return agg`), while the update that carried it still waits for its
//! turn below. So before a key's value is handed to a second step of the batch, the update of the
//! first gets a copy, made through the store's serde; and where updates walk to other lanes, each does.

#[cfg(test)]
mod tests;

use crate::keeper::{Keeper, Update};
use crate::working_set::WorkingSet;
use crate::{Context, Udf};
use stoatflow_core::{Datum, Error, Record, Result};
use stoatflow_state::Stored;

/// A fold at its place in the topology.
#[derive(Debug)]
pub(crate) struct Fold {
    pub keeper: Keeper,
    working: WorkingSet,
    /// Do updates leave the lane before they are encoded?
    leaves_lane: bool,
}

/// One step: the value so far (`None` for a fresh key) and the record give the new value.
pub(crate) type Step<'a> = dyn FnMut(Option<Datum>, &Record) -> Result<Datum> + 'a;

impl Fold {
    pub fn new(keeper: Keeper, leaves_lane: bool) -> Self {
        Self {
            keeper,
            working: WorkingSet::default(),
            leaves_lane,
        }
    }

    pub fn run(
        &mut self,
        udf: &dyn Udf,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
        step: &mut Step<'_>,
    ) -> Result<()> {
        self.working.load(&self.keeper, input, context)?;
        if input.is_empty() {
            return Ok(());
        }
        // Should a port ever forget to run the body, records must not vanish.
        let mut done = Err(Error::internal("a function's scope did not run"));
        udf.scope(&mut || done = self.compute(input, out, step));
        done?;
        self.working.store(&self.keeper, context)
    }

    fn compute(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        step: &mut Step<'_>,
    ) -> Result<()> {
        for (at, record) in input.drain(..).enumerate() {
            let entry = self.working.entry(at);
            if let Some(earlier) = entry.passed_on.take() {
                self.keeper.freeze(&mut out[earlier])?;
            }
            let old = entry.current.take().filter(|old| !old.value.is_null());
            let timestamp = old
                .as_ref()
                .map_or(record.timestamp, |old| record.timestamp.max(old.timestamp));
            let existed = old.is_some();
            let value = step(old.map(|old| old.value), &record)?;
            // A tombstone in the changelog has the time of the record that caused it, as in Kafka Streams.
            let stored_at = if value.is_null() {
                record.timestamp
            } else {
                timestamp
            };
            entry.current = Some(Stored {
                value: value.clone(),
                timestamp: stored_at,
            });
            self.keeper.forward(
                &entry.key,
                record,
                Update {
                    existed,
                    value,
                    timestamp,
                },
                out,
            );
            if self.keeper.is_cached() {
                continue;
            }
            if self.leaves_lane {
                let last = out.len() - 1;
                self.keeper.freeze(&mut out[last])?;
            } else {
                entry.passed_on = Some(out.len() - 1);
            }
        }
        Ok(())
    }
}
