use super::super::reader::StoreReader;
use super::{FoundPage, FoundRow};
use crate::index::StoreIndexes;
use crate::index::build::find_unbuilt;
use crate::index::build_at_start::build_now;
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;
use stoatflow_core::{Datum, Record, Result, StoreId, ordered};
use stoatflow_operators::expr::Compiled;
use stoatflow_operators::{ForeignCode, OpenSnapshot};
use stoatflow_plan::PhysicalPlan;
use stoatflow_plan::find::FindSpec;
use stoatflow_state::memory::MemoryBackend;
use stoatflow_state::{Backend, Write};

fn member(name: &str) -> Value {
    json!({"op": "get", "args": [{"op": "value"}], "name": name})
}

fn lit(value: impl Into<Value>) -> Value {
    json!({"op": "lit", "value": value.into()})
}

fn plan(indexes: Option<Value>) -> PhysicalPlan {
    let mut table = json!({
        "op": "table", "topic": "in", "key": "string", "value": "json",
        "materialized": {"store": "docs"},
    });
    if let Some(indexes) = indexes {
        table["materialized"]["indexes"] = indexes;
    }
    let plan =
        json!({"version": 1, "nodes": [table], "functions": [], "serdes": [], "processors": []});
    stoatflow_plan::compile(plan.to_string().as_bytes()).unwrap()
}

fn indexes() -> Value {
    let by = |name: &str, fields: &[&str]| {
        let fields: Vec<Value> = fields.iter().map(|f| json!({"expr": member(f)})).collect();
        json!({"name": name, "fields": fields})
    };
    let mut tags = by("by_tag", &["tags"]);
    tags["each"] = json!(true);
    json!([
        by("by_city", &["city"]),
        by("by_city_n", &["city", "n"]),
        by("by_n", &["n"]),
        tags
    ])
}

/// The same, and each index stores all members.
fn covering() -> Value {
    let mut all = indexes();
    for index in all.as_array_mut().unwrap() {
        let stored = ["city", "n", "tags"].map(|name| json!({"expr": member(name)}));
        index["storing"] = json!(stored);
    }
    all
}

type Rows = Vec<(String, String)>;

fn reader(plan: &PhysicalPlan, rows: &Rows) -> StoreReader {
    let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new(false));
    let writes = rows.iter().map(|(key, document)| Write {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: Some([&[0; 8], document.as_bytes()].concat().into()),
    });
    backend.restore(StoreId(0), writes.collect(), &[]).unwrap();
    let foreign = ForeignCode::default();
    for of in StoreIndexes::all(plan, &foreign).unwrap() {
        let unbuilt = find_unbuilt(backend.as_ref(), &of).unwrap().unwrap();
        assert!(build_now(backend.as_ref(), &unbuilt, || false).unwrap());
    }
    let all: Vec<StoreId> = (0..10).map(StoreId).collect();
    let open = OpenSnapshot::new(backend.snapshot(&all).unwrap());
    StoreReader::new((plan, &plan.stores[0]), &foreign, open, Vec::new()).unwrap()
}

fn find(reader: &StoreReader, asked: &Value, cursor: Option<&[u8]>) -> Result<FoundPage> {
    let spec = FindSpec::decode(asked.to_string().as_bytes())?;
    reader.find(&spec, cursor)
}

fn keys(page: &FoundPage) -> Vec<String> {
    page.rows.iter().map(keys_of).collect()
}

fn keys_of(row: &FoundRow) -> String {
    match &row.key {
        Datum::Str(text) => text.as_str().to_owned(),
        other => panic!("{other:?}"),
    }
}

fn record(key: &str, document: &str) -> Record {
    Record {
        key: Datum::text(key),
        value: Datum::Json(Bytes::copy_from_slice(document.as_bytes())),
        ..Record::default()
    }
}

/// What a query selects of a row.
fn selected(asked: &Value, key: &str, document: &str) -> Vec<Datum> {
    let spec = FindSpec::decode(asked.to_string().as_bytes()).unwrap();
    let select = spec.select.unwrap().exprs;
    let select = select.iter().map(|one| Compiled::new(one).unwrap());
    select
        .map(|one| one.eval(&record(key, document)).unwrap())
        .collect()
}

