//! Tokens from a user's function (SASL/OAUTHBEARER).

use std::fmt::{self, Debug};
use std::time::Duration;
use stoatflow_core::{Error, Result};

#[cfg(test)]
mod tests;

/// No token lives longer: such an expiry is milliseconds taken for seconds.
const MAX_TOKEN_LIFETIME: f64 = 50.0 * 365.0 * 86_400.0;

/// A token with its attributes.
#[derive(Clone, PartialEq)]
pub struct OauthToken {
    /// The token itself, which the broker checks.
    pub text: String,
    /// How long it is valid from now on.
    pub lifetime: Duration,
    /// The principal of the token, for messages.
    pub principal: Option<String>,
    /// SASL extensions (KIP-342), such as `logicalCluster` of Confluent Cloud.
    pub extensions: Vec<(String, String)>,
}

/// Never prints the token.
impl Debug for OauthToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OauthToken")
            .field("lifetime", &self.lifetime)
            .field("principal", &self.principal)
            .field("extensions", &self.extensions.len())
            .finish_non_exhaustive()
    }
}

impl OauthToken {
    /// Checks the token and its attributes.
    ///
    /// # Errors
    /// `Config`, with what the function should return instead.
    pub fn checked(
        text: String,
        expires_in_s: f64,
        principal: Option<String>,
        extensions: Vec<(String, String)>,
    ) -> Result<Self> {
        let wrong = |why: &str, hint: &str| Err(Error::config(why).hint(hint));
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_graphic()) {
            return wrong(
                "the token is empty, or has spaces or other characters that no token has",
                "return the token alone, without 'Bearer' before it or a newline behind it",
            );
        }
        if expires_in_s.is_nan() || expires_in_s <= 0.0 {
            return wrong(
                &format!("the token expired {:.0} s ago", -expires_in_s),
                "return a new token at each call, with its expiry in seconds since 1970; or a clock is wrong",
            );
        }
        if expires_in_s > MAX_TOKEN_LIFETIME {
            return wrong(
                "the token would be valid for more than fifty years",
                "give the expiry in seconds since 1970: this looks like milliseconds, divide by 1000",
            );
        }
        for (name, value) in &extensions {
            let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphabetic());
            let is_value =
                (value.bytes()).all(|b| matches!(b, b' '..=b'~' | b'\t' | b'\r' | b'\n'));
            if !is_name || name == "auth" || !is_value {
                return wrong(
                    &format!("'{name}' is no SASL extension"),
                    "names of extensions are letters, not 'auth'; values are printable ASCII",
                );
            }
        }
        Ok(Self {
            text,
            lifetime: Duration::from_secs_f64(expires_in_s),
            principal: principal.filter(|name| !name.is_empty()),
            extensions,
        })
    }
}

/// Provides tokens. Called on its own thread, one call at a time.
pub trait TokenProvider: Debug + Send + Sync {
    /// Its name in messages.
    fn name(&self) -> String;

    /// Returns a new token, within this time.
    ///
    /// # Errors
    /// `Unavailable` is retried; every other error ends the application.
    fn fetch(&self, within: Duration) -> Result<OauthToken>;
}
