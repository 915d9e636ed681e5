use super::side_by_side;
use crate::function::Function;
use crate::offloading::RetryPolicy;
use crate::op::Op;
use crate::spec::{AsyncSpec, SerdeSpec};
use crate::view::{Kind as JoinKind, View};
use stoatflow_core::StoreId;

const fn awaited(udf: u32) -> Function {
    Function::Async(AsyncSpec {
        udf,
        concurrency: 2,
        park_after_ms: 0,
    })
}

fn key() -> SerdeSpec {
    SerdeSpec::Builtin("string".into())
}

fn kept() -> Box<View> {
    let (store, key) = (StoreId(0), key());
    Box::new(View::Store { store, key })
}

#[test]
fn joiners_are_called_side_by_side_wherever_the_join_is_read() {
    // The function between the two joins is awaited for one row after another.
    let inner = View::Join {
        left: kept(),
        right: kept(),
        kind: JoinKind::Inner,
        function: awaited(3),
        with_key: false,
    };
    let mapped = View::MapValues {
        of: Box::new(inner),
        function: awaited(4),
        with_key: false,
    };
    let join = Op::StreamTableJoin {
        kind: JoinKind::Left,
        table: View::Join {
            left: kept(),
            right: Box::new(mapped),
            kind: JoinKind::Inner,
            function: Function::Udf(2),
            with_key: false,
        },
        function: awaited(1),
        with_key: false,
        grace_ms: None,
        buffer: None,
        clock: None,
        key: key(),
        value: key(),
    };
    let found: Vec<u32> = side_by_side(&join).iter().map(|a| a.udf).collect();
    assert_eq!(found, [1, 3]);
    let filter = Op::Filter {
        function: awaited(5),
    };
    assert!(side_by_side(&filter).is_empty());
}

#[test]
fn an_offload_has_up_to_three_joiners() {
    let offload = |function, instead_of_timeout, instead_of_error| Op::Offload {
        store: StoreId(0),
        key: key(),
        value: key(),
        response: key(),
        request_value: key(),
        request: Some(awaited(9)),
        function,
        with_key: false,
        patience: RetryPolicy {
            timeout_ms: None,
            attempts: 1,
            first_ms: 0,
            most_ms: 0,
            jitter: 0.0,
            retry_timeouts: false,
            retry_errors: false,
        },
        instead_of_timeout,
        instead_of_error,
        timeout_handler: None,
        max_parked: 1,
        feeders: vec![],
    };
    let found = |op: &Op| side_by_side(op).iter().map(|a| a.udf).collect::<Vec<_>>();
    // The request function is awaited for one record after another, so it is not listed.
    let all = offload(awaited(1), Some(awaited(2)), Some(awaited(3)));
    assert_eq!(found(&all), [1, 2, 3]);
    let one = offload(Function::Udf(1), None, Some(awaited(3)));
    assert_eq!(found(&one), [3]);
}
