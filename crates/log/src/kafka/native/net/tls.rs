//! TLS to a broker, with rustls.
//!
//! Takes the `ssl.*` settings, returns a [`TlsClient`] that all connections share, and a [`TlsStream`]
//! per connection. Broker certificates are checked against the system's roots or the configured ones,
//! and against the host name. Never uses the system's OpenSSL.

mod errors;
mod pem;
#[cfg(test)]
mod tests;
mod verifier;

use super::connection_error::ConnectionError;
use super::poll::wait;
use super::transport::Read;
pub(in crate::kafka) use errors::is_tls_record;
use rustix::event::{PollFd, PollFlags};
use rustix::io::{Errno, read};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion, version};
use std::fmt::{self, Debug};
use std::io::{self, BufRead, ErrorKind as Io, IoSlice, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Clock, SystemClock};

/// Bytes read from the socket at a time.
const READ_BYTES: usize = 32 << 10;
/// Maximum number of encrypted bytes that wait for the socket.
const MAX_UNSENT_BYTES: usize = 256 << 10;

/// The `ssl.*` settings. PEM texts, not yet parsed.
#[derive(Clone, Default)]
pub(in crate::kafka) struct TlsSettings {
    /// Trusted certificates; without them the system's.
    pub ca: Option<Vec<u8>>,
    /// The client's certificate, followed by its chain of signers.
    pub certificate: Option<Vec<u8>>,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// The password of the key.
    pub key_password: Option<String>,
    /// Whether the certificate may be for another host.
    pub ignore_host_name: bool,
    /// Whether any certificate is accepted.
    pub trust_everybody: bool,
    /// The allowed versions; empty allows both.
    pub versions: Vec<TlsVersion>,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kafka) enum TlsVersion {
    V12,
    V13,
}

impl TlsVersion {
    fn supported(self) -> &'static SupportedProtocolVersion {
        match self {
            Self::V12 => &version::TLS12,
            Self::V13 => &version::TLS13,
        }
    }
}

/// Never prints a key.
impl Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSettings")
            .field("own_ca", &self.ca.is_some())
            .field("own_certificate", &self.certificate.is_some())
            .field("ignore_host_name", &self.ignore_host_name)
            .field("trust_everybody", &self.trust_everybody)
            .finish_non_exhaustive()
    }
}

/// Shared by all connections.
#[derive(Clone, Debug)]
pub(in crate::kafka) struct TlsClient {
    config: Arc<ClientConfig>,
    has_certificate: bool,
}

/// The cryptography that TLS and SCRAM use.
pub(in crate::kafka) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The trusted roots; the error is a sentence.
pub(super) fn roots(
    ca: Option<&[u8]>,
) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), String> {
    let mut store = RootCertStore::empty();
    let certificates = match ca {
        Some(text) => pem::certificates("ssl.ca.location", text)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let found = certificates.len();
    let (added, _) = store.add_parsable_certificates(certificates.iter().cloned());
    match (added, ca) {
        (0, None) => Err(
            "this machine has no certificates that are trusted: install ca-certificates, or set \
                ssl.ca.location to a PEM file"
                .to_owned(),
        ),
        (added, Some(_)) if added < found => Err(format!(
            "ssl.ca.location: {} of {found} certificates can't be used",
            found - added
        )),
        _ => Ok((store, certificates)),
    }
}

impl TlsClient {
    /// Checks files and keys; the error is a sentence that names the setting.
    pub(in crate::kafka) fn new(settings: &TlsSettings) -> Result<Self, String> {
        let provider = provider();
        let versions: Vec<_> = if settings.versions.is_empty() {
            vec![&version::TLS13, &version::TLS12]
        } else {
            settings.versions.iter().map(|v| v.supported()).collect()
        };
        let verifier = verifier::verifier(settings, &provider)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|e| format!("ssl.enabled.protocols: {e}"))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let own = Self::own(settings)?;
        let has_certificate = own.is_some();
        let config = match own {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(|e| {
                format!(
                    "the client's certificate and its key (ssl.certificate.location, \
                    ssl.key.location): {e}"
                )
            })?,
        };
        Ok(Self {
            config: Arc::new(config),
            has_certificate,
        })
    }

    fn own(
        settings: &TlsSettings,
    ) -> Result<Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>, String> {
        match (&settings.certificate, &settings.key) {
            (None, None) => Ok(None),
            (Some(_), None) => {
                Err("ssl.certificate.location needs ssl.key.location beside it".into())
            }
            (None, Some(_)) => {
                Err("ssl.key.location needs ssl.certificate.location beside it".into())
            }
            (Some(chain), Some(key)) => {
                let chain = pem::certificates("ssl.certificate.location", chain)?;
                let key = pem::key(key, settings.key_password.as_deref())?;
                Ok(Some((chain, key)))
            }
        }
    }

    /// Performs the handshake on a non-blocking socket.
    pub(super) fn connect(
        &self,
        socket: TcpStream,
        host: &str,
        timeout: Duration,
    ) -> Result<TlsStream, ConnectionError> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|e| ConnectionError::lost(format!("'{host}' is no host name: {e}")))?;
        let mut tls = ClientConnection::new(Arc::clone(&self.config), name)
            .map_err(|e| ConnectionError::lost(e.to_string()))?;
        tls.set_buffer_limit(Some(MAX_UNSENT_BYTES));
        let mut stream = TlsStream {
            socket,
            tls,
            incoming: vec![0; READ_BYTES],
            from: 0,
            to: 0,
        };
        let clock = SystemClock::new();
        while stream.tls.is_handshaking() {
            let left = timeout.saturating_sub(clock.monotonic());
            if left.is_zero() {
                return Err(ConnectionError::lost(format!(
                    "the TLS handshake took longer than {timeout:?}"
                )));
            }
            match stream.step() {
                Ok(Read::Some) => {}
                Ok(Read::Later) => {
                    let flags = if stream.tls.wants_write() {
                        PollFlags::OUT
                    } else {
                        PollFlags::IN
                    };
                    wait(&mut [PollFd::new(&stream.socket, flags)], left);
                }
                Ok(Read::End) => return Err(errors::closed_in_handshake()),
                Err(e) => return Err(errors::explain(&e, host, self.has_certificate)),
            }
        }
        Ok(stream)
    }

    /// Explains an error of an open connection.
    pub(super) fn explain(&self, error: &io::Error, host: &str) -> ConnectionError {
        errors::explain(error, host, self.has_certificate)
    }
}

