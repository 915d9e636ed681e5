//! Requests that wait for a thread of the host language, and their answers.
//!
//! The port puts a request in and waits without blocking, at most until its deadline; a host thread takes
//! requests out one by one and answers them. A request whose deadline has passed is never handed out.
//! Nothing here calls user code.

#[cfg(test)]
mod tests;

use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::oneshot;

/// How many requests may wait; more are refused at once.
pub const MAX_WAITING: usize = 16;

/// A request for a function of the user's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserRequest {
    /// The number of the endpoint.
    pub endpoint: usize,
    /// `GET`, `POST`, ...
    pub method: String,
    /// Its path, as it was sent.
    pub path: String,
    /// The parameters in the path, decoded.
    pub parameters: BTreeMap<String, String>,
    /// What follows the question mark, as it was sent.
    pub query: String,
    /// Headers: lower-case name, value. Without credentials.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// The answer of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The type of the body.
    pub content_type: String,
    /// The body.
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// Too many requests wait.
    Full,
    /// No thread took it before its deadline.
    NotTaken,
    /// A thread took it, and didn't answer before its deadline.
    TooSlow,
    /// The thread ended without an answer.
    Dropped,
}

const WAITING: u8 = 0;
const TAKEN: u8 = 1;
const EXPIRED: u8 = 2;

/// A request that was put into the queue.
#[derive(Debug)]
pub struct UserCall {
    /// The request.
    pub request: UserRequest,
    state: AtomicU8,
    reply: Mutex<Option<oneshot::Sender<UserAnswer>>>,
}

impl UserCall {
    /// Answers the request; without effect after its deadline, and for a second answer.
    pub fn answer(&self, answer: UserAnswer) {
        if let Some(reply) = self.reply.lock().take() {
            // The client has given up.
            let _unheard = reply.send(answer);
        }
    }

    /// There will be no answer.
    pub fn give_up(&self) {
        drop(self.reply.lock().take());
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct UserCallQueue {
    waiting: Mutex<VecDeque<Arc<UserCall>>>,
    arrived: Condvar,
}

impl UserCallQueue {
    /// Puts a request in and waits for its answer.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn ask(
        &self,
        request: UserRequest,
        timeout: Duration,
    ) -> Result<UserAnswer, NoAnswer> {
        let (reply, answer) = oneshot::channel();
        let call = Arc::new(UserCall {
            request,
            state: AtomicU8::new(WAITING),
            reply: Mutex::new(Some(reply)),
        });
        {
            let mut waiting = self.waiting.lock();
            waiting.retain(|call| call.state.load(SeqCst) == WAITING);
            if waiting.len() >= MAX_WAITING {
                return Err(NoAnswer::Full);
            }
            waiting.push_back(Arc::clone(&call));
        }
        self.arrived.notify_one();
        // A client that disconnects drops this future.
        let expires = Expires(&call);
        let answered = tokio::time::timeout(timeout, answer).await;
        let taken = !expires.expire();
        match answered {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(NoAnswer::Dropped),
            Err(_) if taken => Err(NoAnswer::TooSlow),
            Err(_) => Err(NoAnswer::NotTaken),
        }
    }

    /// Takes the next request; `None` if none arrives in time.
    pub fn next(&self, within: Duration) -> Option<Arc<UserCall>> {
        let mut waiting = self.waiting.lock();
        loop {
            while let Some(call) = waiting.pop_front() {
                let took = call
                    .state
                    .compare_exchange(WAITING, TAKEN, SeqCst, SeqCst)
                    .is_ok();
                if took {
                    return Some(call);
                }
            }
            // What was in the queue had expired.
            if self.arrived.wait_for(&mut waiting, within).timed_out() {
                return None;
            }
        }
    }
}

/// Marks a request as expired unless a thread has taken it.
struct Expires<'a>(&'a UserCall);

impl Expires<'_> {
    /// True if no thread had taken it.
    fn expire(&self) -> bool {
        let state = &self.0.state;
        state
            .compare_exchange(WAITING, EXPIRED, SeqCst, SeqCst)
            .is_ok()
    }
}

impl Drop for Expires<'_> {
    fn drop(&mut self) {
        self.expire();
    }
}
