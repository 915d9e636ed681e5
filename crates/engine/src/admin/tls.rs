//! TLS of the admin port, by rustls.
//!
//! Takes PEM files, gives an acceptor of TLS connections. It requests a client certificate if
//! `admin.ssl.ca` is set, but never requires one: health probes have none.

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::Path;
use std::sync::Arc;
use stoatflow_core::settings::AdminAccess;
use stoatflow_core::{Error, Result};
use tokio_rustls::TlsAcceptor;

/// The acceptor; `None` without a certificate.
///
/// # Errors
/// `Config`, which names the setting and the file.
pub(super) fn acceptor(access: &AdminAccess) -> Result<Option<TlsAcceptor>> {
    let (Some(certificate), Some(key)) = (&access.certificate, &access.key) else {
        return Ok(None);
    };
    let chain = certificates("admin.ssl.certificate", certificate)?;
    let own = PrivateKeyDer::from_pem_file(key).map_err(|e| {
        invalid_setting("admin.ssl.key", key, &e).hint(
            "give a PEM file with the key (-----BEGIN PRIVATE KEY-----), not encrypted: openssl pkcs8 -in \
                encrypted.key -out plain.key",
        )
    })?;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|e| invalid_setting("admin.ssl.certificate", certificate, &e))?;
    let builder = match &access.client_ca {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            for root in certificates("admin.ssl.ca", ca)? {
                roots
                    .add(root)
                    .map_err(|e| invalid_setting("admin.ssl.ca", ca, &e))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|e| invalid_setting("admin.ssl.ca", ca, &e))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, own).map_err(|e| {
        invalid_setting("admin.ssl.certificate", certificate, &e)
            .hint("give the certificate that belongs to admin.ssl.key")
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

fn certificates(setting: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let hint = "give a PEM file with certificates (-----BEGIN CERTIFICATE-----)";
    let found = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
        .map_err(|e| invalid_setting(setting, file, &e).hint(hint))?;
    if found.is_empty() {
        return Err(invalid_setting(setting, file, &"there is no certificate in it").hint(hint));
    }
    Ok(found)
}

fn invalid_setting(setting: &str, file: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::config(format!("{setting} = {}: {why}", file.display()))
}
