//! `offload`: parks records while an external worker answers requests for them over two topics.
//!
//! Takes records and answers, each in a node of its own (they share one parking lot per lane); gives
//! requests to the second child, and results to the first one, in the order of each key: an answer that
//! comes before that of an earlier record of its key waits. A request that is not answered in time, or with
//! an error, is sent again; what is left of that is replaced by a function, or is an error of its record,
//! when its turn has come. All that is known of a parked record is in its row, in the epoch in which it
//! happens. Never waits, and never sends a request outside of the epoch that has parked its record.

mod headers;
mod lane;
mod listing;
mod parking_lots;
mod processor;
mod row;
#[cfg(test)]
mod tests;

pub use headers::{ATTEMPT, CORRELATION, ERROR};
pub use listing::{Listing, Parked, parked};
pub use parking_lots::Occupancy;
pub(crate) use parking_lots::ParkingLots;
pub(crate) use processor::{OffloadProcessor, Settings};

use crate::{Context, Operator};
use parking_lot::Mutex;
use std::sync::Arc;
use stoatflow_core::{Record, Result};

/// What the two nodes of an offload share in one lane.
pub(crate) type Shared = Arc<Mutex<OffloadProcessor>>;

/// The side of the records: parks them, and does what is due by the clock.
#[derive(Debug)]
pub(crate) struct Offload(pub Shared);

impl Operator for Offload {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        self.0.lock().park(input, out, context)
    }

    fn open(&mut self, context: &mut Context<'_>) -> Result<()> {
        self.0.lock().open(context)
    }

    fn routes(&self) -> bool {
        true
    }

    fn barrier(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.0.lock().look_at_clock(out, context)
    }
}

/// The side of the answers.
#[derive(Debug)]
pub(crate) struct OffloadAnswers(pub Shared);

impl Operator for OffloadAnswers {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        self.0.lock().answer(input, out, context)
    }

    fn routes(&self) -> bool {
        true
    }
}
