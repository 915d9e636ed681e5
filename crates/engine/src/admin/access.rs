//! Who may use the admin port, and for what.
//!
//! Takes the settings and what is known of a connection; returns permission or a [`Problem`].
//! `/health/*` stays open for probes, which then see no more than the state. Without a token, the port
//! serves only loopback addresses (unless `admin.open` is set) and accepts only host names of this
//! machine: otherwise a web page could reach it through a host name that resolves to 127.0.0.1.

use super::Shared;
use super::problem::Problem;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::settings::{AdminAccess, check_token};
use stoatflow_core::{Error, Result};
use subtle::ConstantTimeEq;

/// Timeout of an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);
/// Largest request body accepted; only endpoints of the application read a body.
pub(super) const MAX_BODY_BYTES: u64 = 64 << 10;
/// The challenge that makes a browser ask for the token.
const CHALLENGE: &str = r#"Bearer realm="stoatflow", Basic realm="stoatflow", charset="UTF-8""#;

/// See the module.
#[derive(Clone, Default)]
pub(super) struct AccessRules {
    token: Option<Vec<u8>>,
    /// Whether a client certificate may replace the token.
    by_certificate: bool,
    open: bool,
}

/// Never prints the token.
impl std::fmt::Debug for AccessRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessRules")
            .field("has_token", &self.token.is_some())
            .field("by_certificate", &self.by_certificate)
            .field("open", &self.open)
            .finish()
    }
}

/// What is known about the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    /// Whether it presented a certificate signed by `admin.ssl.ca`.
    pub(super) certified: bool,
}

/// Whether the request is authorised; without that, `/health/*` shows only the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Authorised(pub(super) bool);

impl AccessRules {
    /// Reads the token from its file, if it is in one.
    ///
    /// # Errors
    /// `Config` if the file is missing or the token is too weak.
    pub(super) fn new(access: &AdminAccess) -> Result<Self> {
        let token = access.token.as_deref().map(token).transpose()?;
        Ok(Self {
            token: token.map(String::into_bytes),
            by_certificate: access.client_ca.is_some(),
            open: access.open,
        })
    }

    /// Checks that the port may listen on this address.
    ///
    /// # Errors
    /// `Config` if other machines could reach it without a token.
    pub(super) fn may_listen(&self, address: SocketAddr, encrypted: bool) -> Result<()> {
        if address.ip().is_loopback() {
            return Ok(());
        }
        if !self.requires_credentials() {
            if self.open {
                tracing::warn!(%address, "the admin port can be reached from other machines, and asks for no \
                    token (admin.open)");
                return Ok(());
            }
            return Err(Error::config(format!(
                "admin.listen = {address}: other machines could read stores, errors and settings there, \
                    and pause the application"
            ))
            .hint(
                "set admin.token (or admin.ssl.ca, for clients with certificates), or admin.open=true if \
                    the network alone decides who may; or listen on 127.0.0.1",
            ));
        }
        if !encrypted {
            tracing::warn!(%address, "the admin port can be reached from other machines without TLS: its \
                token is sent as it is; set admin.ssl.certificate and admin.ssl.key");
        }
        Ok(())
    }

    /// Whether clients need a token or a certificate.
    const fn requires_credentials(&self) -> bool {
        self.token.is_some() || self.by_certificate
    }

    fn admits(&self, headers: &HeaderMap, peer: Peer) -> bool {
        !self.requires_credentials()
            || (self.by_certificate && peer.certified)
            || headers
                .get_all(header::AUTHORIZATION)
                .iter()
                .any(|given| self.is_token(given))
    }

    fn is_token(&self, given: &HeaderValue) -> bool {
        let Some(token) = &self.token else {
            return false;
        };
        let Some((scheme, rest)) = given.to_str().ok().and_then(|text| text.split_once(' ')) else {
            return false;
        };
        let rest = rest.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            return rest.as_bytes().ct_eq(token).into();
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return false;
        }
        // A browser also sends a user name; any will do.
        let Ok(decoded) = STANDARD.decode(rest) else {
            return false;
        };
        let colon = decoded.iter().position(|byte| *byte == b':');
        colon.is_some_and(|colon| decoded[colon + 1..].ct_eq(token).into())
    }

    /// Refuses requests that a page of another site makes a browser send.
    fn check_origin(&self, method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
        let text = |name| {
            headers
                .get(name)
                .and_then(|value: &HeaderValue| value.to_str().ok())
        };
        let host = text(header::HOST);
        if !self.requires_credentials() && !self.open && !host.is_none_or(is_of_this_machine) {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "foreign_host",
                "without a token this port answers to localhost and to addresses, not to other names",
                "ask for it by its address, or set admin.token",
            ));
        }
        if method == Method::GET || method == Method::HEAD {
            return Ok(());
        }
        let origin =
            text(header::ORIGIN).map(|origin| origin.split_once("://").map_or(origin, |o| o.1));
        if origin.is_some_and(|origin| Some(origin) != host) {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "foreign_origin",
                "a page of another site can't change anything here",
                "send the request without the header Origin, or from the page of this port",
            ));
        }
        Ok(())
    }
}

fn token(given: &str) -> Result<String> {
    let Some(path) = given.strip_prefix("file:") else {
        return Ok(given.to_owned());
    };
    let text = std::fs::read_to_string(path).map_err(|e| {
        Error::config(format!("admin.token = file:{path}: {e}"))
            .hint("write the token into that file, or set admin.token to another one")
    })?;
    let token = text.trim_end_matches(['\r', '\n']);
    check_token(token).map_err(|why| Error::config(format!("admin.token = file:{path}: {why}")))?;
    Ok(token.to_owned())
}

/// Whether the host is `localhost` or an IP address, with or without a port. No name server can point
/// these elsewhere.
fn is_of_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => {
            name
        }
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

/// Runs before every endpoint.
pub(super) async fn check(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
    next: Next,
) -> Response {
    let rules = &shared.access;
    if let Err(problem) = rules.check_origin(request.method(), request.headers()) {
        return problem.into_response();
    }
    let peer = request.extensions().get::<Peer>().copied();
    let peer = peer.unwrap_or(Peer { certified: false });
    let authorised = rules.admits(request.headers(), peer);
    if !authorised && !request.uri().path().starts_with("/health/") {
        let problem = Problem::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "this port asks for a token",
            "send the header `Authorization: Bearer TOKEN` with the application's admin.token",
        );
        let mut response = problem.into_response();
        let challenge = HeaderValue::from_static(CHALLENGE);
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, challenge);
        return response;
    }
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|text| text.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > MAX_BODY_BYTES) {
        return Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            format!("no endpoint takes a body of more than {MAX_BODY_BYTES} bytes"),
            "send less, or no body",
        )
        .into_response();
    }
    request.extensions_mut().insert(Authorised(authorised));
    match tokio::time::timeout(ANSWER_TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too_slow",
            format!("there is no answer within {} s", ANSWER_TIMEOUT.as_secs()),
            "ask for less (limit=), or later",
        )
        .retry_after(5)
        .into_response(),
    }
}
