//! One token for all connections, renewed in time, and failures of the provider.

use super::{TokenKeeper, TokenSource};
use crate::kafka::tokens::{OauthToken, TokenProvider};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use stoatflow_core::{Clock, Error, Result, SystemClock};

const LONG: Duration = Duration::from_secs(60);

/// Returns `token-1`, `token-2`, ..., after the errors in `fails`.
#[derive(Debug)]
struct Numbered {
    lifetime_s: f64,
    takes: Duration,
    calls: AtomicUsize,
    fails: Mutex<Vec<Error>>,
}

impl TokenProvider for Numbered {
    fn name(&self) -> String {
        "numbered".to_owned()
    }

    fn fetch(&self, _: Duration) -> Result<OauthToken> {
        pause(self.takes);
        if let Some(error) = self.fails.lock().pop() {
            return Err(error);
        }
        let number = self.calls.fetch_add(1, SeqCst) + 1;
        OauthToken::checked(format!("token-{number}"), self.lifetime_s, None, Vec::new())
    }
}

#[allow(clippy::disallowed_methods)] // real time passes here
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Waits as long as a busy machine may delay the thread of a keeper.
fn until(holds: impl Fn() -> bool) {
    let clock = SystemClock::new();
    while !holds() {
        assert!(clock.monotonic() < LONG, "waited in vain");
        pause(Duration::from_millis(5));
    }
}

fn numbered(lifetime_s: f64, fails: Vec<Error>) -> (Arc<Numbered>, TokenKeeper) {
    let provider = Arc::new(Numbered {
        lifetime_s,
        takes: Duration::from_millis(20),
        calls: AtomicUsize::new(0),
        fails: Mutex::new(fails),
    });
    let keeper = TokenKeeper::new(Arc::clone(&provider) as _, LONG);
    (provider, keeper)
}

#[test]
fn concurrent_requests_share_one_token() {
    let (provider, keeper) = numbered(600.0, Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(keeper.token().unwrap().text, "token-1"));
        }
    });
    assert_eq!(provider.calls.load(SeqCst), 1);
}

#[test]
fn tokens_are_renewed_before_they_expire() {
    let (provider, keeper) = numbered(1.0, Vec::new());
    assert_eq!(keeper.token().unwrap().text, "token-1");
    {
        let state = keeper.kept.state.lock();
        let left = state.valid_until - state.renew_at;
        assert_eq!(left, Duration::from_millis(100), "after four fifths");
    }
    // Renewed without a call; on a slow machine more than once.
    until(|| provider.calls.load(SeqCst) >= 2);
    until(|| keeper.token().is_ok_and(|token| token.text != "token-1"));
    drop(keeper);
    // The keeper is dropped: its thread has dropped the provider.
    until(|| Arc::strong_count(&provider) == 1);
}

#[test]
fn failures_are_logged_and_retried() {
    let (_, keeper) = numbered(600.0, vec![Error::unavailable("away").hint("wait")]);
    let failure = keeper.token().unwrap_err();
    assert!(!failure.is_final());
    assert_eq!(failure.to_string(), "no token from numbered: away");
    assert_eq!(failure.hint(), Some("wait"));
    until(|| keeper.token().is_ok());
    assert_eq!(keeper.token().unwrap().text, "token-1");
}

#[test]
fn a_malformed_token_is_a_final_error() {
    let (_, keeper) = numbered(-1.0, Vec::new());
    assert!(keeper.token().unwrap_err().is_final());
}

#[test]
fn an_old_token_serves_while_none_is_made() {
    let (provider, keeper) = numbered(3.0, Vec::new());
    keeper.token().unwrap();
    *provider.fails.lock() = (0..1_000).map(|_| Error::unavailable("away")).collect();
    until(|| provider.fails.lock().len() < 1_000);
    let served = keeper.token();
    let valid_until = keeper.kept.state.lock().valid_until;
    // On a slow machine the token may have expired by now.
    if keeper.kept.clock.monotonic() < valid_until {
        let last = provider.calls.load(SeqCst);
        assert_eq!(served.unwrap().text, format!("token-{last}"));
    }
    until(|| keeper.token().is_err());
    assert_eq!(
        keeper.token().unwrap_err().to_string(),
        "no token from numbered: away"
    );
}
