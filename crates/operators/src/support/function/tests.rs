//! The stateless operators, each with a foreign function and with a native expression.

use crate::testing::*;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stoatflow_core::{Datum, ErrorKind, Partition};
use stoatflow_plan::{Function, Op};

const UDF: Function = Function::Udf(0);

fn foreign(
    op: Op,
    body: impl Fn(&[&Datum]) -> stoatflow_core::Result<Datum> + Send + Sync + 'static,
) -> Rig {
    Rig::new(into_sink(op, 0), vec![closure(body)], false)
}

fn native(op: Op) -> Rig {
    Rig::new(into_sink(op, 0), vec![], false)
}

fn some_records() -> Vec<stoatflow_core::Record> {
    vec![
        record("k", "a b", 1),
        record("~", "c", 2),
        record("l", "~", 3),
    ]
}

#[test]
fn filter_and_filter_not_part_all_records_nulls_too() {
    let has_space = r#"{"op":"str_contains","args":[{"op":"value"}],"text":" "}"#;
    for keep in [true, false] {
        let op = |function| {
            if keep {
                Op::Filter { function }
            } else {
                Op::FilterNot { function }
            }
        };
        let body = |args: &[&Datum]| {
            Ok(Datum::Bool(
                matches!(args[1], Datum::Str(t) if t.as_str().contains(' ')),
            ))
        };
        for mut rig in [foreign(op(UDF), body), native(op(expression(has_space)))] {
            rig.push(some_records()).unwrap();
            assert_eq!(
                rig.outputs(),
                if keep {
                    vec!["0:k=a b@1"]
                } else {
                    vec!["0:~=c@2", "0:l=~@3"]
                }
            );
            assert!(rig.dropped().is_empty(), "the user's own choice is no drop");
        }
    }
}

#[test]
fn map_changes_both_and_keeps_time() {
    let swap = r#"{"op":"str_split","args":[{"op":"add","args":[{"op":"value"},{"op":"lit","value":" x"}]}],"by":null}"#;
    let body = |args: &[&Datum]| Ok(list_of([args[1].clone(), text("x")]));
    for mut rig in [
        foreign(Op::Map { function: UDF }, body),
        native(Op::Map {
            function: expression(swap),
        }),
    ] {
        rig.push(vec![record("k", "v", 1), record("~", "w", 2)])
            .unwrap();
        assert_eq!(rig.outputs(), ["0:v=x@1", "0:w=x@2"]);
    }
}