/// The expected rows, found by reading every row: sort key and key.
fn expected(rows: &Rows, asked: &Value) -> Vec<(Vec<u8>, String)> {
    let spec = FindSpec::decode(asked.to_string().as_bytes()).unwrap();
    let condition = spec.condition.as_ref().map(|c| Compiled::new(c).unwrap());
    let mut found = Vec::new();
    for (key, document) in rows {
        let row = record(key, document);
        if !condition
            .as_ref()
            .is_none_or(|c| c.test(&row).unwrap_or(false))
        {
            continue;
        }
        let mut place = Vec::new();
        for by in &spec.order_by {
            let value = Compiled::new(&by.expr).unwrap().compared(&row);
            let mut bytes = value.map_or_else(|_| vec![ordered::OTHER], |v| ordered::bytes(&v));
            if by.down {
                bytes.iter_mut().for_each(|byte| *byte = !*byte);
            }
            place.extend(bytes);
        }
        found.push((place, key.clone()));
    }
    found.sort();
    found
}

fn document() -> impl Strategy<Value = String> {
    let city = prop_oneof![
        Just("null"),
        Just("\"a\""),
        Just("\"ab\""),
        Just("\"b\""),
        Just("{}"),
        Just("3")
    ];
    let n = prop_oneof![
        (-2i64..4).prop_map(|n| n.to_string()),
        (-4i64..8).prop_map(|n| format!("{:?}", n as f64 / 2.0)),
        Just("null".to_owned()),
        Just("\"x\"".to_owned()),
    ];
    let tags =
        proptest::collection::vec(prop_oneof![Just("\"s\""), Just("\"t\""), Just("1")], 0..3);
    (city, n, tags).prop_map(|(city, n, tags)| {
        format!(
            r#"{{"city": {city}, "n": {n}, "tags": [{}]}}"#,
            tags.join(", ")
        )
    })
}

fn rows() -> impl Strategy<Value = Rows> {
    proptest::collection::btree_map("[k-m][0-9]{0,2}", document(), 0..40)
        .prop_map(|rows| rows.into_iter().collect())
}

fn condition() -> impl Strategy<Value = Value> {
    let op = |name: &str, a: Value, b: Value| json!({"op": name, "args": [a, b]});
    let compare = prop_oneof![
        Just("eq"),
        Just("lt"),
        Just("le"),
        Just("gt"),
        Just("ge"),
        Just("ne")
    ];
    let city = prop_oneof![
        Just(json!("a")),
        Just(json!("ab")),
        Just(json!(null)),
        Just(json!(3))
    ];
    let leaf =
        prop_oneof![
        (compare.clone(), -2i64..4).prop_map(move |(how, n)| op(how, member("n"), lit(n))),
        city.clone().prop_map(move |city| op("eq", member("city"), lit(city))),
        (city.clone(), city).prop_map(|(a, b)| {
            json!({"op": "call", "function": "is_in", "args": [member("city"), lit(a), lit(b)]})
        }),
        prop_oneof![Just("s"), Just("t"), Just("u")].prop_map(|tag| {
            json!({"op": "call", "function": "list_contains", "args": [member("tags"), lit(tag)]})
        }),
        (compare, "[k-m][0-9]{0,1}")
            .prop_map(move |(how, key)| op(how, json!({"op": "key"}), lit(key))),
        Just(json!({"op": "str_starts_with", "args": [member("city")], "text": "a"})),
        Just(json!({"op": "not", "args": [{"op": "is_null", "args": [member("city")]}]})),
    ];
    leaf.prop_recursive(2, 8, 2, move |inner| {
        (prop_oneof![Just("and"), Just("or")], inner.clone(), inner)
            .prop_map(move |(how, a, b)| op(how, a, b))
    })
}

