//! Why a value can't be written by a schema, and where within it.

use stoatflow_core::{Datum, Error, Result};

/// Values within values, at most; deeper ones are almost surely cycles.
pub(crate) const DEEPEST: usize = 128;

/// See the module.
pub(crate) enum Misfit {
    Of {
        place: Vec<String>,
        what: String,
        hint: Option<String>,
    },
    /// It could not even be read.
    Unreadable(Error),
}

/// What writing a part of a value gives.
pub(crate) type Put<T = ()> = Result<T, Misfit>;

impl From<Error> for Misfit {
    fn from(error: Error) -> Self {
        Self::Unreadable(error)
    }
}

/// What to do where a whole number is wanted.
pub(crate) const AS_INT: &str = "convert it with .cast(\"int\"), or int(...) in a function";
/// What to do where a text is wanted.
pub(crate) const AS_TEXT: &str = "convert it with .cast(\"str\"), or str(...) in a function";

impl Misfit {
    /// Something else is wanted than there is.
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

    /// For the user; `schema` is called as in "the Avro schema 'shop.User'".
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
