//! Compiles an expression to the nodes that are evaluated.
//!
//! Takes an [`Expression`], returns a [`Node`] in which a chain of members is one path, literals are
//! datums, and wrong arguments are refused before the first record. Never evaluates.

use super::arithmetic::Arithmetic;
use super::call::Call;
use super::cast::Target;
use super::compare::Comparison;
use super::text::{Change, Match};
use sonic_rs::PointerNode;
use stoatflow_core::{Datum, Error, Result};
use stoatflow_plan::{Expression, Literal};

/// An operation, ready to run.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Key,
    Value,
    /// The first of two values: the left side, or the old value.
    Old,
    /// The second of two values: the right side, or the new value.
    New,
    Timestamp,
    Literal(Datum),
    /// Members and elements, from the outside in.
    Path(Box<Node>, Vec<PointerNode>),
    /// The n-th element from the end, counted from 1.
    FromEnd(Box<Node>, usize),
    Compare(Comparison, Box<[Node; 2]>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    Not(Box<Node>),
    IsNull(Box<Node>),
    Arithmetic(Arithmetic, Box<[Node; 2]>),
    Change(Change, Box<Node>),
    Matches(Match, Box<Node>, String),
    Split(Box<Node>, Option<String>),
    Len(Box<Node>),
    /// Type, and whether a value that can't be converted is an error.
    Cast(Target, bool, Box<Node>),
    Call(Box<Call>),
    Array(Vec<Node>),
    Coalesce(Vec<Node>),
    When(Box<[Node; 3]>),
    /// Names as JSON text, with quotes.
    Object(Vec<(String, Node)>),
}

