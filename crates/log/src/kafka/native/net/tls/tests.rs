//! TLS errors come with a hint that helps.

use super::errors::explain;
use super::{TlsClient, TlsSettings, is_tls_record};
use rustls::{AlertDescription, CertificateError, Error};
use std::io;
use stoatflow_core::ErrorKind;

#[test]
fn errors_say_what_to_do() {
    let alert = Error::AlertReceived;
    for (error, has_certificate, kind, hint) in [
        (
            Error::InvalidCertificate(CertificateError::UnknownIssuer),
            false,
            ErrorKind::Unauthorized,
            Some("ssl.ca.location"),
        ),
        (
            Error::InvalidCertificate(CertificateError::Expired),
            false,
            ErrorKind::Unauthorized,
            Some("renew the certificate"),
        ),
        (
            Error::InvalidCertificate(CertificateError::NotValidForName),
            false,
            ErrorKind::Unauthorized,
            Some("subjectAltName"),
        ),
        (
            alert(AlertDescription::CertificateRequired),
            false,
            ErrorKind::Unauthorized,
            Some("ssl.certificate.location and ssl.key.location"),
        ),
        (
            alert(AlertDescription::UnknownCA),
            true,
            ErrorKind::Unauthorized,
            Some("ssl.truststore"),
        ),
        (
            alert(AlertDescription::ProtocolVersion),
            false,
            ErrorKind::Config,
            Some("ssl.enabled.protocols"),
        ),
        (
            alert(AlertDescription::InternalError),
            false,
            ErrorKind::Unavailable,
            None,
        ),
    ] {
        let said = explain(&io::Error::other(error.clone()), "broker", has_certificate);
        assert_eq!(said.kind(), kind, "{error:?}");
        match hint {
            Some(hint) => assert!(said.hint().unwrap().contains(hint), "{said:?}"),
            None => assert_eq!(said.hint(), None),
        }
    }
    let gone = explain(&io::ErrorKind::ConnectionReset.into(), "broker", false);
    assert!(!gone.is_final());
}

#[test]
fn a_record_of_tls_is_no_length() {
    assert!(is_tls_record(&[0x15, 3, 3, 0]));
    assert!(is_tls_record(&[0x16, 3, 1, 0]));
    assert!(!is_tls_record(&[0, 0, 1, 0]));
}

#[test]
fn a_key_and_its_certificate_go_together() {
    let half = |certificate: bool| TlsSettings {
        ca: None,
        certificate: certificate.then(|| b"x".to_vec()),
        key: (!certificate).then(|| b"x".to_vec()),
        trust_everybody: true,
        ..TlsSettings::default()
    };
    let said = |certificate| TlsClient::new(&half(certificate)).unwrap_err();
    assert!(said(true).contains("needs ssl.key.location"));
    assert!(said(false).contains("needs ssl.certificate.location"));
}

#[test]
fn no_key_is_printed() {
    let settings = TlsSettings {
        key: Some(b"hunter2".to_vec()),
        key_password: Some("hunter2".into()),
        ..TlsSettings::default()
    };
    assert!(!format!("{settings:?}").contains("hunter2"));
}
