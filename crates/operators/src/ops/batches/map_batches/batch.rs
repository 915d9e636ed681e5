//! Turns records into a batch of columns.
//!
//! Takes records; returns an Arrow batch with a row for each of them, or the records that don't fit and
//! why. Owns the columns while they are built; the layout is shared by all lanes. Never holds the
//! interpreter, unless a value is one of its objects.

use super::column_builder::{Column, Members};
use super::columns::data_type;
use super::layout::{Layout, Shape, Shared, VALUE, is_added, json_of};
use super::read::{Misfit, object, value, wrong};
use super::schema_values::{self, ReadError};
use crate::support::node_context::NodeContext;
use crate::{Failed, NO_ORIGIN};
use arrow_array::{
    ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
};
use arrow_schema::{ArrowError, SchemaRef};
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Fields, Record, Result};
use stoatflow_formats::{Value as FormatValue, parts};
use stoatflow_plan::Column as Spec;
use stoatflow_plan::columns::ORIGIN;

/// Texts of error messages that depend on what is read.
#[derive(Debug)]
pub(crate) struct ErrorTexts {
    /// How to specify the columns.
    pub give: &'static str,
    /// Where an inferred type comes from.
    pub known: &'static str,
    /// For values of which only some are objects.
    pub mixed: &'static str,
    /// For a value that doesn't have the specified type.
    pub wrong: &'static str,
}

/// The texts for `map_batches`.
pub(crate) const OPERATOR: ErrorTexts = ErrorTexts {
    give: "give the columns and their types with map_batches(schema=pa.schema([...]))",
    known: "the first batch had",
    mixed: "values of one stream must be objects, or none of them; filter them before map_batches",
    wrong: "fix the producer or the type in schema=, or drop such records with a filter or on_error=",
};

/// The texts for `foreach_batch`.
pub(crate) const FOREACH: ErrorTexts = ErrorTexts {
    give: "give the columns and their types with foreach_batch(schema=pa.schema([...]))",
    mixed: "values of one stream must be objects, or none of them; filter them before foreach_batch",
    ..OPERATOR
};

/// See the module.
#[derive(Debug)]
pub(crate) struct Reader {
    shared: Arc<Shared>,
    error_texts: &'static ErrorTexts,
    by_row: Arc<str>,
    rows: usize,
    builder: Option<BatchBuilder>,
}

/// The columns of a layout, being built.
#[derive(Debug)]
struct BatchBuilder {
    layout: Arc<Layout>,
    schema: SchemaRef,
    members: Members,
    key: Column,
}

/// Why a record can't be a row.
enum Unfit {
    /// One of its fields has no type yet.
    Untyped(Error),
    Wrong(Error),
}

impl Reader {
    pub fn new(
        shared: Arc<Shared>,
        by_row: &str,
        rows: usize,
        error_texts: &'static ErrorTexts,
    ) -> Self {
        Self {
            shared,
            error_texts,
            by_row: by_row.into(),
            rows,
            builder: None,
        }
    }

    /// True if the values of the last batch were objects.
    pub fn objects(&self) -> bool {
        let shape = self.builder.as_ref().map(|builder| builder.layout.shape);
        shape != Some(Shape::Plain)
    }

    /// True if columns may hold bytes.
    pub fn has_bytes(&self) -> bool {
        self.shared.layout().has_bytes()
    }

