//! Why a value doesn't fit its schema, and at which place within the value.

use stoatflow_core::{Datum, Error, Result};

/// Maximum nesting of values; deeper ones are almost surely cycles.
pub(crate) const MAX_DEPTH: usize = 128;

/// See the module.
pub(crate) enum Misfit {
    Of {
        place: Vec<String>,
        what: String,
        hint: Option<String>,
    },
    /// The value could not even be read.
    Unreadable(Error),
}

/// The result of writing a part of a value.
pub(crate) type Put<T = ()> = Result<T, Misfit>;

impl From<Error> for Misfit {
    fn from(error: Error) -> Self {
        Self::Unreadable(error)
    }
}

/// The hint where an integer is expected.
pub(crate) const AS_INT: &str = "convert it with .cast(\"int\"), or int(...) in a function";
/// The hint where text is expected.
pub(crate) const AS_TEXT: &str = "convert it with .cast(\"str\"), or str(...) in a function";

impl Misfit {
    /// The value has another type than the schema requires.
    #[cold]
    pub fn wanted(word: &str, datum: &Datum) -> Self {
        Self::new(format!(
            "{word} is wanted, but the value is {}",
            match datum {
                Datum::Int(_) => "a whole number".to_owned(),
                other => format!("of type {}", other.type_name()),
            }
        ))
    }

    pub fn new(what: impl Into<String>) -> Self {
        Self::Of {
            place: Vec::new(),
            what: what.into(),
            hint: None,
        }
    }

    pub fn hint(mut self, said: impl Into<String>) -> Self {
        if let Self::Of { hint, .. } = &mut self {
            *hint = Some(said.into());
        }
        self
    }

    pub fn within(mut self, step: impl FnOnce() -> String) -> Self {
        if let Self::Of { place, .. } = &mut self {
            place.push(step());
        }
        self
    }

    /// The error for the user; `schema` is a phrase such as "the Avro schema 'shop.User'".
    pub fn error(self, schema: &str) -> Error {
        match self {
            Self::Unreadable(error) => error,
            Self::Of {
                mut place,
                what,
                hint,
            } => {
                place.reverse();
                let place = if place.is_empty() {
                    String::new()
                } else {
                    format!(" at {}", place.concat().trim_start_matches('.'))
                };
                let error = Error::serde(format!("the value doesn't fit {schema}{place}: {what}"));
                error.hint(hint.unwrap_or_else(|| {
                    "give the operator before it a value of the schema's type, or choose the schema that fits".into()
                }))
            }
        }
    }
}
