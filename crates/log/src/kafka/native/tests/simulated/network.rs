//! A simulated network and clock: a seed determines which requests are lost, late or handled without an
//! answer, and a client waits in virtual time.

use super::faults::{Delivery, FaultInjector};
use crate::kafka::native::NativeConfig;
use crate::kafka::native::net::connection_error::ConnectionError;
use crate::kafka::native::net::network::Network;
use crate::kafka::native::net::security::ClientContext;
use crate::kafka::native::net::tls::TlsClient;
use crate::kafka::native::net::transport::{Read, Transport};
use crate::kafka::native::tests::broker::Kept;
use crate::kafka::native::tests::faults::Dice;
use bytes::Bytes;
use kafka_protocol::messages::ApiKey;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind as Io, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Weak};
use std::time::Duration;

const PORT: u16 = 9092;
/// The broker aborts a transaction that is open for longer.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(60);
/// Each reading of the clock takes some time, so that a loop that reads it ends.
const LOOK: Duration = Duration::from_micros(1);
/// After so many waits in a row without delay, the client is not reading available data.
const MOST_AT_ONCE: u32 = 100_000;

#[derive(Debug)]
enum Event {
    /// The broker gets a request.
    Request {
        of: u64,
        request: Bytes,
        delivery: Delivery,
    },
    /// The client gets bytes.
    Answer { of: u64, bytes: Vec<u8>, last: bool },
    /// The broker closes the connection.
    Close { of: u64 },
}

/// A connection, as the client sees it.
#[derive(Debug, Default)]
struct Link {
    /// Bytes that the client has written, and that are no complete request yet.
    written: Vec<u8>,
    /// Bytes that it can read.
    came: VecDeque<u8>,
    closed: bool,
    /// When its last request arrives at the broker: the next one arrives later.
    last_request: Duration,
}

#[derive(Debug)]
struct State {
    now: Duration,
    events: BTreeMap<(Duration, u64), Event>,
    next: u64,
    links: BTreeMap<u64, Link>,
    /// The connection of each open socket.
    sockets: BTreeMap<RawFd, u64>,
    injector: FaultInjector,
    /// The broker is down until then.
    down_until: Duration,
    /// Since when each transaction has been open.
    open_since: BTreeMap<String, Duration>,
    at_once: u32,
    kept: Kept,
}

/// The network, with one broker.
#[derive(Debug)]
pub(super) struct SimulatedNetwork {
    state: Mutex<State>,
    /// For the sockets that it creates.
    own: Weak<Self>,
}

impl SimulatedNetwork {
    pub(super) fn new(seed: u64, transactions_v2: bool) -> Arc<Self> {
        let kept = Kept::new(Dice(seed | 1), 1, transactions_v2, PORT);
        let state = State {
            now: Duration::ZERO,
            events: BTreeMap::new(),
            next: 0,
            links: BTreeMap::new(),
            sockets: BTreeMap::new(),
            injector: FaultInjector::new(seed),
            down_until: Duration::ZERO,
            open_since: BTreeMap::new(),
            at_once: 0,
            kept,
        };
        Arc::new_cyclic(|own| Self {
            state: Mutex::new(state),
            own: Weak::clone(own),
        })
    }

