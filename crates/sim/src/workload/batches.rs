//! A function of whole batches, as columns.
//!
//! It drops rows, duplicates some, and fails for some. That depends on the value alone, so that the
//! checker knows it.

use super::plan::udf;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use serde_json::{Value, json};
use std::sync::Arc;
use stoatflow_core::Error;
use stoatflow_operators::{FailedBatch, Udf};

/// The function's name.
pub(super) const FUNCTION: &str = "stamp";
/// The dead letter topic of rows that it fails for.
pub(crate) const DEAD_LETTERS: &str = "lots-dead";
/// The column with the index of the input row.
const BY_ROW: &str = "_row";

fn number(value: &str) -> u32 {
    value.trim_start_matches('s').parse().unwrap_or_default()
}

/// Whether it fails for this value.
pub(crate) fn is_refused(value: &str) -> bool {
    number(value) % 19 == 6
}

/// Its results for a value.
pub(crate) fn stamped(value: &str) -> Vec<String> {
    let copies = match number(value) % 7 {
        3 => 0,
        5 => 2,
        _ => 1,
    };
    (0..copies).map(|copy| format!("{value}#{copy}")).collect()
}

pub(super) fn nodes(base: usize, max_rows: u32, max_wait_ms: i64) -> Vec<Value> {
    vec![
        json!({"op": "stream", "topics": ["lots"], "key": "string", "value": "string"}),
        json!({"op": "map_batches", "from": base, "function": udf(FUNCTION), "max_rows": max_rows,
            "max_wait_ms": max_wait_ms, "by_row": BY_ROW, "on_error": {"dlq": DEAD_LETTERS}}),
        json!({"op": "to", "from": base + 1, "topic": "lots-out", "key": "string", "value": "string"}),
    ]
}

/// See the module.
#[derive(Debug)]
pub(super) struct Stamp;

fn failed(row: Option<usize>, why: impl Into<String>) -> FailedBatch {
    let error = Error::user(why.into());
    FailedBatch { row, error }
}

impl Udf for Stamp {
    fn name(&self) -> &str {
        FUNCTION
    }

    fn columns(&self, batch: RecordBatch) -> Result<Vec<RecordBatch>, FailedBatch> {
        let column = batch.column_by_name("value");
        let values = column.and_then(|column| column.as_string_opt::<i32>());
        let values = values.ok_or_else(|| failed(None, "the batch has no texts"))?;
        let (mut made, mut rows) = (Vec::new(), Vec::new());
        for (row, number) in (0..values.len()).zip(0_i64..) {
            let value = values.value(row);
            if is_refused(value) {
                return Err(failed(Some(row), format!("'{value}' is refused")));
            }
            let stamped = stamped(value);
            rows.extend(stamped.iter().map(|_| number));
            made.extend(stamped);
        }
        let columns: [(&str, ArrayRef); 2] = [
            ("value", Arc::new(StringArray::from(made))),
            (BY_ROW, Arc::new(Int64Array::from(rows))),
        ];
        let made = RecordBatch::try_from_iter(columns);
        made.map(|made| vec![made])
            .map_err(|e| failed(None, e.to_string()))
    }

    fn scope(&self, body: &mut dyn FnMut()) {
        body();
    }
}