impl Node {
    pub fn new(expression: &Expression) -> Result<Self> {
        use Expression as E;
        Ok(match expression {
            E::Key => Self::Key,
            E::Value => Self::Value,
            E::Left | E::Old => Self::Old,
            E::Right | E::New => Self::New,
            E::Timestamp => Self::Timestamp,
            E::Lit { value } => Self::Literal(literal(value)),
            E::Get { args, name } => {
                Self::new(&args[0])?.step(PointerNode::Key(name.clone().into()))
            }
            E::At { args, index } => {
                let of = Self::new(&args[0])?;
                match usize::try_from(*index) {
                    Ok(index) => of.step(PointerNode::Index(index)),
                    Err(_) => Self::FromEnd(
                        Box::new(of),
                        usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX),
                    ),
                }
            }
            E::Eq { args } => Self::Compare(Comparison::Eq, two(args)?),
            E::Ne { args } => Self::Compare(Comparison::Ne, two(args)?),
            E::Lt { args } => Self::Compare(Comparison::Lt, two(args)?),
            E::Le { args } => Self::Compare(Comparison::Le, two(args)?),
            E::Gt { args } => Self::Compare(Comparison::Gt, two(args)?),
            E::Ge { args } => Self::Compare(Comparison::Ge, two(args)?),
            E::And { args } => Self::And(two(args)?),
            E::Or { args } => Self::Or(two(args)?),
            E::Not { args } => Self::Not(one(args)?),
            E::IsNull { args } => Self::IsNull(one(args)?),
            E::Add { args } => Self::Arithmetic(Arithmetic::Add, two(args)?),
            E::Sub { args } => Self::Arithmetic(Arithmetic::Sub, two(args)?),
            E::Mul { args } => Self::Arithmetic(Arithmetic::Mul, two(args)?),
            E::Div { args } => Self::Arithmetic(Arithmetic::Div, two(args)?),
            E::FloorDiv { args } => Self::Arithmetic(Arithmetic::FloorDiv, two(args)?),
            E::Mod { args } => Self::Arithmetic(Arithmetic::Mod, two(args)?),
            E::StrLower { args } => Self::Change(Change::Lower, one(args)?),
            E::StrUpper { args } => Self::Change(Change::Upper, one(args)?),
            E::StrStrip { args } => Self::Change(Change::Strip, one(args)?),
            E::StrSplit { args, by } => {
                if by.as_deref() == Some("") {
                    return Err(
                        Error::topology("a text can't be split at an empty separator")
                            .hint("name a separator, or none to split at white space"),
                    );
                }
                Self::Split(one(args)?, by.clone())
            }
            E::Len { args } => Self::Len(one(args)?),
            E::StrContains { args, text } => {
                Self::Matches(Match::Contains, one(args)?, text.clone())
            }
            E::StrStartsWith { args, text } => {
                Self::Matches(Match::StartsWith, one(args)?, text.clone())
            }
            E::StrEndsWith { args, text } => {
                Self::Matches(Match::EndsWith, one(args)?, text.clone())
            }
            E::Cast { args, to, strict } => Self::Cast(Target::new(to)?, *strict, one(args)?),
            E::Call { function, args } => Self::Call(Box::new(Call::new(*function, args)?)),
            E::Array { args } => Self::Array(args.iter().map(Self::new).collect::<Result<_>>()?),
            E::Located { args, .. } => Self::new(&args[0])?,
            E::Coalesce { args } => {
                Self::Coalesce(args.iter().map(Self::new).collect::<Result<_>>()?)
            }
            E::When { args } => Self::When(Box::new([
                Self::new(&args[0])?,
                Self::new(&args[1])?,
                Self::new(&args[2])?,
            ])),
            E::Object { names, args } => {
                if names.len() != args.len() {
                    return Err(Error::topology(format!(
                        "an object has {} names for {} values",
                        names.len(),
                        args.len()
                    ))
                    .hint("give every member a name and a value"));
                }
                Self::Object(
                    names
                        .iter()
                        .zip(args)
                        .map(|(name, arg)| {
                            Ok((
                                serde_json::Value::from(name.as_str()).to_string(),
                                Self::new(arg)?,
                            ))
                        })
                        .collect::<Result<_>>()?,
                )
            }
        })
    }

    /// Adds a step, if possible to the same path, so that it is followed in one go.
    fn step(self, step: PointerNode) -> Self {
        match self {
            Self::Path(of, mut path) => {
                path.push(step);
                Self::Path(of, path)
            }
            other => Self::Path(Box::new(other), vec![step]),
        }
    }

    pub fn reads_record(&self) -> bool {
        match self {
            Self::Key | Self::Value | Self::Old | Self::New | Self::Timestamp => true,
            Self::Literal(_) => false,
            Self::Path(of, _)
            | Self::FromEnd(of, _)
            | Self::Not(of)
            | Self::IsNull(of)
            | Self::Change(_, of) => of.reads_record(),
            Self::Matches(_, of, _) | Self::Split(of, _) | Self::Len(of) | Self::Cast(_, _, of) => {
                of.reads_record()
            }
            Self::Call(call) => call.reads_record(),
            Self::Compare(_, of) | Self::And(of) | Self::Or(of) | Self::Arithmetic(_, of) => {
                of.iter().any(Self::reads_record)
            }
            Self::Coalesce(of) | Self::Array(of) => of.iter().any(Self::reads_record),
            Self::When(of) => of.iter().any(Self::reads_record),
            Self::Object(members) => members.iter().any(|(_, of)| of.reads_record()),
        }
    }
}

fn one(args: &[Expression; 1]) -> Result<Box<Node>> {
    Ok(Box::new(Node::new(&args[0])?))
}

fn two(args: &[Expression; 2]) -> Result<Box<[Node; 2]>> {
    Ok(Box::new([Node::new(&args[0])?, Node::new(&args[1])?]))
}

pub(super) fn literal(value: &Literal) -> Datum {
    match value {
        Literal::Null => Datum::Null,
        Literal::Bool(b) => Datum::Bool(*b),
        Literal::Int(i) => Datum::Int(*i),
        Literal::Float(x) => Datum::Float(*x),
        Literal::Str(s) => Datum::text(s.as_str()),
    }
}
