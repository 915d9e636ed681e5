//! One token for all, renewed in time, and what happens without one.

use super::{TokenKeeper, TokenSource};
use crate::kafka::tokens::{OauthToken, TokenProvider};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use stoatflow_core::{Error, Result};

/// Gives `token-1`, `token-2`, ..., each after what is next in `fails`.
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

fn numbered(lifetime_s: f64, fails: Vec<Error>) -> (Arc<Numbered>, TokenKeeper) {
    let provider = Arc::new(Numbered {
        lifetime_s,
        takes: Duration::from_millis(20),
        calls: AtomicUsize::new(0),
        fails: Mutex::new(fails),
    });
    let keeper = TokenKeeper::new(Arc::clone(&provider) as _, Duration::from_secs(5));
    (provider, keeper)
}

#[test]
fn all_who_ask_get_one_token() {
    let (provider, keeper) = numbered(600.0, Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(keeper.token().unwrap().text, "token-1"));
        }
    });
    assert_eq!(provider.calls.load(SeqCst), 1);
}

#[test]
fn it_is_renewed_before_it_expires_and_nobody_waits() {
    let (provider, keeper) = numbered(1.0, Vec::new());
    keeper.token().unwrap();
    pause(Duration::from_millis(850));
    assert_eq!(provider.calls.load(SeqCst), 2, "renewed after four fifths");
    assert_eq!(keeper.token().unwrap().text, "token-2");
    drop(keeper);
    pause(Duration::from_millis(1000));
    assert_eq!(provider.calls.load(SeqCst), 2, "nobody asks any more");
}

#[test]
fn a_failure_is_said_and_tried_again() {
    let (_, keeper) = numbered(600.0, vec![Error::unavailable("away").hint("wait")]);
    let failure = keeper.token().unwrap_err();
    assert!(!failure.is_final());
    assert_eq!(failure.to_string(), "no token from numbered: away");
    assert_eq!(failure.hint(), Some("wait"));
    pause(Duration::from_millis(400));
    assert_eq!(keeper.token().unwrap().text, "token-1");
}

#[test]
fn what_is_no_token_is_final() {
    let (_, keeper) = numbered(-1.0, Vec::new());
    assert!(keeper.token().unwrap_err().is_final());
}

#[test]
fn an_old_token_serves_while_none_is_made() {
    let (provider, keeper) = numbered(1.0, Vec::new());
    keeper.token().unwrap();
    *provider.fails.lock() = (0..100).map(|_| Error::unavailable("away")).collect();
    pause(Duration::from_millis(850));
    assert_eq!(keeper.token().unwrap().text, "token-1");
    pause(Duration::from_millis(200));
    assert_eq!(
        keeper.token().unwrap_err().to_string(),
        "no token from numbered: away"
    );
}
