//! Puts values with a schema and natively built objects into columns, without JSON in between: bytes
//! stay bytes.
//!
//! Takes the parts of a value, one level after the other, and their columns; or returns the type of a
//! value. Members without a column are not decoded. An error tells which field holds what; the caller
//! truncates what was pushed before it. The last of duplicate members counts.

use super::column_builder::{Cells, Column, Members};
use super::columns::plain_type;
use super::infer::{infer, merge};
use super::read::{self, Misfit, wrong};
use stoatflow_core::{Datum, Error, Fields};
use stoatflow_formats::{Value, parts};
use stoatflow_plan::{Column as Spec, ColumnType};

/// Why a value doesn't fit its columns.
pub(super) enum ReadError {
    Misfit(Misfit),
    /// It can't be read at all.
    Damaged(Error),
}

impl From<Misfit> for ReadError {
    fn from(misfit: Misfit) -> Self {
        Self::Misfit(misfit)
    }
}

impl From<Error> for ReadError {
    fn from(error: Error) -> Self {
        Self::Damaged(error)
    }
}

/// Whether it may contain bytes, which JSON would turn into a text.
pub(super) fn may_hold_bytes(datum: &Datum) -> bool {
    match datum {
        Datum::Bytes(_) => true,
        Datum::List(items) => items.iter().any(may_hold_bytes),
        Datum::Opaque(_) => match Fields::of(datum) {
            Some(Fields(members)) => members.iter().any(|(_, value)| may_hold_bytes(value)),
            None => Value::of(datum).is_some() || parts(datum).is_some(),
        },
        _ => false,
    }
}

/// The column type of a value; `None` if it can't be read.
pub(super) fn type_of(datum: &Datum) -> Option<ColumnType> {
    match datum {
        Datum::Json(text) => infer(text),
        Datum::List(items) => {
            let mut item = ColumnType::Null;
            for each in &**items {
                merge(&mut item, type_of(each)?);
            }
            Some(ColumnType::List(Box::new(item)))
        }
        Datum::Opaque(object) => match (Fields::of(datum), parts(datum)) {
            (Some(Fields(members)), _) => {
                let mut columns: Vec<Spec> = Vec::with_capacity(members.len());
                for (name, value) in members {
                    let (name, kind) = (name.as_str(), type_of(value)?);
                    match columns.iter_mut().find(|c| c.name == name) {
                        Some(known) => known.kind = kind,
                        None => columns.push(super::column(name, kind)),
                    }
                }
                Some(ColumnType::Struct(columns))
            }
            (None, Some(parts)) => type_of(&parts.ok()?),
            (None, None) => infer(&object.to_json().ok()?),
        },
        other => Some(plain_type(other)),
    }
}

/// Puts an object into its columns. `strict`: a member without a column is a misfit.
pub(super) fn object(
    Fields(given): &Fields,
    members: &mut Members,
    path: Option<&str>,
    strict: bool,
) -> Result<(), ReadError> {
    let row = members.rows();
    let mut likely = 0;
    for (name, value) in given {
        let name = name.as_str();
        let Some(at) = members.find(name, likely) else {
            if strict {
                let name = path.map_or_else(|| name.into(), |path| format!("{path}.{name}"));
                return Err(Misfit::New(name).into());
            }
            continue;
        };
        likely = at + 1;
        let column = &mut members.columns[at];
        if column.len() > row {
            column.truncate(row);
        }
        put(value, column, strict)?;
    }
    members.end_row();
    Ok(())
}

/// Puts any value into one column.
pub(super) fn put(datum: &Datum, column: &mut Column, strict: bool) -> Result<(), ReadError> {
    let held = match datum {
        Datum::Json(text) => return Ok(read::value(text, column, strict)?),
        Datum::Opaque(object) => {
            return match (Fields::of(datum), parts(datum)) {
                (Some(fields), _) => inner(fields, column, strict),
                (None, Some(parts)) => put(&parts?, column, strict),
                (None, None) => Ok(read::value(&object.to_json()?, column, strict)?),
            };
        }
        Datum::List(items) => {
            let (Cells::List(_, inner, _) | Cells::LargeList(_, inner, _)) = &mut column.cells
            else {
                return Err(wrong(column, "a list").into());
            };
            for item in &**items {
                put(item, inner, strict)?;
            }
            column.end_list()
        }
        Datum::Null => {
            column.push_null();
            true
        }
        Datum::Bool(truth) => column.push_bool(*truth),
        Datum::Int(number) => column.push_int(*number),
        Datum::Float(number) => column.push_float(*number),
        Datum::Str(text) => column.push_text(text.as_str()),
        Datum::Bytes(bytes) => column.push_bytes(bytes) || column.push_latin(bytes),
        Datum::Change(_) | Datum::Windowed(_) => false,
    };
    if held {
        return Ok(());
    }
    Err(wrong(column, &shown(datum)).into())
}

fn inner(fields: &Fields, column: &mut Column, strict: bool) -> Result<(), ReadError> {
    let path = std::sync::Arc::clone(&column.path);
    let Cells::Struct(members) = &mut column.cells else {
        return Err(wrong(column, "an object").into());
    };
    object(fields, members, Some(&path), strict)?;
    column.seen();
    Ok(())
}

/// The value for an error message, worded as for JSON.
fn shown(datum: &Datum) -> String {
    match datum {
        Datum::Bool(truth) => truth.to_string(),
        Datum::Int(number) => format!("the number {number}"),
        Datum::Float(number) => format!("the number {number:?}"),
        Datum::Str(text) => {
            let short: String = text.as_str().chars().take(40).collect();
            format!("the text {short:?}")
        }
        Datum::List(_) => "more elements than Arrow can count".into(),
        other => other.type_name(),
    }
}
