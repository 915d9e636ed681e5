//! A connection to one broker: one question at a time, and its answer.
//!
//! Takes frames, gives answers. Owns the socket, which never blocks by itself, and what the broker said that it understands.
//! Never tries again: a connection that is broken is dropped.

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, RequestHeader, ResponseHeader,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::io::{ErrorKind as Io, IoSlice, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;
use stoatflow_core::{Clock, SystemClock};

#[cfg(test)]
mod tests;

/// No answer is as large.
const MOST: usize = 128 << 20;
/// So much is read at first: most answers are shorter.
const READ: usize = 4 << 10;
/// The code for a version of a question that the broker does not know.
const UNSUPPORTED_VERSION: i16 = 35;
/// Which rules for transactions a cluster has agreed on, among its features.
const TRANSACTION_RULES: &str = "transaction.version";

/// Where a broker is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::kafka) struct BrokerAddress {
    pub host: String,
    pub port: u16,
}

impl BrokerAddress {
    /// Reads `host`, `host:port`, `[::1]:port`, with `PLAINTEXT://` in front or not. None if it asks for more than that.
    pub(in crate::kafka::native) fn read(text: &str) -> Option<Self> {
        const PORT: u16 = 9092;
        let text = text.trim();
        let text = match text.split_once("://") {
            None => text,
            Some((way, rest)) if way.eq_ignore_ascii_case("plaintext") => rest,
            Some(_) => return None,
        };
        let (host, port) = match text.rsplit_once(':') {
            // More than one colon, and no bracket: an address of version 6 without a port.
            Some((host, _)) if host.contains(':') && !host.ends_with(']') => (text, None),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return None;
        }
        let port = match port {
            None | Some("") => PORT,
            Some(port) => port.parse().ok()?,
        };
        Some(Self {
            host: host.to_owned(),
            port,
        })
    }
}

impl Display for BrokerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Why a connection is of no more use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::kafka::native) struct ConnectionError(pub String);

fn broken(what: &str, why: impl Display) -> ConnectionError {
    ConnectionError(format!("{what}: {why}"))
}

/// What a broker understands.
#[derive(Clone, Debug, Default)]
pub(in crate::kafka::native) struct ApiVersions {
    versions: BTreeMap<i16, (i16, i16)>,
    /// Which rules for transactions the cluster has agreed on.
    pub transaction_rules: i16,
}

impl ApiVersions {
    /// The newest version of a question that both sides know, none above `most`.
    pub(in crate::kafka::native) fn version<R: Request>(&self, most: i16) -> Option<i16> {
        let (least, newest) = *self.versions.get(&R::KEY)?;
        let version = newest.min(R::VERSIONS.max).min(most);
        (version >= least.max(R::VERSIONS.min)).then_some(version)
    }

