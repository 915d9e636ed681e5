//! `offload`: parks records while an external worker answers requests for them over two topics.
//!
//! Takes records and answers, each in a node of its own (they share one parking lot per lane); sends
//! requests to the second child, and results to the first one, in order per key: an answer that arrives
//! before that of an earlier record of its key waits. A request that is not answered in time, or with an
//! error, is sent again. If all attempts fail, a function provides the answer, or it is an error of the
//! record, when its turn has come. Everything about a parked record is in its row, written in the epoch
//! in which it happens. Never waits, and never sends a request outside of the epoch that has parked its
//! record.

mod headers;
mod listing;
mod parked_queues;
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

/// State that the two nodes of an offload share in one lane.
pub(crate) type Shared = Arc<Mutex<OffloadProcessor>>;

/// The node for records: parks them, and handles what is due by the clock.
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
        self.0.lock().handle_due(out, context)
    }
}

/// The node for answers.
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
