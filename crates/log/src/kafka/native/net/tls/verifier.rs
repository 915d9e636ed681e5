//! Which broker certificates are accepted.

use super::{TlsSettings, roots};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::Arc;

/// The verifier that the settings ask for.
pub(super) fn verifier(
    settings: &TlsSettings,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let checked = if settings.trust_everybody {
        None
    } else {
        let (roots, _) = roots(settings.ca.as_deref())?;
        let checked =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
                .build()
                .map_err(|e| format!("ssl.ca.location: {e}"))?;
        if !settings.ignore_host_name {
            return Ok(checked);
        }
        Some(checked)
    };
    Ok(Arc::new(LenientVerifier {
        checked,
        provider: Arc::clone(provider),
    }))
}

/// Skips the check of the host name, or all checks.
#[derive(Debug)]
struct LenientVerifier {
    /// With `ssl.endpoint.identification.algorithm=none`, the signer is checked and the host name is
    /// not. `None` stands for `enable.ssl.certificate.verification=false`: any certificate is accepted.
    checked: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for LenientVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(checked) = &self.checked else {
            return Ok(ServerCertVerified::assertion());
        };
        let outcome =
            checked.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match outcome {
            // The name is checked last: everything else is right.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        (self.provider.signature_verification_algorithms).supported_schemes()
    }
}
