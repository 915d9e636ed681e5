//! Tokens from an identity provider: the client credentials grant of OAuth 2.0 (KIP-768).

use crate::kafka::native::net::tls;
use crate::kafka::tokens::{OauthToken, TokenProvider};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, ErrorKind, Result};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

#[cfg(test)]
mod tests;

/// Lifetime in seconds of a token whose answer contains none.
const UNKNOWN_LIFETIME: f64 = 300.0;

/// The identity provider, and this client's credentials there.
#[derive(Clone)]
pub(in crate::kafka) struct OidcSettings {
    pub endpoint: String,
    pub client_id: String,
    pub client_secret: String,
    pub scope: Option<String>,
    pub extensions: Vec<(String, String)>,
    /// Whether the header has the URL-encoded id and secret (RFC 6749, 2.3.1); Java's default is no.
    pub urlencode: bool,
    /// Trusted certificates for the endpoint, as PEM; without them the system's.
    pub ca: Option<Vec<u8>>,
}

/// Never prints the secret.
impl Debug for OidcSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OidcSettings")
            .field("endpoint", &self.endpoint)
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

/// Fetches tokens from an identity provider.
#[derive(Debug)]
pub(in crate::kafka) struct OidcTokens {
    settings: OidcSettings,
    agent: ureq::Agent,
}

impl OidcTokens {
    /// Connects with the first request. The error is a sentence that names the setting.
    pub(in crate::kafka) fn new(settings: OidcSettings) -> std::result::Result<Self, String> {
        let mut tls = TlsConfig::builder();
        if settings.endpoint.starts_with("https://") {
            let (_, certificates) = tls::roots(settings.ca.as_deref())?;
            let certificates = certificates
                .iter()
                .map(|c| Certificate::from_der(c).to_owned());
            tls = tls
                .root_certs(RootCerts::Specific(Arc::new(certificates.collect())))
                .unversioned_rustls_crypto_provider(tls::provider());
        } else if !settings.endpoint.starts_with("http://") {
            return Err(format!(
                "sasl.oauthbearer.token.endpoint.url: '{}' is no URL of http or https",
                settings.endpoint
            ));
        }
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .tls_config(tls.build())
            .build()
            .new_agent();
        Ok(Self { settings, agent })
    }
}

/// A text as a form encodes it, like Java's `URLEncoder`.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' ' => encoded.push('+'),
            b'.' | b'-' | b'*' | b'_' => encoded.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

impl TokenProvider for OidcTokens {
    fn name(&self) -> String {
        self.settings.endpoint.clone()
    }

    fn fetch(&self, within: Duration) -> Result<OauthToken> {
        let OidcSettings {
            endpoint,
            client_id,
            client_secret,
            scope,
            extensions,
            urlencode,
            ..
        } = &self.settings;
        let later = |why: String| {
            Error::unavailable(why).hint(
                "check sasl.oauthbearer.token.endpoint.url, and whether this machine reaches it",
            )
        };
        let basic = if *urlencode {
            format!("{}:{}", encoded(client_id), encoded(client_secret))
        } else {
            format!("{client_id}:{client_secret}")
        };
        let basic = BASE64_STANDARD.encode(basic);
        let scope = scope.as_deref().map(|scope| ("scope", scope));
        let form = [Some(("grant_type", "client_credentials")), scope];
        let mut answer = (self.agent.post(endpoint).config())
            .timeout_global(Some(within))
            .build()
            .header("Authorization", format!("Basic {basic}"))
            .header("Accept", "application/json")
            .send_form(form.into_iter().flatten())
            .map_err(|e| later(e.to_string()))?;
        let status = answer.status();
        let body = answer.body_mut().read_to_string();
        let body = body.map_err(|e| later(e.to_string()))?;
        let json: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
        if status.is_client_error() {
            let said = ["error_description", "error"].map(|name| json[name].as_str());
            let said = said.into_iter().flatten().next().unwrap_or("no reason");
            let why = format!("client '{client_id}' gets none ({status}: {said})");
            return Err(Error::new(ErrorKind::Unauthorized, why).hint(
                "check sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret, and what the \
                    identity provider allows this client",
            ));
        }
        let text = json["access_token"]
            .as_str()
            .filter(|_| status.is_success());
        let text = text.ok_or_else(|| later(format!("{status}, without an access_token")))?;
        let lifetime = json["expires_in"].as_f64().unwrap_or(UNKNOWN_LIFETIME);
        OauthToken::checked(text.to_owned(), lifetime, None, extensions.clone())
    }
}
