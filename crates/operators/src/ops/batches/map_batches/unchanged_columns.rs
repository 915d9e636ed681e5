//! Checks columns that a function must not change: a record's key and time.
//!
//! Takes the batch that a function got and the one it returned, and rejects a changed key or time in a
//! row: such a column is not part of the value, so the change would be ignored silently. The check also
//! detects reordered rows without row numbers. Only columns of the types that a batch uses are compared;
//! columns that a library has converted to another type are not.

use super::layout::{KEY, TIMESTAMP};
use arrow_array::cast::AsArray;
use arrow_array::types as t;
use arrow_array::{Array, ArrayAccessor, ArrayRef, RecordBatch};
use arrow_schema::{DataType, TimeUnit as Unit};
use stoatflow_core::{Error, Result};

/// The columns, and what can change them.
const UNCHANGED: [(&str, &str); 2] = [(KEY, "select_key"), (TIMESTAMP, "a processor")];

/// `from`: the row of `given` that a row of `made` comes from.
///
/// # Errors
/// `User` if a key or time has changed.
pub(super) fn check(
    given: &RecordBatch,
    made: &RecordBatch,
    from: impl Fn(usize) -> usize,
    by_row: &str,
) -> Result<()> {
    for (name, elsewhere) in UNCHANGED {
        let column = |batch: &RecordBatch| batch.column_by_name(name).cloned();
        let (Some(before), Some(after)) = (column(given), column(made)) else {
            continue;
        };
        if let Some(at) = first_other(&before, &after, &from) {
            return Err(Error::user(format!(
                "the result has another '{name}' in its row {at} than the row {} of the batch that it belongs to",
                from(at)
            ))
            .hint(format!(
                "keep '{by_row}' where rows change places; what is in '{name}' can't change here: leave it out, or give it another name, and change it with {elsewhere}"
            )));
        }
    }
    Ok(())
}

/// The first row of `kept` that differs.
fn first_other(given: &ArrayRef, kept: &ArrayRef, from: &impl Fn(usize) -> usize) -> Option<usize> {
    use DataType as D;
    match (given.data_type(), kept.data_type()) {
        (D::Utf8, D::Utf8) => other(given.as_string::<i32>(), kept.as_string::<i32>(), from),
        (D::Utf8, D::LargeUtf8) => other(given.as_string::<i32>(), kept.as_string::<i64>(), from),
        (D::Utf8, D::Utf8View) => other(given.as_string::<i32>(), kept.as_string_view(), from),
        (D::Binary, D::Binary) => other(given.as_binary::<i32>(), kept.as_binary::<i32>(), from),
        (D::Int64, D::Int64) => other(
            given.as_primitive::<t::Int64Type>(),
            kept.as_primitive::<t::Int64Type>(),
            from,
        ),
        (D::Timestamp(Unit::Millisecond, _), D::Timestamp(Unit::Millisecond, _)) => other(
            given.as_primitive::<t::TimestampMillisecondType>(),
            kept.as_primitive::<t::TimestampMillisecondType>(),
            from,
        ),
        _ => None,
    }
}

fn other<A, B>(given: A, kept: B, from: &impl Fn(usize) -> usize) -> Option<usize>
where
    A: ArrayAccessor,
    B: ArrayAccessor<Item = A::Item>,
    A::Item: PartialEq,
{
    (0..kept.len()).find(|&at| {
        let row = from(at);
        match (given.is_null(row), kept.is_null(at)) {
            (false, false) => given.value(row) != kept.value(at),
            (one, two) => one != two,
        }
    })
}