    /// The configuration for a client of this network.
    pub(super) fn config(self: &Arc<Self>) -> NativeConfig {
        let network: Arc<dyn Network> = Arc::clone(self) as _;
        let context = ClientContext {
            network,
            resolve: |_, port| Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]),
            ..ClientContext::plaintext("simulated")
        };
        NativeConfig {
            context: Arc::new(context),
            ..NativeConfig::plaintext(&format!("broker:{PORT}"))
        }
    }

    /// Switches all faults off.
    pub(super) fn heal(&self) {
        let mut state = self.state.lock();
        state.injector.heal();
        state.kept.one_of = 0;
        state.down_until = Duration::ZERO;
    }

    /// Lets all requests arrive that are still under way, those of closed connections too.
    pub(super) fn deliver_late_requests(&self) {
        let mut state = self.state.lock();
        while let Some((time, event)) = state.due(Duration::MAX) {
            state.now = state.now.max(time);
            state.happen(event);
        }
    }

    /// Delays the next request of this kind.
    pub(super) fn delay_next(&self, kind: ApiKey, time: Duration) {
        self.state.lock().injector.delayed = Some((kind, time));
    }

    /// The time, without advancing the clock.
    pub(super) fn now(&self) -> Duration {
        self.state.lock().now
    }

    /// Switches faults on again.
    pub(super) fn resume(&self) {
        let mut state = self.state.lock();
        state.injector.resume();
        state.kept.one_of = 1;
    }

    /// How many requests have failed.
    pub(super) fn faults(&self) -> u32 {
        self.state.lock().injector.faults
    }

    /// Looks at the broker's state.
    pub(super) fn with<T>(&self, ask: impl FnOnce(&Kept) -> T) -> T {
        ask(&self.state.lock().kept)
    }
}

impl Network for SimulatedNetwork {
    fn monotonic(&self) -> Duration {
        let mut state = self.state.lock();
        state.now += LOOK;
        state.now
    }

    fn connect(
        &self,
        _place: &SocketAddr,
        _host: &str,
        _tls: Option<&TlsClient>,
        timeout: Duration,
    ) -> Result<Box<dyn Transport>, ConnectionError> {
        let (takes, comes) = {
            let mut state = self.state.lock();
            let down = state.now < state.down_until;
            state.injector.connect(timeout, down)
        };
        self.wait(&mut [], takes);
        if !comes {
            return Err(ConnectionError::lost("refused"));
        }
        let fd =
            eventfd(0, EventfdFlags::empty()).map_err(|e| ConnectionError::lost(e.to_string()))?;
        let mut state = self.state.lock();
        let id = state.number();
        state.links.insert(id, Link::default());
        state.sockets.insert(fd.as_raw_fd(), id);
        drop(state);
        let network = self
            .own
            .upgrade()
            .ok_or_else(|| ConnectionError::lost("gone"))?;
        Ok(Box::new(Socket { network, id, fd }))
    }

    fn wait(&self, sockets: &mut [PollFd<'_>], most: Duration) {
        let mut state = self.state.lock();
        let watched: Vec<_> = (sockets.iter())
            .map(|socket| state.sockets.get(&socket.as_fd().as_raw_fd()).copied())
            .collect();
        if watched.iter().any(|of| state.is_ready(*of)) {
            state.at_once += 1;
            assert!(
                state.at_once < MOST_AT_ONCE,
                "the client doesn't read what is there"
            );
            return;
        }
        state.at_once = 0;
        let until = state.now + most;
        while let Some((at, event)) = state.due(until) {
            state.now = state.now.max(at);
            state.happen(event);
            if watched.iter().any(|of| state.is_ready(*of)) {
                return;
            }
        }
        state.now = until;
    }

    fn spawn(&self, work: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        work();
        Ok(())
    }
}

impl State {
    const fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn at(&mut self, time: Duration, event: Event) {
        let number = self.number();
        self.events.insert((time, number), event);
    }

    /// The next event, if it is due by then.
    fn due(&mut self, until: Duration) -> Option<(Duration, Event)> {
        let first = self.events.first_entry()?;
        let at = first.key().0;
        (at <= until).then(|| (at, first.remove()))
    }

    /// Whether there is something to read. A socket from outside this network signals the end of an
    /// attempt to connect, which has ended.
    fn is_ready(&self, of: Option<u64>) -> bool {
        let link = of.and_then(|of| self.links.get(&of));
        link.is_none_or(|link| !link.came.is_empty() || link.closed)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Request {
                of,
                request,
                delivery,
            } => self.serve(of, request, &delivery),
            Event::Answer { of, bytes, last } => {
                if let Some(link) = self.links.get_mut(&of).filter(|link| !link.closed) {
                    link.came.extend(bytes);
                    link.closed |= last;
                }
            }
            Event::Close { of } => {
                if let Some(link) = self.links.get_mut(&of) {
                    link.closed = true;
                }
            }
        }
    }

