//! The registered functions of the recorded vectors that windowed topologies use.

use crate::{Args, Failed, Udf};
use serde_json::{Value, json};
use stoatflow_core::{Datum, Error, Record, Result};

/// A JSON value of a vector, by its serde.
pub fn datum(value: &Value, serde: &str) -> Datum {
    match (value, serde) {
        (Value::Null, _) => Datum::Null,
        (value, "json") => Datum::Json(value.to_string().into()),
        (value, "long" | "int64") => Datum::Int(value.as_i64().expect("a long")),
        (value, _) => Datum::text(value.as_str().expect("text")),
    }
}

/// As the registry's `str`.
pub fn shown(datum: &Datum) -> String {
    match datum {
        Datum::Null => "null".into(),
        Datum::Str(text) => text.as_str().into(),
        Datum::Int(n) => n.to_string(),
        Datum::Json(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Datum::Windowed(w) => format!("{}[{},{}]", shown(&w.key), w.start, w.end),
        other => format!("{other:?}"),
    }
}

/// A function of the registry.
#[derive(Debug)]
pub struct Registered {
    name: String,
}

impl Registered {
    pub fn new(name: &str) -> Self {
        Self { name: name.into() }
    }
}

fn int(datum: &Datum) -> i64 {
    match datum {
        Datum::Int(n) => *n,
        other => panic!("no long: {other:?}"),
    }
}

fn parsed(datum: &Datum) -> Value {
    match datum {
        Datum::Json(bytes) => serde_json::from_slice(bytes).expect("JSON"),
        _ => Value::Null,
    }
}

fn num(value: &Value, name: &str) -> i64 {
    value[name].as_i64().unwrap_or(0)
}

fn stats(count: i64, sum: i64) -> Datum {
    Datum::Json(json!({"count": count, "sum": sum}).to_string().into())
}

impl Udf for Registered {
    fn name(&self) -> &str {
        &self.name
    }

    fn call(&self, a: &[&Datum]) -> Result<Datum> {
        let text = |s: String| Ok(Datum::text(s));
        let is_x = |d: &Datum| matches!(d, Datum::Str(t) if t.as_str() == "x");
        match self.name.as_str() {
            "zero" => Ok(Datum::Int(0)),
            "empty_text" => Ok(Datum::text("")),
            "empty_stats" => Ok(stats(0, 0)),
            "append_plus" => text(format!("{}+{}", shown(a[2]), shown(a[1]))),
            "append_minus" => text(format!("{}-{}", shown(a[2]), shown(a[1]))),
            "append_or_reset" if is_x(a[1]) => Ok(Datum::Null),
            "append_or_reset" => text(format!("{}{}", shown(a[2]), shown(a[1]))),
            "sum_long" => Ok(Datum::Int(int(a[2]) + int(a[1]))),
            "sum_length" => Ok(Datum::Int(
                int(a[2]) + i64::try_from(shown(a[1]).len()).unwrap(),
            )),
            "stats_add" => {
                let (agg, value) = (parsed(a[2]), parsed(a[1]));
                Ok(stats(
                    num(&agg, "count") + 1,
                    num(&agg, "sum") + num(&value, "amount"),
                ))
            }
            "concat_values" => text(format!("{}|{}", shown(a[0]), shown(a[1]))),
            "null_on_x" if is_x(a[1]) => Ok(Datum::Null),
            "null_on_x" => text(format!("{}|{}", shown(a[0]), shown(a[1]))),
            "merge_texts" => text(format!("[{}&{}]", shown(a[1]), shown(a[2]))),
            "merge_stats" => {
                let (one, two) = (parsed(a[1]), parsed(a[2]));
                Ok(stats(
                    num(&one, "count") + num(&two, "count"),
                    num(&one, "sum") + num(&two, "sum"),
                ))
            }
            "user_of" => match parsed(a[1])["user"].as_str() {
                Some(user) => Ok(Datum::text(user)),
                None => Ok(Datum::Null),
            },
            "average_of_stats" if a[1].is_null() => Ok(Datum::Null),
            "average_of_stats" => {
                let agg = parsed(a[1]);
                let count = num(&agg, "count");
                Ok(Datum::Int(num(&agg, "sum").checked_div(count).unwrap_or(0)))
            }
            other => Err(Error::internal(format!("no function {other}"))),
        }
    }

    fn one(&self, _args: Args, batch: &[Record], out: &mut Vec<Datum>) -> Result<(), Failed> {
        for (at, record) in batch.iter().enumerate() {
            let result = self.call(&[&record.key, &record.value]);
            out.push(result.map_err(|error| Failed { at, error })?);
        }
        Ok(())
    }

    fn scope(&self, body: &mut dyn FnMut()) {
        body();
    }
}