    /// Builds a batch with a row for each record; `node_context` resolves the topics that they were read
    /// from.
    ///
    /// # Errors
    /// The records that don't fit; `Internal` if Arrow rejects the batch.
    pub fn read(
        &mut self,
        records: &[Record],
        node_context: Option<&NodeContext>,
    ) -> Result<Result<RecordBatch, Vec<Failed>>> {
        let mut layout = self.shared.layout();
        let error_texts = self.error_texts;
        let mut learned = false;
        loop {
            let builder = self.builder(layout)?;
            let mut failed = Vec::new();
            let mut untyped = false;
            for (at, record) in records.iter().enumerate() {
                match builder.push(record, error_texts) {
                    Ok(()) => {}
                    Err(Unfit::Untyped(_)) if !learned => {
                        untyped = true;
                        break;
                    }
                    Err(Unfit::Untyped(error) | Unfit::Wrong(error)) => {
                        failed.push(Failed { at, error });
                    }
                }
            }
            if untyped {
                builder.clear();
                learned = true;
                layout = self.shared.learn(records, &self.by_row);
                continue;
            }
            if failed.is_empty() {
                return builder
                    .finish(records, node_context)
                    .map(Ok)
                    .map_err(unmade);
            }
            builder.clear();
            return Ok(Err(failed));
        }
    }

    fn builder(&mut self, layout: Arc<Layout>) -> Result<&mut BatchBuilder> {
        let known = self.builder.take();
        let same = known.filter(|builder| Arc::ptr_eq(&builder.layout, &layout));
        let by_row = &self.by_row;
        let made = same.unwrap_or_else(|| BatchBuilder {
            schema: layout.schema(by_row),
            members: Members::new(None, &layout.columns, self.rows),
            key: Column::new("_key".into(), &layout.key, self.rows),
            layout,
        });
        Ok(self.builder.insert(made))
    }
}

fn unmade(error: ArrowError) -> Error {
    Error::internal("a batch of records can't be made").caused_by(error)
}

impl BatchBuilder {
    fn clear(&mut self) {
        self.members.truncate(0);
        self.key.truncate(0);
    }

    /// Adds a row; a failure leaves everything unchanged.
    fn push(&mut self, record: &Record, error_texts: &ErrorTexts) -> Result<(), Unfit> {
        let row = self.members.rows();
        let pushed = self
            .push_value(&record.value, error_texts)
            .and_then(|()| self.push_key(&record.key, error_texts));
        if pushed.is_err() {
            self.members.truncate(row);
            self.key.truncate(row);
        }
        pushed
    }

    fn push_value(&mut self, datum: &Datum, error_texts: &ErrorTexts) -> Result<(), Unfit> {
        let strict = !self.layout.given;
        if datum.is_null() {
            self.members.end_row();
            return Ok(());
        }
        if self.layout.encoded {
            return self.push_encoded(datum);
        }
        if let Some(parts) = parts(datum) {
            let parts = parts.map_err(Unfit::Wrong)?;
            return self.push_parts(&parts, error_texts);
        }
        let json = match json_of(datum) {
            Some(json) => Some(json.map_err(Unfit::Wrong)?),
            None => None,
        };
        match (self.layout.shape, json) {
            (_, Some(json)) if json.trim_ascii() == b"null" => {
                self.members.end_row();
                Ok(())
            }
            (Shape::Unknown, _) => Err(untyped()),
            (Shape::Objects, Some(json)) if json.trim_ascii().starts_with(b"{") => {
                object(&json, &mut self.members, strict).map_err(|m| self.unfit(m, error_texts))
            }
            (Shape::Objects, json) => {
                let found = match &json {
                    Some(json) => shown(json),
                    None => datum.type_name(),
                };
                Err(mixed(&found, error_texts))
            }
            (Shape::Plain, json) => {
                let Some(column) = self.members.columns.first_mut() else {
                    return Err(Unfit::Wrong(Error::internal("a plain value has no column")));
                };
                let pushed = match json {
                    Some(json) => value(&json, column, strict),
                    None => scalar(datum, column),
                };
                pushed.map_err(|m| self.unfit(m, error_texts))?;
                self.members.end_row();
                Ok(())
            }
        }
    }

