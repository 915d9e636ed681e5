//! The link to one broker: a connection, or an attempt to connect.
//!
//! Takes an address, returns a connection as soon as there is one. Names are resolved, connections made
//! and authenticated on a separate thread, so that the client's thread serves other brokers meanwhile.
//! Owns the pause after a failed attempt.

use super::address::BrokerAddress;
use super::connection::Connection;
use super::connection_error::ConnectionError;
use super::network::{Network, Stopwatch};
use super::security::ClientContext;
use rustix::event::{PollFd, PollFlags};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

#[cfg(test)]
mod tests;

/// Timeout of the first attempt to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout for authenticating again.
const REAUTHENTICATE_TIMEOUT: Duration = Duration::from_secs(5);
/// The first and the longest pause after a failed attempt.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A connection that a thread opens, or authenticates again.
#[derive(Debug)]
struct Attempt {
    outcome: Receiver<Result<Connection, ConnectionError>>,
    /// Readable once there is an outcome: the thread closes the other end.
    ended: UnixStream,
    since: Duration,
}

impl Attempt {
    fn start(
        network: &dyn Network,
        since: Duration,
        make: impl FnOnce() -> Result<Connection, ConnectionError> + Send + 'static,
    ) -> Result<Self, ConnectionError> {
        let failed = |e: std::io::Error| ConnectionError::lost(format!("can't connect: {e}"));
        let (ended, open) = UnixStream::pair().map_err(failed)?;
        let (sender, outcome) = channel();
        let work = move || {
            // Fails if the client was closed meanwhile.
            let _gone = sender.send(make());
            drop(open);
        };
        network.spawn(Box::new(work)).map_err(failed)?;
        Ok(Self {
            outcome,
            ended,
            since,
        })
    }
}

/// The link to one broker.
#[derive(Debug, Default)]
pub(super) struct BrokerLink {
    link: Option<Connection>,
    attempt: Option<Attempt>,
    /// Time of the next attempt, how many have failed in a row, and why the last one did.
    not_before: Duration,
    failures: u32,
    last_failure: Option<ConnectionError>,
    was_connected: bool,
}

impl BrokerLink {
    /// Returns the connection, waiting at most `most` for an attempt in progress. After a failed
    /// attempt, the next one waits `rest` times as long as it took.
    pub(super) fn open(
        &mut self,
        address: &BrokerAddress,
        context: &Arc<ClientContext>,
        clock: &Stopwatch,
        (most, rest): (Duration, u32),
    ) -> Result<&mut Connection, ConnectionError> {
        if self.link.as_ref().is_some_and(Connection::must_be_replaced) {
            self.link = None;
        }
        if self
            .link
            .as_ref()
            .is_some_and(Connection::must_authenticate)
            && let Some(mut link) = self.link.take()
        {
            let network = &*context.network;
            let attempt = Attempt::start(network, clock.elapsed(), move || {
                link.authenticate(REAUTHENTICATE_TIMEOUT)?;
                tracing::debug!(target: "stoatflow::kafka", "{}: authenticated again", link.address());
                Ok(link)
            });
            self.attempt = Some(attempt?);
        }
        if self.link.is_none() {
            self.attempt(address, context, clock)?;
            self.settle(address, clock, (most, rest))?;
        }
        // There is one: otherwise the lines above have returned.
        self.link
            .as_mut()
            .ok_or_else(|| ConnectionError::lost("no connection"))
    }

    /// Starts to connect, unless an attempt is in progress.
    fn attempt(
        &mut self,
        address: &BrokerAddress,
        context: &Arc<ClientContext>,
        clock: &Stopwatch,
    ) -> Result<(), ConnectionError> {
        if self.attempt.is_some() {
            return Ok(());
        }
        let now = clock.elapsed();
        if now < self.not_before {
            return Err(self.last_failure.as_ref().map_or_else(
                || ConnectionError::lost(format!("{address}: connected again in a moment")),
                ConnectionError::until_next_attempt,
            ));
        }
        // Slow brokers get a longer timeout.
        let patience = CONNECT_TIMEOUT * 2_u32.pow(self.failures.min(4));
        let (to, by) = (address.clone(), Arc::clone(context));
        let again = self.was_connected;
        let attempt = Attempt::start(&*context.network, now, move || {
            let connected = Connection::connect(&to, &by, patience)?;
            if again {
                by.counters.reopened();
            }
            Ok(connected)
        });
        self.attempt = Some(attempt?);
        Ok(())
    }

