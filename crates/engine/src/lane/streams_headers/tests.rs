//! The headers of Kafka Streams for all kinds of dead letters.

use super::*;

fn ours(headers: &[(&str, &str)]) -> Vec<Header> {
    let header = |(name, value): &(&str, &str)| Header {
        name: format!("{ERROR_HEADER_PREFIX}{name}").into(),
        value: Some((*value).to_owned().into()),
    };
    headers.iter().map(header).collect()
}

fn translated(headers: &[(&str, &str)]) -> Vec<(String, String)> {
    let shown = |h: Header| {
        let name = h.name.strip_prefix("__streams.errors.").unwrap().to_owned();
        (name, String::from_utf8(h.value.unwrap().to_vec()).unwrap())
    };
    streams_headers(&ours(headers))
        .into_iter()
        .map(shown)
        .collect()
}

fn pairs(headers: &[(&str, &str)]) -> Vec<(String, String)> {
    headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn a_failure_has_all_six() {
    let headers = [
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
    assert_eq!(translated(&headers), pairs(&all));
}

#[test]
fn unknown_values_have_no_header() {
    let timer = [("kind", "processing"), ("exception", "KeyError")];
    assert_eq!(translated(&timer), pairs(&[("exception", "KeyError")]));
    let late = [("kind", "late"), ("message", "5 ms"), ("topic", "orders")];
    assert_eq!(
        translated(&late),
        pairs(&[
            ("exception", "late: 5 ms"),
            ("message", "5 ms"),
            ("topic", "orders")
        ])
    );
}
