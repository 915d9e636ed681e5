//! One field of a record of about 1 KB: `sf.value["amount"] > 100`, from the bytes of a topic, as JSON, as
//! Avro and as Protobuf.

#![allow(missing_docs, clippy::unwrap_used)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use stoatflow_core::{Bytes, Datum, Record, Serde};
use stoatflow_formats::{avro, protobuf};
use stoatflow_operators::expr::Compiled;
use stoatflow_plan::Expression;

/// An Avro schema of twenty texts and the field that is read, which follows none or all of them.
fn schema(at: usize) -> String {
    let mut fields: Vec<String> = (0..20)
        .map(|n| format!(r#"{{"name": "text_{n:02}", "type": "string"}}"#))
        .collect();
    fields.insert(at, r#"{"name": "amount", "type": "double"}"#.into());
    format!(
        r#"{{"type": "record", "name": "Order", "fields": [{}]}}"#,
        fields.join(",")
    )
}

/// The same fields as a Protobuf message.
fn message(at: usize) -> protobuf::Format {
    let mut fields: Vec<String> = (0..20).map(|n| format!("string text_{n:02}")).collect();
    fields.insert(at, "double amount".into());
    let fields = fields.iter().zip(1..);
    let fields: Vec<String> = fields.map(|(field, n)| format!("{field} = {n};")).collect();
    let text = format!(
        "syntax = \"proto3\"; message Order {{ {} }}",
        fields.concat()
    );
    let descriptors = protobuf::of_text(&text, &[]).unwrap();
    protobuf::Format::new(&descriptors, "Order", None, &[]).unwrap()
}

fn json(at: usize) -> Bytes {
    let text = "the quick brown fox jumps over";
    let mut members: Vec<String> = (0..20)
        .map(|n| format!(r#""text_{n:02}":"{text} {n:02}""#))
        .collect();
    members.insert(at, r#""amount":250.5"#.into());
    format!("{{{}}}", members.join(",")).into()
}

fn read_field(c: &mut Criterion) {
    let expression: Expression = serde_json::from_str(
        r#"{"op":"gt","args":[{"op":"get","args":[{"op":"value"}],"name":"amount"},{"op":"lit","value":100}]}"#,
    )
    .unwrap();
    let compiled = Compiled::new(&expression).unwrap();
    let mut group = c.benchmark_group("read_field");
    for (place, at) in [("first", 0), ("last", 20)] {
        let text = json(at);
        let avro = avro::Format::new(&schema(at), None, &BTreeMap::new()).unwrap();
        let avro = Serde::Custom(Arc::new(avro));
        let protobuf = Serde::Custom(Arc::new(message(at)));
        for (name, serde) in [
            ("json", Serde::Json),
            ("avro", avro),
            ("protobuf", protobuf),
        ] {
            let bytes = serde.encode(&Datum::Json(text.clone())).unwrap().unwrap();
            group.throughput(Throughput::Bytes(bytes.len() as u64));
            group.bench_function(format!("{name}/{place}"), |b| {
                b.iter(|| {
                    let record = Record {
                        value: serde.decode(Some(black_box(bytes.clone()))).unwrap(),
                        ..Record::default()
                    };
                    assert!(compiled.test(&record).unwrap());
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, read_field);
criterion_main!(benches);
