//! TLS errors as sentences that say what to do.

use super::super::connection_error::ConnectionError;
use rustls::{AlertDescription, CertificateError, Error};
use std::io;
use stoatflow_core::ErrorKind;

/// Whether an answer begins like a TLS record instead of a Kafka response.
pub(in crate::kafka) const fn is_tls_record(start: &[u8]) -> bool {
    // An alert or a handshake, of version 3.x.
    matches!(start, [0x15 | 0x16, 0x03, ..])
}

/// A plaintext listener closes the connection on the first message of TLS, which it reads as a request
/// of 350 MB. So does a broker that is shutting down.
pub(super) fn closed_in_handshake() -> ConnectionError {
    ConnectionError::lost_perhaps(
        "the broker closed the connection during the TLS handshake",
        "if its listener is not encrypted, set security.protocol to PLAINTEXT or SASL_PLAINTEXT, or \
            use the port of its TLS listener",
    )
}

pub(super) fn explain(error: &io::Error, host: &str, has_certificate: bool) -> ConnectionError {
    let Some(tls) = error.get_ref().and_then(|e| e.downcast_ref::<Error>()) else {
        return ConnectionError::lost(error.to_string());
    };
    match tls {
        Error::InvalidCertificate(why) => certificate(why, host),
        Error::AlertReceived(alert) => alerted(*alert, has_certificate),
        Error::InvalidMessage(_) => ConnectionError::refused(
            ErrorKind::Config,
            format!("the broker does not answer in TLS ({tls})"),
            "set security.protocol to PLAINTEXT or SASL_PLAINTEXT, or use the port of its TLS listener",
        ),
        Error::PeerIncompatible(_) => ConnectionError::refused(
            ErrorKind::Config,
            format!("no version or cipher of TLS is common to both ({tls})"),
            "TLS 1.2 and 1.3 are spoken here: enable one of them at the broker (ssl.enabled.protocols)",
        ),
        other => ConnectionError::lost(format!("TLS: {other}")),
    }
}

fn certificate(why: &CertificateError, host: &str) -> ConnectionError {
    let (said, hint) = match why {
        CertificateError::UnknownIssuer => (
            "the broker's certificate is not signed by a trusted CA".to_owned(),
            "set ssl.ca.location to a PEM file with the certificate of the CA that signed it",
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => (
            format!("the broker's certificate has expired ({why})"),
            "renew the certificate of the broker; if it is new, set the clock of this machine right",
        ),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => (
            format!("the broker's certificate is not valid yet ({why})"),
            "set the clock of this machine right, or that of the machine that made the certificate",
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => (
            format!("the broker's certificate is not for '{host}' ({why})"),
            "connect by a name that the certificate has, or issue one with this name \
                (subjectAltName); ssl.endpoint.identification.algorithm=none skips this check",
        ),
        CertificateError::Revoked => (
            "the broker's certificate was revoked".to_owned(),
            "renew the certificate of the broker",
        ),
        other => (
            format!("the broker's certificate can't be used ({other})"),
            "issue a certificate for servers (X.509 version 3, not a CA certificate), signed by the \
                CA of ssl.ca.location",
        ),
    };
    ConnectionError::refused(ErrorKind::Unauthorized, said, hint)
}

fn alerted(alert: AlertDescription, has_certificate: bool) -> ConnectionError {
    use AlertDescription as Alert;
    match alert {
        Alert::CertificateRequired
        | Alert::BadCertificate
        | Alert::HandshakeFailure
        | Alert::AccessDenied
            if !has_certificate =>
        {
            ConnectionError::refused(
                ErrorKind::Unauthorized,
                format!("the broker refuses a client without a certificate ({alert:?})"),
                "set ssl.certificate.location and ssl.key.location to the certificate of this \
                    client and its key",
            )
        }
        Alert::BadCertificate
        | Alert::CertificateUnknown
        | Alert::CertificateExpired
        | Alert::CertificateRevoked
        | Alert::UnsupportedCertificate
        | Alert::UnknownCA
        | Alert::AccessDenied => ConnectionError::refused(
            ErrorKind::Unauthorized,
            format!("the broker refuses the certificate of this client ({alert:?})"),
            "set ssl.certificate.location to one that is valid and signed by a CA that the broker \
                trusts (its ssl.truststore)",
        ),
        Alert::ProtocolVersion | Alert::HandshakeFailure | Alert::InsufficientSecurity => {
            ConnectionError::refused(
                ErrorKind::Config,
                format!("no version or cipher of TLS is common to both ({alert:?})"),
                "TLS 1.2 and 1.3 are spoken here: enable one of them at the broker (ssl.enabled.protocols)",
            )
        }
        other => ConnectionError::lost(format!("TLS: the broker says {other:?}")),
    }
}
