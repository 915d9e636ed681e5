//! The type of a native expression, where it is certain.
//!
//! Takes an expression and the serdes of the record's sides, returns a type with a serde for its result.
//! Never guesses: where two types are possible the answer is "unknown", and the user must set the serde.

use crate::expression::check::kinds;
use crate::expression::kinds::Kinds;
use crate::expression::known::{Known, serde_of, typed};
use crate::expression::members::Typed;
use crate::expression::{Expression, Literal, ScalarFunction};
use crate::spec::SerdeSpec;

/// The type of an expression's result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type {
    /// A type with a serde of its own.
    Of(SerdeSpec),
    /// A list of elements of one type.
    List(Box<Type>),
    /// True, false or null: has no serde of its own.
    Bool,
    /// Always null.
    Null,
    /// Not certain.
    Unknown,
}

fn of(name: &str) -> Type {
    Type::Of(SerdeSpec::Builtin(name.into()))
}

impl Type {
    /// The serde of this type; lists are written as JSON.
    pub(crate) fn serde(self) -> Option<SerdeSpec> {
        match self {
            Self::Of(serde) => Some(serde),
            Self::List(_) => Some(SerdeSpec::Builtin("json".into())),
            Self::Bool | Self::Null | Self::Unknown => None,
        }
    }

    /// The type of its elements.
    pub(crate) fn element(self) -> Self {
        match self {
            Self::List(element) => *element,
            json if json.is("json") => of("json"),
            _ => Self::Unknown,
        }
    }

    fn is(&self, name: &str) -> bool {
        match self {
            Self::Of(SerdeSpec::Builtin(n)) => n == name,
            Self::Of(SerdeSpec::JsonSchema { .. }) => name == "json",
            _ => false,
        }
    }

    fn is_int(&self) -> bool {
        self.is("int64") || self.is("int32")
    }
}

/// Infers the type of an expression over a record with these serdes.
pub(crate) fn infer(e: &Expression, key: Option<&SerdeSpec>, value: Option<&SerdeSpec>) -> Type {
    use Expression as E;
    let sub = |e: &Expression| infer(e, key, value);
    let side = |serde: Option<&SerdeSpec>| serde.map_or(Type::Unknown, |s| Type::Of(s.clone()));
    match e {
        E::Key => side(key),
        E::Value => side(value),
        E::Timestamp | E::Len { .. } => of("int64"),
        E::Left | E::Right | E::Old | E::New => Type::Unknown,
        E::Lit { value } => match value {
            Literal::Null => Type::Null,
            Literal::Bool(_) => Type::Bool,
            Literal::Int(_) => of("int64"),
            Literal::Float(_) => of("double"),
            Literal::Str(_) => of("string"),
        },
        // A member of an object can be anything that JSON can be, unless a schema says more.
        E::Get { .. } => match typed(e, Known::of(key, value)) {
            Some(found) => member(&found),
            None => of("json"),
        },
        E::Object { .. } => of("json"),
        E::At { args, .. } => match (typed(e, Known::of(key, value)), sub(&args[0])) {
            (Some(found), _) => member(&found),
            (None, Type::List(element)) => *element,
            _ => of("json"),
        },
        E::Eq { .. }
        | E::Ne { .. }
        | E::Lt { .. }
        | E::Le { .. }
        | E::Gt { .. }
        | E::Ge { .. }
        | E::And { .. }
        | E::Or { .. }
        | E::Not { .. }
        | E::IsNull { .. }
        | E::StrContains { .. }
        | E::StrStartsWith { .. }
        | E::StrEndsWith { .. } => Type::Bool,
        E::Add { args } => match (sub(&args[0]), sub(&args[1])) {
            (a, b) if a.is("string") && b.is("string") => of("string"),
            (a, b) => number(&a, &b),
        },
        E::Sub { args } | E::Mul { args } | E::FloorDiv { args } | E::Mod { args } => {
            number(&sub(&args[0]), &sub(&args[1]))
        }
        E::Div { .. } => of("double"),
        E::StrLower { .. } | E::StrUpper { .. } | E::StrStrip { .. } => of("string"),
        E::StrSplit { .. } => Type::List(Box::new(of("string"))),
        E::Cast { to, .. } => match to.as_str() {
            "int" => of("int64"),
            "float" => of("double"),
            "str" => of("string"),
            "json" => of("json"),
            "bool" => Type::Bool,
            _ => Type::Unknown,
        },
        E::Located { args, .. } => sub(&args[0]),
        E::Array { .. } => of("json"),
        E::Call {
            function: ScalarFunction::StrSplitN | ScalarFunction::StrExtractAll,
            ..
        } => Type::List(Box::new(of("string"))),
        E::Call {
            function: ScalarFunction::WindowedKey,
            ..
        } => side(serde_of(e, Known::of(key, value))),
        E::Call { args, .. } => {
            let known = Known::of(key, value);
            match kinds(e, known) {
                Kinds::BOOL => Type::Bool,
                // Integers or doubles: decided by the types of the arguments, if they are certain.
                found if !one_number(found) && found.within(Kinds::NUMBER) => {
                    mixed(args.iter().map(sub))
                }
                found => found.serde().map_or(Type::Unknown, of),
            }
        }
        E::Coalesce { args } => same(args.iter().map(sub)),
        E::When { args } => same(args[1..].iter().map(sub)),
    }
}

/// A part of a value with a schema. Parts with members have no serde of their own: the schema covers the
/// whole.
fn member(found: &Typed) -> Type {
    match found.kinds() {
        Kinds::NULL => Type::Null,
        Kinds::BOOL => Type::Bool,
        Kinds::LIST => Type::List(Box::new(member(&found.element()))),
        Kinds::OBJECT => Type::Unknown,
        kinds => kinds.serde().map_or(Type::Unknown, of),
    }
}

/// Arithmetic: integers stay integers, a float on either side gives a float, JSON stays JSON.
fn number(a: &Type, b: &Type) -> Type {
    let numeric = |t: &Type| t.is_int() || t.is("double") || t.is("json");
    if a.is_int() && b.is_int() {
        of("int64")
    } else if !numeric(a) || !numeric(b) {
        Type::Unknown
    } else if a.is("double") || b.is("double") {
        of("double")
    } else {
        of("json")
    }
}

/// Whether the set has at most one kind of number.
fn one_number(kinds: Kinds) -> bool {
    matches!(kinds, Kinds::NULL | Kinds::INT | Kinds::FLOAT)
}

/// An integer for some records and a double for others: JSON stays JSON, and a double holds both.
fn mixed(types: impl Iterator<Item = Type>) -> Type {
    let serdes: Vec<_> = types.filter_map(Type::serde).collect();
    let has = |name: &str| serdes.contains(&SerdeSpec::Builtin(name.into()));
    match (has("json"), has("double")) {
        (true, _) => of("json"),
        (_, true) => of("double"),
        _ => Type::Unknown,
    }
}

/// The common type, if all agree (null agrees with everything).
fn same(types: impl Iterator<Item = Type>) -> Type {
    let mut found = Type::Null;
    for t in types {
        match (&found, &t) {
            (_, Type::Null) => {}
            (Type::Null, _) => found = t,
            (a, b) if a == b => {}
            _ => return Type::Unknown,
        }
    }
    found
}

#[cfg(test)]
mod tests;
