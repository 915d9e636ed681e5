//! Policies for late records: verdicts, callables, dead letters.

use super::*;
use crate::testing::{Closure, closure, record, text, word};
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{CallableHandler, Epoch, Lane, Offset, Partition, SourceId};

/// Returns what the record's value says.
fn by_value() -> Arc<Closure> {
    closure(|args| match word(args[0]).as_str() {
        "raise" => Err(Error::user("it raised")),
        "both" => Ok(text(&format!("{}-{}", word(args[1]), word(args[2])))),
        _ => Ok(args[0].clone()),
    })
}

/// Only one topic exists.
#[derive(Debug)]
struct Only(&'static str);

impl PartitionCounts for Only {
    fn partitions(&self, topic: &str) -> Result<u32> {
        match topic == self.0 {
            true => Ok(1),
            false => Err(Error::missing_topic("none")),
        }
    }
}

fn policy(late: &Late, udf: &Arc<Closure>) -> Option<Arc<LatePolicy>> {
    let foreign = ForeignCode {
        udfs: vec![Arc::clone(udf) as Arc<dyn Udf>],
        ..ForeignCode::default()
    };
    let counts: Arc<dyn PartitionCounts> = Arc::new(Only("there"));
    LatePolicy::new(late, "orders", &foreign, Some(&counts)).unwrap()
}

fn calling(topics: &[&str]) -> Late {
    Late::Call(CallableHandler {
        udf: 0,
        topics: topics.iter().map(ToString::to_string).collect(),
    })
}

#[test]
fn fixed_late_policies_call_no_function() {
    let udf = by_value();
    assert!(policy(&Late::Grace, &udf).is_none());
    let dropping = policy(&Late::Drop, &udf).unwrap();
    assert_eq!(dropping.always(), Some(&LateVerdict::Drop));
    let letters = policy(&Late::Dlq("l".into()), &udf).unwrap();
    assert_eq!(letters.always(), Some(&LateVerdict::DeadLetter("l".into())));
    let mut said = Vec::new();
    dropping
        .decide(&[record("a", "grace", 1)], "in", 9, &mut said)
        .unwrap();
    assert_eq!(said, [LateVerdict::Drop]);
    assert_eq!(udf.batches.load(Relaxed), 0);
    assert!(policy(&calling(&[]), &udf).unwrap().always().is_none());
}

#[test]
fn a_callable_is_asked_once_for_a_batch() {
    let udf = by_value();
    let asking = policy(&calling(&["in-10"]), &udf).unwrap();
    let batch = ["grace", "drop", "there", "both"].map(|value| record("k", value, 3));
    let mut said = Vec::new();
    asking.decide(&batch, "in", 10, &mut said).unwrap();
    let letter = |to: &str| LateVerdict::DeadLetter(to.into());
    let expected = [
        LateVerdict::Grace,
        LateVerdict::Drop,
        letter("there"),
        letter("in-10"),
    ];
    assert_eq!(said, expected);
    assert_eq!(udf.batches.load(Relaxed), 1);
    assert_eq!(
        expected.map(|v| v.policy()),
        ["grace", "drop", "dlq", "dlq"]
    );
}

#[test]
fn invalid_verdicts_of_a_callable_are_errors() {
    let udf = by_value();
    let asking = policy(&calling(&[]), &udf).unwrap();
    for (values, at, what) in [
        (&["grace", "raise"][..], 1, "it raised"),
        (&["drop", "nowhere"], 1, "no such topic"),
        (&["in"], 0, "late there again"),
    ] {
        let batch: Vec<Record> = values.iter().map(|v| record("k", v, 3)).collect();
        let failed = asking
            .decide(&batch, "in", 10, &mut Vec::new())
            .unwrap_err();
        assert_eq!(failed.at, at, "{values:?}");
        assert!(failed.error.to_string().contains(what), "{}", failed.error);
        let coordinates = failed.error.coordinates();
        assert_eq!(coordinates.node.as_deref(), Some("orders"));
        assert_eq!(coordinates.function.as_deref(), Some("app.py:7 closure"));
    }
}

#[test]
fn a_dead_letter_contains_its_lateness() {
    let udf = by_value();
    let policy = policy(&Late::Dlq("letters".into()), &udf).unwrap();
    let late = LateRecord {
        origin: Origin {
            source: SourceId(0),
            topic: 0,
            partition: Partition(2),
            offset: Offset(7),
            ..Origin::default()
        },
        topic: "in",
        timestamp: Timestamp(40),
        watermark: 100,
    };
    let place = ErrorOrigin {
        lane: Lane(3),
        epoch: Epoch(5),
    };
    let letter = policy.letter("letters".into(), late, place);
    assert_eq!((&*letter.topic, letter.timestamp.0), ("letters", 40));
    let told: Vec<(String, String)> = letter
        .headers
        .iter()
        .map(|h| {
            let value = h.value.as_ref().unwrap().to_vec();
            let name = h.name.strip_prefix("__stoatflow.errors.").unwrap();
            (name.into(), String::from_utf8(value).unwrap())
        })
        .collect();
    let told: Vec<(&str, &str)> = told.iter().map(|(n, v)| (&**n, &**v)).collect();
    assert_eq!(
        told,
        [
            ("kind", "late"),
            ("node", "orders"),
            (
                "message",
                "the record is 60 ms older than the watermark 100"
            ),
            ("topic", "in"),
            ("partition", "2"),
            ("offset", "7"),
            ("timestamp", "40"),
            ("watermark", "100"),
            ("lane", "3"),
            ("epoch", "5"),
        ]
    );
}
