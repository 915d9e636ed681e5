//! What the Kafka clients have done, as of the last look.

use super::Status;
use stoatflow_log::ClientCounts;

impl Status {
    /// Keeps what the clients have counted.
    pub fn set_clients(&self, counts: Vec<ClientCounts>) {
        self.detail.lock().clients = counts;
    }

    /// What the clients had counted at the last look, by role.
    pub fn clients(&self) -> Vec<ClientCounts> {
        self.detail.lock().clients.clone()
    }
}
