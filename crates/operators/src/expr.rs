//! Native expressions: `sf.value["amount"] > 100` without an interpreter.
//!
//! Takes an [`Expression`] once, returns a [`Compiled`] that is evaluated per record: JSON members are
//! read in place from undecoded bytes, texts are slices of their input buffer, literals are built once.
//! Semantics are Python's, except that null spreads (null + 1 is null, null > 1 is null) where Python
//! would raise. Type errors name both types and what to do. Never touches a store.

pub(crate) mod aggregation;
mod args;
mod arithmetic;
mod blame;
mod call;
mod canonical;
mod cast;
pub(crate) mod combiner;
mod compare;
mod compile;
mod hash;
mod json;
mod list;
mod math;
mod number;
mod object;
mod search;
mod strings;
#[cfg(test)]
mod tests;
mod text;
mod time;
mod window;

use crate::ops::tables::table_update;
use aggregation::State;
use compile::Node;
use std::sync::{Arc, OnceLock};
use stoatflow_core::{Datum, Error, Fields, Record, Result, Text};
use stoatflow_plan::Expression;
use stoatflow_plan::expression::render::located;

/// An expression that is ready to run.
#[derive(Clone, Debug)]
pub struct Compiled {
    node: Node,
    text: String,
    source: Arc<Expression>,
    /// Its parts; built when an evaluation fails for the first time.
    parts: OnceLock<Option<Arc<blame::Part>>>,
}

impl Compiled {
    /// Checks and prepares an expression.
    ///
    /// # Errors
    /// `Topology` for what can never work, such as an empty separator or an unknown type to cast to.
    pub fn new(expression: &Expression) -> Result<Self> {
        let text = located(expression.bare(), expression.line());
        let node =
            Node::new(expression).map_err(|e| e.at(|at| at.function = Some(text.clone())))?;
        Ok(Self {
            node,
            text,
            source: Arc::new(expression.clone()),
            parts: OnceLock::new(),
        })
    }

    /// Adds the part that failed to an error.
    #[cold]
    fn blame(&self, error: Error, record: &Record) -> Error {
        let parts = self
            .parts
            .get_or_init(|| blame::Part::new(&self.source).ok().map(Arc::new));
        let culprit = parts.as_ref().map(|whole| whole.culprit(record).text());
        match culprit {
            Some(part) if part != self.text => error.at(|at| {
                at.function = Some(format!("{part}, a part of {}", self.text));
            }),
            _ => error.at(|at| at.function = Some(self.text.clone())),
        }
    }

    /// The expression as a user would write it, with its source line, for errors and metrics.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// True if both were compiled from equal expressions.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.source == other.source
    }

    /// The timestamp that it computes for a record, in milliseconds since 1970 (`timestamp=` of a
    /// source).
    ///
    /// # Errors
    /// As `eval`, and `User` if it is no whole number.
    pub fn time(&self, record: &Record) -> Result<i64> {
        let found = match self.eval(record)? {
            Datum::Int(time) => return Ok(time),
            Datum::Null => Error::user("the expression of a timestamp gave null").hint(
                "give what there is instead, such as sf.coalesce(..., sf.timestamp), or the source a handler (on_error=)",
            ),
            other => Error::user(format!(
                "a timestamp is milliseconds since 1970, an int, but its expression gave {}",
                kind(&other)
            ))
            .hint("make one of a text with .str.to_timestamp(), of a float with .cast(\"int\")"),
        };
        Err(found.at(|at| at.function = Some(self.text.clone())))
    }

    /// True if it reads the record; false for a constant.
    #[must_use]
    pub fn reads_record(&self) -> bool {
        self.node.reads_record()
    }

    /// The value of the expression. JSON scalars are returned as plain datums; objects and arrays stay
    /// undecoded.
    ///
    /// # Errors
    /// `User` if types don't fit or a number overflows, `Serde` for malformed JSON.
    pub fn eval(&self, record: &Record) -> Result<Datum> {
        match (&self.node, &record.value) {
            // The most common case: `group_by(sf.value)` of a text.
            (Node::Value, Datum::Str(text)) => Ok(Datum::Str(text.clone())),
            (node, _) => node.eval(record).map_err(|e| self.blame(e, record)),
        }
    }

    /// The value of a condition; null counts as false.
    ///
    /// # Errors
    /// As `eval`, and `User` if it is no condition.
    pub fn test(&self, record: &Record) -> Result<bool> {
        let truth = self.node.truth(record);
        Ok(truth.map_err(|e| self.blame(e, record))?.unwrap_or(false))
    }

    /// The value as comparisons see it: foreign objects become JSON, JSON scalars plain datums.
    ///
    /// # Errors
    /// As `eval`.
    pub fn compared(&self, record: &Record) -> Result<Datum> {
        let found = self.node.operand(record);
        found.map_err(|e| self.blame(e, record))
    }

    /// The elements of a list as comparisons see them; `None` for null.
    ///
    /// # Errors
    /// As `eval`, and `User` if it is no list.
    pub fn elements(&self, record: &Record) -> Result<Option<Vec<Datum>>> {
        let found = self.node.operand(record).and_then(|found| match found {
            Datum::Null => Ok(None),
            list => args::elements(&list).map(Some),
        });
        found.map_err(|e| self.blame(e, record))
    }

    /// Calls `take` for every element of a list; returns false for null. Parts of a split are slices of
    /// the line; no list is built.
    ///
    /// # Errors
    /// As `eval`, and `User` if it is no list.
    pub fn each(&self, record: &Record, take: &mut dyn FnMut(Datum)) -> Result<bool> {
        self.spread(record, take).map_err(|e| self.blame(e, record))
    }

    fn spread(&self, record: &Record, take: &mut dyn FnMut(Datum)) -> Result<bool> {
        if let Node::Split(of, by) = &self.node {
            let Some(line) = of.text(record)? else {
                return Ok(false);
            };
            text::split(&line, by.as_deref(), &mut |part| take(Datum::Str(part)));
            return Ok(true);
        }
        match json::plain(self.node.eval(record)?)? {
            Datum::Null => Ok(false),
            Datum::List(items) => {
                items.iter().cloned().for_each(take);
                Ok(true)
            }
            Datum::Json(bytes) if json::is_array(&bytes) => {
                json::items(&bytes, take).map(|()| true)
            }
            other => Err(Error::user(format!(
                "a list was expected, but the expression gave {}",
                kind(&other)
            ))
            .hint("give a list: a JSON array, or a text split with .str.split()")),
        }
    }

    /// Splits a list of two into a key and a value (`map`, `flat_map`).
    pub(crate) fn pair(item: Datum) -> Result<(Datum, Datum)> {
        let mut parts = Vec::new();
        match json::plain(item)? {
            Datum::List(items) => parts.extend(items.iter().cloned()),
            Datum::Json(bytes) if json::is_array(&bytes) => {
                json::items(&bytes, &mut |part| parts.push(part))?
            }
            other => return Err(not_a_pair(&kind(&other))),
        }
        match <[Datum; 2]>::try_from(parts) {
            Ok([key, value]) => Ok((key, value)),
            Err(parts) => Err(not_a_pair(&format!("a list of {}", parts.len()))),
        }
    }
}

