//! How connections to a cluster are protected, and who this client is.

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

/// All addresses of a name with this port.
pub(in crate::kafka) type Resolve = fn(&str, u16) -> io::Result<Vec<SocketAddr>>;

/// As the system does it.
pub(in crate::kafka) fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok((host, port).to_socket_addrs()?.collect())
}

/// What all connections of a client have in common.
#[derive(Clone, Debug)]
pub(in crate::kafka) struct ClientContext {
    /// `client.id`.
    pub client_id: StrBytes,
    /// `client.rack`: where this client runs, for reading from replicas nearby.
    pub rack: StrBytes,
    /// Encryption, if the protocol has it.
    pub tls: Option<TlsClient>,
    /// Who this client is, if the protocol asks.
    pub sasl: Option<Arc<SaslSettings>>,
    /// Looks a name up; waits as long as the system does.
    pub resolve: Resolve,
    /// The machine's network and clock, or a simulated one.
    pub network: Arc<dyn Network>,
    /// How much brokers have slowed this application down.
    pub throttled: Arc<ThrottleTotals>,
    /// What this application knows of elections.
    pub leader_epochs: Arc<LeaderEpochs>,
}

impl ClientContext {
    /// A stopwatch that starts now.
    pub(in crate::kafka) fn stopwatch(&self) -> Stopwatch {
        Stopwatch::start(&self.network)
    }

    /// Does it need more than a plaintext connection?
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
        }
    }
}
