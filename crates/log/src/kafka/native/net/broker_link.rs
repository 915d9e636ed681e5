//! The way to one broker: a connection, or one that is being made.
//!
//! Takes an address, gives a connection as soon as there is one. Names are looked up, connections
//! made and logins done on a thread of their own, so that the client's thread serves other brokers
//! meanwhile. Owns the pause before a connection that failed is made again.

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

/// The first attempt to connect takes so long at most.
const CONNECT: Duration = Duration::from_secs(2);
/// Authenticating again may take so long.
const AUTHENTICATE: Duration = Duration::from_secs(5);
/// The first pause after one that failed, and the longest.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A connection that a thread makes, or authenticates again.
#[derive(Debug)]
struct Attempt {
    outcome: Receiver<Result<Connection, ConnectionError>>,
    /// Its other end is closed once there is an outcome.
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
            // The client may have closed meanwhile.
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

/// The way to one broker.
#[derive(Debug, Default)]
pub(super) struct BrokerLink {
    link: Option<Connection>,
    attempt: Option<Attempt>,
    /// When it may be tried again, and how often it failed in a row.
    not_before: Duration,
    failures: u32,
}

impl BrokerLink {
    /// The connection, if it is there within `most`; otherwise it is still being made. One that
    /// failed is not made again for `rest` times as long as it took.
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
                link.authenticate(AUTHENTICATE)?;
                tracing::debug!(target: "stoatflow::kafka", "{}: authenticated again", link.address());
                Ok(link)
            });
            self.attempt = Some(attempt?);
        }
        if self.link.is_none() {
            self.attempt(address, context, clock)?;
            self.settle(address, clock, (most, rest))?;
        }
        // It is there: what is above has brought it or returned.
        self.link
            .as_mut()
            .ok_or_else(|| ConnectionError::lost("no connection"))
    }

    /// Begins to connect, unless that is under way.
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
            return Err(ConnectionError::lost(format!(
                "{address}: connected again in a moment"
            )));
        }
        // Who answers slowly gets longer.
        let patience = CONNECT * 2_u32.pow(self.failures.min(4));
        let (to, by) = (address.clone(), Arc::clone(context));
        let attempt = Attempt::start(&*context.network, now, move || {
            Connection::connect(&to, &by, patience)
        });
        self.attempt = Some(attempt?);
        Ok(())
    }

    /// Waits for the outcome, at most so long.
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
                self.link = Some(link);
                Ok(())
            }
            Err(why) => {
                self.failed(clock, &why, took() * rest);
                Err(why)
            }
        }
    }

    /// The connection, if there is one.
    pub(super) const fn link(&self) -> Option<&Connection> {
        self.link.as_ref()
    }

    pub(super) const fn link_mut(&mut self) -> Option<&mut Connection> {
        self.link.as_mut()
    }

    /// Is a connection being made?
    pub(super) const fn is_connecting(&self) -> bool {
        self.attempt.is_some()
    }

    /// What to wait on: for an answer, or for the connection.
    pub(super) fn poll_fd(&self) -> Option<PollFd<'_>> {
        let attempt = self.attempt.as_ref();
        let attempt = attempt.map(|attempt| PollFd::new(&attempt.ended, PollFlags::IN));
        attempt.or_else(|| self.link.as_ref().map(Connection::poll_fd))
    }

    /// Whatever answers still come are nobody's.
    pub(super) fn cut(&mut self) {
        self.link = None;
    }

    /// The next attempt need not wait.
    pub(super) const fn hurry(&mut self) {
        self.not_before = Duration::ZERO;
    }

    /// The connection has failed. A way that only waits for its next attempt has not failed once more: it
    /// would wait for ever.
    pub(super) fn lose(&mut self, clock: &Stopwatch, why: &ConnectionError) {
        if self.link.is_some() && !why.leaves_connection() {
            self.failed(clock, why, Duration::ZERO);
        }
    }

    fn failed(&mut self, clock: &Stopwatch, why: &ConnectionError, least: Duration) {
        // A new connection is no way around a quota.
        let throttled = self.link.take().map(|link| link.throttled_for());
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
        self.not_before = clock.elapsed() + pause;
    }
}