/// An object with members that JSON can't represent, but a schema may.
#[cold]
fn fields(members: &[(String, Node)], values: Vec<Datum>) -> Result<Datum> {
    let members = members.iter().zip(values).map(|((name, _), value)| {
        let name = serde_json::from_str::<String>(name)
            .map_err(|e| Error::internal("a name of an object is no JSON text").caused_by(e))?;
        Ok((Text::from(name), json::kept(value)?))
    });
    Ok(Fields(members.collect::<Result<_>>()?).datum())
}

fn not_a_pair(found: &str) -> Error {
    Error::user(format!(
        "a key and a value were expected, but the expression gave {found}"
    ))
    .hint("give a list of two, or use select_key and map_values")
}

fn no_condition(found: &Datum) -> Error {
    let found = kind(found);
    let next = if found == "object" {
        "compare it with something; two objects are put together by a.merge(b), members by a | {\"name\": b}"
    } else {
        "compare it with something, or convert it with .cast(\"bool\")"
    };
    Error::user(format!(
        "a condition must be true or false, but {found} was found"
    ))
    .hint(next)
}

/// Names the type of a datum as a user of JSON and Python would.
pub(crate) fn kind(datum: &Datum) -> String {
    match datum {
        Datum::Json(bytes) => json::kind(bytes).to_owned(),
        other => other.type_name(),
    }
}

impl Node {
    /// Evaluates to something that operations work on: foreign objects become JSON.
    fn operand(&self, record: &Record) -> Result<Datum> {
        json::plain(self.eval(record)?)
    }

    /// Evaluates to text or null.
    fn text(&self, record: &Record) -> Result<Option<Text>> {
        match self.operand(record)? {
            Datum::Str(text) => Ok(Some(text)),
            Datum::Null => Ok(None),
            other => Err(
                Error::user(format!("text was expected, but found {}", kind(&other)))
                    .hint("convert it with .cast(\"str\"), or read the topic with Serdes.string()"),
            ),
        }
    }

