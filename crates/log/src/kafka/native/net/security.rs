//! Encryption and authentication of connections, and what else the connections of a client share.

use super::counters::ClientCounters;
use super::leader_epochs::LeaderEpochs;
#[cfg(test)]
use super::network::SystemNetwork;
use super::network::{Network, Stopwatch};
use super::sasl::SaslSettings;
use super::throttle::ThrottleTotals;
use super::tls::TlsClient;
use kafka_protocol::protocol::StrBytes;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

/// Resolves a name to all its addresses, with this port.
pub(in crate::kafka) type Resolve = fn(&str, u16) -> io::Result<Vec<SocketAddr>>;

/// Resolves with the system's resolver.
pub(in crate::kafka) fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok((host, port).to_socket_addrs()?.collect())
}

/// Shared by all connections of a client.
#[derive(Clone, Debug)]
pub(in crate::kafka) struct ClientContext {
    /// `client.id`.
    pub client_id: StrBytes,
    /// `client.rack`: the location of this client, for fetching from a replica nearby.
    pub rack: StrBytes,
    /// Encryption, if the security protocol has it.
    pub tls: Option<TlsClient>,
    /// Credentials, if the security protocol requires them.
    pub sasl: Option<Arc<SaslSettings>>,
    /// Resolves a name; blocks as long as the system does.
    pub resolve: Resolve,
    /// The machine's network and clock, or a simulated one.
    pub network: Arc<dyn Network>,
    /// For how long quotas have throttled this application.
    pub throttled: Arc<ThrottleTotals>,
    /// The leader epochs that this application knows.
    pub leader_epochs: Arc<LeaderEpochs>,
    /// Requests and connections of all clients with this configuration.
    pub counters: Arc<ClientCounters>,
}

impl ClientContext {
    /// A stopwatch that starts now.
    pub(in crate::kafka) fn stopwatch(&self) -> Stopwatch {
        Stopwatch::start(&self.network)
    }

    /// Whether connections are encrypted or authenticated.
    pub(in crate::kafka) const fn is_secured(&self) -> bool {
        self.tls.is_some() || self.sasl.is_some()
    }

    /// Plaintext, without authentication.
    #[cfg(test)]
    pub(in crate::kafka) fn plaintext(client_id: &str) -> Self {
        Self {
            client_id: StrBytes::from_string(client_id.to_owned()),
            rack: StrBytes::from_static_str(""),
            tls: None,
            sasl: None,
            resolve,
            network: Arc::new(SystemNetwork::default()),
            throttled: Arc::default(),
            leader_epochs: Arc::default(),
            counters: Arc::default(),
        }
    }
}
