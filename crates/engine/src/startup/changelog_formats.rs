//! The format of a changelog's rows: rows of another kind of store, serde or window size are refused.
//!
//! The local state knows the format of its rows, too. But it may be on another disk, or in memory, and
//! then rows would be restored with serdes that didn't write them. A changelog that was switched off
//! lacks the store's changes of that time, so it is refused as well.

#[cfg(test)]
mod tests;

use super::EngineSpec;
use crate::commit::offsets_topic::OffsetRows;
use crate::index::index_stores;
use std::collections::BTreeMap;
use std::sync::Arc;
use stoatflow_core::settings::StoreBackend;
use stoatflow_core::{Error, Offset, Result, TopicPartition};
use stoatflow_plan::{Store, StoreKind};

/// Format of a store on disk without a changelog: an existing topic lacks its rows.
const OFF: &str = "off";
/// Format of a store in memory without a changelog. It begins empty, so only rows of an older changelog
/// would be wrong.
const OFF_IN_MEMORY: &str = "off, in memory";
/// Format of a table that is restored from its source: a changelog of its own lacks its rows.
const SOURCE: &str = "off, its source has it";
/// Format of the right side of a stream joined with itself: the store of the left side has its rows.
const LEFT_SIDE: &str = "off, the left side has it";

/// The format of a store's changelog. Settings that concern only the disk (retention, the length of a
/// history) are not part of it: the rows are the same.
fn format(store: &Store, key: &str, value: &str) -> String {
    let kind = match store.kind {
        StoreKind::KeyValue | StoreKind::TimestampedKeyValue | StoreKind::Versioned { .. } => {
            "key-value".to_owned()
        }
        // Rows contain only the start of their window, so another size would make other windows of them.
        // Buffers of a join contain the times of records.
        StoreKind::Window {
            size_ms,
            duplicates: false,
            ..
        } => format!("window({size_ms})"),
        StoreKind::Window { .. } => "buffer".to_owned(),
        StoreKind::Session { .. } => "session".to_owned(),
        StoreKind::TimeOrdered => "time-ordered".to_owned(),
        StoreKind::Timers => "timers".to_owned(),
    };
    format!("{kind}:{key}:{value}")
}

impl EngineSpec {
    /// The formats of changelogs, by topic, including those that are off.
    ///
    /// # Errors
    /// An invalid serde.
    pub(super) fn changelog_formats(
        &self,
        specs: &[Store],
        changelogs: &[Option<Arc<str>>],
    ) -> Result<BTreeMap<Arc<str>, String>> {
        let logged = specs.iter().zip(changelogs);
        let logged = logged.filter_map(|(store, topic)| Some((store, topic.as_ref()?)));
        let formats = logged.map(|(store, topic)| {
            let key = self.foreign.serde(&store.key)?;
            let value = self.foreign.serde(&store.value)?;
            Ok((Arc::clone(topic), format(store, key.name(), value.name())))
        });
        let mut formats: BTreeMap<_, _> = formats.collect::<Result<_>>()?;
        let indexes = index_stores(&self.plan);
        let off = specs.iter().filter(|s| !s.logged);
        for store in off.filter(|s| indexes.iter().all(|(index, ..)| *index != s.id)) {
            let in_memory = store.in_memory || self.settings.store_backend == StoreBackend::Memory;
            let format = if in_memory { OFF_IN_MEMORY } else { OFF };
            formats.insert(self.changelog_of(store).into(), format.to_owned());
        }
        for store in specs.iter().filter(|s| self.source_topic_of(s).is_some()) {
            formats.insert(self.changelog_of(store).into(), SOURCE.to_owned());
        }
        let logged = specs.iter().filter(|s| s.logged);
        for right in logged.filter_map(|s| s.other_side.as_ref()) {
            formats.insert(self.changelog_named(right).into(), LEFT_SIDE.to_owned());
        }
        Ok(formats)
    }
}

/// Refuses changelogs with rows of another format; `ends`: the ends of their partitions.
///
/// # Errors
/// `Incompatible`, with the topic and the next steps.
pub(super) fn refuse_other_formats(
    rows: &OffsetRows,
    formats: &BTreeMap<Arc<str>, String>,
    ends: &[(TopicPartition, Offset)],
) -> Result<()> {
    for (topic, format) in formats.iter().filter(|(_, format)| !is_off(format)) {
        let Some(written) = rows.formats.get(topic).filter(|w| *w != format) else {
            continue;
        };
        let mut of_topic = ends
            .iter()
            .filter(|(partition, _)| partition.topic == *topic);
        // Nothing was ever written, so any format will do. But if the changelog was off, the rows on
        // disk are missing in an empty topic.
        let kept_elsewhere = matches!(written.as_str(), OFF | SOURCE | LEFT_SIDE);
        if !kept_elsewhere && of_topic.all(|(_, end)| end.0 == 0) {
            continue;
        }
        if written == SOURCE {
            return Err(was_in_source(topic));
        }
        if written == LEFT_SIDE {
            return Err(was_in_left_side(topic));
        }
        if is_off(written) {
            return Err(lacks_rows(topic));
        }
        return Err(Error::incompatible(format!(
            "the changelog '{topic}' has rows of the format '{written}', and the topology asks for '{format}': they \
                would be read as something that they are not"
        ))
        .hint(
            "go back to the topology that wrote them, or give the store another name: it begins empty then. To \
                compute everything again: stoatflow reset",
        )
        .at(|at| at.topic = Some(topic.to_string())));
    }
    Ok(())
}

fn is_off(format: &str) -> bool {
    matches!(format, OFF | OFF_IN_MEMORY | SOURCE | LEFT_SIDE)
}

fn was_in_source(topic: &Arc<str>) -> Error {
    Error::incompatible(format!(
        "the store of the changelog '{topic}' was restored from its source topic until now \
            (topology.optimization): its changelog lacks the rows of what was read"
    ))
    .hint(
        "set topology.optimization to reuse.ktable.source.topics or all again, and take back what gives the table \
            a changelog: timestamp=, late=, ttl or a history, a serde in Python, max.timestamp.ahead.ms. To compute \
            everything again: stoatflow reset",
    )
    .at(|at| at.topic = Some(topic.to_string()))
}

fn was_in_left_side(topic: &Arc<str>) -> Error {
    Error::incompatible(format!(
        "the join of a stream with itself had one store until now (topology.optimization): the changelog '{topic}' \
            of its right side lacks the rows of what was read"
    ))
    .hint(
        "set topology.optimization to single.store.self.join or all again. To begin with empty stores: give the join \
            another name. To compute everything again: stoatflow reset",
    )
    .at(|at| at.topic = Some(topic.to_string()))
}

fn lacks_rows(topic: &Arc<str>) -> Error {
    Error::incompatible(format!(
        "the changelog '{topic}' was off until now: it lacks what its store did meanwhile, and a restore would bring \
            back what was there before"
    ))
    .hint(
        "leave it off (logging=False), or give the store another name: it begins empty then. To compute everything \
            again: stoatflow reset",
    )
    .at(|at| at.topic = Some(topic.to_string()))
}