    /// Evaluates a condition: true, false or null.
    fn truth(&self, record: &Record) -> Result<Option<bool>> {
        match self {
            Self::Compare(how, sides) => {
                compare::compare(*how, &sides[0].operand(record)?, &sides[1].operand(record)?)
            }
            Self::And(sides) => match sides[0].truth(record)? {
                Some(false) => Ok(Some(false)),
                Some(true) => sides[1].truth(record),
                None => Ok(sides[1].truth(record)?.filter(|right| !right)),
            },
            Self::Or(sides) => match sides[0].truth(record)? {
                Some(true) => Ok(Some(true)),
                Some(false) => sides[1].truth(record),
                None => Ok(sides[1].truth(record)?.filter(|right| *right)),
            },
            Self::Not(of) => Ok(of.truth(record)?.map(|truth| !truth)),
            Self::IsNull(of) => Ok(Some(of.eval(record)?.is_null())),
            Self::Matches(how, of, what) => Ok(of
                .text(record)?
                .map(|text| text::matches(*how, text.as_str(), what))),
            other => match other.operand(record)? {
                Datum::Bool(truth) => Ok(Some(truth)),
                Datum::Null => Ok(None),
                found => Err(no_condition(&found)),
            },
        }
    }

    fn eval(&self, record: &Record) -> Result<Datum> {
        Ok(match self {
            Self::Key => json::settled(record.key.clone())?,
            Self::Value | Self::New => json::settled(table_update::new(&record.value).clone())?,
            Self::Old => json::settled(table_update::old(&record.value).clone())?,
            Self::Timestamp => Datum::Int(record.timestamp.0),
            Self::Literal(datum) => datum.clone(),
            Self::Path(of, path) => match of.state(record).and_then(|state| state.walk(path)) {
                Some(found) => found?,
                None => json::walk(of.whole(record)?, path)?,
            },
            Self::FromEnd(of, back) => json::from_end(of.whole(record)?, *back)?,
            Self::Compare(..)
            | Self::And(_)
            | Self::Or(_)
            | Self::Not(_)
            | Self::IsNull(_)
            | Self::Matches(..) => self.truth(record)?.map_or(Datum::Null, Datum::Bool),
            Self::Arithmetic(how, sides) => {
                arithmetic::compute(*how, sides[0].operand(record)?, sides[1].operand(record)?)?
            }
            Self::Change(how, of) => of
                .text(record)?
                .map_or(Datum::Null, |text| Datum::Str(text::change(*how, text))),
            Self::Split(of, by) => match of.text(record)? {
                Some(line) => {
                    let mut parts = Vec::new();
                    text::split(&line, by.as_deref(), &mut |part| {
                        parts.push(Datum::Str(part))
                    });
                    Datum::List(parts.into())
                }
                None => Datum::Null,
            },
            Self::Len(of) => text::length(&json::kept(of.eval(record)?)?)?,
            Self::Cast(to, strict, of) => cast::cast(*to, *strict, of.operand(record)?)?,
            Self::Call(call) => call.run(record)?,
            Self::Array(items) => Datum::List(
                items
                    .iter()
                    .map(|item| json::kept(item.eval(record)?))
                    .collect::<Result<_>>()?,
            ),
            Self::Coalesce(args) => {
                for arg in args {
                    let datum = arg.eval(record)?;
                    if !datum.is_null() {
                        return Ok(datum);
                    }
                }
                Datum::Null
            }
            Self::When(args) => args[if args[0].truth(record)?.unwrap_or(false) {
                1
            } else {
                2
            }]
            .eval(record)?,
            Self::Object(members) => {
                let values = members.iter().map(|(_, node)| node.eval_raw(record));
                let values = values.collect::<Result<Vec<_>>>()?;
                if values.iter().any(json::has_no_text) {
                    return fields(members, values);
                }
                let each = members.iter().zip(&values);
                let room = each.map(|((name, _), value)| name.len() + value.weight() + 4);
                let mut object = json::ObjectWriter::with_room(room.sum());
                for ((name, _), value) in members.iter().zip(&values) {
                    object.member(name, value)?;
                }
                object.finish()
            }
        })
    }

    /// Like `eval`, for callers that only copy the value: JSON keeps its original text.
    fn eval_raw(&self, record: &Record) -> Result<Datum> {
        let copied = match self {
            Self::Path(of, path) => match **of {
                Self::Key => json::raw(&record.key, path),
                Self::Value | Self::New => json::raw(table_update::new(&record.value), path),
                Self::Old => json::raw(table_update::old(&record.value), path),
                _ => None,
            },
            _ => None,
        };
        copied.map_or_else(|| self.eval(record), Ok)
    }

    /// Like `operand`, without looking into JSON: a path is walked over the whole value.
    fn whole(&self, record: &Record) -> Result<Datum> {
        match self {
            Self::Key => json::foreign_to_json(record.key.clone()),
            Self::Value | Self::New => {
                json::foreign_to_json(table_update::new(&record.value).clone())
            }
            Self::Old => json::foreign_to_json(table_update::old(&record.value).clone()),
            other => json::kept(other.eval(record)?),
        }
    }

    /// The native aggregate at the start of a path, if there is one.
    fn state<'a>(&self, record: &'a Record) -> Option<&'a State> {
        match self {
            Self::Value | Self::New => State::of(table_update::new(&record.value)),
            Self::Old => State::of(table_update::old(&record.value)),
            _ => None,
        }
    }
}
