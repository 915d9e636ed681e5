//! Refuses sources that read one topic in different ways.

use std::collections::BTreeMap;
use stoatflow_core::{Error, Result};
use stoatflow_plan::Source;

/// Several sources may read a topic only if each names it. A pattern that happens to match it would read
/// it twice, with another reset and other serdes.
pub(super) fn refuse_conflicts(sources: &[Source]) -> Result<()> {
    let mut known: BTreeMap<&str, &Source> = BTreeMap::new();
    for source in sources {
        for topic in &source.topics {
            let Some(other) = known.insert(topic, source) else {
                continue;
            };
            let (matching, other) = if source.pattern.is_some() {
                (source, other)
            } else {
                (other, source)
            };
            if let Some(pattern) = &matching.pattern {
                return Err(Error::topology(format!(
                    "the pattern '{pattern}' of the source '{}' matches the topic '{topic}', which the \
                        source '{}' reads too",
                    matching.name, other.name
                ))
                .hint("write a pattern that leaves the topic out, or read it once and use its stream twice"));
            }
        }
    }
    Ok(())
}

pub(super) fn two_resets(topic: &str) -> Error {
    Error::topology(format!(
        "two sources start reading the topic '{topic}' at different places"
    ))
    .hint("give both the same offset reset")
}

pub(super) fn two_extractors(topic: &str) -> Error {
    Error::topology(format!(
        "two sources read the topic '{topic}' with different timestamp extractors"
    ))
    .hint("read the topic once, or give both sources the same extractor")
}

pub(super) fn two_watermarks(topic: &str) -> Error {
    Error::topology(format!(
        "two sources read the topic '{topic}' with different watermarks"
    ))
    .hint("read the topic once, or give both sources the same watermark")
}
