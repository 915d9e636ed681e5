//! The members of a value that has a schema, before the first record.
//!
//! Takes the schema of a side and the steps of an expression, returns what is found there: kinds, or the
//! message that there is no such field. Null is left out, as in `kinds`: it may occur anywhere. One file
//! for each format.

mod avro;
mod protobuf;

use super::kinds::Kinds;
use crate::spec::SerdeSpec;
use stoatflow_formats::near;

/// A value with a schema.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Typed {
    Avro(avro::Place),
    Protobuf(protobuf::Place),
}

/// What an object is encoded as.
pub(crate) enum Shape {
    /// Members with names.
    Record(Record),
    /// Members of one type, with any names.
    Map(Typed),
    /// It is not an object.
    Other,
    /// Several are possible; the choice is made at run time.
    Several,
}

/// A type with fields.
pub(crate) struct Record {
    /// The name in messages: "the Avro record 'User'".
    pub title: String,
    pub fields: Vec<Field>,
}

/// A field to write.
pub(crate) struct Field {
    pub name: String,
    pub of: Typed,
    /// Why it can't be omitted.
    pub needed: Option<&'static str>,
}

impl Record {
    pub fn get(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The message that it has no such field.
    pub fn lacks(&self, name: &str) -> String {
        lacks(
            &self.title,
            name,
            self.fields.iter().map(|f| f.name.as_str()),
        )
    }
}

fn lacks<'a>(title: &str, name: &str, fields: impl Iterator<Item = &'a str> + Clone) -> String {
    let near = match fields.clone().next() {
        Some(_) => near(name, fields),
        None => "it has none".into(),
    };
    format!("{title} has no field '{name}', {near}")
}

impl Typed {
    /// The type of a whole value.
    pub fn of_serde(serde: Option<&SerdeSpec>) -> Option<Self> {
        // An invalid schema is reported by the check of serdes.
        match serde? {
            SerdeSpec::Avro { avro } => {
                let format = avro.format().ok()?;
                Some(Self::Avro(avro::Place::whole(format.schema())))
            }
            SerdeSpec::Protobuf { protobuf } => {
                let format = protobuf.format().ok()?;
                Some(Self::Protobuf(protobuf::Place::whole(format.schema())))
            }
            _ => None,
        }
    }

    /// The format's name.
    pub const fn format(&self) -> &'static str {
        match self {
            Self::Avro(_) => "Avro",
            Self::Protobuf(_) => "Protobuf",
        }
    }

    /// The name of its kind of schema.
    pub const fn schema(&self) -> &'static str {
        match self {
            Self::Avro(_) => "Avro schema",
            Self::Protobuf(_) => "Protobuf message",
        }
    }

    /// The type as a user would name it.
    pub fn word(&self) -> String {
        match self {
            Self::Avro(place) => place.word(),
            Self::Protobuf(place) => place.word(),
        }
    }

    /// The kinds of values that are read.
    pub fn kinds(&self) -> Kinds {
        match self {
            Self::Avro(place) => place.kinds(),
            Self::Protobuf(place) => place.kinds(),
        }
    }

    /// The kinds of values that can be written; within JSON, bytes may be text.
    pub fn takes(&self, within: bool) -> Kinds {
        match self {
            Self::Avro(place) => place.takes(within),
            Self::Protobuf(place) => place.takes(within),
        }
    }

    /// A member; `Err` says that no type here has it.
    pub fn member(&self, name: &str) -> Result<Self, String> {
        match self {
            Self::Avro(place) => place.member(name).map(Self::Avro),
            Self::Protobuf(place) => place.member(name).map(Self::Protobuf),
        }
    }

    /// An element of a list.
    pub fn element(&self) -> Self {
        match self {
            Self::Avro(place) => Self::Avro(place.element()),
            Self::Protobuf(place) => Self::Protobuf(place.element()),
        }
    }

    /// What an object is encoded as.
    pub fn shape(&self) -> Shape {
        match self {
            Self::Avro(place) => place.shape(),
            Self::Protobuf(place) => place.shape(),
        }
    }

    /// The allowed texts of an enum, if it is one.
    pub fn words(&self) -> Option<Vec<&str>> {
        match self {
            Self::Avro(place) => place.words(),
            Self::Protobuf(place) => place.words(),
        }
    }
}

impl Kinds {
    /// The kinds that a serde reads.
    #[must_use]
    pub fn of_serde(serde: Option<&SerdeSpec>) -> Self {
        match serde {
            Some(SerdeSpec::Builtin(name)) => match name.as_str() {
                "string" => Self::STR,
                "int32" | "int64" => Self::INT,
                "double" => Self::FLOAT,
                "bytes" => Self::BYTES,
                "json" => Self::JSON,
                _ => Self::ALL,
            },
            Some(SerdeSpec::TimeWindowed { .. } | SerdeSpec::SessionWindowed { .. }) => {
                Self::WINDOWED
            }
            Some(SerdeSpec::Avro { .. } | SerdeSpec::Protobuf { .. }) => {
                Typed::of_serde(serde).map_or(Self::ALL, |of| of.kinds())
            }
            Some(SerdeSpec::JsonSchema { .. }) => Self::JSON,
            Some(SerdeSpec::Custom { .. }) | None => Self::ALL,
        }
    }
}
