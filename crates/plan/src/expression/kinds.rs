//! The possible types of a value, as a set of kinds.
//!
//! Takes serdes and literals, returns sets. Null is in no set: it may occur anywhere, and propagates.
//! Never guesses: what is unknown may be everything.

use crate::Literal;

/// A set of kinds of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(u16);

impl Kinds {
    /// Null only.
    pub const NULL: Self = Self(0);
    /// True and false.
    pub const BOOL: Self = Self(1);
    /// Whole numbers.
    pub const INT: Self = Self(2);
    /// Doubles.
    pub const FLOAT: Self = Self(4);
    /// Texts.
    pub const STR: Self = Self(8);
    /// Bytes.
    pub const BYTES: Self = Self(16);
    /// Lists.
    pub const LIST: Self = Self(32);
    /// Objects.
    pub const OBJECT: Self = Self(64);
    /// Keys in windows.
    pub const WINDOWED: Self = Self(128);
    /// Whole numbers, and what counts as one in Python.
    pub const WHOLE: Self = Self::INT.or(Self::BOOL);
    /// Numbers, and what counts as one in Python.
    pub const NUMBER: Self = Self::WHOLE.or(Self::FLOAT);
    /// Kinds with an order.
    pub const ORDERED: Self = Self::NUMBER.or(Self::STR).or(Self::BYTES);
    /// Kinds that JSON has.
    pub const JSON: Self = Self::NUMBER.or(Self::STR).or(Self::LIST).or(Self::OBJECT);
    /// Everything.
    pub const ALL: Self = Self(255);

    /// The union of both sets.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The intersection of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether the set is empty (only null is possible).
    #[must_use]
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// Whether a value of this set may be one of the other.
    #[must_use]
    pub const fn fits(self, wanted: Self) -> bool {
        self.is_null() || !self.and(wanted).is_null()
    }

    /// Whether it is a subset of the other.
    #[must_use]
    pub const fn within(self, other: Self) -> bool {
        self.and(other).0 == self.0
    }

    /// The kind of a constant.
    #[must_use]
    pub const fn of_literal(literal: &Literal) -> Self {
        match literal {
            Literal::Null => Self::NULL,
            Literal::Bool(_) => Self::BOOL,
            Literal::Int(_) => Self::INT,
            Literal::Float(_) => Self::FLOAT,
            Literal::Str(_) => Self::STR,
        }
    }

    /// The name of the serde that fits best, if one serde can write all kinds of the set.
    #[must_use]
    pub fn serde(self) -> Option<&'static str> {
        match self {
            Self::STR => Some("string"),
            Self::INT => Some("int64"),
            Self::FLOAT => Some("double"),
            Self::BYTES => Some("bytes"),
            Self::NULL | Self::BOOL => None,
            other if other.within(Self::JSON) => Some("json"),
            _ => None,
        }
    }
}

impl std::fmt::Display for Kinds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const NAMES: [&str; 8] = [
            "bool",
            "int",
            "float",
            "str",
            "bytes",
            "list",
            "object",
            "windowed key",
        ];
        if self.is_null() {
            return f.write_str("null");
        }
        let named = NAMES.iter().enumerate();
        let here: Vec<&str> = named
            .filter(|(at, _)| self.0 & (1 << at) != 0)
            .map(|(_, name)| *name)
            .collect();
        f.write_str(&here.join(" or "))
    }
}
