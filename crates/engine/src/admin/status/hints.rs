//! What the doctor of the topology says of functions while they run: once of each.

use super::Status;

impl Status {
    /// Keeps what it says of a function of a node.
    pub fn hint(&self, node: &str, text: &str) {
        self.hints.lock().push((node.to_owned(), text.to_owned()));
    }

    /// All of it, by node.
    pub fn hints(&self) -> Vec<(String, String)> {
        self.hints.lock().clone()
    }
}
