//! Reads a view for an operator that may leave records out.
//!
//! Takes the records that ask; returns for each the value found, or that the record is lost because the
//! error handler of the asking operator gave it up. Works record by record, so that a failure affects
//! only its own record. Only the rows of an async joiner are joined concurrently, and the handler
//! decides about each of them separately. Never repeats a call that has a result.

use super::{AsOf, ViewRead, parts};
use crate::Context;
use crate::ops::joins::joiner::{Joiner, Needs};
use crate::support::node_context::NodeContext;
use stoatflow_core::{Datum, Record, Result};
use stoatflow_state::Stored;

/// Result for a record that asks.
#[derive(Clone, Debug)]
pub(super) enum LookupResult {
    Found(Option<Stored>),
    LeftOut,
}

impl ViewRead {
    /// True if the view contains an async joiner.
    fn awaits(&self) -> bool {
        match self {
            Self::Store(_) => false,
            Self::Filter { of, .. }
            | Self::MapValues { of, .. }
            | Self::TransformValues { of, .. } => of.awaits(),
            Self::Join {
                left,
                right,
                joiner,
                ..
            } => joiner.awaits() || left.awaits() || right.awaits(),
        }
    }

    pub(super) fn look_up_each(
        &mut self,
        node_context: &NodeContext,
        asked: &[Record],
        as_of: AsOf,
        context: &mut Context<'_>,
    ) -> Result<Vec<LookupResult>> {
        if !self.awaits() {
            let each = asked.iter().map(|record| {
                attempt(node_context, record, context, |context| {
                    self.read(std::slice::from_ref(record), as_of, context)
                })
            });
            return each.collect();
        }
        let found = match self {
            Self::Store(_) => Vec::new(),
            Self::Filter { of, .. }
            | Self::MapValues { of, .. }
            | Self::TransformValues { of, .. } => {
                of.look_up_each(node_context, asked, as_of, context)?
            }
            Self::Join {
                left,
                right,
                needs,
                joiner,
            } => {
                let left = left.look_up_each(node_context, asked, as_of.whole(), context)?;
                let right = right.look_up_each(node_context, asked, as_of.whole(), context)?;
                let both = asked.iter().zip(left.into_iter().zip(right));
                if joiner.awaits() {
                    return join_concurrently(node_context, both, *needs, joiner, context);
                }
                let each = both.map(|(record, sides)| {
                    let (LookupResult::Found(left), LookupResult::Found(right)) = sides else {
                        return Ok(LookupResult::LeftOut);
                    };
                    attempt(node_context, record, context, |context| {
                        let asked = std::slice::from_ref(record);
                        let sides = (vec![left.clone()], vec![right.clone()]);
                        super::join(asked, sides, *needs, joiner, context)
                    })
                });
                return each.collect();
            }
        };
        let each = asked.iter().zip(found).map(|(record, held)| {
            let LookupResult::Found(held) = held else {
                return Ok(LookupResult::LeftOut);
            };
            attempt(node_context, record, context, |context| {
                self.apply(std::slice::from_ref(record), vec![held.clone()], context)
            })
        });
        each.collect()
    }
}

/// Runs `act` for one record, with retries as the error handler decides.
fn attempt(
    node_context: &NodeContext,
    record: &Record,
    context: &mut Context<'_>,
    mut act: impl FnMut(&mut Context<'_>) -> Result<Vec<Option<Stored>>>,
) -> Result<LookupResult> {
    let found = node_context.attempt(record, context, |context| {
        Ok(act(context)?.into_iter().next().flatten())
    })?;
    Ok(found.map_or(LookupResult::LeftOut, LookupResult::Found))
}

/// Joins all rows at once.
fn join_concurrently<'a>(
    node_context: &NodeContext,
    both: impl Iterator<Item = (&'a Record, (LookupResult, LookupResult))>,
    needs: Needs,
    joiner: &mut Joiner,
    context: &mut Context<'_>,
) -> Result<Vec<LookupResult>> {
    let (mut all, mut rows, mut asking) = (Vec::new(), Vec::new(), Vec::new());
    for (record, sides) in both {
        let (LookupResult::Found(left), LookupResult::Found(right)) = sides else {
            all.push(LookupResult::LeftOut);
            continue;
        };
        let (left, left_at) = parts(left);
        let (right, right_at) = parts(right);
        if needs.is_joined(&left, &right) {
            rows.push((all.len(), left_at.max(right_at)));
            joiner.add(&record.key, left, right, record.origin);
            asking.push(record);
        }
        all.push(LookupResult::Found(None));
    }
    let joined = joiner.join_for(node_context, &asking, context)?;
    let values: Vec<Datum> = joined.results.collect();
    for row in joined.lost {
        all[rows[*row].0] = LookupResult::LeftOut;
    }
    for ((at, timestamp), value) in rows.into_iter().zip(values) {
        if !value.is_null() {
            all[at] = LookupResult::Found(Some(Stored { value, timestamp }));
        }
    }
    Ok(all)
}
