//! Keeps one token for all connections, and has it renewed before it expires.
//!
//! Takes a [`TokenProvider`], gives its token. Owns a thread, from the first token that is asked
//! for until nobody may ask any more: what makes tokens may be slow, and a connection waits for it
//! only as long as there is none.

use super::oauth::{Token, TokenSource};
use crate::kafka::native::net::connection_error::ConnectionError;
use crate::kafka::tokens::{OauthToken, TokenProvider};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Clock, Error, ErrorKind, SystemClock};

#[cfg(test)]
mod tests;

/// A token that could not be had is asked for again after this pause, which doubles up to the longest.
const PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// A token is not handed out in the last moments of its life: it would expire on its way.
const MOMENTS: Duration = Duration::from_millis(500);

/// What is known.
#[derive(Debug, Default)]
struct State {
    token: Option<Token>,
    /// Until when it may be handed out, and when a new one is asked for.
    valid_until: Duration,
    renew_at: Duration,
    /// Why there was none the last time; gone once there is one.
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

/// The token of all connections. The thread ends with it.
#[derive(Debug)]
pub(in crate::kafka) struct TokenKeeper {
    kept: Arc<Kept>,
}

impl TokenKeeper {
    /// Asks nobody yet. A token may take `within` to be made.
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
        // The provider keeps its time; a little more is for its thread.
        let last = kept.clock.monotonic() + kept.within + MOMENTS;
        loop {
            let now = kept.clock.monotonic();
            if let Some(token) = state.token.as_ref().filter(|_| now < state.valid_until) {
                return Ok(token.clone());
            }
            // Behind the last token the thread fetches at once: at most it is not awake yet.
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

#[allow(clippy::disallowed_methods)] // ends with the keeper, as its module says
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
        // As Java's client: a token is used for four fifths of its life.
        state.renew_at = now + lifetime * 4 / 5;
        state.valid_until = now + lifetime.saturating_sub(MOMENTS.min(lifetime / 10));
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
