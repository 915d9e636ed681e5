//! What became of the records that were sent.
//!
//! Takes delivery reports, gives the first failure and, for the topics it was told to remember, the
//! end of what was acknowledged per partition. Never keeps a report.

use rdkafka::types::RDKafkaErrorCode as Code;

#[cfg(test)]
mod tests;

/// A record that the broker did not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kafka) struct Failed {
    pub code: Code,
    /// Number of the topic in the producer's own list.
    pub topic: usize,
    pub partition: i32,
}

#[derive(Debug, Default)]
struct Ends {
    remembered: bool,
    ends: Vec<Option<i64>>,
}

/// All reports so far.
#[derive(Debug, Default)]
pub(in crate::kafka) struct Reports {
    first: Option<Failed>,
    topics: Vec<Ends>,
}

impl Reports {
    /// Starts to remember a topic, or stops; what is known of it stays.
    pub(in crate::kafka) fn remember(&mut self, topic: usize, remembered: bool) {
        if self.topics.len() <= topic {
            self.topics.resize_with(topic + 1, Ends::default);
        }
        self.topics[topic].remembered = remembered;
    }

    pub(in crate::kafka) fn take(
        &mut self,
        topic: usize,
        partition: i32,
        offset: i64,
        failed: Option<Code>,
    ) {
        if let Some(code) = failed {
            // What an abort purged from the client's queues is no failure.
            if !matches!(code, Code::PurgeQueue | Code::PurgeInflight) {
                self.first.get_or_insert(Failed {
                    code,
                    topic,
                    partition,
                });
            }
            return;
        }
        let Some(kept) = self.topics.get_mut(topic).filter(|t| t.remembered) else {
            return;
        };
        let Ok(partition) = usize::try_from(partition) else {
            return;
        };
        if kept.ends.len() <= partition {
            kept.ends.resize(partition + 1, None);
        }
        // None is less than any: the first report counts too.
        kept.ends[partition] = kept.ends[partition].max(Some(offset + 1));
    }

    pub(in crate::kafka) const fn first(&self) -> Option<Failed> {
        self.first
    }

    /// Forgets failures: their transaction was dropped.
    pub(in crate::kafka) fn forgive(&mut self) {
        self.first = None;
    }

    pub(in crate::kafka) fn ends(&self, topic: usize) -> &[Option<i64>] {
        self.topics
            .get(topic)
            .filter(|t| t.remembered)
            .map_or(&[], |t| &t.ends)
    }
}