    /// Waits for the outcome, at most this long.
    fn settle(
        &mut self,
        address: &BrokerAddress,
        clock: &Stopwatch,
        (most, rest): (Duration, u32),
    ) -> Result<(), ConnectionError> {
        let Some(attempt) = self.attempt.take() else {
            return Ok(());
        };
        let took = || clock.elapsed().saturating_sub(attempt.since);
        let outcome = match attempt.outcome.recv_timeout(most) {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Timeout) => {
                let why = format!("{address}: no connection after {:.1?} yet", took());
                self.attempt = Some(attempt);
                return Err(ConnectionError::not_yet(why));
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(ConnectionError::lost(format!("{address}: can't connect")))
            }
        };
        match outcome {
            Ok(link) => {
                self.failures = 0;
                self.last_failure = None;
                self.was_connected = true;
                self.link = Some(link);
                Ok(())
            }
            Err(why) => {
                self.failed(clock, &why, took() * rest);
                Err(why)
            }
        }
    }

    /// Whether there has ever been a connection.
    pub(super) const fn was_connected(&self) -> bool {
        self.was_connected
    }

    /// The connection, if there is one.
    pub(super) const fn link(&self) -> Option<&Connection> {
        self.link.as_ref()
    }

    pub(super) const fn link_mut(&mut self) -> Option<&mut Connection> {
        self.link.as_mut()
    }

    /// Whether an attempt is in progress.
    pub(super) const fn is_connecting(&self) -> bool {
        self.attempt.is_some()
    }

    /// The descriptor to poll: for an answer, or for the end of the attempt.
    pub(super) fn poll_fd(&self) -> Option<PollFd<'_>> {
        let attempt = self.attempt.as_ref();
        let attempt = attempt.map(|attempt| PollFd::new(&attempt.ended, PollFlags::IN));
        attempt.or_else(|| self.link.as_ref().map(Connection::poll_fd))
    }

    /// Drops the connection. Answers in flight are lost.
    pub(super) fn cut(&mut self) {
        self.link = None;
    }

    /// Drops the connection after an error, for a caller that decides itself when to connect again.
    pub(super) fn cut_lost(&mut self) {
        if let Some(mut link) = self.link.take() {
            link.count_unanswered();
        }
    }

    /// Skips the pause before the next attempt.
    pub(super) const fn reset_backoff(&mut self) {
        self.not_before = Duration::ZERO;
    }

    /// Drops the connection after an error. A link that is waiting for its next attempt hasn't failed
    /// again: counting that would postpone the attempt forever.
    pub(super) fn lose(&mut self, clock: &Stopwatch, why: &ConnectionError) {
        if self.link.is_some() && !why.leaves_connection() {
            self.failed(clock, why, Duration::ZERO);
        }
    }

    fn failed(&mut self, clock: &Stopwatch, why: &ConnectionError, least: Duration) {
        // A new connection must not circumvent a quota.
        let throttled = self.link.take().map(|mut link| {
            link.count_unanswered();
            link.throttled_for()
        });
        let least = least.max(throttled.unwrap_or_default());
        let pause = (PAUSE * 2_u32.pow(self.failures.min(6)))
            .min(LONGEST_PAUSE)
            .max(least);
        if self.failures == 0 {
            tracing::warn!(target: "stoatflow::kafka", "no connection, tried again: {why}");
        } else {
            tracing::debug!(target: "stoatflow::kafka", pause = ?pause, "{why}");
        }
        self.failures = self.failures.saturating_add(1);
        self.last_failure = Some(why.clone());
        self.not_before = clock.elapsed() + pause;
    }
}