    /// Adds a value of a format with a schema, or an object built natively.
    fn push_parts(&mut self, parts: &Datum, error_texts: &ErrorTexts) -> Result<(), Unfit> {
        let strict = !self.layout.given;
        let pushed = match (self.layout.shape, Fields::of(parts)) {
            (Shape::Unknown, _) => return Err(untyped()),
            (Shape::Objects, Some(fields)) => {
                schema_values::object(fields, &mut self.members, None, strict)
            }
            (Shape::Objects, None) => return Err(mixed(&parts.type_name(), error_texts)),
            (Shape::Plain, _) => {
                let Some(column) = self.members.columns.first_mut() else {
                    return Err(Unfit::Wrong(Error::internal("a plain value has no column")));
                };
                let pushed = schema_values::put(parts, column, strict);
                if pushed.is_ok() {
                    self.members.end_row();
                }
                pushed
            }
        };
        pushed.map_err(|trouble| match trouble {
            ReadError::Misfit(misfit) => self.unfit(misfit, error_texts),
            ReadError::Damaged(error) => Unfit::Wrong(error),
        })
    }

    /// Adds the value's bytes, or its encoded bytes.
    fn push_encoded(&mut self, datum: &Datum) -> Result<(), Unfit> {
        let bytes = match (datum, FormatValue::of(datum)) {
            (_, Some(value)) => value.bytes(),
            (Datum::Bytes(bytes), None) => bytes,
            _ => {
                let found = datum.type_name();
                return Err(Unfit::Wrong(
                    Error::user(format!(
                        "the column '{VALUE}' holds bytes, but the value is {found}"
                    ))
                    .hint("bytes have values of Avro and Protobuf as they were read, and those of Serdes.bytes(): change them behind the batches, or give their members as columns"),
                ));
            }
        };
        let column = self.members.columns.first_mut();
        if !column.is_some_and(|column| column.push_bytes(bytes)) {
            let what = "more bytes than a batch can hold; give a smaller max_rows=";
            return Err(Unfit::Wrong(Error::user(what)));
        }
        self.members.end_row();
        Ok(())
    }

    fn push_key(&mut self, key: &Datum, error_texts: &ErrorTexts) -> Result<(), Unfit> {
        let key = match (key, self.layout.windowed) {
            (Datum::Windowed(window), true) => &window.key,
            (Datum::Windowed(_), false) => {
                return Err(Unfit::Untyped(Error::internal("a window has no columns")));
            }
            (key, _) => key,
        };
        let pushed = match json_of(key) {
            None => scalar(key, &mut self.key),
            Some(json) => {
                let json = json.map_err(Unfit::Wrong)?;
                // A key with members or elements is stored as its text.
                match value(&json, &mut self.key, true) {
                    Err(Misfit::Wrong(_)) if std::str::from_utf8(&json).is_ok() => {
                        let text = String::from_utf8_lossy(&json);
                        let held = self.key.push_text(&text);
                        held.then_some(()).ok_or_else(|| wrong(&self.key, "JSON"))
                    }
                    other => other,
                }
            }
        };
        pushed.map_err(|m| self.unfit(m, error_texts))
    }

    fn unfit(&self, misfit: Misfit, error_texts: &ErrorTexts) -> Unfit {
        let give = error_texts.give;
        let known = || {
            let all = self.layout.columns.iter();
            let all: Vec<_> = all
                .map(|Spec { name, kind }| format!("{name}: {}", data_type(kind)))
                .collect();
            all.join(", ")
        };
        match misfit {
            Misfit::Malformed(what) => Unfit::Wrong(
                Error::serde(format!("the value is not JSON ({what})")).hint(
                    "fix the producer, or read the topic with Serdes.string() or Serdes.bytes()",
                ),
            ),
            Misfit::Wrong(what) if self.layout.given => {
                Unfit::Wrong(Error::user(what).hint(error_texts.wrong))
            }
            Misfit::Wrong(what) => Unfit::Wrong(
                Error::user(format!("{what}: that is what {}", error_texts.known)).hint(give),
            ),
            Misfit::New(name) if name == VALUE || !name.starts_with('_') => Unfit::Wrong(
                Error::user(format!(
                    "the field '{name}' is new: {} {}",
                    error_texts.known,
                    known()
                ))
                .hint(give),
            ),
            Misfit::New(name) => Unfit::Wrong(
                Error::user(if self.is_added(&name) {
                    format!("the value has a member '{name}', but each batch has a column of that name anyway")
                } else {
                    format!("the field '{name}' is new: {} {}", error_texts.known, known())
                })
                .hint(format!("{give}: members that are not in it are not read")),
            ),
            Misfit::Untyped(name) => Unfit::Untyped(
                Error::user(format!("the field '{name}' has no type: it was null so far, and now holds something that doesn't fit together"))
                    .hint(give),
            ),
        }
    }

