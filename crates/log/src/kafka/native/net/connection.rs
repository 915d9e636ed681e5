//! A connection to one broker: one request at a time, and its response.
//!
//! Takes frames, returns responses. Owns the transport, the broker's API versions, and the time of the
//! next authentication. Never retries: a broken connection is dropped.

mod api_versions;
mod authentication;

use super::address::BrokerAddress;
use super::connection_error::ConnectionError;
use super::network::Stopwatch;
use super::security::ClientContext;
use super::session::Session;
use super::throttle::Throttled;
use super::tls::is_tls_record;
use super::transport::{Read, Transport};
pub(in crate::kafka::native) use api_versions::{ApiVersions, PRODUCE_LEAST};
use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, RequestHeader, ResponseHeader,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use rustix::event::{PollFd, PollFlags};
use std::fmt::Display;
use std::io::{self, ErrorKind as Io, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::ErrorKind;

/// Larger responses are refused.
const MAX_RESPONSE_BYTES: usize = 128 << 20;
/// Bytes of the length before a frame.
const LENGTH_BYTES: usize = 4;
/// Size of the first read: most responses are shorter.
const FIRST_READ_BYTES: usize = 4 << 10;

const ILLEGAL_SASL_STATE: i16 = 34;
const UNSUPPORTED_VERSION: i16 = 35;

/// A connection.
#[derive(Debug)]
pub(in crate::kafka::native) struct Connection {
    transport: Box<dyn Transport>,
    address: BrokerAddress,
    context: Arc<ClientContext>,
    pub api_versions: ApiVersions,
    correlation_id: i32,
    /// Whether the broker has answered a request after ApiVersions.
    is_served: bool,
    /// The response, as far as it has arrived.
    received: Vec<u8>,
    /// How the session ends (KIP-368), and when, by `clock`.
    session: Session,
    /// Until when the broker accepts no further request (KIP-219), by `clock`.
    throttled_until: Duration,
    /// The API of the last request, and since when, by `clock`, it waits for its answer.
    api: i16,
    sent_at: Option<Duration>,
    /// Whether it was counted as opened.
    is_counted: bool,
    clock: Stopwatch,
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.is_counted {
            self.context.counters.closed();
        }
    }
}

impl Connection {
    /// Connects, encrypts, authenticates and requests the broker's API versions, as configured in the
    /// context.
    pub(in crate::kafka::native) fn connect(
        address: &BrokerAddress,
        context: &Arc<ClientContext>,
        timeout: Duration,
    ) -> Result<Self, ConnectionError> {
        let clock = context.stopwatch();
        let name = address.to_string();
        let failed = |e: io::Error| ConnectionError::lost(e.to_string()).of(&name);
        let places = (context.resolve)(&address.host, address.port).map_err(failed)?;
        let mut last = ConnectionError::lost("the name has no address").of(&name);
        for (at, place) in places.iter().enumerate() {
            // A silent address leaves time for the others.
            let others = u32::try_from(places.len() - at).unwrap_or(u32::MAX);
            let left = timeout.saturating_sub(clock.elapsed()) / others;
            if left.is_zero() {
                break;
            }
            match Self::to(place, address, context, left) {
                Ok(mut connection) => {
                    context.counters.opened();
                    connection.is_counted = true;
                    return Ok(connection);
                }
                Err(why) => {
                    context.counters.failed();
                    last = why.of(&name);
                }
            }
            if last.is_final() {
                break;
            }
        }
        Err(last)
    }

    fn to(
        place: &SocketAddr,
        address: &BrokerAddress,
        context: &Arc<ClientContext>,
        timeout: Duration,
    ) -> Result<Self, ConnectionError> {
        let clock = context.stopwatch();
        let left = || timeout.saturating_sub(clock.elapsed());
        let (host, tls) = (&address.host, context.tls.as_ref());
        let transport = context.network.connect(place, host, tls, timeout)?;
        let mut connection = Self {
            transport,
            address: address.clone(),
            context: Arc::clone(context),
            api_versions: ApiVersions::default(),
            correlation_id: 0,
            is_served: false,
            received: Vec::new(),
            session: Session::default(),
            throttled_until: Duration::ZERO,
            api: 0,
            sent_at: None,
            is_counted: false,
            clock: context.stopwatch(),
        };
        connection.negotiate(left())?;
        connection.authenticate(left())?;
        Ok(connection)
    }

