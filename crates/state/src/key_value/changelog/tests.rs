use super::*;
use crate::memory::MemoryBackend;
use crate::{Dirty, Layout, Stored};
use bytes::Bytes;
use std::sync::Arc;
use stoatflow_core::{Datum, Epoch, Header, Headers, StoreId, headers_to_bytes};

fn store(layout: Layout) -> KeyValueStore {
    let serde = Serde::WithHeaders(Arc::new(Serde::String));
    let backend = Arc::new(MemoryBackend::new(true));
    KeyValueStore::with_layout(StoreId(0), "s".into(), serde, backend, 1 << 20, layout)
}

fn headers() -> Headers {
    let header = Header {
        name: "id".into(),
        value: Some(Bytes::from_static(b"ab")),
    };
    Some([header].into())
}

fn with(headers: &Headers, text: &str) -> Datum {
    Datum::List([Datum::Bytes(headers_to_bytes(headers)), Datum::text(text)].into())
}

/// Writes a value; returns its sealed row.
fn sealed(store: &KeyValueStore, key: &Bytes, value: Datum) -> Sealed {
    let mut dirty = Dirty::default();
    let stored = Stored {
        value,
        timestamp: Timestamp(7),
    };
    store.put(Epoch(1), &mut dirty, key, Some(stored)).unwrap();
    store.seal(Epoch(1), dirty).unwrap().remove(0)
}

#[test]
fn headers_are_those_of_the_changelog_record_and_come_back() {
    let window = [&0_i64.to_be_bytes()[..], b"k", &[0; 12]].concat();
    for (layout, key) in [
        (Layout::KeyValue, Bytes::from_static(b"k")),
        (Layout::window(60_000), window.into()),
    ] {
        for headers in [headers(), None] {
            let store = store(layout);
            let row = sealed(&store, &key, with(&headers, "v"));
            let record = store.to_changelog(&row).unwrap().unwrap();
            assert_eq!(record.value.as_deref(), Some(&b"v"[..]));
            assert_eq!(
                (&record.headers, record.timestamp),
                (&headers, Timestamp(7))
            );
            let mut run = RestoreRun::default();
            let pair = (&record.key[..], record.value.as_deref());
            let bytes = headers_to_bytes(&record.headers);
            store
                .restore_into(&mut run, pair, record.timestamp, &bytes)
                .unwrap();
            assert_eq!(
                run.into_writes(),
                [KeyValueStore::stored_bytes(&row)],
                "the row that was committed is the row that is restored"
            );
        }
    }
}

#[test]
fn deletions_have_no_headers() {
    let store = store(Layout::KeyValue);
    let mut run = RestoreRun::default();
    store
        .restore_into(&mut run, (b"k", None), Timestamp(7), b"")
        .unwrap();
    assert_eq!(run.into_writes()[0].value, None);
}

#[test]
fn rows_of_a_store_without_headers_stay_as_they_are() {
    let mut run = RestoreRun::default();
    let bytes = headers_to_bytes(&headers());
    store(Layout::KeyValue)
        .with_value(Serde::String)
        .restore_into(&mut run, (b"k", Some(b"v")), Timestamp(7), &bytes)
        .unwrap();
    let row = run.into_writes().remove(0).value.unwrap();
    assert_eq!(&row[..], b"\0\0\0\0\0\0\0\x07v");
}
