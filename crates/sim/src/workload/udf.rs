//! The functions of the workloads, behind the interface that Python functions use, and as plain Rust for
//! the model.

use super::{async_calls, batches, offloads};
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Record, Result};
use stoatflow_operators::{Args, Failed, Udf};

/// Their names, in the order of [`all`].
pub(super) const NAMES: &[&str] = &[
    "split",
    "value",
    "text",
    "bucket",
    "add",
    "half",
    "greater",
    "group",
    "newer",
    "is_left",
    "pair",
    "twin",
    "tally",
    async_calls::FUNCTION,
    batches::FUNCTION,
    async_calls::JOINER,
    offloads::REQUEST_FUNCTION,
];

/// The number of a function.
pub(super) fn number(name: &str) -> u32 {
    let at = NAMES.iter().position(|known| *known == name);
    at.and_then(|at| u32::try_from(at).ok()).unwrap_or(u32::MAX)
}

/// All functions.
pub(super) fn all() -> Vec<Arc<dyn Udf>> {
    NAMES
        .iter()
        .map(|name| match *name {
            batches::FUNCTION => Arc::new(batches::Stamp) as Arc<dyn Udf>,
            name => Arc::new(Native(name)),
        })
        .collect()
}

/// The bucket of a number.
pub(crate) fn bucket(value: i64) -> String {
    format!("b{}", value % 7)
}

/// The half that a bucket belongs to.
pub(crate) fn half(bucket: &str) -> &'static str {
    if matches!(bucket, "b0" | "b1" | "b2") {
        "left"
    } else {
        "right"
    }
}

/// The group of a value: the part before the colon.
pub(crate) fn group(value: &str) -> &str {
    value.split(':').next().unwrap_or_default()
}

/// The key of the other table that corresponds to a key.
pub(crate) fn twin(key: &str) -> String {
    key.replacen('k', "p", 1)
}

/// The key under which a joined row is counted; depends on both sides.
pub(crate) fn tally(row: &str) -> String {
    let digits = row.bytes().filter(u8::is_ascii_digit);
    let sum: u64 = digits.map(|digit| u64::from(digit - b'0')).sum();
    format!("t{}", sum % 3)
}

/// The result of a join.
pub(crate) fn pair(left: &str, right: Option<&str>) -> String {
    format!("{left}+{}", right.unwrap_or("nobody"))
}

/// The words of a line.
pub(crate) fn words(line: &str) -> impl Iterator<Item = String> {
    line.split_whitespace().map(str::to_lowercase)
}

#[derive(Debug)]
struct Native(&'static str);

fn int(datum: &Datum) -> Result<i64> {
    match datum {
        Datum::Int(number) => Ok(*number),
        other => Err(Error::user(format!(
            "a number was expected, not {}",
            other.type_name()
        ))),
    }
}

fn text(datum: &Datum) -> &str {
    match datum {
        Datum::Str(text) => text.as_str(),
        _ => "",
    }
}

impl Native {
    fn apply(&self, record: &Record) -> Result<Datum> {
        Ok(match (self.0, &record.value) {
            ("value", value) => value.clone(),
            ("twin", _) => match &record.key {
                Datum::Null => Datum::Null,
                key => Datum::text(twin(text(key))),
            },
            // Records without a value become null and are dropped later.
            (_, Datum::Null) => Datum::Null,
            ("text", value) => Datum::text(int(value)?.to_string()),
            ("bucket", value) => Datum::text(bucket(int(value)?)),
            ("half", _) => Datum::text(half(text(&record.key))),
            ("group", value) => Datum::text(group(text(value))),
            (offloads::REQUEST_FUNCTION, value) => match (offloads::fate(text(value)), text(value))
            {
                (offloads::Fate::Unasked, value) => {
                    return Err(Error::user(format!("nothing can be asked about '{value}'")));
                }
                (_, value) => Datum::text(offloads::request_text(value)),
            },
            (name, _) => return Err(Error::user(format!("'{name}' gives no single value"))),
        })
    }

    fn unsupported<T>(&self, shape: &str) -> Result<T, Failed> {
        Err(Failed {
            at: 0,
            error: Error::user(format!("'{}' is no {shape}", self.0)),
        })
    }
}

impl Udf for Native {
    fn name(&self) -> &str {
        self.0
    }

    fn test(&self, _: Args, batch: &[Record], out: &mut Vec<bool>) -> Result<(), Failed> {
        if self.0 != "is_left" {
            return self.unsupported("predicate");
        }
        out.extend(batch.iter().map(|r| text(&r.value).starts_with('l')));
        Ok(())
    }

    fn one(&self, _: Args, batch: &[Record], out: &mut Vec<Datum>) -> Result<(), Failed> {
        for (at, record) in batch.iter().enumerate() {
            out.push(self.apply(record).map_err(|error| Failed { at, error })?);
        }
        Ok(())
    }

    fn pair(&self, _: Args, batch: &[Record], out: &mut Vec<(Datum, Datum)>) -> Result<(), Failed> {
        if self.0 != "tally" {
            return self.unsupported("function of pairs");
        }
        let pair = |record: &Record| {
            let row = text(&record.value);
            (Datum::text(tally(row)), record.value.clone())
        };
        out.extend(batch.iter().map(pair));
        Ok(())
    }

    fn many(
        &self,
        _: Args,
        batch: &[Record],
        out: &mut Vec<Datum>,
        ends: &mut Vec<usize>,
    ) -> Result<(), Failed> {
        for record in batch {
            out.extend(words(text(&record.value)).map(Datum::text));
            ends.push(out.len());
        }
        Ok(())
    }

    fn call(&self, arguments: &[&Datum]) -> Result<Datum> {
        match (self.0, arguments) {
            ("add", [sum, value]) => Ok(Datum::Int(int(sum)? + int(value)?)),
            ("greater", [a, b]) => Ok(Datum::Int(int(a)?.max(int(b)?))),
            ("newer", [_, value]) => Ok((*value).clone()),
            ("pair", [left, right]) => {
                let right = (!right.is_null()).then(|| text(right));
                Ok(Datum::text(pair(text(left), right)))
            }
            (name, _) => Err(Error::user(format!(
                "'{name}' can't be called with these arguments"
            ))),
        }
    }

    fn scope(&self, body: &mut dyn FnMut()) {
        body();
    }
}
