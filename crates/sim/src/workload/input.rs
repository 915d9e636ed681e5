//! Input records: few keys, some much more frequent than others, some null, timestamps out of order.

use super::{Part, lookups};
use crate::rng::SimRng;
use bytes::Bytes;
use std::collections::BTreeMap;
use stoatflow_core::{Partition, Timestamp};
use stoatflow_log::ProducerRecord;

/// The key of the final records, which advance the time.
pub(crate) const FINAL_KEY: &str = "zz";

const VOCABULARY: &[&str] = &[
    "the", "stoat", "Flow", "river", "ermine", "winter", "white", "a",
];

/// All records of all parts, mixed.
pub(super) fn records(
    rng: &mut SimRng,
    parts: &[Part],
    topics: &BTreeMap<&'static str, i32>,
    by_watermark: bool,
) -> Vec<ProducerRecord> {
    // A few long runs, for effects that show only after many epochs.
    let count = if rng.chance(300) {
        rng.between(800, 2_500)
    } else {
        rng.between(40, 400)
    };
    let mut time = 1_700_000_000_000_i64;
    let mut records = Vec::new();
    for number in 0..count {
        let part = parts[rng.index(parts.len())];
        time += i64::try_from(rng.below(20)).unwrap_or(0);
        let disorder = i64::try_from(rng.below(50)).unwrap_or(0);
        let topic = part.inputs()[rng.index(part.inputs().len())];
        let partitions = topics.get(topic).copied().unwrap_or(1);
        let keyed = part.needs_keys();
        let key = (keyed || !rng.chance(800)).then(|| Bytes::from(format!("k{}", skewed(rng, 8))));
        // A table's order is that of its partition, so each key must stay in one partition.
        let stays = part.has_tables() || rng.chance(5000);
        let anywhere = i32::try_from(rng.below(u64::from(partitions.unsigned_abs()))).unwrap_or(0);
        records.push(ProducerRecord {
            topic: topic.into(),
            partition: (!stays).then_some(Partition(anywhere)),
            value: value(rng, part, topic, number),
            key: match topic {
                "goods" => Some(Bytes::from(format!("g{}", skewed(rng, 5)))),
                "plans" => Some(Bytes::from(format!("p{}", skewed(rng, 8)))),
                _ => key,
            },
            timestamp: Timestamp(time - disorder),
            headers: None,
        });
    }
    // The application's watermark is the minimum of all partitions, and timers depend on the time of
    // each partition: in both cases every partition needs final records.
    let timers = parts.iter().filter(|part| part.has_timers());
    let timers: Vec<&str> = timers.map(|part| part.input()).collect();
    for record in final_records(parts, time) {
        if !by_watermark && !timers.contains(&&*record.topic) {
            records.push(record);
            continue;
        }
        let partitions = topics.get(&*record.topic).copied().unwrap_or(1);
        records.extend((0..partitions).map(|p| ProducerRecord {
            partition: Some(Partition(p)),
            ..record.clone()
        }));
    }
    records
}

/// Final records, long after all others: at the first four everything that waits for a time is due, at
/// the other four it has expired from stores. They form pairs with each other.
fn final_records(parts: &[Part], time: i64) -> Vec<ProducerRecord> {
    let timed = parts.iter().filter(|p| p.waits_for_time());
    let final_record = |(part, half): (&Part, i64)| ProducerRecord {
        topic: part.input().into(),
        partition: None,
        key: Some(Bytes::from(FINAL_KEY)),
        value: Some(Bytes::from(if half % 2 == 0 { "l:end" } else { "r:end" })),
        timestamp: Timestamp(time + 300_000 * (1 + 3 * (half / 4)) + half % 4),
        headers: None,
    };
    timed
        .flat_map(|part| (0..8).map(move |half| (part, half)))
        .map(final_record)
        .collect()
}

fn skewed(rng: &mut SimRng, len: usize) -> usize {
    rng.index(len).min(rng.index(len)).min(rng.index(len))
}

fn value(rng: &mut SimRng, part: Part, topic: &str, number: u64) -> Option<Bytes> {
    // Rows that come and go are the difficult case for a join of tables.
    let gone = if part == Part::Joined { 4_000 } else { 600 };
    if rng.chance(gone)
        && !part.waits_for_time()
        && !part.is_stateless()
        && part != Part::Races
        && topic != lookups::RECORDS
    {
        return None;
    }
    Some(match part {
        Part::Words(_) | Part::Counts => {
            let words: Vec<_> = (0..rng.below(5))
                .map(|_| VOCABULARY[skewed(rng, VOCABULARY.len())])
                .collect();
            Bytes::from(words.join(" "))
        }
        Part::Sums => Bytes::copy_from_slice(&rng.between(1, 30).cast_signed().to_be_bytes()),
        Part::Rows => Bytes::from(format!("v{number}")),
        Part::Foreign(_) if topic == "goods" => Bytes::from(format!("r{number}")),
        Part::Latest | Part::Foreign(_) | Part::Races => {
            Bytes::from(format!("g{}:{number}", skewed(rng, 5)))
        }
        Part::Joined => Bytes::from(format!("j{number}")),
        Part::Windows(_) => Bytes::from(format!("c{number}")),
        Part::Timers(_) => Bytes::from(format!("b{number}")),
        Part::Bank => Bytes::from(format!("m{number}")),
        Part::Lookups(_) if topic == lookups::ROWS => Bytes::from(format!("e{number}")),
        Part::AsyncCalls(_) | Part::Offloads(_) | Part::Lookups(_) => {
            Bytes::from(format!("g{}:{number}", skewed(rng, 5)))
        }
        Part::Batches { .. } => Bytes::from(format!("s{number}")),
        Part::LateRecords => Bytes::from(format!("t{number}")),
        Part::Pairs(_) if rng.chance(5000) => Bytes::from(format!("l{number}")),
        Part::Pairs(_) => Bytes::from(format!("r{number}")),
    })
}