    /// Requests the broker's API versions.
    fn negotiate(&mut self, timeout: Duration) -> Result<(), ConnectionError> {
        let clock = self.context.stopwatch();
        let request = ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str("stoatflow"))
            .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")));
        // A broker that doesn't know version 3 answers in version 0, whose first field is the error code.
        for version in [3, 0] {
            let left = timeout.saturating_sub(clock.elapsed());
            let mut response = self.ask(version, &request, left)?;
            let code = response
                .clone()
                .try_get_i16()
                .unwrap_or(UNSUPPORTED_VERSION);
            if code == UNSUPPORTED_VERSION && version > 0 {
                continue;
            }
            if code == ILLEGAL_SASL_STATE {
                return Err(Self::needs_sasl());
            }
            if code != 0 {
                let why = format!("the broker doesn't say what it understands (code {code})");
                return Err(ConnectionError::lost(why));
            }
            let response = ApiVersionsResponse::decode(&mut response, version).map_err(lost)?;
            let api_versions = ApiVersions::of(&response);
            if let Some(why) = api_versions.too_old() {
                return Err(why);
            }
            self.api_versions = api_versions;
            return Ok(());
        }
        Err(ConnectionError::lost(
            "the broker doesn't say what it understands",
        ))
    }

    fn needs_sasl() -> ConnectionError {
        ConnectionError::refused(
            ErrorKind::Config,
            "the broker's listener asks for authentication",
            "set security.protocol to SASL_SSL or SASL_PLAINTEXT, with sasl.mechanism, \
                sasl.username and sasl.password",
        )
    }

    /// Starts a frame: room for its length, and the header of the request.
    pub(in crate::kafka::native) fn open<R: Request>(
        &mut self,
        version: i16,
    ) -> Result<BytesMut, ConnectionError> {
        let mut frame = BytesMut::with_capacity(256);
        frame.extend_from_slice(&[0; 4]);
        self.correlation_id = self.correlation_id.wrapping_add(1) & i32::MAX;
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation_id)
            .with_client_id(Some(self.context.client_id.clone()));
        let written = header.encode(&mut frame, R::header_version(version));
        written.map_err(|e| self.fail(e))?;
        self.api = R::KEY;
        Ok(frame)
    }

    /// Sends all pieces; the first one begins with the length of the whole frame.
    pub(in crate::kafka::native) fn post(
        &mut self,
        pieces: &[&[u8]],
        timeout: Duration,
    ) -> Result<(), ConnectionError> {
        let clock = self.context.stopwatch();
        let bytes = pieces.iter().map(|piece| piece.len()).sum();
        self.context.counters.sent(self.api, bytes);
        self.sent_at = Some(self.clock.elapsed());
        let mut slices: Vec<_> = pieces.iter().map(|p| IoSlice::new(p)).collect();
        let mut rest = slices.as_mut_slice();
        loop {
            let sent = if rest.is_empty() {
                match self.transport.flush() {
                    Ok(true) => return Ok(()),
                    Ok(false) => Err(Io::WouldBlock.into()),
                    Err(e) => Err(e),
                }
            } else {
                // The system's limit of slices per call.
                let some = rest.len().min(1024);
                self.transport.write(&rest[..some])
            };
            match sent {
                Ok(0) => return Err(self.closed()),
                Ok(sent) => IoSlice::advance_slices(&mut rest, sent),
                Err(e) if e.kind() == Io::Interrupted => {}
                Err(e) if e.kind() == Io::WouldBlock => {
                    let left = timeout.saturating_sub(clock.elapsed());
                    if left.is_zero() {
                        return Err(self.fail(format!("the broker reads nothing for {timeout:?}")));
                    }
                    let ready = self.transport.poll_fd(PollFlags::OUT);
                    self.context.network.wait(&mut [ready], left);
                }
                Err(e) => return Err(self.broken(&e)),
            }
        }
    }

    /// The response to the request in flight, if it has arrived.
    pub(in crate::kafka::native) fn receive<R: Request>(
        &mut self,
        version: i16,
    ) -> Result<Option<Bytes>, ConnectionError> {
        let Some(mut response) = self.frame()? else {
            return Ok(None);
        };
        let bytes = response.len();
        let form = <R::Response as HeaderVersion>::header_version(version);
        let header = ResponseHeader::decode(&mut response, form).map_err(|e| self.fail(e))?;
        if header.correlation_id != self.correlation_id {
            let (came, asked) = (header.correlation_id, self.correlation_id);
            return Err(self.fail(format!("response {came} came to request {asked}")));
        }
        self.is_served = !self.api_versions.ranges.is_empty();
        if let Some(sent_at) = self.sent_at.take() {
            let took = self.clock.elapsed().saturating_sub(sent_at);
            let bytes = bytes + LENGTH_BYTES;
            self.context.counters.answered(self.api, bytes, took);
        }
        Ok(Some(response))
    }

    /// The connection is lost: a request in flight gets no answer any more.
    pub(super) fn count_unanswered(&mut self) {
        if self.sent_at.take().is_some() {
            self.context.counters.unanswered(self.api);
        }
    }

    /// How many bytes of the response have arrived.
    pub(in crate::kafka::native) const fn received(&self) -> usize {
        self.received.len()
    }

    /// Lends memory for the next response, if none of it has arrived yet.
    pub(in crate::kafka::native) fn lend(&mut self, mut room: Vec<u8>) {
        if self.received.is_empty() {
            room.clear();
            self.received = room;
        }
    }

    fn frame(&mut self) -> Result<Option<Bytes>, ConnectionError> {
        loop {
            let had = self.received.len();
            let missing = match self.received.first_chunk::<4>() {
                None => FIRST_READ_BYTES,
                Some(size) => {
                    if is_tls_record(size) && self.context.tls.is_none() {
                        return Err(Self::needs_tls());
                    }
                    let size = u32::from_be_bytes(*size) as usize;
                    if size > MAX_RESPONSE_BYTES {
                        return Err(self.fail(format!("a response of {size} bytes")));
                    }
                    match (4 + size).checked_sub(had) {
                        None => return Err(self.fail("more than one response to a request")),
                        Some(0) => {
                            let frame = Bytes::from(std::mem::take(&mut self.received));
                            return Ok(Some(frame.slice(4..)));
                        }
                        Some(missing) => missing,
                    }
                }
            };
            match self.transport.read(&mut self.received, missing) {
                Ok(Read::Some) => {}
                Ok(Read::Later) => return Ok(None),
                Ok(Read::End) => return Err(self.closed()),
                Err(e) => return Err(self.broken(&e)),
            }
        }
    }

    fn needs_tls() -> ConnectionError {
        ConnectionError::refused(
            ErrorKind::Config,
            "the broker's listener speaks TLS",
            "set security.protocol to SSL or SASL_SSL, or use the port of its plaintext listener",
        )
    }

    /// A connection that is closed before the first response may have met a listener of another kind.
    fn closed(&self) -> ConnectionError {
        let why = "the broker has closed the connection";
        if self.api_versions.ranges.is_empty() {
            return ConnectionError::lost_perhaps(
                why,
                "if its listener is encrypted, set security.protocol to SSL or SASL_SSL",
            );
        }
        if !self.is_served && self.context.sasl.is_none() {
            return self.name(ConnectionError::lost_perhaps(
                why,
                "if its listener asks for authentication, set security.protocol to SASL_SSL or \
                    SASL_PLAINTEXT",
            ));
        }
        self.fail(why)
    }

    fn broken(&self, error: &io::Error) -> ConnectionError {
        match &self.context.tls {
            Some(tls) => self.name(tls.explain(error, &self.address.host)),
            None => self.fail(error),
        }
    }

    /// Why a request can't be sent for which `api_versions` has no version.
    pub(in crate::kafka::native) fn unsupported<R: Request>(&self) -> ConnectionError {
        self.name(self.api_versions.unsupported::<R>())
    }

    fn fail(&self, why: impl Display) -> ConnectionError {
        self.name(lost(why))
    }

    /// Adds the broker's address to an error. While connecting, `connect` does that.
    fn name(&self, error: ConnectionError) -> ConnectionError {
        if self.api_versions.ranges.is_empty() {
            error
        } else {
            error.of(&self.address.to_string())
        }
    }

    /// Sends a request, and waits for the bytes of the response.
    fn ask<R: Request>(
        &mut self,
        version: i16,
        request: &R,
        timeout: Duration,
    ) -> Result<Bytes, ConnectionError> {
        let clock = self.context.stopwatch();
        let mut frame = self.open::<R>(version)?;
        request
            .encode(&mut frame, version)
            .map_err(|e| self.fail(e))?;
        let size = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
        frame[..4].copy_from_slice(&size.to_be_bytes());
        self.post(&[&frame], timeout)?;
        loop {
            if let Some(response) = self.receive::<R>(version)? {
                return Ok(response);
            }
            let left = timeout.saturating_sub(clock.elapsed());
            if left.is_zero() {
                return Err(self.fail(format!("no answer within {timeout:?}")));
            }
            self.context.network.wait(&mut [self.poll_fd()], left);
        }
    }

    /// Sends a request, and waits for the response. After a timeout the connection can't be used any
    /// more, because the response may still arrive.
    pub(in crate::kafka::native) fn call<R: Request>(
        &mut self,
        version: i16,
        request: &R,
        timeout: Duration,
    ) -> Result<R::Response, ConnectionError>
    where
        R::Response: Throttled,
    {
        let clock = self.context.stopwatch();
        let throttled = self.throttled_for();
        if throttled >= timeout {
            let why = format!("it wants no request for another {throttled:.1?} (a quota)");
            return Err(self.name(ConnectionError::not_yet(why)));
        }
        if !throttled.is_zero() {
            self.context.network.wait(&mut [], throttled);
        }
        let left = timeout.saturating_sub(clock.elapsed());
        let mut response = self.ask(version, request, left)?;
        let response = R::Response::decode(&mut response, version).map_err(|e| self.fail(e))?;
        self.note(&response);
        Ok(response)
    }

    /// Counts the error codes of an answer, and waits with the next request as long as it says.
    pub(in crate::kafka::native) fn note(&mut self, response: &impl Throttled) {
        (self.context.counters).codes(self.api, response.error_codes());
        self.throttle(response.throttle_time_ms());
    }

    /// The broker accepts no further request for this long.
    fn throttle(&mut self, ms: i32) {
        let time = Duration::from_millis(u64::try_from(ms).unwrap_or(0));
        if time.is_zero() {
            return;
        }
        self.throttled_until = self.clock.elapsed() + time;
        self.context.counters.throttled(self.api, time);
        let broker = &self.address;
        if self.context.throttled.add(time) {
            tracing::warn!(target: "stoatflow::kafka", %broker, throttle_time_ms = ms, "a quota of \
                the cluster slows this application down; it waits as long as the broker says, and \
                the metric broker_throttle_seconds adds it up");
        } else {
            tracing::debug!(target: "stoatflow::kafka", %broker, throttle_time_ms = ms, "throttled");
        }
    }

    /// For how long the broker accepts no request.
    pub(in crate::kafka::native) fn throttled_for(&self) -> Duration {
        if self.throttled_until.is_zero() {
            return Duration::ZERO;
        }
        self.throttled_until.saturating_sub(self.clock.elapsed())
    }

    /// The broker's address.
    pub(super) const fn address(&self) -> &BrokerAddress {
        &self.address
    }

    /// `client.rack`.
    pub(in crate::kafka::native) fn rack(&self) -> &StrBytes {
        &self.context.rack
    }

    /// The descriptor to poll for a response.
    pub(in crate::kafka::native) fn poll_fd(&self) -> PollFd<'_> {
        self.transport.poll_fd(PollFlags::IN)
    }
}

fn lost(why: impl Display) -> ConnectionError {
    ConnectionError::lost(why.to_string())
}
