//! `foreach_batch`: no output, and rows include their topic, partition and offset.

use super::*;
use crate::NO_ORIGIN;
use arrow_array::types::Int32Type;

fn sink(max_rows: u32) -> Op {
    Op::ForeachBatch {
        function: Function::Udf(0),
        schema: None,
        max_rows,
        max_wait_ms: 50,
    }
}

#[test]
fn rows_say_where_they_were_read_and_nothing_comes_out() {
    let udf = same();
    let mut rig = rig(sink(3), &udf);
    let mut records = all(&[r#"{"a":1}"#, r#"{"a":2}"#, r#"{"a":3}"#]);
    let topic = {
        records[0].origin.offset = stoatflow_core::Offset(7);
        records[1].origin.partition = stoatflow_core::Partition(4);
        records[2].origin = NO_ORIGIN;
        "in"
    };
    rig.push(records).unwrap();
    rig.barrier();
    assert!(rig.outputs().is_empty());
    assert_eq!(udf.sizes(), [3]);
    let batch = udf.seen.lock().remove(0);
    let names: Vec<_> = batch
        .schema()
        .fields()
        .iter()
        .map(|f| f.name().clone())
        .collect();
    assert_eq!(
        names,
        [
            "a",
            "_key",
            "_timestamp",
            "_topic",
            "_partition",
            "_offset",
            "_row"
        ]
    );
    let topics = column_of(&batch, "_topic");
    let topics: Vec<_> = topics.as_string::<i32>().iter().collect();
    assert_eq!(topics, [Some(topic), Some(topic), None]);
    let partitions = column_of(&batch, "_partition");
    assert_eq!(partitions.as_primitive::<Int32Type>().value(1), 4);
    assert!(partitions.is_null(2));
    let offsets = column_of(&batch, "_offset");
    assert_eq!(offsets.as_primitive::<Int64Type>().value(0), 7);
    assert!(offsets.is_null(2));
}

#[test]
fn the_function_is_called_again_without_the_row_that_failed() {
    let udf = batches(|batch| {
        let values = column_of(batch, "a");
        let bad = values.as_primitive::<Int64Type>().values().iter();
        match bad.clone().position(|a| *a == 2) {
            Some(row) => Err(FailedBatch {
                row: Some(row),
                error: Error::user("two"),
            }),
            None => Ok(Vec::new()),
        }
    });
    let mut rig = rig_with(sink(3), &udf, Some(Handler::Continue));
    rig.push(all(&[r#"{"a":1}"#, r#"{"a":2}"#, r#"{"a":3}"#]))
        .unwrap();
    assert_eq!(udf.sizes(), [3, 2]);
    assert!(rig.outputs().is_empty());
}

#[test]
fn members_called_like_an_origin_are_refused_here_and_only_here() {
    let udf = same();
    let mut sinks = rig(sink(1), &udf);
    let error = sinks.push(all(&[r#"{"_offset":1}"#])).unwrap_err();
    assert!(error.message().contains("'_offset'"), "{error}");
    assert!(
        error.next_step().contains("foreach_batch(schema="),
        "{error}"
    );
    let mut maps = rig(op(None, 1), &udf);
    maps.push(all(&[r#"{"_offset":1}"#])).unwrap();
    assert_eq!(maps.outputs(), [r#"2:k={"_offset":1}@0"#]);
}
