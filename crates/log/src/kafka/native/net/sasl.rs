//! Authentication by SASL: PLAIN, SCRAM and OAUTHBEARER.
//!
//! Takes the client's credentials, returns the messages of a mechanism one by one;
//! [`Connection`](super::connection) sends them. Never prints a password or a token.

mod keeper;
mod oauth;
mod oidc;
mod scram;
#[cfg(test)]
mod tests;

pub(in crate::kafka) use keeper::TokenKeeper;
pub(in crate::kafka) use oauth::TokenSource;
pub(in crate::kafka) use oidc::{OidcSettings, OidcTokens};
pub(in crate::kafka) use scram::Hash;

use super::connection_error::ConnectionError;
use oauth::OauthClient;
use scram::ScramClient;
use std::fmt::{self, Debug};
use std::sync::Arc;

/// A user's name and password.
#[derive(Clone)]
pub(in crate::kafka) struct Login {
    pub username: String,
    pub password: String,
}

/// Never prints the password.
impl Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

/// The mechanism and the client's credentials.
#[derive(Clone, Debug)]
pub(in crate::kafka) enum SaslSettings {
    Plain(Login),
    Scram(Hash, Login),
    OauthBearer(Arc<dyn TokenSource>),
}

/// Why there is no next message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::kafka) enum SaslError {
    /// The broker can't be used now.
    Later(String),
    /// The broker can't prove that it knows the password, or refuses the client: it is another server,
    /// or a setting is wrong.
    Refused(String),
}

/// One authentication. Messages alternate, and the client begins.
#[derive(Debug)]
pub(super) enum SaslClient {
    Plain(Login),
    Scram(Box<ScramClient>),
    Oauth(OauthClient),
}

impl SaslSettings {
    /// The mechanism's name in the protocol.
    pub(in crate::kafka) const fn mechanism(&self) -> &'static str {
        match self {
            Self::Plain(_) => "PLAIN",
            Self::Scram(Hash::Sha256, _) => "SCRAM-SHA-256",
            Self::Scram(Hash::Sha512, _) => "SCRAM-SHA-512",
            Self::OauthBearer(_) => "OAUTHBEARER",
        }
    }

    /// The user, where the mechanism has one.
    pub(super) fn username(&self) -> Option<&str> {
        match self {
            Self::Plain(login) | Self::Scram(_, login) => Some(&login.username),
            Self::OauthBearer(_) => None,
        }
    }

    /// Starts an authentication; waits for a token if there is none.
    pub(super) fn begin(&self) -> Result<SaslClient, ConnectionError> {
        Ok(match self {
            Self::Plain(login) => SaslClient::Plain(login.clone()),
            Self::Scram(hash, login) => {
                let scram = ScramClient::new(*hash, login.clone());
                let scram =
                    scram.map_err(|(SaslError::Later(why) | SaslError::Refused(why))| {
                        ConnectionError::lost(why)
                    })?;
                SaslClient::Scram(Box::new(scram))
            }
            Self::OauthBearer(source) => SaslClient::Oauth(OauthClient::new(source.token()?)),
        })
    }
}

impl SaslClient {
    /// The principal of the token, if known.
    pub(super) fn principal(&self) -> Option<&str> {
        match self {
            Self::Oauth(oauth) => oauth.principal(),
            Self::Plain(_) | Self::Scram(_) => None,
        }
    }

    /// The first message.
    pub(super) fn first(&mut self) -> Vec<u8> {
        match self {
            Self::Plain(login) => format!("\0{}\0{}", login.username, login.password).into_bytes(),
            Self::Scram(scram) => scram.first(),
            Self::Oauth(oauth) => oauth.first(),
        }
    }

    /// The answer to a message of the broker; `None` at the end.
    pub(super) fn next(&mut self, said: &[u8]) -> Result<Option<Vec<u8>>, SaslError> {
        match self {
            Self::Plain(_) => Ok(None),
            Self::Scram(scram) => scram.next(said),
            Self::Oauth(oauth) => Ok(oauth.next(said)),
        }
    }
}
