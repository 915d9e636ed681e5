//! Tokens from an identity provider: the client credentials grant of OAuth 2.0 (KIP-768).

use super::SaslError;
use super::oauth::{Token, TokenSource};
use crate::kafka::native::net::tls;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use parking_lot::Mutex;
use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Clock, SystemClock};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// An answer of the provider may take so long.
const ANSWER: Duration = Duration::from_secs(10);
/// The lifetime of a token whose answer names none.
const UNKNOWN_LIFETIME: u64 = 300;

/// Where tokens come from, and for whom.
#[derive(Clone)]
pub(in crate::kafka) struct OidcSettings {
    pub endpoint: String,
    pub client_id: String,
    pub client_secret: String,
    pub scope: Option<String>,
    pub extensions: Vec<(String, String)>,
    /// Certificates that are trusted for the endpoint, as PEM; without them the system's.
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

/// A token is used for most of its life.
#[derive(Debug)]
struct Kept {
    token: Token,
    until: Duration,
}

/// Fetches tokens, one for all connections.
#[derive(Debug)]
pub(in crate::kafka) struct OidcTokens {
    settings: OidcSettings,
    agent: ureq::Agent,
    kept: Mutex<Option<Kept>>,
    clock: SystemClock,
}

impl OidcTokens {
    /// Connects when a token is asked for. The error is a sentence that names the setting.
    pub(in crate::kafka) fn new(settings: OidcSettings) -> Result<Self, String> {
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
            .timeout_global(Some(ANSWER))
            .http_status_as_error(false)
            .tls_config(tls.build())
            .build()
            .new_agent();
        Ok(Self {
            settings,
            agent,
            kept: Mutex::new(None),
            clock: SystemClock::new(),
        })
    }

    fn fetch(&self) -> Result<Kept, SaslError> {
        let OidcSettings {
            endpoint,
            client_id,
            client_secret,
            scope,
            extensions,
            ..
        } = &self.settings;
        let later = |why: String| SaslError::Later(format!("no token from {endpoint}: {why}"));
        let basic = BASE64_STANDARD.encode(format!("{client_id}:{client_secret}"));
        let scope = scope.as_deref().map(|scope| ("scope", scope));
        let form = [Some(("grant_type", "client_credentials")), scope];
        let mut answer = (self.agent.post(endpoint))
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
            return Err(SaslError::Refused(format!(
                "{endpoint} gives no token to client '{client_id}' ({status}: {said})"
            )));
        }
        let text = json["access_token"]
            .as_str()
            .filter(|_| status.is_success());
        let text = text.ok_or_else(|| later(format!("{status}, without an access_token")))?;
        let lifetime = json["expires_in"].as_u64().unwrap_or(UNKNOWN_LIFETIME);
        let now = self.clock.monotonic();
        Ok(Kept {
            token: Token {
                text: text.to_owned(),
                extensions: extensions.clone(),
            },
            until: now + Duration::from_secs(lifetime) * 4 / 5,
        })
    }
}

impl TokenSource for OidcTokens {
    fn token(&self) -> Result<Token, SaslError> {
        let mut kept = self.kept.lock();
        let now = self.clock.monotonic();
        if let Some(kept) = kept.as_ref().filter(|kept| now < kept.until) {
            return Ok(kept.token.clone());
        }
        let fetched = self.fetch()?;
        let token = fetched.token.clone();
        *kept = Some(fetched);
        Ok(token)
    }
}
