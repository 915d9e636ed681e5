//! Decides the offset of each partition when an application is reset.
//!
//! Takes the request and, per partition, the committed offset and the range that exists. Each new offset
//! has a reason, and never lies outside the range. State is deleted as a whole; topics left out of the
//! request keep their offsets, and the result says so. The order of writing offsets, state and marks is
//! up to the caller.

use std::collections::BTreeSet;
use std::time::Duration;
use stoatflow_core::{Error, Offset, Result, Timestamp, TopicPartition};

#[cfg(test)]
mod tests;

/// Where to continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// At the first record.
    Earliest,
    /// After the last record.
    Latest,
    /// At the first record not older than this.
    Since(Timestamp),
    /// At the first record not older than now minus this.
    Ago(Duration),
    /// At this offset.
    At(Offset),
    /// This many records after (or, if negative, before) the committed offset.
    Shift(i64),
    /// At the committed offset of the consumer group of this name.
    Group(String),
}

impl Target {
    /// The time to look up offsets for on the broker.
    #[must_use]
    pub fn since(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Since(time) => Some(*time),
            Self::Ago(back) => {
                let back = i64::try_from(back.as_millis()).unwrap_or(i64::MAX);
                Some(Timestamp(now.0.saturating_sub(back)))
            }
            _ => None,
        }
    }
}

/// A request for a reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Where to continue.
    pub target: Target,
    /// The topics to reset; empty means all that the topology reads.
    pub topics: Vec<String>,
}

/// The facts about a partition that the topology reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionFacts {
    /// The partition.
    pub partition: TopicPartition,
    /// True if a global table reads it.
    pub global: bool,
    /// The committed offset; during a reset, the one before it began.
    pub committed: Option<Offset>,
    /// The first offset that exists.
    pub begin: Offset,
    /// One past the last readable one.
    pub end: Offset,
    /// The offset that the broker returned for [`Target::since`].
    pub since: Option<Offset>,
    /// The committed offset of the group of [`Target::Group`].
    pub of_group: Option<Offset>,
}

/// Why a partition gets its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetReason {
    /// As requested.
    Requested,
    /// A global table is always read from the beginning.
    Global,
    /// Its topic isn't in the request.
    Kept,
    /// Nothing is committed to count from: counted from the first record.
    NothingCommitted,
    /// The other group has committed nothing here: the first record, so that none is missed.
    NotInGroup,
    /// No record is that new.
    NoneThatNew,
    /// The requested offset is before the first record.
    BeforeBegin,
    /// The requested offset is after the last record.
    BehindEnd,
}

impl OffsetReason {
    /// As text; empty if there is nothing to explain.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Requested => "",
            Self::Global => "a global table is read whole",
            Self::Kept => "left out: keeps its position",
            Self::NothingCommitted => "nothing was committed: counted from the first record",
            Self::NotInGroup => "the group has no offset here: the first record",
            Self::NoneThatNew => "no record is that new: the end",
            Self::BeforeBegin => "there is nothing before: the first record",
            Self::BehindEnd => "there is nothing behind: the end",
        }
    }
}

/// The old and new offset of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetMove {
    /// The partition.
    pub partition: TopicPartition,
    /// The committed offset.
    pub from: Option<Offset>,
    /// The new offset; `None` leaves it without one.
    pub to: Option<Offset>,
    /// The reason for the new offset.
    pub why: OffsetReason,
}

/// Decides the new offset of each partition.
///
/// # Errors
/// `Config` if the request names a topic that is not read, or a group without an offset in any requested
/// topic.
pub fn decide(request: &Request, facts: &[PartitionFacts]) -> Result<Vec<OffsetMove>> {
    check_topics(&request.topics, facts)?;
    check_group(request, facts)?;
    Ok(facts.iter().map(|f| one(request, f)).collect())
}

impl Request {
    fn asks_for(&self, facts: &PartitionFacts) -> bool {
        let topic = &*facts.partition.topic;
        !facts.global && (self.topics.is_empty() || self.topics.iter().any(|t| t == topic))
    }
}

