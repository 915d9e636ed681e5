//! Parameters of requests, and how keys and values are written. Reads of a running application are
//! tested in Python.

use super::cursors::Cursors;
use super::formats::{StoreFormats, write};
use super::params::{KeyFormat, StoreParams, decoded};
use super::read::CursorScan;
use crate::admin::status::Status;
use crate::admin::tests::fixture::{Still, plan};
use crate::query::{CommittedSnapshot, KeySpan, StoreReaders};
use crate::runtime::failpoint::Failpoints;
use crate::runtime::shared::Shared;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::fields::Fields;
use stoatflow_core::{Bytes, Clock, CustomSerde, Datum, Offset, Result, TopicPartition};
use stoatflow_operators::ForeignCode;
use stoatflow_plan::{SerdeSpec, Store, StoreKind};
use stoatflow_state::Backend;
use stoatflow_state::memory::MemoryBackend;

const ROWS: StoreKind = StoreKind::TimestampedKeyValue;

#[test]
fn parameters_are_taken_or_refused() {
    let params = StoreParams::parse(
        "from=a%20b&to=%ff&reverse&limit=7&at_least=x:0:3,y.z:12:9&timeout_ms=5&key_format=base64",
        ROWS,
        false,
    );
    let params = params.unwrap();
    assert_eq!(params.from.as_deref(), Some(b"a b".as_slice()));
    assert_eq!(params.to.as_deref(), Some(b"\xff".as_slice()));
    assert_eq!((params.reverse, params.limit), (true, 7));
    assert_eq!(params.key_format, KeyFormat::Base64);
    assert_eq!(params.timeout, Duration::from_millis(5));
    assert_eq!(
        params.at_least,
        [
            (TopicPartition::new("x".to_owned(), 0), Offset(3)),
            (TopicPartition::new("y.z".to_owned(), 12), Offset(9)),
        ]
    );
    let plus = StoreParams::parse("prefix=a+b", ROWS, false).unwrap();
    assert_eq!(plus.prefix.as_deref(), Some(b"a b".as_slice()));
    assert_eq!(StoreParams::parse("", ROWS, false).unwrap().limit, 100);
    for (query, has_key, word) in [
        ("form=a", false, "'form'"),
        ("as_of=1", false, "'as_of'"),
        ("from=a", true, "'from'"),
        ("limit=0", false, "limit=0"),
        ("limit=10001", false, "10000"),
        ("limit=x", false, "limit=x"),
        ("limit=1&limit=2", false, "twice"),
        ("reverse=maybe", false, "maybe"),
        ("key_format=hex", false, "hex"),
        ("at_least=x:0", false, "x:0"),
        ("at_least=:0:1", false, ":0:1"),
        ("at_least=", false, "at_least"),
        ("timeout_ms=60001", false, "60001"),
        ("timeout_ms=-1", false, "-1"),
        ("from=%f", false, "percent"),
        ("from=%zz", false, "percent"),
        ("%ff=1", false, "UTF-8"),
        ("prefix=a&from=b", false, "prefix"),
        ("cursor=x&from=b", false, "'from'"),
    ] {
        let refused = StoreParams::parse(query, ROWS, has_key).unwrap_err();
        assert!(
            format!("{refused:?}").contains(word),
            "{query}: {refused:?}"
        );
    }
}

#[test]
fn percent_signs_are_undone() {
    assert_eq!(decoded("a%2Fb%c3%A9").unwrap(), "a/bé".as_bytes());
    for wrong in ["%", "%4", "%4g", "x%"] {
        assert!(decoded(wrong).is_err(), "{wrong}");
    }
}

fn store(key: &str, value: &str) -> Store {
    let builtin = |name: &str| SerdeSpec::Builtin(name.to_owned());
    Store::new("s", ROWS, builtin(key), builtin(value))
}

