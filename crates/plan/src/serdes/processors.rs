//! The key by which records are distributed to a processor.
//!
//! Takes what is known about the records and about the processor's stores. Without a known serde it
//! chooses no key: then records stay in their lane.

use super::Pass;
use crate::check::timers::key_of_timers;

impl Pass<'_> {
    /// The key by which records are exchanged before a processor with stores. Without a known serde they
    /// stay in their lane, as in Kafka Streams. Timers determine the serde: a key's timers fire where
    /// its records are.
    pub(super) fn processor_key(&mut self, i: usize, from: &[usize], stores: &[String]) {
        if stores.is_empty() {
            return;
        }
        let plan = self.plan;
        let timers = || {
            stores
                .iter()
                .filter_map(|store| Some((store, key_of_timers(plan, store)?)))
        };
        let key = from
            .iter()
            .find_map(|&f| self.sides[f].0.known().cloned())
            .or_else(|| timers().next().map(|(_, key)| key.clone()))
            .or_else(|| plan.default_key.clone());
        if let Some(key) = &key {
            for (store, own) in timers().filter(|(_, own)| *own != key) {
                let (own, key) = (self.words(own), self.words(key));
                self.problems.at(
                    plan,
                    i,
                    format!("keeps the timers '{store}' by {own}, but its records come by {key}: timers fire where the records of their key are processed, so give both the same serde (key=)"),
                );
            }
        }
        self.serdes.group_key[i] = key;
    }
}
