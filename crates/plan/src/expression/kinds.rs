//! What a value can be, as a set of kinds.
//!
//! Takes serdes and literals, gives sets. Null is in no set: it may be anywhere, and spreads. Never
//! guesses: what is not known is everything.

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
    /// Whole numbers, and what counts as them in Python.
    pub const WHOLE: Self = Self::INT.or(Self::BOOL);
    /// Numbers, and what counts as them in Python.
    pub const NUMBER: Self = Self::WHOLE.or(Self::FLOAT);
    /// What has an order.
    pub const ORDERED: Self = Self::NUMBER.or(Self::STR).or(Self::BYTES);
    /// What JSON has.
    pub const JSON: Self = Self::NUMBER.or(Self::STR).or(Self::LIST).or(Self::OBJECT);
    /// Everything.
    pub const ALL: Self = Self(255);

    /// Both sets together.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Is nothing in it (but null)?
    #[must_use]
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// May a value of this set stand where one of the other is wanted?
    #[must_use]
    pub const fn fits(self, wanted: Self) -> bool {
        self.is_null() || !self.and(wanted).is_null()
    }

    /// Is all of it in the other?
    #[must_use]
    pub const fn within(self, other: Self) -> bool {
        self.and(other).0 == self.0
    }

    /// Of a constant.
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

    /// The name of what it writes best, if one serde takes all of it.
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
