//! Authenticates a connection by SASL, as often as the broker requires it.
//!
//! Takes the SASL settings, exchanges messages until the broker accepts, and records when the session
//! ends (KIP-368). A refusal names the setting to check.

use super::{Connection, ILLEGAL_SASL_STATE};
use crate::kafka::native::net::connection_error::ConnectionError;
use crate::kafka::native::net::sasl::{SaslClient, SaslError, SaslSettings};
use crate::kafka::native::net::session::Session;
use kafka_protocol::messages::{SaslAuthenticateRequest, SaslHandshakeRequest};
use kafka_protocol::protocol::StrBytes;
use std::time::Duration;
use stoatflow_core::ErrorKind;

const UNSUPPORTED_SASL_MECHANISM: i16 = 33;
const SASL_AUTHENTICATION_FAILED: i16 = 58;

impl Connection {
    /// Whether it is time to authenticate again. Called between requests.
    pub(in crate::kafka::native) fn must_authenticate(&self) -> bool {
        matches!(self.session, Session::Renewed(at) if self.clock.elapsed() >= at)
    }

    /// Whether the session is over and too short to be renewed. Called between requests.
    pub(in crate::kafka::native) fn must_be_replaced(&self) -> bool {
        matches!(self.session, Session::Replaced(at) if self.clock.elapsed() >= at)
    }

    /// Authenticates, if the security protocol requires it. May be repeated on a connection without a
    /// request in flight.
    pub(in crate::kafka::native) fn authenticate(
        &mut self,
        timeout: Duration,
    ) -> Result<(), ConnectionError> {
        let Some(sasl) = self.context.sasl.clone() else {
            return Ok(());
        };
        let clock = self.context.stopwatch();
        let left = || timeout.saturating_sub(clock.elapsed());
        let mut client = sasl.begin()?;
        self.choose_mechanism(&sasl, left())?;
        let mut message = client.first();
        loop {
            let request = SaslAuthenticateRequest::default().with_auth_bytes(message.into());
            let version = self.api_versions.version::<SaslAuthenticateRequest>(2);
            let version = version.ok_or_else(too_old)?;
            let response = self.call(version, &request, left())?;
            match response.error_code {
                0 => {}
                SASL_AUTHENTICATION_FAILED => {
                    let said = response.error_message.unwrap_or_default();
                    return Err(refused_login(&sasl, &client, &said));
                }
                code => {
                    let said = response.error_message.unwrap_or_default();
                    let why = format!("authentication failed (code {code}: {said})");
                    return Err(ConnectionError::lost(why));
                }
            }
            match client.next(&response.auth_bytes) {
                Ok(Some(next)) => message = next,
                Ok(None) => {
                    let now = self.clock.elapsed();
                    self.session = Session::new(response.session_lifetime_ms, now);
                    return Ok(());
                }
                Err(SaslError::Later(why)) => return Err(ConnectionError::lost(why)),
                Err(SaslError::Refused(why)) => return Err(refused_login(&sasl, &client, &why)),
            }
        }
    }

    fn choose_mechanism(
        &mut self,
        sasl: &SaslSettings,
        timeout: Duration,
    ) -> Result<(), ConnectionError> {
        let mechanism = sasl.mechanism();
        let version = self.api_versions.version::<SaslHandshakeRequest>(1);
        let version = version.filter(|v| *v == 1).ok_or_else(too_old)?;
        let request =
            SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str(mechanism));
        let response = self.call(version, &request, timeout)?;
        match response.error_code {
            0 => Ok(()),
            UNSUPPORTED_SASL_MECHANISM => {
                let offered: Vec<_> = response.mechanisms.iter().map(|m| &**m).collect();
                Err(ConnectionError::refused(
                    ErrorKind::Config,
                    format!("the broker doesn't offer the SASL mechanism {mechanism}"),
                    format!(
                        "set sasl.mechanism to one that it offers: {}",
                        offered.join(", ")
                    ),
                ))
            }
            ILLEGAL_SASL_STATE if self.session != Session::Endless => Err(ConnectionError::lost(
                "the broker takes no second authentication now",
            )),
            ILLEGAL_SASL_STATE => Err(ConnectionError::refused(
                ErrorKind::Config,
                "the broker's listener doesn't use SASL",
                "set security.protocol to SSL (or PLAINTEXT), or use the port of its SASL listener",
            )),
            code => Err(ConnectionError::lost(format!(
                "the broker refuses the SASL handshake (code {code})"
            ))),
        }
    }
}

fn too_old() -> ConnectionError {
    ConnectionError::refused(
        ErrorKind::Config,
        "the broker is too old for this client's SASL (before 1.0)",
        "upgrade the broker",
    )
}

fn refused_login(sasl: &SaslSettings, client: &SaslClient, said: &str) -> ConnectionError {
    let who = match (sasl.username(), client.principal()) {
        (Some(user), _) => format!("the broker refuses user '{user}' ({said})"),
        (None, Some(name)) => format!("the broker refuses the token of '{name}' ({said})"),
        (None, None) => format!("the broker refuses the token ({said})"),
    };
    let hint = match sasl.username() {
        Some(_) => {
            "check sasl.username, sasl.password and sasl.mechanism; with SCRAM the user must exist \
                for this mechanism (kafka-configs --describe --entity-type users)"
        }
        None => {
            "check the issuer, the audience and the scope of the token, and the clock of this machine"
        }
    };
    ConnectionError::refused(ErrorKind::Unauthorized, who, hint)
}
