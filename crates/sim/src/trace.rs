//! Records what happened, in order: a hash that two runs of a seed must share, and counts over many
//! seeds.
//!
//! Events are text, kept only if requested (`keep_events`). The counts show that faults really happened.

use std::collections::BTreeMap;

/// The events of one run.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    kept: Vec<String>,
    keep_events: bool,
}

impl Trace {
    pub fn new(keep_events: bool) -> Self {
        // FNV-1a: small and stable.
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            kept: Vec::new(),
            keep_events,
        }
    }

    pub fn event(&mut self, event: String) {
        for byte in event.bytes().chain([b'\n']) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.keep_events {
            self.kept.push(event);
        }
    }

    pub fn hash(&self) -> u64 {
        self.hash
    }

    pub fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.kept)
    }
}

/// How often things happened, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics(BTreeMap<String, u64>);

impl Statistics {
    pub(crate) fn count(&mut self, what: &str) {
        self.add(what, 1);
    }

    pub(crate) fn add(&mut self, what: &str, times: u64) {
        if let Some(count) = self.0.get_mut(what) {
            *count += times;
        } else {
            self.0.insert(what.to_owned(), times);
        }
    }

    /// How often this happened.
    #[must_use]
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// Adds another run's counts.
    pub fn merge(&mut self, other: &Self) {
        for (what, times) in &other.0 {
            self.add(what, *times);
        }
    }

    /// All counts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(what, times)| (what.as_str(), *times))
    }
}