    fn of(answer: &ApiVersionsResponse) -> Self {
        let rules = (answer.finalized_features.iter()).find(|f| &*f.name == TRANSACTION_RULES);
        Self {
            versions: (answer.api_keys.iter())
                .map(|k| (k.api_key, (k.min_version, k.max_version)))
                .collect(),
            transaction_rules: rules.map_or(0, |f| f.max_version_level),
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(in crate::kafka::native) struct Connection {
    stream: TcpStream,
    name: String,
    client: StrBytes,
    pub api_versions: ApiVersions,
    asked: i32,
    inbox: Vec<u8>,
}

impl Connection {
    /// Connects, and asks what the broker understands.
    pub(in crate::kafka::native) fn connect(
        address: &BrokerAddress,
        client: &StrBytes,
        timeout: Duration,
    ) -> Result<Self, ConnectionError> {
        let clock = SystemClock::new();
        let name = address.to_string();
        let found = (address.host.as_str(), address.port).to_socket_addrs();
        let mut last = broken(&name, "the name has no address");
        let places: Vec<_> = found.map_err(|e| broken(&name, e))?.collect();
        for (at, place) in places.iter().enumerate() {
            // One that is silent leaves time for the others.
            let others = u32::try_from(places.len() - at).unwrap_or(u32::MAX);
            let left = timeout.saturating_sub(clock.monotonic()) / others;
            if left.is_zero() {
                break;
            }
            match Self::to(place, &name, client, left) {
                Ok(link) => return Ok(link),
                Err(why) => last = why,
            }
        }
        Err(last)
    }

    fn to(
        place: &SocketAddr,
        name: &str,
        client: &StrBytes,
        timeout: Duration,
    ) -> Result<Self, ConnectionError> {
        let clock = SystemClock::new();
        let stream = TcpStream::connect_timeout(place, timeout).map_err(|e| broken(name, e))?;
        let mut link = Self::on(stream, name.to_owned(), client.clone())?;
        link.api_versions = link.learn(timeout.saturating_sub(clock.monotonic()))?;
        Ok(link)
    }

    fn on(stream: TcpStream, name: String, client: StrBytes) -> Result<Self, ConnectionError> {
        let failed = |e: std::io::Error| broken(&name, e);
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_nonblocking(true).map_err(failed)?;
        rustix::net::sockopt::set_socket_keepalive(&stream, true).map_err(|e| broken(&name, e))?;
        Ok(Self {
            stream,
            name,
            client,
            api_versions: ApiVersions::default(),
            asked: 0,
            inbox: Vec::new(),
        })
    }

    fn learn(&mut self, timeout: Duration) -> Result<ApiVersions, ConnectionError> {
        let clock = SystemClock::new();
        let request = ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str("stoatflow"))
            .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")));
        // Whoever does not know version 3 answers in the form of version 0, with the code that says so first.
        for version in [3, 0] {
            let left = timeout.saturating_sub(clock.monotonic());
            let mut answer = self.ask(version, &request, left)?;
            let code = answer.clone().try_get_i16().unwrap_or(UNSUPPORTED_VERSION);
            if code == UNSUPPORTED_VERSION && version > 0 {
                continue;
            }
            if code != 0 {
                return Err(self.fail(format!("what it understands is refused with {code}")));
            }
            let answer = ApiVersionsResponse::decode(&mut answer, version);
            return answer
                .map(|answer| ApiVersions::of(&answer))
                .map_err(|e| self.fail(e));
        }
        Err(self.fail("it does not say what it understands"))
    }

    fn fail(&self, why: impl Display) -> ConnectionError {
        broken(&self.name, why)
    }

    /// The start of a frame: a place for its length, and who asks what. Gives the frame and the number of the question.
    pub(in crate::kafka::native) fn open<R: Request>(
        &mut self,
        version: i16,
    ) -> Result<BytesMut, ConnectionError> {
        let mut frame = BytesMut::with_capacity(256);
        frame.extend_from_slice(&[0; 4]);
        self.asked = self.asked.wrapping_add(1) & i32::MAX;
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.asked)
            .with_client_id(Some(self.client.clone()));
        let written = header.encode(&mut frame, R::header_version(version));
        written.map_err(|e| self.fail(e))?;
        Ok(frame)
    }

    /// Sends all of it, however many pieces; the first holds the length of all.
    pub(in crate::kafka::native) fn post(
        &mut self,
        pieces: &[&[u8]],
        timeout: Duration,
    ) -> Result<(), ConnectionError> {
        let clock = SystemClock::new();
        let mut slices: Vec<_> = pieces.iter().map(|p| IoSlice::new(p)).collect();
        let mut rest = slices.as_mut_slice();
        while !rest.is_empty() {
            // The system takes so many at a time.
            let some = rest.len().min(1024);
            match self.stream.write_vectored(&rest[..some]) {
                Ok(0) => return Err(self.fail("the broker has closed the connection")),
                Ok(sent) => IoSlice::advance_slices(&mut rest, sent),
                Err(e) if e.kind() == Io::Interrupted => {}
                Err(e) if e.kind() == Io::WouldBlock => {
                    let left = timeout.saturating_sub(clock.monotonic());
                    if left.is_zero() {
                        return Err(self.fail(format!("it takes nothing for {timeout:?}")));
                    }
                    wait(&mut [PollFd::new(&self.stream, PollFlags::OUT)], left);
                }
                Err(e) => return Err(self.fail(e)),
            }
        }
        Ok(())
    }

    /// The answer to the question under way, if it is there.
    pub(in crate::kafka::native) fn receive<R: Request>(
        &mut self,
        version: i16,
    ) -> Result<Option<Bytes>, ConnectionError> {
        let Some(mut answer) = self.frame()? else {
            return Ok(None);
        };
        let form = <R::Response as HeaderVersion>::header_version(version);
        let header = ResponseHeader::decode(&mut answer, form).map_err(|e| self.fail(e))?;
        if header.correlation_id != self.asked {
            let (came, asked) = (header.correlation_id, self.asked);
            return Err(self.fail(format!("answer {came} came to question {asked}")));
        }
        Ok(Some(answer))
    }

    /// How much of the answer has come.
    pub(in crate::kafka::native) const fn received(&self) -> usize {
        self.inbox.len()
    }

    /// Memory for the next answer, if nothing of it has come yet.
    pub(in crate::kafka::native) fn lend(&mut self, mut room: Vec<u8>) {
        if self.inbox.is_empty() {
            room.clear();
            self.inbox = room;
        }
    }

    fn frame(&mut self) -> Result<Option<Bytes>, ConnectionError> {
        loop {
            let had = self.inbox.len();
            let missing = match self.inbox.first_chunk() {
                None => READ,
                Some(size) => {
                    let size = u32::from_be_bytes(*size) as usize;
                    if size > MOST {
                        return Err(self.fail(format!("an answer of {size} bytes")));
                    }
                    match (4 + size).checked_sub(had) {
                        None => return Err(self.fail("more than one answer to a question")),
                        Some(0) => {
                            let frame = Bytes::from(std::mem::take(&mut self.inbox));
                            return Ok(Some(frame.slice(4..)));
                        }
                        Some(missing) => missing,
                    }
                }
            };
            self.inbox.reserve_exact(missing);
            match read(&self.stream, spare_capacity(&mut self.inbox)) {
                Ok(0) => return Err(self.fail("the broker has closed the connection")),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(e) => return Err(self.fail(e)),
            }
        }
    }

    /// Asks, and waits for the bytes of the answer.
    fn ask<R: Request>(
        &mut self,
        version: i16,
        request: &R,
        timeout: Duration,
    ) -> Result<Bytes, ConnectionError> {
        let clock = SystemClock::new();
        let mut frame = self.open::<R>(version)?;
        request
            .encode(&mut frame, version)
            .map_err(|e| self.fail(e))?;
        let size = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
        frame[..4].copy_from_slice(&size.to_be_bytes());
        self.post(&[&frame], timeout)?;
        loop {
            if let Some(answer) = self.receive::<R>(version)? {
                return Ok(answer);
            }
            let left = timeout.saturating_sub(clock.monotonic());
            if left.is_zero() {
                return Err(self.fail(format!("no answer within {timeout:?}")));
            }
            wait(&mut [self.poll_fd()], left);
        }
    }

    /// Asks, and waits for the answer. A link that did not answer in time is broken: the answer may still come.
    pub(in crate::kafka::native) fn call<R: Request>(
        &mut self,
        version: i16,
        request: &R,
        timeout: Duration,
    ) -> Result<R::Response, ConnectionError> {
        let mut answer = self.ask(version, request, timeout)?;
        R::Response::decode(&mut answer, version).map_err(|e| self.fail(e))
    }

    /// What to wait on for an answer.
    pub(in crate::kafka::native) fn poll_fd(&self) -> PollFd<'_> {
        PollFd::new(&self.stream, PollFlags::IN)
    }
}

/// Waits until one of them has something, at most so long. With none, it is a pause.
pub(in crate::kafka::native) fn wait(poll_fds: &mut [PollFd<'_>], most: Duration) {
    let most = Timespec {
        tv_sec: i64::try_from(most.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: most.subsec_nanos().into(),
    };
    // A signal ends it early: whoever waits looks again.
    let _woken = poll(poll_fds, Some(&most));
}
