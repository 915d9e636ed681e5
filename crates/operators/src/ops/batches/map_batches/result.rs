//! Turns the function's result into values of records.
//!
//! Takes batches; returns for each of their rows the row of the input that it comes from, and its value.
//! Without a row-number column, row n comes from row n. Rejects a result that would change the order of
//! records with the same key. Columns that every batch has are not part of a value.

use super::cells::{Cells, Member, fields, object};
use super::layout::{VALUE, is_added};
use super::unchanged_columns;
use crate::Failed;
use arrow_array::cast::AsArray;
use arrow_array::types as t;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use stoatflow_core::{Bytes, Datum, Error, Result};

/// For each row, the row of the input that it comes from and its value; or the rows that can't be
/// values.
type Values = Result<Vec<(usize, Datum)>, Vec<Failed>>;

/// The context for reading a result.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResultContext<'a> {
    /// Number of rows of the input.
    pub rows: usize,
    /// The column with the row numbers.
    pub by_row: &'a str,
    /// True if the values were objects; then they stay objects.
    pub objects: bool,
    /// The function's input: keys and times must not have changed.
    pub given: Option<&'a RecordBatch>,
}

/// The rows of a result: the row of the input, and the value.
///
/// # Errors
/// `User` if the result doesn't belong to this input; inside: the rows that can't be values.
pub(super) fn values(context: ResultContext<'_>, batches: &[RecordBatch]) -> Result<Values> {
    let mut given = Vec::with_capacity(context.rows);
    let mut failed: Vec<Failed> = Vec::new();
    let total: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let mut last = 0;
    for batch in batches {
        let rows = match batch.column_by_name(context.by_row) {
            Some(column) => Some(rows(column, context)?),
            None if total == context.rows => None,
            None => return Err(uncounted(total, context)),
        };
        let value = Value::new(context, batch)?;
        let before = given.len() + failed.len();
        let from = |at: usize| rows.as_ref().map_or(before + at, |rows| rows[at]);
        if let Some(input) = context.given {
            unchanged_columns::check(input, batch, from, context.by_row)?;
        }
        for at in 0..batch.num_rows() {
            let from = from(at);
            if from < last {
                return Err(Error::user(format!(
                    "the result has row {from} of the input behind row {last} ('{}'): records of one key would change places",
                    context.by_row
                ))
                .hint(format!("sort the result by '{}' before it is returned", context.by_row)));
            }
            last = from;
            match value.at(at) {
                Ok(value) => given.push((from, value)),
                Err(error) => match failed.last() {
                    Some(known) if known.at == from => given.push((from, Datum::Null)),
                    _ => failed.push(Failed { at: from, error }),
                },
            }
        }
    }
    Ok(if failed.is_empty() {
        Ok(given)
    } else {
        Err(failed)
    })
}

fn uncounted(total: usize, context: ResultContext<'_>) -> Error {
    let ResultContext { rows, by_row, .. } = context;
    Error::user(format!(
        "the function gave {total} rows for {rows}, and no column '{by_row}' that says where they come from"
    ))
    .hint(format!("give a row for each row, or keep the column '{by_row}' of the batch: filter and take do"))
}

/// The rows of the input that they come from.
fn rows(column: &ArrayRef, context: ResultContext<'_>) -> Result<Vec<usize>> {
    let ResultContext { rows, by_row, .. } = context;
    let wrong = |what: String| {
        Error::user(format!("the column '{by_row}' of the result {what}")).hint(format!(
            "keep the column '{by_row}' of the batch as it is: whole numbers from 0 to {}",
            rows.saturating_sub(1)
        ))
    };
    if column.null_count() > 0 {
        return Err(wrong("has nulls".into()));
    }
    macro_rules! numbers {
        ($($kind:ident => $array:ident),*) => {
            match column.data_type() {
                $(DataType::$kind => column
                    .as_primitive::<t::$array>()
                    .values()
                    .iter()
                    .map(|n| {
                        let row = usize::try_from(*n).ok().filter(|n| *n < rows);
                        row.ok_or_else(|| wrong(format!("holds {n}, but the batch had {rows} rows")))
                    })
                    .collect(),)*
                other => Err(wrong(format!("is {other}, and no whole number"))),
            }
        };
    }
    numbers!(
        Int64 => Int64Type, Int32 => Int32Type, UInt32 => UInt32Type, UInt64 => UInt64Type,
        Int16 => Int16Type, Int8 => Int8Type, UInt16 => UInt16Type, UInt8 => UInt8Type
    )
}

/// The values of a batch.
enum Value<'a> {
    Plain(Cells<'a>),
    Objects(Vec<Member<'a>>, std::cell::RefCell<Vec<u8>>),
    /// Objects that contain bytes.
    Fields(Vec<Member<'a>>),
}

impl<'a> Value<'a> {
    fn new(context: ResultContext<'_>, batch: &'a RecordBatch) -> Result<Self> {
        let schema = batch.schema_ref();
        let all = schema.fields().iter().zip(batch.columns());
        let mut own: Vec<(&str, &ArrayRef)> = Vec::with_capacity(batch.num_columns());
        for (field, column) in all {
            let name = field.name().as_str();
            if is_added(name, context.by_row) || is_index(name) {
                continue;
            }
            if own.iter().any(|(known, _)| *known == name) {
                return Err(
                    Error::user(format!("the result has the column '{name}' twice"))
                        .hint("rename one of them: both would be the same member of an object"),
                );
            }
            own.push((name, column));
        }
        if let [(VALUE, column)] = own.as_slice()
            && !context.objects
        {
            return Ok(Self::Plain(Cells::new(VALUE, column)?));
        }
        let members = own
            .into_iter()
            .map(|(name, column)| Member::new(name, name, column));
        let members = members.collect::<Result<Vec<_>>>()?;
        Ok(if members.iter().any(Member::has_bytes) {
            Self::Fields(members)
        } else {
            Self::Objects(members, std::cell::RefCell::default())
        })
    }

    fn at(&self, row: usize) -> Result<Datum> {
        match self {
            Self::Plain(cells) => cells.datum(row),
            Self::Fields(members) => fields(members, row),
            Self::Objects(members, buffer) => {
                let mut text = buffer.borrow_mut();
                text.clear();
                object(members, row, &mut text)?;
                // Each value gets its own buffer: one that stays in a store must not keep the others in
                // memory.
                Ok(Datum::Json(Bytes::copy_from_slice(&text)))
            }
        }
    }
}

/// Whether a column is a pandas index, which pandas adds unless it is a mere row count.
fn is_index(name: &str) -> bool {
    let number = name
        .strip_prefix("__index_level_")
        .and_then(|rest| rest.strip_suffix("__"));
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}
