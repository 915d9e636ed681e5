//! Native expressions as data: what `sf.value["amount"] > 100` becomes when it crosses the border.
//!
//! Only shapes, no evaluation (that is `stoatflow-operators::expr`). The JSON form is `{"op": "gt", "args":
//! [{"op": "get", "args": [{"op": "value"}], "name": "amount"}, {"op": "lit", "value": 100}]}`. Most
//! functions are one shape, `call`, and a row in [`functions`]: what they take and give is data, so that
//! the check of types, the text of errors and the evaluation can't disagree about it.

pub(crate) mod check;
pub mod functions;
pub mod kinds;
pub(crate) mod known;
pub(crate) mod members;
pub mod pattern;
pub mod render;

use crate::json::read;
pub use functions::Scalar;
use serde::{Deserialize, Serialize};
use stoatflow_core::{Error, Result};

/// A constant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Literal {
    /// Null.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// Text.
    Str(String),
}

/// An operation with its arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Expression {
    /// The record's key.
    Key,
    /// The record's value.
    Value,
    /// The record's timestamp.
    Timestamp,
    /// Of a join: the left value. Of two sessions that become one: the earlier aggregate.
    Left,
    /// Of a join: the right value. Of two sessions that become one: the later aggregate.
    Right,
    /// Of a reducer or an aggregator: the aggregate so far.
    Old,
    /// Of a reducer: the value that comes in.
    New,
    /// A constant.
    Lit {
        /// Which.
        value: Literal,
    },
    /// A member of an object by name; null if missing or if the object is null.
    Get {
        /// The object.
        args: Box<[Expression; 1]>,
        /// The member.
        name: String,
    },
    /// An element of a list by index (negative counts from the end); null if out of range.
    At {
        /// The list.
        args: Box<[Expression; 1]>,
        /// The index.
        index: i64,
    },
    /// Equal (null equals null).
    Eq {
        /// Left, right.
        args: Box<[Expression; 2]>,
    },
    /// Not equal.
    Ne {
        /// Left, right.
        args: Box<[Expression; 2]>,
    },
    /// Less; null on either side gives null, which a filter drops.
    Lt {
        /// Left, right.
        args: Box<[Expression; 2]>,
    },
    /// Less or equal.
    Le {
        /// Left, right.
        args: Box<[Expression; 2]>,
    },
    /// Greater.
    Gt {
        /// Left, right.
        args: Box<[Expression; 2]>,
    },
    /// Greater or equal.
    Ge {
        /// Left, right.
        args: Box<[Expression; 2]>,
    },
    /// Both (three-valued logic).
    And {
        /// Left, right.
        args: Box<[Expression; 2]>,
    },
    /// Either (three-valued logic).
    Or {
        /// Left, right.
        args: Box<[Expression; 2]>,
    },
    /// Negation of a condition.
    Not {
        /// The condition.
        args: Box<[Expression; 1]>,
    },
    /// Is null?
    IsNull {
        /// Of what.
        args: Box<[Expression; 1]>,
    },
    /// Sum of numbers, or concatenation of texts; an overflow is an error, not a wrap.
    Add {
        /// Left, right.
        args: Box<[Expression; 2]>,
    },
    /// Difference.
    Sub {
        /// Left, right.
        args: Box<[Expression; 2]>,
    },
    /// Product.
    Mul {
        /// Left, right.
        args: Box<[Expression; 2]>,
    },
    /// True division, as in Python: always a float.
    Div {
        /// Left, right.
        args: Box<[Expression; 2]>,
    },
    /// Floor division, as in Python.
    FloorDiv {
        /// Left, right.
        args: Box<[Expression; 2]>,
    },
    /// Remainder with the sign of the divisor, as in Python.
    Mod {
        /// Left, right.
        args: Box<[Expression; 2]>,
    },
    /// Lower case.
    StrLower {
        /// The text.
        args: Box<[Expression; 1]>,
    },
    /// Upper case.
    StrUpper {
        /// The text.
        args: Box<[Expression; 1]>,
    },
    /// Without surrounding white space.
    StrStrip {
        /// The text.
        args: Box<[Expression; 1]>,
    },
    /// Parts between separators; without one, parts between runs of white space, as in Python.
    StrSplit {
        /// The text.
        args: Box<[Expression; 1]>,
        /// The separator.
        by: Option<String>,
    },
    /// Length in characters of a text, or number of elements of a list.
    Len {
        /// Of what.
        args: Box<[Expression; 1]>,
    },
    /// Does the text contain this?
    StrContains {
        /// The text.
        args: Box<[Expression; 1]>,
        /// What to look for.
        text: String,
    },
    /// Does the text start with this?
    StrStartsWith {
        /// The text.
        args: Box<[Expression; 1]>,
        /// The beginning.
        text: String,
    },
    /// Does the text end with this?
    StrEndsWith {
        /// The text.
        args: Box<[Expression; 1]>,
        /// The end.
        text: String,
    },
    /// Convert: `"int"`, `"float"`, `"str"`, `"bool"`, `"json"`.
    Cast {
        /// Of what.
        args: Box<[Expression; 1]>,
        /// To which type.
        to: String,
        /// Is what can't be converted an error? Else it is null.
        #[serde(default = "yes", skip_serializing_if = "is_yes")]
        strict: bool,
    },
    /// A function of the table.
    Call {
        /// Which.
        function: Scalar,
        /// What it is called with.
        args: Vec<Expression>,
    },
    /// A list built from expressions.
    Array {
        /// Its elements.
        args: Vec<Expression>,
    },
    /// The same, and where the user wrote it.
    Located {
        /// What.
        args: Box<[Expression; 1]>,
        /// `app.py:12`.
        line: String,
    },
    /// The first argument that is not null.
    Coalesce {
        /// In this order.
        args: Vec<Expression>,
    },
    /// If, then, else.
    When {
        /// Condition, then, otherwise.
        args: Box<[Expression; 3]>,
    },
    /// A JSON object built from expressions.
    Object {
        /// Names of members.
        names: Vec<String>,
        /// Their values.
        args: Vec<Expression>,
    },
}

