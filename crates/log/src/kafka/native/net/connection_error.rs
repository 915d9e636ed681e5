//! Why a connection can't be used.

use super::address::BrokerAddress;
use std::fmt::{self, Display};
use stoatflow_core::ErrorKind;

/// Why a connection can't be used: a broker that is away is tried again, one that refuses the client is
/// not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::kafka) struct ConnectionError {
    why: String,
    kind: ErrorKind,
    hint: Option<String>,
    /// Nothing was sent: the connection can still be used.
    is_intact: bool,
    /// The broker has answered that it can't do it now.
    is_answered: bool,
    /// The broker advertises an address that can't be reached.
    is_advertised: bool,
}

impl ConnectionError {
    /// May go away by itself: the connection is opened again.
    pub(in crate::kafka) fn lost(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            kind: ErrorKind::Unavailable,
            hint: None,
            is_intact: false,
            is_answered: false,
            is_advertised: false,
        }
    }

    /// Like `lost`, with a hint.
    pub(in crate::kafka) fn lost_perhaps(why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..Self::lost(why)
        }
    }

    /// Stays until someone changes a setting or a permission, which the hint names.
    pub(in crate::kafka) fn refused(
        kind: ErrorKind,
        why: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self {
            why: why.into(),
            kind,
            hint: Some(hint.into()),
            is_intact: false,
            is_answered: false,
            is_advertised: false,
        }
    }

    /// Nothing could be sent in time, and the connection can still be used.
    pub(in crate::kafka) fn not_yet(why: impl Into<String>) -> Self {
        Self {
            is_intact: true,
            ..Self::lost(why)
        }
    }

    /// The broker has answered that it can't do it now.
    pub(in crate::kafka::native) fn not_now(why: impl Into<String>, hint: Option<&str>) -> Self {
        Self {
            hint: hint.map(str::to_owned),
            is_answered: true,
            ..Self::lost(why)
        }
    }

    /// The error of a failed attempt, while the next one has to wait.
    pub(in crate::kafka::native) fn until_next_attempt(&self) -> Self {
        Self {
            hint: self.hint.clone(),
            ..Self::lost(format!("{self}; connected again in a moment"))
        }
    }

    /// Explains a failed attempt to connect to the address that a broker advertises. Errors that say
    /// what to do stay as they are.
    pub(in crate::kafka::native) fn of_advertised(
        self,
        broker: Option<(i32, &BrokerAddress)>,
    ) -> Self {
        match broker {
            Some((node, address)) if !self.is_final() && self.hint.is_none() => Self {
                why: format!(
                    "broker {node} advertises the address {address}, which can't be reached ({self})"
                ),
                hint: Some(format!(
                    "if broker {node} is running, its advertised.listeners must name an address that this \
                        machine resolves and reaches: correct it there, or correct this machine's network \
                        or DNS"
                )),
                is_advertised: true,
                ..self
            },
            _ => self,
        }
    }

    /// Whether a broker advertises an address that can't be reached.
    pub(in crate::kafka::native) const fn is_advertised(&self) -> bool {
        self.is_advertised
    }

    /// Whether the broker has answered.
    pub(in crate::kafka::native) const fn is_answered(&self) -> bool {
        self.is_answered
    }

    /// Whether the connection can still be used.
    pub(in crate::kafka::native) const fn leaves_connection(&self) -> bool {
        self.is_intact
    }

    /// Whether a retry is pointless.
    pub(in crate::kafka) fn is_final(&self) -> bool {
        self.kind != ErrorKind::Unavailable
    }

    pub(in crate::kafka) const fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub(in crate::kafka) fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Adds the address of the broker.
    pub(super) fn of(mut self, broker: &str) -> Self {
        self.why = format!("{broker}: {}", self.why);
        self
    }
}

impl Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}
