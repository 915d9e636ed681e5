//! Counts record batches that are sent again.

use super::Sender;
use crate::kafka::native::producer::accumulator::RequestInFlight;
use crate::kafka::native::producer::coordination::Coordination;
use kafka_protocol::messages::ProduceRequest;

impl Sender {
    /// Puts the batches of a request without an answer back.
    pub(super) fn send_again(&mut self, at: &Coordination, flight: RequestInFlight) {
        Self::count_retries(at, flight.places().count());
        self.accumulator.requeue(flight);
    }

    pub(super) fn count_retries(at: &Coordination, batches: usize) {
        at.cluster.count_retries::<ProduceRequest>(batches);
    }
}
