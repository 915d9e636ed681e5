//! Hints about functions that could be expressions, found while they run: one per function.

use super::Status;

impl Status {
    /// Adds a hint about a function of a node.
    pub fn hint(&self, node: &str, text: &str) {
        self.hints.lock().push((node.to_owned(), text.to_owned()));
    }

    /// All hints, with their nodes.
    pub fn hints(&self) -> Vec<(String, String)> {
        self.hints.lock().clone()
    }
}
