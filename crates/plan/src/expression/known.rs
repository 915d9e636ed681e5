//! What is known of a record before the first one is read: the kinds of its sides, and their schemas.

use super::kinds::Kinds;
use super::members::Typed;
use super::{Expression as E, ScalarFunction};
use crate::spec::SerdeSpec;

/// What is known of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    pub key: Kinds,
    pub value: Kinds,
    /// The serdes, whose schemas say more if they have one.
    pub key_serde: Option<&'a SerdeSpec>,
    pub value_serde: Option<&'a SerdeSpec>,
}

impl<'a> Known<'a> {
    /// Nothing is known.
    pub const NOTHING: Self = Self::kinds(Kinds::ALL, Kinds::ALL);

    /// Only the kinds are known.
    pub const fn kinds(key: Kinds, value: Kinds) -> Self {
        Self {
            key,
            value,
            key_serde: None,
            value_serde: None,
        }
    }

    /// What these serdes read.
    pub fn of(key: Option<&'a SerdeSpec>, value: Option<&'a SerdeSpec>) -> Self {
        Self {
            key: Kinds::of_serde(key),
            value: Kinds::of_serde(value),
            key_serde: key,
            value_serde: value,
        }
    }
}

/// The serde that reads what an expression returns: that of a side, or of the key within a windowed key.
pub(crate) fn serde_of<'a>(e: &E, known: Known<'a>) -> Option<&'a SerdeSpec> {
    match e {
        E::Key => known.key_serde,
        E::Value => known.value_serde,
        E::Located { args, .. } => serde_of(&args[0], known),
        E::Call {
            function: ScalarFunction::WindowedKey,
            args,
        } => match serde_of(args.first()?, known)? {
            SerdeSpec::TimeWindowed { time_windowed, .. } => Some(time_windowed),
            SerdeSpec::SessionWindowed { session_windowed } => Some(session_windowed),
            _ => None,
        },
        _ => None,
    }
}

/// The schema of what an expression reads, if it is a part of a side with a schema.
pub(crate) fn typed(e: &E, known: Known<'_>) -> Option<Typed> {
    match e {
        E::Key | E::Value | E::Call { .. } => Typed::of_serde(serde_of(e, known)),
        E::Located { args, .. } => typed(&args[0], known),
        E::Get { args, name } => typed(&args[0], known)?.member(name).ok(),
        E::At { args, .. } => Some(typed(&args[0], known)?.element()),
        _ => None,
    }
}
