//! The results of sent records.
//!
//! Takes delivery reports, keeps the first failure and, for remembered topics, the end of the
//! acknowledged records per partition, and the first partition whose next record got an offset before
//! that end: acknowledged records are gone. Never keeps a report.

use rdkafka::types::RDKafkaErrorCode as Code;

#[cfg(test)]
mod tests;

/// A record that the broker refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kafka) struct Failed {
    pub code: Code,
    /// Index of the topic in the producer's own list.
    pub topic: usize,
    pub partition: i32,
}

/// A partition that ended at `end`, and whose next record got the offset `first`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kafka) struct Loss {
    /// Index of the topic in the producer's own list.
    pub topic: usize,
    pub partition: i32,
    pub end: i64,
    pub first: i64,
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
    lost: Option<Loss>,
}

impl Reports {
    /// Starts or stops remembering a topic; known ends stay.
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
            // Purged by an abort from the client's queues: no failure.
            if !matches!(code, Code::PurgeQueue | Code::PurgeInflight) {
                self.first.get_or_insert(Failed {
                    code,
                    topic,
                    partition,
                });
            }
            return;
        }
        // For a record that the broker already has, it doesn't report the offset.
        if offset < 0 {
            return;
        }
        let Some(known) = self.end_of(topic, partition) else {
            return;
        };
        // Later records have lower offsets, too; a loss is reported once.
        let before = known.replace(offset + 1);
        if let Some(end) = before.filter(|end| offset < *end) {
            self.lost.get_or_insert(Loss {
                topic,
                partition,
                end,
                first: offset,
            });
        }
    }

    /// Notes that a partition ends at this offset or later.
    pub(in crate::kafka) fn note(&mut self, topic: usize, partition: i32, end: i64) {
        if let Some(known) = self.end_of(topic, partition) {
            // `None` is less than any offset.
            *known = (*known).max(Some(end));
        }
    }

    fn end_of(&mut self, topic: usize, partition: i32) -> Option<&mut Option<i64>> {
        let kept = self.topics.get_mut(topic).filter(|t| t.remembered)?;
        let partition = usize::try_from(partition).ok()?;
        if kept.ends.len() <= partition {
            kept.ends.resize(partition + 1, None);
        }
        kept.ends.get_mut(partition)
    }

    /// The first loss, once.
    pub(in crate::kafka) const fn take_loss(&mut self) -> Option<Loss> {
        self.lost.take()
    }

    pub(in crate::kafka) const fn first(&self) -> Option<Failed> {
        self.first
    }

    /// Clears the failure: its transaction was aborted.
    pub(in crate::kafka) fn clear_failure(&mut self) {
        self.first = None;
    }

    pub(in crate::kafka) fn ends(&self, topic: usize) -> &[Option<i64>] {
        self.topics
            .get(topic)
            .filter(|t| t.remembered)
            .map_or(&[], |t| &t.ends)
    }
}
