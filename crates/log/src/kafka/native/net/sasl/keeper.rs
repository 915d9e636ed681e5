//! Keeps one token for all connections, and renews it before it expires.
//!
//! Takes a [`TokenProvider`], returns its token. Owns a thread, from the first request for a token until
//! the keeper is dropped: a provider may be slow, and a connection waits for it only while there is no
//! valid token.

use super::oauth::{Token, TokenSource};
use crate::kafka::native::net::connection_error::ConnectionError;
use crate::kafka::tokens::{OauthToken, TokenProvider};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Clock, Error, ErrorKind, SystemClock};

#[cfg(test)]
mod tests;

/// Pause before a failed request is repeated; doubles up to the longest one.
const PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// A token is not used in the last moments of its life: it would expire on its way to the broker.
const EXPIRY_MARGIN: Duration = Duration::from_millis(500);

/// The current token, and the state of the thread.
#[derive(Debug, Default)]
struct State {
    token: Option<Token>,
    /// Until when the token may be used, and when a new one is requested.
    valid_until: Duration,
    renew_at: Duration,
    /// Why the last request failed; `None` after a success.
    failure: Option<ConnectionError>,
    is_fetching: bool,
    is_started: bool,
    is_closed: bool,
}

#[derive(Debug)]
struct Kept {
    provider: Arc<dyn TokenProvider>,
    within: Duration,
    state: Mutex<State>,
    changed: Condvar,
    clock: SystemClock,
}

/// The token of all connections. Its thread ends when it is dropped.
#[derive(Debug)]
pub(in crate::kafka) struct TokenKeeper {
    kept: Arc<Kept>,
}

impl TokenKeeper {
    /// Requests no token yet. The provider may take up to `within` for one.
    pub(in crate::kafka) fn new(provider: Arc<dyn TokenProvider>, within: Duration) -> Self {
        Self {
            kept: Arc::new(Kept {
                provider,
                within,
                state: Mutex::default(),
                changed: Condvar::new(),
                clock: SystemClock::new(),
            }),
        }
    }
}

impl Drop for TokenKeeper {
    fn drop(&mut self) {
        self.kept.state.lock().is_closed = true;
        self.kept.changed.notify_all();
    }
}

impl TokenSource for TokenKeeper {
    fn token(&self) -> Result<Token, ConnectionError> {
        let kept = &self.kept;
        let mut state = kept.state.lock();
        if !state.is_started {
            state.is_started = true;
            state.is_fetching = true;
            start(Arc::clone(kept))?;
        }
        // The provider keeps to `within`; its thread needs a moment more.
        let last = kept.clock.monotonic() + kept.within + EXPIRY_MARGIN;
        loop {
            let now = kept.clock.monotonic();
            if let Some(token) = state.token.as_ref().filter(|_| now < state.valid_until) {
                return Ok(token.clone());
            }
            // Without a failure, wait: the thread is requesting a token, or is about to wake up for
            // that.
            let has_failed = !state.is_fetching && state.failure.is_some();
            if has_failed || now >= last {
                let late = || {
                    ConnectionError::lost(format!("{} gives no token yet", kept.provider.name()))
                };
                return Err(state.failure.clone().unwrap_or_else(late));
            }
            kept.changed.wait_for(&mut state, last - now);
        }
    }
}

#[allow(clippy::disallowed_methods)] // ends with the keeper, see the module
fn start(kept: Arc<Kept>) -> Result<(), ConnectionError> {
    let thread = std::thread::Builder::new().name("kafka-token".to_owned());
    let started = thread.spawn(move || kept.run());
    started
        .map(drop)
        .map_err(|e| ConnectionError::lost(format!("no thread for tokens: {e}")))
}

impl Kept {
    fn run(&self) {
        let mut pause = PAUSE;
        let mut state = self.state.lock();
        while !state.is_closed {
            state.is_fetching = true;
            let fetched = MutexGuard::unlocked(&mut state, || self.provider.fetch(self.within));
            state.is_fetching = false;
            let now = self.clock.monotonic();
            let next = match fetched {
                Ok(token) => {
                    pause = PAUSE;
                    self.keep(&mut state, token, now);
                    state.renew_at
                }
                Err(error) => {
                    self.note(&mut state, &error, now);
                    let next = now + pause;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    next
                }
            };
            self.changed.notify_all();
            while !state.is_closed && self.clock.monotonic() < next {
                let left = next.saturating_sub(self.clock.monotonic());
                self.changed.wait_for(&mut state, left);
            }
        }
    }

    fn keep(&self, state: &mut State, token: OauthToken, now: Duration) {
        let lifetime = token.lifetime;
        tracing::debug!(target: "stoatflow::kafka", ?lifetime, principal = token.principal, "a new token");
        // Like Java's client: a token is renewed after four fifths of its life.
        state.renew_at = now + lifetime * 4 / 5;
        state.valid_until = now + lifetime.saturating_sub(EXPIRY_MARGIN.min(lifetime / 10));
        state.failure = None;
        state.token = Some(Token {
            text: token.text,
            principal: token.principal,
            extensions: token.extensions,
        });
    }

    fn note(&self, state: &mut State, error: &Error, now: Duration) {
        let why = format!(
            "no token from {}: {}",
            self.provider.name(),
            error.message()
        );
        let left = state.valid_until.saturating_sub(now);
        if state.token.is_some() && !left.is_zero() {
            tracing::warn!(target: "stoatflow::kafka", "{why}; tried again, the last one is valid for {left:.0?} more");
        } else {
            tracing::debug!(target: "stoatflow::kafka", "{why}");
        }
        let hint = error.next_step();
        state.failure = Some(match error.kind() {
            ErrorKind::Unavailable => ConnectionError::lost_perhaps(why, hint),
            kind => ConnectionError::refused(kind, why, hint),
        });
    }
}