#[test]
fn keys_are_read_by_the_serde_of_the_store() {
    let key = |serde: &str, text: &str, format| {
        let formats = StoreFormats::of(&store(serde, "string"), &ForeignCode::default());
        formats.key.key(text.as_bytes(), format)
    };
    let text = |serde, given| key(serde, given, KeyFormat::Text);
    assert_eq!(text("string", "12").unwrap(), Datum::text("12"));
    assert_eq!(text("int64", "-12").unwrap(), Datum::Int(-12));
    assert_eq!(text("int32", "12").unwrap(), Datum::Int(12));
    assert_eq!(text("double", "1.5").unwrap(), Datum::Float(1.5));
    assert_eq!(text("bytes", "ab").unwrap(), Datum::Bytes("ab".into()));
    assert_eq!(
        text("json", " {\"a\": [1.0]}").unwrap(),
        Datum::Json("{\"a\":[1.0]}".into())
    );
    for (serde, given) in [
        ("int64", "x"),
        ("int64", ""),
        ("int32", "2147483648"),
        ("int64", "9223372036854775808"),
        ("double", "x"),
        ("json", "x"),
        ("json", ""),
        ("json", "null"),
        ("json", "1 2"),
    ] {
        assert!(text(serde, given).is_err(), "{serde} {given}");
    }
    let packed = |serde, given| key(serde, given, KeyFormat::Base64);
    assert_eq!(packed("string", "w6k=").unwrap(), Datum::text("é"));
    assert_eq!(
        packed("bytes", "--8").unwrap(),
        Datum::Bytes(Bytes::from_static(&[0xfb, 0xef]))
    );
    assert_eq!(
        packed("bytes", "++8=").unwrap(),
        Datum::Bytes(Bytes::from_static(&[0xfb, 0xef]))
    );
    for (serde, given) in [
        ("string", "/w=="),
        ("int64", "AA=="),
        ("bytes", "?"),
        ("bytes", "a"),
    ] {
        assert!(packed(serde, given).is_err(), "{serde} {given}");
    }
}

#[derive(Debug)]
struct Foreigner(bool);

impl CustomSerde for Foreigner {
    fn name(&self) -> &'static str {
        "Pickle"
    }

    fn encode(&self, _datum: &Datum) -> Result<Bytes> {
        panic!("it must not be called")
    }

    fn decode(&self, _bytes: &Bytes) -> Result<Datum> {
        panic!("it must not be called")
    }

    fn is_native(&self) -> bool {
        self.0
    }
}

#[test]
fn serdes_of_the_user_are_never_called() {
    let foreign = ForeignCode {
        serdes: vec![Arc::new(Foreigner(false)), Arc::new(Foreigner(true))],
        ..ForeignCode::default()
    };
    let custom = |custom| SerdeSpec::Custom { custom };
    let formats = StoreFormats::of(&Store::new("s", ROWS, custom(0), custom(1)), &foreign);
    assert_eq!(
        (formats.key.format(), formats.value.format()),
        ("base64", "json")
    );
    let note = formats.note().unwrap();
    assert!(
        note.contains("keys are written by the Python serde Pickle"),
        "{note}"
    );
    assert!(formats.key.key(b"abc", KeyFormat::Text).is_err());
    assert_eq!(
        formats.key.key(b"YQ==", KeyFormat::Base64).unwrap(),
        Datum::Bytes("a".into())
    );
    assert!(
        StoreFormats::of(&store("string", "json"), &foreign)
            .note()
            .is_none()
    );
}

