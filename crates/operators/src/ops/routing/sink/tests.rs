//! Serializing records for the output topics.

use crate::testing::*;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use stoatflow_core::{CallableHandler, Datum, Handler, Header, Opaque, Result, SinkId};
use stoatflow_plan::{Delivery, Function, Op};

fn rig(sink: u16) -> Rig {
    Rig::new(
        vec![(Op::Sink { sink: SinkId(sink) }, vec![], Delivery::Batch)],
        vec![],
        false,
    )
}

#[test]
fn records_are_encoded_with_time_headers_and_origin() {
    let mut rig = rig(0);
    let mut with_headers = record("k", "v", 5);
    with_headers.headers = Some(Arc::from([Header {
        name: "trace".into(),
        value: Some("1".into()),
    }]));
    rig.push(vec![with_headers.clone(), record("~", "~", 6)])
        .unwrap();
    let out = &rig.effects.outputs;
    assert_eq!(
        (
            out[0].key.as_deref(),
            out[0].value.as_deref(),
            out[0].timestamp.0
        ),
        (Some(&b"k"[..]), Some(&b"v"[..]), 5)
    );
    assert_eq!(
        (&out[0].headers, out[0].origin),
        (&with_headers.headers, with_headers.origin)
    );
    assert_eq!(
        (&out[1].key, &out[1].value),
        (&None, &None),
        "nulls are legal"
    );
}

#[test]
fn encoding_errors_name_node_and_record() {
    let error = rig(1).push(vec![record("k", "text", 12)]).unwrap_err();
    assert_eq!(error.kind(), stoatflow_core::ErrorKind::Serde);
    let at = error.coordinates();
    assert_eq!(
        (
            at.node.as_deref(),
            at.topic.as_deref(),
            at.offset.map(|o| o.0)
        ),
        (Some("sink-0"), Some("in"), Some(12))
    );
}

#[test]
fn an_unknown_serde_or_callable_is_refused_when_built() {
    let unknown = Op::Exchange {
        keep_null: false,
        ahead: false,
        to: vec![],
        stage: stoatflow_core::StageId(1),
        key: serde("avro"),
    };
    let error = Rig::build(vec![(unknown, vec![], Delivery::Batch)], vec![], false)
        .err()
        .unwrap();
    assert_eq!(error.kind(), stoatflow_core::ErrorKind::Topology);
    assert!(
        error.to_string().contains("avro") && error.to_string().contains("exchange-0"),
        "{error}"
    );
    let missing = Op::Peek {
        function: stoatflow_plan::Function::Udf(3),
    };
    assert!(Rig::build(vec![(missing, vec![], Delivery::Batch)], vec![], false).is_err());
}

/// A sink whose topic (callable 0) or partitions (callable 1) are chosen.
fn choosing(
    topic: Option<Function>,
    partitioner: Option<Function>,
    udfs: Vec<Arc<dyn crate::Udf>>,
) -> Rig {
    Rig::changed(
        vec![(Op::Sink { sink: SinkId(0) }, vec![], Delivery::Batch)],
        udfs,
        |plan| {
            let sink = &mut plan.sinks[0];
            sink.topic = sink.topic.take().filter(|_| topic.is_none());
            sink.topic_function.clone_from(&topic);
            sink.partitioner.clone_from(&partitioner);
        },
    )
    .unwrap()
}

fn where_to(rig: &Rig) -> Vec<(Option<&str>, Option<i32>)> {
    rig.effects
        .outputs
        .iter()
        .map(|o| match &o.chosen {
            Some(chosen) => (chosen.topic.as_deref(), chosen.partition.map(|p| p.0)),
            None => (None, None),
        })
        .collect()
}

#[test]
fn a_function_chooses_the_topic_and_sees_where_the_record_was_read() {
    let topic = closure(|args| match args {
        [_, value, read] => Ok(text(&format!("{}-{}", word(read), word(value)))),
        _ => panic!("a key, a value and a topic"),
    });
    let mut rig = choosing(Some(Function::Udf(0)), None, vec![topic]);
    rig.push(vec![record("k", "a", 1), record("k", "b", 2)])
        .unwrap();
    assert_eq!(where_to(&rig), [(Some("in-a"), None), (Some("in-b"), None)]);
}

