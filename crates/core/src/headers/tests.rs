use super::*;
use crate::{Datum, Serde, put_headers, take_headers};

fn header(name: &str, value: Option<&[u8]>) -> Header {
    Header {
        name: name.into(),
        value: value.map(Bytes::copy_from_slice),
    }
}

fn headers() -> Headers {
    Some([header("id", Some(b"ab"))].into())
}

/// Bytes that `HeadersSerializer` of Kafka Streams 4.3 writes.
#[test]
fn bytes_are_those_of_kafka_streams() {
    let headers: Headers = Some([header("id", Some(b"ab")), header("n", None)].into());
    let bytes = headers_to_bytes(&headers);
    assert_eq!(&bytes[..], b"\x04\x04id\x04ab\x02n\x01");
    assert_eq!(headers_from_bytes(bytes).unwrap(), headers);
}

#[test]
fn no_headers_are_no_bytes() {
    assert!(headers_to_bytes(&None).is_empty());
    assert!(headers_to_bytes(&Some(Vec::new().into())).is_empty());
    assert_eq!(headers_from_bytes(Bytes::new()).unwrap(), None);
}

#[test]
fn long_values_have_long_lengths() {
    let long = vec![7; 70_000];
    let headers: Headers = Some([header(&"n".repeat(200), Some(&long))].into());
    let mut out = Vec::new();
    put_headers(&mut out, &headers_to_bytes(&headers));
    out.extend_from_slice(b"value");
    let (bytes, rest) = take_headers(out.into()).unwrap();
    assert_eq!(&rest[..], b"value");
    assert_eq!(headers_from_bytes(bytes).unwrap(), headers);
}

#[test]
fn a_value_is_copied_with_its_headers() {
    let (plain, bytes) = (Datum::Str("v".into()), headers_to_bytes(&headers()));
    let pair = Datum::List([Datum::Bytes(bytes), plain.clone()].into());
    let with = Serde::WithHeaders(Arc::new(Serde::String));
    let without = Serde::WithoutHeaders(Arc::new(Serde::String));
    assert_eq!(with.copy(&pair).unwrap(), pair);
    assert_eq!(without.copy(&plain).unwrap(), plain);
    let row = with.encode(&pair).unwrap();
    assert_eq!(row.as_deref(), Some(&b"\x0e\x02\x04id\x04abv"[..]));
    assert_eq!(with.decode(row.clone()).unwrap(), pair);
    assert_eq!(without.decode(row).unwrap(), plain);
    assert!(with.encode(&plain).is_err(), "a value without headers");
    let null = Datum::List([Datum::Bytes(Bytes::new()), Datum::Null].into());
    assert_eq!(with.encode(&null).unwrap(), None);
    assert_eq!(with.copy(&null).unwrap(), Datum::Null);
}

#[test]
fn bytes_that_are_cut_off_are_an_error() {
    let whole = headers_to_bytes(&Some([header("id", Some(b"ab"))].into()));
    for end in 1..whole.len() {
        assert!(headers_from_bytes(whole.slice(..end)).is_err(), "{end}");
    }
    assert!(take_headers(Bytes::from_static(b"\x09rest")).is_err());
    assert!(take_headers(Bytes::from_static(b"\x0arest")).is_err());
    assert!(take_headers(Bytes::from_static(b"\xff\xff\xff\xff\xff\xff")).is_err());
}