#[test]
fn every_value_has_a_form() {
    let text = |datum: &Datum| {
        let mut out = Vec::new();
        write(datum, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let bytes = Datum::Bytes(Bytes::from_static(&[0, 255]));
    let fields = Fields(vec![
        ("a\"".into(), bytes.clone()),
        ("b".into(), Datum::Int(1)),
    ])
    .datum();
    for (datum, wanted) in [
        (Datum::Null, "null"),
        (Datum::Float(f64::NAN), "\"NaN\""),
        (Datum::Float(f64::NEG_INFINITY), "\"-inf\""),
        (Datum::Float(0.1), "0.1"),
        (bytes.clone(), "\"AP8=\""),
        (Datum::List([bytes, Datum::Null].into()), "[\"AP8=\",null]"),
        (
            Datum::windowed(Datum::text("k"), 1, 2),
            "{\"key\":\"k\",\"start\":1,\"end\":2}",
        ),
        (fields, "{\"a\\\"\":\"AP8=\",\"b\":1}"),
    ] {
        assert_eq!(text(&datum), wanted);
    }
    let json = |text: &'static [u8]| Datum::Json(Bytes::from_static(text));
    assert_eq!(text(&json(b"{\"a\":1}")), "{\"a\":1}");
    for damaged in [&b"{not json"[..], b"\xff", b"1} {"] {
        assert!(write(&json(damaged), &mut Vec::new()).is_err());
    }
}

#[test]
fn a_made_up_cursor_is_refused() {
    let cursors = Cursors::new(7);
    for made_up in ["", "x", "a-b", "a-1-!", "a-x-AA", "1-2-AA-AA"] {
        let refused = cursors.find(made_up, "s", Duration::ZERO).unwrap_err();
        assert!(format!("{refused:?}").contains("no cursor"), "{made_up}");
    }
    for old in ["8.1-1-AA", &format!("7.{:x}-1-AA", std::process::id())] {
        let refused = cursors.find(old, "s", Duration::ZERO).unwrap_err();
        assert!(format!("{refused:?}").contains("410"), "{old}");
    }
    assert_eq!(cursors.len(), 0);
}

/// A snapshot of a run with empty state.
fn snapshot(readers: &StoreReaders) -> CommittedSnapshot {
    let plan = Arc::new(plan());
    let status = Arc::new(Status::new("app", Arc::clone(&plan), 1));
    let clock: Arc<dyn Clock> = Arc::new(Still);
    let shared = Shared::new(status, clock, 1, 1, true, Failpoints::default());
    let state: Arc<dyn Backend> = Arc::new(MemoryBackend::new(false));
    readers.begin(&state, &Arc::new(shared));
    readers.snapshot(&plan, None).unwrap()
}

#[test]
fn a_cursor_ends_when_nobody_uses_it_and_with_the_run() {
    let (cursors, readers) = (Cursors::new(7), StoreReaders::default());
    let taken = snapshot(&readers);
    let scan = CursorScan::Keys {
        span: KeySpan::Between(None, None),
        reverse: false,
    };
    let at = Duration::from_secs;
    let key = Bytes::from_static(b"k");
    let keep = |now| {
        let of = (&taken, "counts");
        cursors.keep(None, of, &scan, &key, at(now)).unwrap()
    };
    let find = |token: &str, now| cursors.find(token, "counts", at(now));
    let token = keep(0);
    assert_eq!(find(&token, 59).unwrap().last, "k");
    // Used at 59 s, so it lives until 119 s.
    assert!(find(&token, 118).is_ok());
    let gone = format!("{:?}", find(&token, 178).unwrap_err());
    assert!(
        gone.contains("410") && gone.contains("begin the walk again"),
        "{gone}"
    );
    assert_eq!(cursors.len(), 0);
    // The last page may be requested again for 5 s.
    let token = keep(200);
    let found = find(&token, 200).unwrap();
    cursors.done(Some(found.id));
    assert!(find(&token, 204).is_ok());
    assert!(find(&token, 205).is_err());
    let other = keep(300);
    assert!(
        cursors.find(&other, "rows", at(300)).is_err(),
        "of another store"
    );
    readers.end();
    assert!(!taken.is_open());
    assert!(find(&other, 301).is_err(), "its run has ended");
    assert_ne!(snapshot(&readers).run(), taken.run());
}