fn one(request: &Request, facts: &PartitionFacts) -> OffsetMove {
    let (to, why) = if facts.global {
        (Some(facts.begin), OffsetReason::Global)
    } else if request.asks_for(facts) {
        let (to, why) = place(&request.target, facts);
        (Some(to), why)
    } else {
        (facts.committed, OffsetReason::Kept)
    };
    OffsetMove {
        partition: facts.partition.clone(),
        from: facts.committed,
        to,
        why,
    }
}

fn place(target: &Target, facts: &PartitionFacts) -> (Offset, OffsetReason) {
    let (wanted, why) = match target {
        Target::Earliest => (facts.begin, OffsetReason::Requested),
        Target::Latest => (facts.end, OffsetReason::Requested),
        Target::Since(_) | Target::Ago(_) => match facts.since {
            // The broker may return the offset of a commit marker, which is no record.
            Some(at) if at < facts.end => (at, OffsetReason::Requested),
            _ => (facts.end, OffsetReason::NoneThatNew),
        },
        Target::At(at) => (*at, OffsetReason::Requested),
        Target::Group(_) => match facts.of_group {
            Some(at) => (at, OffsetReason::Requested),
            None => (facts.begin, OffsetReason::NotInGroup),
        },
        Target::Shift(by) => {
            let (from, why) = match facts.committed {
                Some(committed) => (committed, OffsetReason::Requested),
                None => (facts.begin, OffsetReason::NothingCommitted),
            };
            (Offset(from.0.saturating_add(*by)), why)
        }
    };
    if wanted < facts.begin {
        (facts.begin, OffsetReason::BeforeBegin)
    } else if wanted > facts.end {
        (facts.end, OffsetReason::BehindEnd)
    } else {
        (wanted, why)
    }
}

/// Refuses a group without an offset in any requested topic, which includes mistyped names.
fn check_group(request: &Request, facts: &[PartitionFacts]) -> Result<()> {
    let Target::Group(group) = &request.target else {
        return Ok(());
    };
    let mut asked = facts.iter().filter(|facts| request.asks_for(facts));
    if asked.any(|facts| facts.of_group.is_some()) {
        return Ok(());
    }
    let topics: BTreeSet<&str> = facts.iter().map(|f| &*f.partition.topic).collect();
    let topics: Vec<String> = topics.iter().map(|topic| format!("'{topic}'")).collect();
    Err(Error::config(format!(
        "the group '{group}' has committed no offset in what the topology reads: {}",
        topics.join(", ")
    ))
    .hint(
        "check its name (kafka-consumer-groups.sh --list); its offsets may have expired too \
         (offsets.retention.minutes), then say where to go on: stoatflow reset --to TIME",
    ))
}

fn check_topics(asked: &[String], facts: &[PartitionFacts]) -> Result<()> {
    let read: BTreeSet<&str> = facts.iter().map(|f| &*f.partition.topic).collect();
    let unknown: Vec<String> = asked
        .iter()
        .filter(|topic| !read.contains(topic.as_str()))
        .map(|topic| match nearest(topic, &read) {
            Some(near) => format!("'{topic}' (did you mean '{near}'?)"),
            None => format!("'{topic}'"),
        })
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let read: Vec<String> = read.iter().map(|topic| format!("'{topic}'")).collect();
    Err(Error::config(format!(
        "the topology does not read the topic(s) {}; it reads {}",
        unknown.join(", "),
        read.join(", ")
    ))
    .hint("name topics that the topology reads, or none for all of them"))
}

fn nearest<'a>(word: &str, valid: &BTreeSet<&'a str>) -> Option<&'a str> {
    let likeness = |v: &str| strsim::normalized_damerau_levenshtein(word, v);
    valid
        .iter()
        .map(|v| (likeness(v), *v))
        .filter(|(score, _)| *score >= 0.5)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, v)| v)
}