    fn is_added(&self, name: &str) -> bool {
        let last = self.schema.fields().last();
        let by_row = last.map_or("", |field| field.name().as_str());
        is_added(name, by_row) || self.layout.origins && ORIGIN.contains(&name)
    }

    fn finish(
        &mut self,
        records: &[Record],
        node_context: Option<&NodeContext>,
    ) -> Result<RecordBatch, ArrowError> {
        let mut arrays = self.members.finish()?;
        arrays.push(self.key.finish()?);
        let utc =
            |times: TimestampMillisecondArray| -> ArrayRef { Arc::new(times.with_timezone("UTC")) };
        if self.layout.windowed {
            let window = |at: usize| {
                records.iter().map(move |record| match &record.key {
                    Datum::Windowed(window) => Some([window.start, window.end][at]),
                    _ => None,
                })
            };
            for at in 0..2 {
                arrays.push(utc(window(at).collect()));
            }
        }
        let times = records.iter().map(|record| record.timestamp.0);
        arrays.push(utc(TimestampMillisecondArray::from_iter_values(times)));
        if self.layout.origins {
            arrays.extend(origins(records, node_context));
        }
        let count = i64::try_from(records.len()).unwrap_or(i64::MAX);
        arrays.push(Arc::new(Int64Array::from_iter_values(0..count)));
        RecordBatch::try_new(Arc::clone(&self.schema), arrays)
    }
}

/// Topic, partition and offset; null for records that weren't read from a topic.
fn origins(records: &[Record], node_context: Option<&NodeContext>) -> [ArrayRef; 3] {
    let read = |record: &Record| (record.origin != NO_ORIGIN).then_some(record.origin);
    let topics = records.iter().map(|record| {
        let topic = read(record).zip(node_context);
        topic.and_then(|(origin, node_context)| node_context.topic_of(&origin))
    });
    let partitions = records
        .iter()
        .map(|record| read(record).map(|o| o.partition.0));
    let offsets = records
        .iter()
        .map(|record| read(record).map(|o| o.offset.0));
    [
        Arc::new(topics.collect::<StringArray>()),
        Arc::new(partitions.collect::<Int32Array>()),
        Arc::new(offsets.collect::<Int64Array>()),
    ]
}

fn untyped() -> Unfit {
    Unfit::Untyped(
        Error::user("a value can't be read as a column")
            .hint("read the topic with Serdes.json(), or with the serde of a text or a number"),
    )
}

fn mixed(found: &str, error_texts: &ErrorTexts) -> Unfit {
    Unfit::Wrong(
        Error::user(format!("the value is no JSON object but {found}")).hint(error_texts.mixed),
    )
}

fn scalar(datum: &Datum, column: &mut Column) -> Result<(), Misfit> {
    let held = match datum {
        Datum::Null => {
            column.push_null();
            true
        }
        Datum::Bool(value) => column.push_bool(*value),
        Datum::Int(value) => column.push_int(*value),
        Datum::Float(value) => column.push_float(*value),
        Datum::Str(value) => column.push_text(value.as_str()),
        Datum::Bytes(value) => column.push_bytes(value),
        _ => false,
    };
    if held {
        Ok(())
    } else {
        Err(wrong(column, &datum.type_name()))
    }
}

fn shown(json: &[u8]) -> String {
    let text = String::from_utf8_lossy(json);
    text.chars().take(40).collect()
}
