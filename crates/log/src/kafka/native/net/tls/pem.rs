//! Certificates and keys from PEM texts.
//!
//! Other formats, such as Java's key stores, are refused with the command that converts them.

use memchr::memmem;
use pkcs8::{EncryptedPrivateKeyInfo, SecretDocument};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// The first bytes of a Java key store.
const JKS: [u8; 4] = [0xfe, 0xed, 0xfe, 0xed];

/// All certificates in a text.
pub(super) fn certificates(
    setting: &str,
    text: &[u8],
) -> Result<Vec<CertificateDer<'static>>, String> {
    refuse_stores(setting, text)?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(text)
        .collect::<Result<_, _>>()
        .map_err(|e| format!("{setting}: {e}"))?;
    if found.is_empty() {
        return Err(format!(
            "{setting}: there is no certificate in it (-----BEGIN CERTIFICATE-----)"
        ));
    }
    Ok(found)
}

/// The key in a text.
pub(super) fn key(text: &[u8], password: Option<&str>) -> Result<PrivateKeyDer<'static>, String> {
    const SETTING: &str = "ssl.key.location";
    refuse_stores(SETTING, text)?;
    if let Some(encrypted) = encrypted(text)? {
        let password = password
            .ok_or_else(|| format!("{SETTING}: the key is encrypted; set ssl.key.password"))?;
        let info = EncryptedPrivateKeyInfo::try_from(encrypted.as_bytes())
            .map_err(|e| format!("{SETTING}: {e}"))?;
        let key = info
            .decrypt(password)
            .map_err(|e| format!("{SETTING}: it can't be decrypted with ssl.key.password ({e})"))?;
        return Ok(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(
            key.as_bytes().to_vec(),
        )));
    }
    if memmem::find(text, b"Proc-Type: 4,ENCRYPTED").is_some() {
        return Err(format!(
            "{SETTING}: the key is encrypted in OpenSSL's old way; make it PKCS#8: openssl pkcs8 \
                -topk8 -in old.key -out new.key"
        ));
    }
    PrivateKeyDer::from_pem_slice(text).map_err(|e| match e {
        PemError::NoItemsFound => {
            format!("{SETTING}: there is no key in it (-----BEGIN PRIVATE KEY-----)")
        }
        e => format!("{SETTING}: {e}"),
    })
}

/// The encrypted key in a text, if there is one.
fn encrypted(text: &[u8]) -> Result<Option<SecretDocument>, String> {
    const BEGIN: &[u8] = b"-----BEGIN ENCRYPTED PRIVATE KEY-----";
    const END: &[u8] = b"-----END ENCRYPTED PRIVATE KEY-----";
    let (Some(begin), Some(end)) = (memmem::find(text, BEGIN), memmem::find(text, END)) else {
        return Ok(None);
    };
    let section = text.get(begin..end + END.len()).unwrap_or_default();
    let section = String::from_utf8_lossy(section);
    let (_, document) =
        SecretDocument::from_pem(&section).map_err(|e| format!("ssl.key.location: {e}"))?;
    Ok(Some(document))
}

/// Refuses Java key stores and PKCS#12 with the command that converts them.
fn refuse_stores(setting: &str, bytes: &[u8]) -> Result<(), String> {
    if bytes.starts_with(&JKS) {
        return Err(format!(
            "{setting}: it is a Java key store (JKS), which only Java reads. Make it PEM: keytool \
                -importkeystore -srckeystore store.jks -destkeystore store.p12 -deststoretype \
                PKCS12; then openssl pkcs12 -in store.p12 -out store.pem -nodes"
        ));
    }
    // A DER sequence whose length has two bytes or more: no PEM.
    let is_der = matches!(bytes, [0x30, 0x80..=0x84, ..]);
    if is_der {
        return Err(format!(
            "{setting}: it is no PEM file. If it is PKCS#12: openssl pkcs12 -in store.p12 -out \
                store.pem -nodes; if it is a certificate in DER: openssl x509 -inform der -in file \
                -out file.pem"
        ));
    }
    Ok(())
}
