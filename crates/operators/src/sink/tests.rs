//! Encoding on the way out.

use crate::testing::*;
use std::sync::Arc;
use stoatflow_core::{Header, SinkId};
use stoatflow_plan::{Fork, Op};

fn rig(sink: u16) -> Rig {
    Rig::new(
        vec![(Op::Sink { sink: SinkId(sink) }, vec![], Fork::Batch)],
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
fn what_cannot_be_encoded_says_node_and_record() {
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
        to: vec![],
        stage: stoatflow_core::StageId(1),
        key: serde("avro"),
    };
    let error = Rig::build(vec![(unknown, vec![], Fork::Batch)], vec![], false)
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
    assert!(Rig::build(vec![(missing, vec![], Fork::Batch)], vec![], false).is_err());
}
