//! `split`: sends each record to the first branch whose predicate accepts it.
//!
//! Takes records; emits them with routes: child `i` is the branch of predicate `i`, the child after the
//! last predicate is the default branch. Without a default branch, records that no predicate accepts end
//! here and are not counted as dropped. Each predicate gets all remaining records of a batch at once,
//! and no record more than once. Branches keep the order of records; between branches it is kept only
//! where it can be observed.

#[cfg(test)]
mod tests;

use crate::support::function::Function;
use crate::{Context, Operator};
use stoatflow_core::{Record, Result};

/// See the module.
#[derive(Debug)]
pub(crate) struct Split {
    predicates: Vec<Function>,
    /// True if there is a default branch.
    default: bool,
    /// True if the order between branches can be observed downstream.
    ordered: bool,
    verdicts: Vec<bool>,
    /// Branch of each record of the batch.
    branches: Vec<u32>,
    /// Records that no predicate has accepted so far: their indexes in the batch (`places`), and the
    /// records.
    places: Vec<usize>,
    rest: Vec<Record>,
    spare: Vec<Record>,
    slots: Vec<Option<Record>>,
}

const NO_BRANCH: u32 = u32::MAX;

impl Split {
    pub fn new(predicates: Vec<Function>, default: bool, ordered: bool) -> Self {
        Self {
            predicates,
            default,
            ordered,
            verdicts: Vec::new(),
            branches: Vec::new(),
            places: Vec::new(),
            rest: Vec::new(),
            spare: Vec::new(),
            slots: Vec::new(),
        }
    }

    /// Sends the records of `rest` that the predicate accepts to its branch, keeps the others.
    fn take(
        &mut self,
        nth: usize,
        branch: u32,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let places = &mut self.places;
        let gone = |at: usize| {
            places.remove(at);
        };
        self.predicates[nth].test_telling(&mut self.rest, &mut self.verdicts, context, gone)?;
        let routes = &mut context.effects.routes;
        let mut kept = 0;
        for (at, record) in self.rest.drain(..).enumerate() {
            let place = self.places[at];
            if self.verdicts[at] {
                if self.ordered {
                    self.branches[place] = branch;
                    self.slots[place] = Some(record);
                } else {
                    out.push(record);
                    routes.push(branch);
                }
            } else {
                self.places[kept] = place;
                kept += 1;
                self.spare.push(record);
            }
        }
        self.places.truncate(kept);
        std::mem::swap(&mut self.rest, &mut self.spare);
        Ok(())
    }
}

impl Operator for Split {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        self.places.clear();
        self.places.extend(0..input.len());
        self.branches.clear();
        self.slots.clear();
        if self.ordered {
            self.branches.resize(input.len(), NO_BRANCH);
            self.slots.resize_with(input.len(), || None);
        }
        self.rest.clear();
        self.rest.append(input);
        for (branch, nth) in (0..).zip(0..self.predicates.len()) {
            if self.rest.is_empty() {
                break;
            }
            self.take(nth, branch, out, context)?;
        }
        let routes = &mut context.effects.routes;
        if self.default {
            let default = u32::try_from(self.predicates.len()).unwrap_or(NO_BRANCH);
            for (record, &place) in self.rest.drain(..).zip(&self.places) {
                if self.ordered {
                    self.branches[place] = default;
                    self.slots[place] = Some(record);
                } else {
                    out.push(record);
                    routes.push(default);
                }
            }
        }
        self.rest.clear();
        for (slot, branch) in self.slots.drain(..).zip(&self.branches) {
            if let Some(record) = slot {
                out.push(record);
                routes.push(*branch);
            }
        }
        Ok(())
    }

    fn routes(&self) -> bool {
        true
    }
}
