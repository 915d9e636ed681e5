//! Native expressions as data: `sf.value["amount"] > 100` in the form in which Python sends it.
//!
//! Only the tree, no evaluation (that is `stoatflow-operators::expr`). The JSON form is `{"op": "gt",
//! "args": [{"op": "get", "args": [{"op": "value"}], "name": "amount"}, {"op": "lit", "value": 100}]}`.
//! Most functions share one variant, `call`, and have a row in [`functions`]: their parameter and result
//! types are data, so that type check, error messages and evaluation can't disagree about them.

pub(crate) mod check;
pub mod functions;
pub mod kinds;
pub(crate) mod known;
pub(crate) mod members;
pub mod pattern;
pub mod render;

use crate::json::read;
pub use functions::ScalarFunction;
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
    /// In a join: the left value. When two sessions are merged: the earlier aggregate.
    Left,
    /// In a join: the right value. When two sessions are merged: the later aggregate.
    Right,
    /// In a reducer or an aggregator: the aggregate so far.
    Old,
    /// In a reducer: the new value.
    New,
    /// A constant.
    Lit {
        /// The constant.
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
    /// Whether it is null.
    IsNull {
        /// The operand.
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
    /// Parts between separators; without a separator, between runs of white space, as in Python.
    StrSplit {
        /// The text.
        args: Box<[Expression; 1]>,
        /// The separator.
        by: Option<String>,
    },
    /// Length in characters of a text, or number of elements of a list.
    Len {
        /// The text or list.
        args: Box<[Expression; 1]>,
    },
    /// Whether the text contains another one.
    StrContains {
        /// The text.
        args: Box<[Expression; 1]>,
        /// What to look for.
        text: String,
    },
    /// Whether the text starts with another one.
    StrStartsWith {
        /// The text.
        args: Box<[Expression; 1]>,
        /// The prefix.
        text: String,
    },
    /// Whether the text ends with another one.
    StrEndsWith {
        /// The text.
        args: Box<[Expression; 1]>,
        /// The suffix.
        text: String,
    },
    /// Conversion to `"int"`, `"float"`, `"str"`, `"bool"` or `"json"`.
    Cast {
        /// The operand.
        args: Box<[Expression; 1]>,
        /// The target type.
        to: String,
        /// True if a value that can't be converted is an error; otherwise the result is null.
        #[serde(default = "yes", skip_serializing_if = "is_yes")]
        strict: bool,
    },
    /// A function of the table in [`functions`].
    Call {
        /// The function.
        function: ScalarFunction,
        /// Its arguments.
        args: Vec<Expression>,
    },
    /// A list built from expressions.
    Array {
        /// Its elements.
        args: Vec<Expression>,
    },
    /// An expression, and the line where the user wrote it.
    Located {
        /// The expression.
        args: Box<[Expression; 1]>,
        /// `app.py:12`.
        line: String,
    },
    /// The first argument that is not null.
    Coalesce {
        /// The candidates, in order.
        args: Vec<Expression>,
    },
    /// A conditional.
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

    /// The expression without its own location, to match on its variant.
    #[must_use]
    pub fn bare(&self) -> &Self {
        match self {
            Self::Located { args, .. } => args[0].bare(),
            other => other,
        }
    }

    /// The expression without any locations, to compare it as a whole.
    #[must_use]
    pub fn without_places(&self) -> Self {
        let mut data = serde_json::to_value(self).unwrap_or_default();
        forget_places(&mut data);
        serde_json::from_value(data).unwrap_or_else(|_| self.clone())
    }

    /// The line where the user wrote it, if known.
    #[must_use]
    pub fn line(&self) -> Option<&str> {
        match self {
            Self::Located { line, .. } => Some(line),
            _ => None,
        }
    }

    /// Decodes a single expression.
    ///
    /// # Errors
    /// `Topology` for an invalid expression, or one that is nested too deeply.
    pub fn decode(json: &[u8]) -> Result<Self> {
        serde_json::from_value(read(json)?).map_err(|e| {
            Error::topology("that is no expression")
                .caused_by(e)
                .hint("build expressions with the functions of stoatflow")
        })
    }

    /// The parts that fail for every record, with one sentence for each. A topology with such a part is
    /// refused.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        check::check(self, known::Known::NOTHING, &mut |what| found.push(what));
        found
    }

    /// The constant, if it is one.
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

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature that serde calls
const fn is_yes(strict: &bool) -> bool {
    *strict
}

#[cfg(test)]
mod tests;
