//! Topics that this client has just created or deleted.
//!
//! The controller answers first, other brokers learn of it later, and librdkafka asks any of them: an
//! answer that contradicts a change of the last seconds counts as "not yet", and is retried. In a list of
//! all topics such changes are applied.

use super::Code;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Clock, SystemClock};

/// For this long, a broker that contradicts a change counts as not informed yet. Later its answer counts:
/// another program may have deleted the topic, or created it again.
const PROPAGATION: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug)]
pub(super) struct RecentChanges {
    clock: SystemClock,
    /// Whether the topic exists since then.
    topics: Mutex<BTreeMap<String, (bool, Duration)>>,
}

impl RecentChanges {
    pub(super) fn new() -> Self {
        Self {
            clock: SystemClock::new(),
            topics: Mutex::default(),
        }
    }

    /// Notes that these topics exist from now on, or don't.
    pub(super) fn note(&self, names: &[&str], exist: bool) {
        let now = self.clock.monotonic();
        let mut topics = self.topics.lock();
        topics.retain(|_, (_, at)| now.saturating_sub(*at) < PROPAGATION);
        let changes = names.iter().map(|name| ((*name).to_owned(), (exist, now)));
        topics.extend(changes);
    }

    /// Whether a broker doesn't know of a change yet that says so.
    pub(super) fn contradicts(&self, name: &str, exists: bool) -> bool {
        let now = self.clock.monotonic();
        let topics = self.topics.lock();
        let change = topics.get(name);
        change.is_some_and(|(exist, at)| *exist != exists && now.saturating_sub(*at) < PROPAGATION)
    }

    /// A broker's list of all topics, with the changes that it doesn't know of yet; sorted.
    pub(super) fn applied(&self, names: Vec<Arc<str>>) -> Vec<Arc<str>> {
        let now = self.clock.monotonic();
        let mut all: BTreeSet<Arc<str>> = names.into_iter().collect();
        let topics = self.topics.lock();
        let recent = (topics.iter()).filter(|(_, (_, at))| now.saturating_sub(*at) < PROPAGATION);
        for (name, (exists, _)) in recent {
            if *exists {
                all.insert(name.as_str().into());
            } else {
                all.remove(name.as_str());
            }
        }
        all.into_iter().collect()
    }

    /// The code of an answer about a topic: one that was just created is not unknown.
    pub(super) fn code(&self, name: &str, code: Code) -> Code {
        match code {
            Code::UnknownTopicOrPartition | Code::UnknownTopic if self.contradicts(name, false) => {
                Code::LeaderNotAvailable
            }
            code => code,
        }
    }
}