    /// The broker handles a request, although the client may have closed the connection meanwhile.
    fn serve(&mut self, of: u64, request: Bytes, delivery: &Delivery) {
        if self.now < self.down_until {
            // Requests that arrive while it is down are lost.
            return self.at(self.now, Event::Close { of });
        }
        self.end_old_transactions();
        let back = self.now + delivery.back;
        if delivery.done {
            let mut bytes = self.kept.answer(request, delivery.not_yet);
            self.note_transactions();
            if delivery.cut {
                bytes.truncate(bytes.len() / 2);
            }
            if delivery.answered {
                let last = delivery.cut;
                return self.at(back, Event::Answer { of, bytes, last });
            }
        }
        if delivery.closed {
            self.at(back, Event::Close { of });
        }
    }

    fn end_old_transactions(&mut self) {
        let (now, kept) = (self.now, &mut self.kept);
        self.open_since.retain(|id, since| {
            let is_young = now <= *since + TRANSACTION_TIMEOUT;
            if !is_young {
                kept.time_out(id);
            }
            is_young
        });
    }

    fn note_transactions(&mut self) {
        let (now, open) = (self.now, self.kept.open_ids());
        self.open_since.retain(|id, _| open.contains(id));
        for id in open {
            self.open_since.entry(id).or_insert(now);
        }
    }

    /// Handles the client's bytes; complete requests are sent.
    fn written(&mut self, of: u64, bytes: &[u8]) -> io::Result<()> {
        let Some(link) = self.links.get_mut(&of).filter(|link| !link.closed) else {
            return Err(Io::BrokenPipe.into());
        };
        link.written.extend_from_slice(bytes);
        let mut sent = false;
        while let Some(size) = link.written.first_chunk::<4>() {
            let end = 4 + u32::from_be_bytes(*size) as usize;
            if link.written.len() < end {
                break;
            }
            let rest = link.written.split_off(end);
            let request = Bytes::from(std::mem::replace(&mut link.written, rest)).slice(4..);
            let delivery = self.injector.request(&request);
            let at = (self.now + delivery.there).max(link.last_request);
            link.last_request = at;
            self.next += 1;
            let event = Event::Request {
                of,
                request,
                delivery,
            };
            self.events.insert((at, self.next), event);
            sent = true;
        }
        if let Some(time) = self.injector.outage().filter(|_| sent) {
            self.down_until = self.now + time;
            for link in self.links.values_mut() {
                link.closed = true;
            }
        }
        Ok(())
    }
}

/// The client's end of a connection.
#[derive(Debug)]
struct Socket {
    network: Arc<SimulatedNetwork>,
    id: u64,
    /// Only for a file descriptor to wait on.
    fd: OwnedFd,
}

impl Transport for Socket {
    fn read(&mut self, into: &mut Vec<u8>, most: usize) -> io::Result<Read> {
        let mut state = self.network.state.lock();
        let link = state.links.get_mut(&self.id).ok_or(Io::NotConnected)?;
        if link.came.is_empty() {
            return Ok(if link.closed { Read::End } else { Read::Later });
        }
        let size = most.min(link.came.len());
        into.extend(link.came.drain(..size));
        Ok(Read::Some)
    }

    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.network.state.lock();
        let mut written = 0;
        for slice in slices {
            state.written(self.id, slice)?;
            written += slice.len();
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn poll_fd(&self, flags: PollFlags) -> PollFd<'_> {
        PollFd::new(&self.fd, flags)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let mut state = self.network.state.lock();
        state.sockets.remove(&self.fd.as_raw_fd());
        state.links.remove(&self.id);
    }
}