fn order() -> impl Strategy<Value = Value> {
    let by = (
        prop_oneof![
            Just(member("city")),
            Just(member("n")),
            Just(json!({"op": "key"}))
        ],
        any::<bool>(),
    );
    let by = by.prop_map(|(expr, down)| json!({"expr": expr, "down": down}));
    proptest::collection::vec(by, 0..3).prop_map(Value::Array)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn every_way_finds_the_same_rows(
        rows in rows(),
        condition in proptest::option::of(condition()),
        order in order(),
        limit in 1usize..12,
    ) {
        let plans = [plan(Some(indexes())), plan(Some(covering())), plan(None)];
        let select = json!({"exprs": [member("n"), {"op": "key"}, member("tags"), member("city")]});
        let mut asked = json!({"order_by": order, "allow_scan": true, "select": select});
        if let Some(condition) = condition {
            asked["where"] = condition;
        }
        let expected = expected(&rows, &asked);
        for plan in &plans {
            let reader = reader(plan, &rows);
            let whole = find(&reader, &asked, None).unwrap();
            let mut found = keys(&whole);
            prop_assert!(whole.cursor.is_none());
            let covers = std::ptr::eq(plan, &raw const plans[1]) && whole.explained.index.is_some();
            prop_assert_eq!(whole.explained.covering, covers);
            for row in &whole.rows {
                let key = keys_of(row);
                let document = &rows.iter().find(|(of, _)| *of == key).unwrap().1;
                prop_assert_eq!(row.selected.as_ref().unwrap(), &selected(&asked, &key, document));
            }
            // With an index, rows with the same sort key may come in any order.
            let place = |key: &String| &expected.iter().find(|(_, of)| of == key).unwrap().0;
            let places: Vec<_> = found.iter().map(place).collect();
            prop_assert!(places.is_sorted(), "{:?} {}", whole.explained, asked);
            asked["limit"] = json!(limit);
            let (mut paged, mut cursor) = (Vec::new(), None);
            loop {
                let page = find(&reader, &asked, cursor.as_deref()).unwrap();
                prop_assert!(page.rows.len() <= limit);
                paged.extend(keys(&page));
                cursor = page.cursor;
                if cursor.is_none() {
                    break;
                }
            }
            let places: Vec<_> = paged.iter().map(place).collect();
            prop_assert!(places.is_sorted());
            asked.as_object_mut().unwrap().remove("limit");
            found.sort();
            paged.sort();
            let mut wanted: Vec<_> = expected.iter().map(|(_, key)| key.clone()).collect();
            wanted.sort();
            prop_assert_eq!(&found, &wanted, "{:?} {}", whole.explained, asked);
            prop_assert_eq!(&paged, &wanted, "{:?} {}", whole.explained, asked);
        }
    }
}

#[test]
fn only_what_lies_in_the_ranges_is_read() {
    let plan = plan(Some(indexes()));
    let rows: Rows = (0..1_000)
        .map(|at| {
            (
                format!("k{at:03}"),
                format!(r#"{{"city": "c{}", "n": {at}}}"#, at % 10),
            )
        })
        .collect();
    let reader = reader(&plan, &rows);
    let city = json!({"op": "eq", "args": [member("city"), lit("c7")]});
    let page = find(&reader, &json!({"where": city}), None).unwrap();
    assert_eq!((page.rows.len(), page.explained.rows_read), (100, 100));
    assert_eq!(page.explained.index.as_deref(), Some("by_city"));
    let by_n = json!([{"expr": member("n"), "down": true}]);
    let asked = json!({"where": city, "order_by": by_n, "limit": 3});
    let page = find(&reader, &asked, None).unwrap();
    assert_eq!(keys(&page), ["k997", "k987", "k977"]);
    assert_eq!(
        (page.explained.rows_read, page.explained.sorted),
        (3, false)
    );
    let next = find(&reader, &asked, page.cursor.as_deref()).unwrap();
    assert_eq!(keys(&next), ["k967", "k957", "k947"]);
}

#[test]
fn a_covering_index_reads_no_rows() {
    let plan = plan(Some(covering()));
    let rows: Rows = vec![
        ("a".into(), r#"{"city": "c", "n": 1}"#.into()),
        // Its number has no exact form among the entries.
        ("b".into(), r#"{"city": "c", "n": 1e999}"#.into()),
    ];
    let reader = reader(&plan, &rows);
    let city = json!({"op": "eq", "args": [member("city"), lit("c")]});
    let mut asked = json!({"where": city, "select": {"exprs": [member("tags")]}});
    let covering = |asked: &Value| find(&reader, asked, None).unwrap().explained.covering;
    assert!(covering(&asked));
    asked["order_by"] = json!([{"expr": member("n")}]);
    assert!(covering(&asked));
    asked["select"]["exprs"] = json!([{"op": "value"}]);
    assert!(!covering(&asked));
    asked["select"]["exprs"] = json!([{"op": "timestamp"}]);
    assert!(!covering(&asked));
    asked["select"] = Value::Null;
    assert!(!covering(&asked));
}

#[test]
fn an_entry_that_keeps_nothing_leads_to_its_row() {
    let plan = plan(Some(covering()));
    let rows: Rows = vec![
        ("a".into(), r#"{"city": "c", "n": 1}"#.into()),
        ("b".into(), r#"{"city": "c", "n": 2, "tags": [1,}"#.into()),
    ];
    let reader = reader(&plan, &rows);
    let city = json!({"op": "eq", "args": [member("city"), lit("c")]});
    let asked = json!({"where": city, "select": {"exprs": [member("n")]}});
    let page = find(&reader, &asked, None).unwrap();
    let selected: Vec<_> = page.rows.iter().map(|row| row.selected.clone()).collect();
    assert_eq!(
        selected,
        [Some(vec![Datum::Int(1)]), Some(vec![Datum::Int(2)])]
    );
}