#[test]
fn an_expression_chooses_the_topic_but_not_null_or_nothing() {
    let value = || Some(expression(r#"{"op":"value"}"#));
    let mut rig = choosing(value(), None, vec![]);
    rig.push(vec![record("k", "a", 1)]).unwrap();
    assert_eq!(where_to(&rig), [(Some("a"), None)]);
    for bad in ["~", ""] {
        let mut rig = choosing(value(), None, vec![]);
        let error = rig
            .push(vec![record("k", "a", 1), record("k", bad, 2)])
            .unwrap_err();
        assert_eq!(error.kind(), stoatflow_core::ErrorKind::User);
        assert_eq!(error.coordinates().offset.map(|o| o.0), Some(2));
    }
}

#[test]
fn a_partitioner_chooses_none_one_or_several() {
    let partitioner = closure(|args| {
        let [topic, _, value, count] = args else {
            panic!("a topic, a key, a value and a number of partitions");
        };
        assert_eq!((word(topic).as_str(), word(count).as_str()), ("out-0", "3"));
        Ok(match word(value).as_str() {
            "default" => Datum::Null,
            "nowhere" => list_of([]),
            "all" => list_of([Datum::Int(0), Datum::Int(1), Datum::Int(2)]),
            _ => Datum::Int(2),
        })
    });
    let mut rig = choosing(None, Some(Function::Udf(0)), vec![partitioner]);
    let values = ["default", "one", "nowhere", "all"];
    rig.push(
        (1..)
            .zip(values)
            .map(|(at, v)| record("k", v, at))
            .collect(),
    )
    .unwrap();
    assert_eq!(
        where_to(&rig),
        [None, Some(2), Some(0), Some(1), Some(2)].map(|partition| (None, partition))
    );
    assert_eq!(rig.dropped(), [(0, crate::support::dropped::NO_PARTITION)]);
}

#[test]
fn a_partitioner_may_get_the_headers() {
    let partitioner = closure(|args| {
        let [topic, headers, key, value, count] = args else {
            panic!("a topic, headers, a key, a value and a number of partitions");
        };
        let told = [topic, key, value, count].map(|datum| word(datum));
        assert_eq!(told, ["out-0", "k", "v", "3"]);
        let number = word(headers).len();
        Ok(Datum::Int(i64::try_from(number).expect("a small number")))
    });
    let spec = Some(Function::Udf(0));
    let mut rig = Rig::changed(
        vec![(Op::Sink { sink: SinkId(0) }, vec![], Delivery::Batch)],
        vec![partitioner],
        |plan| {
            plan.sinks[0].partitioner.clone_from(&spec);
            plan.sinks[0].partitioner_with_headers = true;
        },
    )
    .unwrap();
    let mut headed = record("k", "v", 1);
    headed.headers = Some(Arc::from([Header {
        name: "ab".into(),
        value: Some("x".into()),
    }]));
    rig.push(vec![record("k", "v", 0), headed]).unwrap();
    assert_eq!(where_to(&rig), [(None, Some(0)), (None, Some(2))]);
}

#[test]
fn a_partition_that_is_not_there_is_the_partitioners_fault() {
    for bad in [3, -1] {
        let partitioner = closure(move |_| Ok(Datum::Int(bad)));
        let mut rig = choosing(None, Some(Function::Udf(0)), vec![partitioner]);
        let error = rig.push(vec![record("k", "v", 7)]).unwrap_err();
        assert_eq!(error.kind(), stoatflow_core::ErrorKind::User);
        assert!(error.to_string().contains("which has 3"), "{error}");
        assert_eq!(error.coordinates().offset.map(|o| o.0), Some(7));
    }
}

/// An object of a runtime that counts how often it was entered, and can only be encoded inside.
#[derive(Clone, Debug, Default)]
struct AttachScope {
    entered: Arc<AtomicUsize>,
    inside: Arc<AtomicBool>,
    fails: bool,
}

impl Opaque for AttachScope {
    fn to_json(&self) -> Result<Bytes> {
        assert!(self.inside.load(Relaxed), "each object enters by itself");
        if self.fails {
            return Err(stoatflow_core::Error::serde("a guest without a form"));
        }
        Ok("{}".into())
    }

    fn type_name(&self) -> String {
        "guest".into()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn scope(&self, body: &mut dyn FnMut()) {
        self.entered.fetch_add(1, Relaxed);
        self.inside.store(true, Relaxed);
        body();
        self.inside.store(false, Relaxed);
    }
}

#[test]
fn foreign_values_of_a_batch_are_written_with_one_entry_of_their_runtime() {
    let one = AttachScope::default();
    let entered = Arc::clone(&one.entered);
    let guest = || Datum::Opaque(Arc::new(one.clone()));
    let mut rig = rig(2);
    let of = |value| stoatflow_core::Record {
        value,
        ..record("k", "~", 1)
    };
    rig.push(vec![record("k", "~", 0), of(guest()), of(guest())])
        .unwrap();
    assert_eq!(entered.load(Relaxed), 1);
    let written = rig.effects.outputs.iter().map(|o| o.value.as_deref());
    assert_eq!(
        written.collect::<Vec<_>>(),
        [None, Some(&b"{}"[..]), Some(&b"{}"[..])]
    );
    rig.push(vec![record("k", "~", 2)]).unwrap();
    assert_eq!(
        entered.load(Relaxed),
        1,
        "nobody is entered for what is not foreign"
    );
}

#[test]
fn handlers_decide_outside_of_the_runtime_of_a_record() {
    // The handler may ask the broker, which can take any time.
    for partitioned in [false, true] {
        let good = AttachScope::default();
        let (entered, inside) = (Arc::clone(&good.entered), Arc::clone(&good.inside));
        let decides = closure(move |_| {
            assert!(!inside.load(Relaxed), "its runtime is kept from others");
            Ok(text("log_and_continue"))
        });
        let step = (Op::Sink { sink: SinkId(2) }, vec![], Delivery::Batch);
        let udfs: Vec<Arc<dyn crate::Udf>> = vec![decides, closure(|_| Ok(Datum::Int(1)))];
        let mut rig = Rig::changed(vec![step], udfs, |plan| {
            let call = CallableHandler {
                udf: 0,
                topics: Vec::new(),
            };
            plan.nodes[0].on_error = Some(Handler::Call(call));
            plan.sinks[2].partitioner = partitioned.then_some(Function::Udf(1));
        })
        .unwrap();
        let of = |fails, at| stoatflow_core::Record {
            value: Datum::Opaque(Arc::new(AttachScope {
                fails,
                ..good.clone()
            })),
            ..record("k", "~", at)
        };
        rig.push(vec![of(false, 1), of(true, 2), of(false, 3), of(true, 4)])
            .unwrap();
        let written = rig.effects.outputs.iter().map(|o| o.timestamp.0);
        assert_eq!(written.collect::<Vec<_>>(), [1, 3]);
        assert_eq!((rig.handled().len(), entered.load(Relaxed)), (2, 3));
    }
}

#[test]
fn the_header_of_a_schema_ends_where_another_is_written() {
    let of = |name: &str| Header {
        name: name.into(),
        value: Some("\u{1}".into()),
    };
    for (as_read, left) in [(true, 2), (false, 1)] {
        let sink = vec![(Op::Sink { sink: SinkId(0) }, vec![], Delivery::Batch)];
        let mut rig = Rig::changed(sink, vec![], |plan| {
            plan.sinks[0].value_as_read = as_read;
        })
        .unwrap();
        let mut with_headers = record("k", "v", 5);
        with_headers.headers = Some(Arc::from([of("__value_schema_id"), of("trace")]));
        rig.push(vec![with_headers]).unwrap();
        let headers = rig.effects.outputs[0].headers.clone().unwrap();
        assert_eq!(headers.len(), left);
        assert_eq!(&*headers[left - 1].name, "trace");
    }
}

#[test]
fn all_windows_of_a_key_go_to_one_partition() {
    let windowed = stoatflow_plan::SerdeSpec::TimeWindowed {
        time_windowed: Box::new(stoatflow_plan::SerdeSpec::Builtin("string".into())),
        size_ms: 10,
    };
    let mut rig = Rig::changed(
        vec![(Op::Sink { sink: SinkId(0) }, vec![], Delivery::Batch)],
        vec![],
        |plan| plan.sinks[0].key = windowed.clone(),
    )
    .unwrap();
    let at = |key: &str, start: i64| stoatflow_core::Record {
        key: stoatflow_core::Datum::windowed(text(key), start, start + 10),
        ..record("", "v", 1)
    };
    let records = (0..6).flat_map(|start| [at("a", start), at("some", start)]);
    rig.push(records.collect()).unwrap();
    let partitions: Vec<Option<i32>> = where_to(&rig).into_iter().map(|(_, p)| p).collect();
    let of = |key: &[u8]| Some(stoatflow_core::murmur2::partition_of(key, 3));
    assert_eq!(partitions, [of(b"a"), of(b"some")].repeat(6));
    assert_ne!(of(b"a"), of(b"some"), "they say something");
}