/// An encrypted connection.
#[derive(Debug)]
pub(super) struct TlsStream {
    socket: TcpStream,
    tls: ClientConnection,
    /// Bytes read from the socket; those between `from` and `to` are not decrypted yet.
    incoming: Vec<u8>,
    from: usize,
    to: usize,
}

/// Writes to a socket; a closed connection is an error, never a signal.
struct Socket<'a>(&'a TcpStream);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        send(self.0, slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends without SIGPIPE.
pub(super) fn send(socket: &TcpStream, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let mut nothing = SendAncillaryBuffer::default();
    sendmsg(socket, slices, &mut nothing, SendFlags::NOSIGNAL).map_err(io::Error::from)
}

impl TlsStream {
    pub(super) const fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Appends decrypted bytes, at most `most`.
    pub(super) fn read(&mut self, into: &mut Vec<u8>, most: usize) -> io::Result<Read> {
        into.reserve_exact(most);
        loop {
            match self.tls.reader().fill_buf() {
                Ok([]) => return Ok(Read::End),
                Ok(plain) => {
                    let taken = plain.len().min(most);
                    into.extend_from_slice(&plain[..taken]);
                    self.tls.reader().consume(taken);
                    return Ok(Read::Some);
                }
                Err(e) if e.kind() == Io::WouldBlock => {}
                Err(e) if e.kind() == Io::UnexpectedEof => return Ok(Read::End),
                Err(e) => return Err(e),
            }
            match self.decrypt()? {
                Read::Some => {}
                other => return Ok(other),
            }
        }
    }

    /// Decrypts what the socket has. `End` if it is closed.
    fn decrypt(&mut self) -> io::Result<Read> {
        if self.from == self.to {
            match read(&self.socket, &mut self.incoming) {
                Ok(0) => return Ok(Read::End),
                Ok(came) => (self.from, self.to) = (0, came),
                Err(Errno::INTR) => return Ok(Read::Some),
                Err(Errno::AGAIN) => return Ok(Read::Later),
                Err(e) => return Err(e.into()),
            }
        }
        let mut rest = &self.incoming[self.from..self.to];
        let before = rest.len();
        self.tls.read_tls(&mut rest)?;
        self.from += before - rest.len();
        if let Err(error) = self.tls.process_new_packets() {
            // Sends the alert that names the cause, if the broker still reads.
            let _told = self.send();
            return Err(io::Error::other(error));
        }
        Ok(Read::Some)
    }

    /// One step of the handshake.
    fn step(&mut self) -> io::Result<Read> {
        match self.send() {
            Err(e) if e.kind() == Io::WouldBlock => return Ok(Read::Later),
            sent => sent?,
        }
        if !self.tls.is_handshaking() {
            return Ok(Read::Some);
        }
        self.decrypt()
    }

    /// Encrypts the start of these slices; returns how many bytes of them.
    pub(super) fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.send()?;
        let taken = self.tls.writer().write_vectored(slices)?;
        match self.send() {
            Err(e) if e.kind() != Io::WouldBlock => Err(e),
            _ => Ok(taken),
        }
    }

    /// Sends what is encrypted.
    pub(super) fn send(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Socket(&self.socket)) {
                Ok(_) => {}
                Err(e) if e.kind() == Io::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}
