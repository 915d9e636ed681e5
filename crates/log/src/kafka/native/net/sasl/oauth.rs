//! OAUTHBEARER (RFC 7628, KIP-255): a token in place of a password.

use crate::kafka::native::net::connection_error::ConnectionError;
use std::fmt::{self, Debug};

/// A token with its attributes.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::kafka) struct Token {
    /// The token itself, which the broker checks.
    pub text: String,
    /// The principal of the token, for messages.
    pub principal: Option<String>,
    /// SASL extensions (KIP-342), such as `logicalCluster` of Confluent Cloud.
    pub extensions: Vec<(String, String)>,
}

/// Never prints the token.
impl Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("principal", &self.principal)
            .field("extensions", &self.extensions.len())
            .finish_non_exhaustive()
    }
}

/// Provides tokens.
pub(in crate::kafka) trait TokenSource: Send + Sync + Debug {
    /// A token that stays valid for a while.
    fn token(&self) -> Result<Token, ConnectionError>;
}

/// One authentication.
#[derive(Debug)]
pub(in crate::kafka::native::net) struct OauthClient {
    token: Token,
}

impl OauthClient {
    pub(super) const fn new(token: Token) -> Self {
        Self { token }
    }

    pub(super) fn principal(&self) -> Option<&str> {
        self.token.principal.as_deref()
    }

    pub(super) fn first(&self) -> Vec<u8> {
        let mut message = format!("n,,\u{1}auth=Bearer {}\u{1}", self.token.text);
        for (name, value) in &self.token.extensions {
            message.push_str(&format!("{name}={value}\u{1}"));
        }
        message.push('\u{1}');
        message.into_bytes()
    }

    /// A broker that refuses the token sends the reason, and expects this message before it ends the
    /// authentication.
    pub(super) fn next(&self, said: &[u8]) -> Option<Vec<u8>> {
        (!said.is_empty()).then(|| b"\x01".to_vec())
    }
}