impl Expression {
    /// Its arguments.
    #[must_use]
    pub fn args(&self) -> &[Self] {
        match self {
            Self::Key | Self::Value | Self::Timestamp | Self::Lit { .. } => &[],
            Self::Left | Self::Right | Self::Old | Self::New => &[],
            Self::Get { args, .. }
            | Self::At { args, .. }
            | Self::Not { args, .. }
            | Self::IsNull { args, .. }
            | Self::StrLower { args, .. }
            | Self::StrUpper { args, .. }
            | Self::StrStrip { args, .. }
            | Self::StrSplit { args, .. }
            | Self::Len { args, .. }
            | Self::StrContains { args, .. }
            | Self::StrStartsWith { args, .. }
            | Self::StrEndsWith { args, .. }
            | Self::Located { args, .. }
            | Self::Cast { args, .. } => args.as_slice(),
            Self::Eq { args, .. }
            | Self::Ne { args, .. }
            | Self::Lt { args, .. }
            | Self::Le { args, .. }
            | Self::Gt { args, .. }
            | Self::Ge { args, .. }
            | Self::And { args, .. }
            | Self::Or { args, .. }
            | Self::Add { args, .. }
            | Self::Sub { args, .. }
            | Self::Mul { args, .. }
            | Self::Div { args, .. }
            | Self::FloorDiv { args, .. }
            | Self::Mod { args, .. } => args.as_slice(),
            Self::When { args, .. } => args.as_slice(),
            Self::Coalesce { args, .. }
            | Self::Object { args, .. }
            | Self::Array { args, .. }
            | Self::Call { args, .. } => args,
        }
    }

    /// The same without the place it was written at: what a shape is compared with.
    #[must_use]
    pub fn bare(&self) -> &Self {
        match self {
            Self::Located { args, .. } => args[0].bare(),
            other => other,
        }
    }

    /// The same, without the places of all its parts: what is compared as a whole.
    #[must_use]
    pub fn without_places(&self) -> Self {
        let mut data = serde_json::to_value(self).unwrap_or_default();
        forget_places(&mut data);
        serde_json::from_value(data).unwrap_or_else(|_| self.clone())
    }

    /// Where the user wrote it, if that is known.
    #[must_use]
    pub fn line(&self) -> Option<&str> {
        match self {
            Self::Located { line, .. } => Some(line),
            _ => None,
        }
    }

    /// Reads one by itself.
    ///
    /// # Errors
    /// `Topology` for what is no expression, or one that is too deep.
    pub fn decode(json: &[u8]) -> Result<Self> {
        serde_json::from_value(read(json)?).map_err(|e| {
            Error::topology("that is no expression")
                .caused_by(e)
                .hint("build expressions with the functions of stoatflow")
        })
    }

    /// What can never work in it, whatever the record: a sentence for each part. A topology that has such a
    /// part is refused.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        check::check(self, known::Known::NOTHING, &mut |what| found.push(what));
        found
    }

    /// The constant that it is.
    #[must_use]
    pub fn constant(&self) -> Option<&Literal> {
        match self.bare() {
            Self::Lit { value } => Some(value),
            _ => None,
        }
    }
}

fn forget_places(data: &mut serde_json::Value) {
    use serde_json::Value;
    while data["op"] == "located" {
        *data = data["args"][0].take();
    }
    if let Value::Object(members) = data
        && let Some(Value::Array(args)) = members.get_mut("args")
    {
        args.iter_mut().for_each(forget_places);
    }
}

const fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks so
const fn is_yes(strict: &bool) -> bool {
    *strict
}

#[cfg(test)]
mod tests;
