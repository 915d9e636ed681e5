//! OAuth tokens from a Python function (`oauth_cb`), for SASL/OAUTHBEARER.
//!
//! Takes the `TokenCalls` object of `stoatflow._runtime.oauth_calls`, implements a token provider. The
//! function runs in a Python thread: the client waits on a channel, without the interpreter, and no
//! longer than its timeout. Caches no token.

use pyo3::intern;
use pyo3::prelude::*;
use std::fmt::{self, Debug};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;
use stoatflow_core::{Error, Result};
use stoatflow_log::kafka::{OauthToken, TokenProvider};

/// Maximum number of calls that have timed out and still run; beyond it no further call is started.
const MAX_HANGING_CALLS: u32 = 3;
/// Extra wait: an async function is cancelled by its event loop at the timeout, which reports it a
/// little later.
const TIMEOUT_SLACK: Duration = Duration::from_millis(250);
/// Advice for a call that takes too long.
const TIMEOUT_HINT: &str = "give its HTTP client a time-out, or raise sasl.login.read.timeout.ms";

/// Whether a setting is the token function. Python names it with an underscore; as a keyword argument or
/// a variable it has a dot.
pub fn is_setting(name: &str) -> bool {
    matches!(name, "oauth_cb" | "oauth.cb")
}

/// A token provider that calls a Python function.
pub struct PyTokens {
    calls: Py<PyAny>,
    name: String,
    running: Arc<AtomicU32>,
}

impl Debug for PyTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PyTokens").field(&self.name).finish()
    }
}

impl PyTokens {
    /// Takes the `TokenCalls` of a function.
    pub fn new(calls: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self {
            name: calls.getattr(intern!(calls.py(), "name"))?.extract()?,
            calls: calls.clone().unbind(),
            running: Arc::default(),
        })
    }
}

impl TokenProvider for PyTokens {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn fetch(&self, within: Duration) -> Result<OauthToken> {
        if self.running.load(SeqCst) >= MAX_HANGING_CALLS {
            let why = format!(
                "it did not end within {} s, and {MAX_HANGING_CALLS} calls of it have not come back",
                within.as_secs_f64()
            );
            return Err(Error::unavailable(why).hint(TIMEOUT_HINT));
        }
        self.running.fetch_add(1, SeqCst);
        let (sender, outcome) = sync_channel(1);
        let answer = TokenAnswer {
            sender,
            running: Arc::clone(&self.running),
            has_ended: AtomicBool::new(false),
        };
        // `None` if the interpreter is shutting down.
        let begun = Python::try_attach(|py| {
            let calls = self.calls.bind(py);
            let begun = calls.call_method1(intern!(py, "begin"), (answer, within.as_secs_f64()));
            begun.map(drop).map_err(|e| e.to_string())
        });
        match begun {
            Some(Ok(())) => {}
            Some(Err(why)) => return Err(Error::unavailable(format!("it can't be called: {why}"))),
            None => return Err(Error::unavailable("the interpreter has ended")),
        }
        outcome
            .recv_timeout(within + TIMEOUT_SLACK)
            .unwrap_or_else(|_| {
                Err(
                    Error::unavailable(format!("it did not end within {} s", within.as_secs_f64()))
                        .hint(TIMEOUT_HINT),
                )
            })
    }
}

/// Receives the outcome of one call.
#[pyclass(frozen, module = "stoatflow._native")]
struct TokenAnswer {
    sender: SyncSender<Result<OauthToken>>,
    running: Arc<AtomicU32>,
    has_ended: AtomicBool,
}

impl Drop for TokenAnswer {
    fn drop(&mut self) {
        self.end();
    }
}

impl TokenAnswer {
    /// The call has returned. Python may keep this object longer, in the traceback of an exception.
    fn end(&self) {
        if !self.has_ended.swap(true, SeqCst) {
            self.running.fetch_sub(1, SeqCst);
        }
    }

    fn send(&self, outcome: Result<OauthToken>) {
        self.end();
        // A caller that has timed out will call again.
        let _late = self.sender.try_send(outcome);
    }
}

#[pymethods]
impl TokenAnswer {
    fn token(
        &self,
        text: String,
        expires_in_s: f64,
        principal: Option<String>,
        extensions: Vec<(String, String)>,
    ) {
        self.send(OauthToken::checked(
            text,
            expires_in_s,
            principal,
            extensions,
        ));
    }

    fn raised(&self, what: &str) {
        self.send(Err(Error::unavailable(what).hint(
            "correct the function, or what it asks; the log has its traceback, and it is called again until then",
        )));
    }

    fn late(&self, within_s: f64) {
        let why = format!("it did not end within {within_s} s");
        self.send(Err(Error::unavailable(why).hint(TIMEOUT_HINT)));
    }

    fn wrong(&self, what: &str) {
        self.send(Err(Error::config(what).hint(
            "return sf.OAuthToken(token, expires_at), or (token, expires_at) with the seconds since 1970",
        )));
    }
}
