//! The network and the clock of a client: the machine's, or simulated ones in tests.
//!
//! Every wait and every reading of the clock goes through this trait, so that a test decides which
//! requests are late, lost or answered, and how long that takes, without waiting for it.

use super::connection_error::ConnectionError;
use super::poll;
use super::tls::TlsClient;
use super::transport::Transport;
use rustix::event::PollFd;
use std::fmt::Debug;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Clock, SystemClock};

/// What a client needs from the machine.
pub(in crate::kafka) trait Network: Debug + Send + Sync {
    /// Time since some fixed moment; never goes back.
    fn monotonic(&self) -> Duration;

    /// Connects to an address of this host, encrypted if `tls` is given.
    fn connect(
        &self,
        place: &SocketAddr,
        host: &str,
        tls: Option<&TlsClient>,
        timeout: Duration,
    ) -> Result<Box<dyn Transport>, ConnectionError>;

    /// Waits until one of the sockets is ready, at most this long. Without sockets it is a pause.
    fn wait(&self, sockets: &mut [PollFd<'_>], most: Duration);

    /// Runs work that may block on another thread.
    fn spawn(&self, work: Box<dyn FnOnce() + Send>) -> io::Result<()>;
}

/// Time since it was started.
#[derive(Clone, Debug)]
pub(in crate::kafka) struct Stopwatch {
    network: Arc<dyn Network>,
    start: Duration,
}

impl Stopwatch {
    pub(in crate::kafka) fn start(network: &Arc<dyn Network>) -> Self {
        Self {
            start: network.monotonic(),
            network: Arc::clone(network),
        }
    }

    pub(in crate::kafka) fn elapsed(&self) -> Duration {
        self.network.monotonic().saturating_sub(self.start)
    }
}

/// The machine's network and clock.
#[derive(Debug, Default)]
pub(in crate::kafka) struct SystemNetwork {
    clock: SystemClock,
}

impl Network for SystemNetwork {
    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    fn connect(
        &self,
        place: &SocketAddr,
        host: &str,
        tls: Option<&TlsClient>,
        timeout: Duration,
    ) -> Result<Box<dyn Transport>, ConnectionError> {
        let clock = SystemClock::new();
        let failed = |e: io::Error| ConnectionError::lost(e.to_string());
        let socket = TcpStream::connect_timeout(place, timeout).map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        rustix::net::sockopt::set_socket_keepalive(&socket, true).map_err(|e| failed(e.into()))?;
        match tls {
            None => Ok(Box::new(socket)),
            Some(tls) => {
                let left = timeout.saturating_sub(clock.monotonic());
                Ok(Box::new(tls.connect(socket, host, left)?))
            }
        }
    }

    fn wait(&self, sockets: &mut [PollFd<'_>], most: Duration) {
        poll::wait(sockets, most);
    }

    #[allow(clippy::disallowed_methods)] // ends with its time-out; only a DNS query without an answer takes longer
    fn spawn(&self, work: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        let thread = std::thread::Builder::new().name("kafka-connect".to_owned());
        thread.spawn(work).map(drop)
    }
}
