//! The encoding of a held update.

use super::*;
use crate::testing::{plan, record, text};
use stoatflow_core::{NodeId, SourceId};

fn codec() -> Codec {
    let node_context = NodeContext::new(NodeId(0), "suppress", NodeContext::topics(&plan(vec![])));
    Codec::new(Serde::String, node_context)
}

fn waiting(prior: Datum, old: Datum, new: Datum) -> Waiting {
    let mut update = record("k", "~", 7);
    update.value = Datum::change(old, new, true);
    let header = |name: &str, value: Option<&'static str>| Header {
        name: name.into(),
        value: value.map(Bytes::from_static_str),
    };
    update.headers = Some([header("h", Some("v")), header("n", None)].into());
    Waiting::new(3, update, prior)
}

trait FromText {
    fn from_static_str(text: &'static str) -> Bytes;
}

impl FromText for Bytes {
    fn from_static_str(text: &'static str) -> Bytes {
        Self::from_static(text.as_bytes())
    }
}

#[test]
fn the_format_is_that_of_kafka_streams() {
    let bytes = codec()
        .encode(&waiting(text("a"), text("a"), text("bc")))
        .unwrap();
    let mut expected = vec![];
    expected.extend(7_i64.to_be_bytes());
    expected.extend(7_i64.to_be_bytes());
    expected.extend(2_i32.to_be_bytes());
    expected.extend(b"in");
    expected.extend(3_i32.to_be_bytes());
    expected.extend(2_i32.to_be_bytes());
    for (name, value) in [("h", Some("v")), ("n", None)] {
        expected.extend(1_i32.to_be_bytes());
        expected.extend(name.as_bytes());
        expected.extend(value.map_or(-1, |_| 1_i32).to_be_bytes());
        expected.extend(value.unwrap_or_default().as_bytes());
    }
    expected.extend(1_i32.to_be_bytes());
    expected.extend(b"a");
    expected.extend((-2_i32).to_be_bytes());
    expected.extend(2_i32.to_be_bytes());
    expected.extend(b"bc");
    expected.extend(3_i64.to_be_bytes());
    assert_eq!(bytes, expected);
}

#[test]
fn written_rows_are_read_again() {
    let values = [Datum::Null, text(""), text("old"), text("older")];
    for prior in &values {
        for old in &values {
            for new in &values {
                let written = waiting(prior.clone(), old.clone(), new.clone());
                let bytes = Datum::Bytes(codec().encode(&written).unwrap());
                let (time, read) = codec().decode(text("k"), &bytes).unwrap();
                assert_eq!(time, 3);
                assert_eq!(read.record, written.record);
                assert_eq!(read.prior, written.prior);
                assert_eq!(read.record.origin.source, SourceId(0));
            }
        }
    }
}

#[test]
fn cut_off_bytes_are_an_error() {
    let whole = codec()
        .encode(&waiting(text("a"), Datum::Null, text("b")))
        .unwrap();
    for length in 0..whole.len() {
        let error = codec().decode(text("k"), &Datum::Bytes(whole.slice(..length)));
        let error = error.expect_err("it is too short");
        assert_eq!(error.kind(), stoatflow_core::ErrorKind::StateCorrupt);
    }
}
