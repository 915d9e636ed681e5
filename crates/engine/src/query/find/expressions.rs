//! The compiled expressions of a query.
//!
//! Takes a query once; then for each row whether it matches, its place in the requested order, and its
//! selected values.

use stoatflow_core::{Datum, Record, Result, ordered};
use stoatflow_operators::expr::Compiled;
use stoatflow_plan::find::FindSpec;

/// See the module.
pub(super) struct Expressions {
    condition: Option<Compiled>,
    order: Vec<(Compiled, bool)>,
    select: Option<Vec<Compiled>>,
}

impl Expressions {
    pub fn new(spec: &FindSpec) -> Result<Self> {
        let order = spec.order_by.iter();
        let order = order.map(|by| Ok((Compiled::new(&by.expr)?, by.down)));
        let select = spec.select.as_ref();
        let select = select.map(|s| s.exprs.iter().map(Compiled::new).collect());
        Ok(Self {
            condition: spec.condition.as_ref().map(Compiled::new).transpose()?,
            order: order.collect::<Result<_>>()?,
            select: select.transpose()?,
        })
    }

    /// Whether the row meets the condition.
    pub fn test(&self, row: &Record) -> Result<bool> {
        let matches = self.condition.as_ref().map(|c| c.test(row));
        Ok(matches.transpose()?.unwrap_or(true))
    }

    /// The bytes by which the row is sorted. A value that can't be computed comes last.
    pub fn place(&self, row: &Record) -> Vec<u8> {
        let mut place = Vec::new();
        for (by, down) in &self.order {
            let begin = place.len();
            match by.compared(row) {
                Ok(value) => {
                    ordered::write(&mut place, &value);
                }
                Err(_) => place.push(ordered::OTHER),
            }
            if *down {
                // No encoded value is a prefix of another one, so inverting the bytes reverses the
                // order.
                place[begin..].iter_mut().for_each(|byte| *byte = !*byte);
            }
        }
        place
    }

    /// The selected values; `None` if the query selects whole rows.
    pub fn select(&self, row: &Record) -> Result<Option<Vec<Datum>>> {
        let select = self.select.as_ref();
        let selected = select.map(|all| all.iter().map(|one| one.eval(row)).collect());
        selected.transpose()
    }
}