#[test]
fn a_native_map_needs_a_list_of_two() {
    let mut rig = native(Op::Map {
        function: expression(r#"{"op":"value"}"#),
    });
    let error = rig.push(vec![record("k", "v", 4)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::User);
    assert!(
        error.message().contains("a key and a value were expected")
            && error.message().contains("str"),
        "{error}"
    );
}

#[test]
fn map_values_gives_the_value_or_key_and_value() {
    let both = |args: &[&Datum]| {
        Ok(text(
            &args.iter().map(|a| word(a)).collect::<Vec<_>>().join("+"),
        ))
    };
    let mut rig = foreign(
        Op::MapValues {
            function: UDF,
            with_key: false,
        },
        both,
    );
    rig.push(some_records()).unwrap();
    assert_eq!(rig.outputs(), ["0:k=a b@1", "0:~=c@2", "0:l=~@3"]);
    let mut rig = foreign(
        Op::MapValues {
            function: UDF,
            with_key: true,
        },
        both,
    );
    rig.push(some_records()).unwrap();
    assert_eq!(rig.outputs(), ["0:k=k+a b@1", "0:~=~+c@2", "0:l=l+~@3"]);
    let upper = expression(r#"{"op":"str_upper","args":[{"op":"value"}]}"#);
    let mut rig = native(Op::MapValues {
        function: upper,
        with_key: false,
    });
    rig.push(some_records()).unwrap();
    assert_eq!(rig.outputs(), ["0:k=A B@1", "0:~=C@2", "0:l=~@3"]);
}

#[test]
fn flat_map_values_keeps_nulls_in_lists_and_counts_a_missing_list() {
    let twice = |args: &[&Datum]| Ok(list_of([args[0].clone(), args[0].clone()]));
    let mut rig = foreign(
        Op::FlatMapValues {
            function: UDF,
            with_key: false,
        },
        twice,
    );
    rig.push(vec![record("k", "~", 1), record("k", "v", 2)])
        .unwrap();
    assert_eq!(rig.outputs(), ["0:k=~@1", "0:k=~@1", "0:k=v@2", "0:k=v@2"]);

    let split = expression(r#"{"op":"str_split","args":[{"op":"value"}],"by":null}"#);
    let mut rig = native(Op::FlatMapValues {
        function: split,
        with_key: false,
    });
    rig.push(some_records()).unwrap();
    assert_eq!(rig.outputs(), ["0:k=a@1", "0:k=b@1", "0:~=c@2"]);
    assert_eq!(rig.dropped(), [(0, "null_list")]);
}

#[test]
fn flat_map_gives_pairs_and_may_give_none() {
    let body = |args: &[&Datum]| match args[1] {
        Datum::Str(t) => Ok(list_of(
            t.as_str()
                .split(' ')
                .map(|w| list_of([text(w), args[0].clone()])),
        )),
        _ => Ok(list_of([])),
    };
    let mut rig = foreign(Op::FlatMap { function: UDF }, body);
    rig.push(some_records()).unwrap();
    assert_eq!(rig.outputs(), ["0:a=k@1", "0:b=k@1", "0:c=~@2"]);

    let mut rig = native(Op::FlatMap {
        function: expression(r#"{"op":"value"}"#),
    });
    let mut pairs = record("k", "~", 5);
    pairs.value = json(r#"[["x","1"],["y","2"]]"#);
    rig.push(vec![pairs]).unwrap();
    assert_eq!(rig.outputs(), ["0:x=1@5", "0:y=2@5"]);
}

#[test]
fn select_key_allows_null() {
    let body = |args: &[&Datum]| Ok(args[1].clone());
    for mut rig in [
        foreign(Op::SelectKey { function: UDF }, body),
        native(Op::SelectKey {
            function: expression(r#"{"op":"value"}"#),
        }),
    ] {
        rig.push(some_records()).unwrap();
        assert_eq!(rig.outputs(), ["0:a b=a b@1", "0:c=c@2", "0:~=~@3"]);
    }
}

#[test]
fn peek_passes_on_and_foreach_ends() {
    for (op, passed) in [
        (Op::Peek { function: UDF }, 3),
        (Op::Foreach { function: UDF }, 0),
    ] {
        let seen = closure(|_| Ok(Datum::Null));
        let mut rig = Rig::new(into_sink(op, 0), vec![Arc::clone(&seen) as _], false);
        rig.push(some_records()).unwrap();
        assert_eq!(rig.outputs().len(), passed);
        assert_eq!(
            seen.batches.load(Ordering::Relaxed),
            1,
            "one call per batch"
        );
    }
}

#[test]
fn a_failure_names_function_node_and_record() {
    let mut rig = foreign(
        Op::MapValues {
            function: UDF,
            with_key: false,
        },
        |args| {
            if args[0] == &text("bad") {
                Err(raised())
            } else {
                Ok(Datum::Null)
            }
        },
    );
    let error = rig
        .push(vec![
            record("k", "good", 10),
            record("k", "bad", 11),
            record("k", "good", 12),
        ])
        .unwrap_err();
    let at = error.coordinates();
    assert_eq!(error.kind(), ErrorKind::User);
    assert_eq!(
        (
            at.node.as_deref(),
            at.topic.as_deref(),
            at.function.as_deref()
        ),
        (Some("map_values-0"), Some("in"), Some("app.py:7 closure"))
    );
    assert_eq!(
        (at.partition, at.offset.map(|o| o.0)),
        (Some(Partition(3)), Some(11))
    );

    let less = expression(r#"{"op":"lt","args":[{"op":"value"},{"op":"lit","value":3}]}"#);
    let error = native(Op::Filter { function: less })
        .push(vec![record("k", "text", 9)])
        .unwrap_err();
    assert_eq!(
        error.coordinates().function.as_deref(),
        Some("sf.value < 3")
    );
    assert_eq!(error.coordinates().offset.map(|o| o.0), Some(9));
}

#[test]
fn results_that_do_not_add_up_are_refused() {
    #[derive(Debug)]
    struct Short;
    use crate::{Args, Failed, Udf};
    use stoatflow_core::Record;
    impl Udf for Short {
        fn name(&self) -> &str {
            "short"
        }
        fn test(&self, _: Args, _: &[Record], _: &mut Vec<bool>) -> Result<(), Failed> {
            Ok(())
        }
        fn one(&self, _: Args, _: &[Record], _: &mut Vec<Datum>) -> Result<(), Failed> {
            Ok(())
        }
        fn pair(&self, _: Args, _: &[Record], _: &mut Vec<(Datum, Datum)>) -> Result<(), Failed> {
            Ok(())
        }
        fn many(
            &self,
            _: Args,
            batch: &[Record],
            out: &mut Vec<Datum>,
            ends: &mut Vec<usize>,
        ) -> Result<(), Failed> {
            out.push(Datum::Null);
            ends.extend(batch.iter().map(|_| 2));
            Ok(())
        }
        fn many_pairs(
            &self,
            _: Args,
            _: &[Record],
            _: &mut Vec<(Datum, Datum)>,
            _: &mut Vec<usize>,
        ) -> Result<(), Failed> {
            Ok(())
        }
        fn effect(&self, _: Args, _: &[Record]) -> Result<(), Failed> {
            Ok(())
        }
        fn call(&self, _: &[&Datum]) -> stoatflow_core::Result<Datum> {
            Ok(Datum::Null)
        }
        fn scope(&self, _: &mut dyn FnMut()) {}
    }
    let ops = [
        Op::Filter { function: UDF },
        Op::SelectKey { function: UDF },
        Op::Map { function: UDF },
        Op::FlatMapValues {
            function: UDF,
            with_key: false,
        },
        Op::FlatMap { function: UDF },
        // A scope that never runs its body must not swallow the batch.
        Op::Reduce {
            old: false,
            store: stoatflow_core::StoreId(0),
            key: serde("string"),
            function: UDF,
        },
    ];
    for op in ops {
        let name = op.name();
        let mut rig = Rig::new(into_sink(op, 0), vec![Arc::new(Short)], false);
        assert_eq!(
            rig.push(vec![record("k", "v", 1)]).unwrap_err().kind(),
            ErrorKind::Internal,
            "{name}"
        );
    }
}
