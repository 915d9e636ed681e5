//! The headers of Kafka Streams for all kinds of dead letters.

use super::*;

fn ours(told: &[(&str, &str)]) -> Vec<Header> {
    let header = |(name, value): &(&str, &str)| Header {
        name: format!("{OURS}{name}").into(),
        value: Some((*value).to_owned().into()),
    };
    told.iter().map(header).collect()
}

fn theirs(told: &[(&str, &str)]) -> Vec<(String, String)> {
    let shown = |h: Header| {
        let name = h.name.strip_prefix("__streams.errors.").unwrap().to_owned();
        (name, String::from_utf8(h.value.unwrap().to_vec()).unwrap())
    };
    streams_headers(&ours(told))
        .into_iter()
        .map(shown)
        .collect()
}

fn pairs(told: &[(&str, &str)]) -> Vec<(String, String)> {
    told.iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn a_failure_has_all_six() {
    let told = [
        ("kind", "processing"),
        ("exception", "ValueError"),
        ("message", "no number: x"),
        ("traceback", "line 1"),
        ("topic", "orders"),
        ("partition", "2"),
        ("offset", "17"),
        ("lane", "3"),
    ];
    let all = [
        ("exception", "ValueError: no number: x"),
        ("message", "no number: x"),
        ("stacktrace", "line 1"),
        ("topic", "orders"),
        ("partition", "2"),
        ("offset", "17"),
    ];
    assert_eq!(theirs(&told), pairs(&all));
}

#[test]
fn what_is_not_known_is_left_out() {
    let timer = [("kind", "processing"), ("exception", "KeyError")];
    assert_eq!(theirs(&timer), pairs(&[("exception", "KeyError")]));
    let late = [("kind", "late"), ("message", "5 ms"), ("topic", "orders")];
    assert_eq!(
        theirs(&late),
        pairs(&[
            ("exception", "late: 5 ms"),
            ("message", "5 ms"),
            ("topic", "orders")
        ])
    );
}
