use super::*;
use stoatflow_core::ErrorKind;
use stoatflow_plan::SerdeSpec;

fn of(kind: StoreKind) -> String {
    let serde = || SerdeSpec::Builtin("string".into());
    format(
        &Store::new("counts", kind, serde(), serde()),
        "string",
        "int64",
    )
}

fn window(size_ms: i64, retention_ms: i64) -> StoreKind {
    StoreKind::Window {
        retention_ms,
        size_ms,
        duplicates: false,
        timestamped: true,
    }
}

#[test]
fn only_what_changes_the_rows_is_part_of_it() {
    assert_eq!(of(StoreKind::KeyValue), "key-value:string:int64");
    // A table that gets a history is restored from the same changelog.
    assert_eq!(
        of(StoreKind::Versioned { history_ms: 5 }),
        of(StoreKind::TimestampedKeyValue)
    );
    assert_eq!(of(window(60_000, 60_000)), of(window(60_000, 90_000)));
    assert_ne!(of(window(60_000, 60_000)), of(window(30_000, 60_000)));
    assert_ne!(
        of(window(60_000, 60_000)),
        of(StoreKind::Session {
            retention_ms: 60_000
        })
    );
    let buffer = |size_ms| StoreKind::Window {
        retention_ms: 60_000,
        size_ms,
        duplicates: true,
        timestamped: false,
    };
    assert_eq!(of(buffer(1)), of(buffer(2)), "a join window may be widened");
}

#[test]
fn rows_of_another_format_are_refused() {
    let topic: Arc<str> = "shop-counts-changelog".into();
    let written = |format: &str| {
        let mut rows = OffsetRows::default();
        rows.formats.insert(Arc::clone(&topic), format.to_owned());
        rows
    };
    let formats = BTreeMap::from([(Arc::clone(&topic), "key-value:string:int64".to_owned())]);
    let end = |end| {
        let partition = |p| TopicPartition::new(Arc::clone(&topic), p);
        [(partition(0), Offset(0)), (partition(1), Offset(end))]
    };
    let other = written("key-value:string:json");
    let error = refuse_other_formats(&other, &formats, &end(7)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert!(error.to_string().contains("string:json"), "{error}");
    for (rows, end) in [
        (written("key-value:string:int64"), end(7)),
        (OffsetRows::default(), end(7)),
        (other, end(0)),
    ] {
        refuse_other_formats(&rows, &formats, &end).unwrap();
    }
}

#[test]
fn a_changelog_that_was_off_is_refused() {
    let topic: Arc<str> = "shop-counts-changelog".into();
    let formats = |format: &str| BTreeMap::from([(Arc::clone(&topic), format.to_owned())]);
    let refused = |written: &str, now: &str, end| {
        let rows = OffsetRows {
            formats: formats(written),
            ..OffsetRows::default()
        };
        let end = [(TopicPartition::new(Arc::clone(&topic), 0), Offset(end))];
        refuse_other_formats(&rows, &formats(now), &end)
    };
    let logged = "key-value:string:int64";
    let error = refused(OFF, logged, 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert!(error.to_string().contains("was off until now"), "{error}");
    refused(OFF, logged, 7).unwrap_err();
    refused(OFF_IN_MEMORY, logged, 7).unwrap_err();
    refused(OFF_IN_MEMORY, logged, 0).expect("it began empty each time");
    refused(logged, OFF, 7).expect("it may be turned off at any time");
    refused(OFF_IN_MEMORY, OFF, 7).expect("and stay off");
    let error = refused(LEFT_SIDE, "buffer:string:string", 0).unwrap_err();
    assert!(
        error.to_string().contains("single.store.self.join"),
        "{error}"
    );
    refused("buffer:string:string", LEFT_SIDE, 7).expect("the left side has all of its rows");
}
