//! Decides what becomes of a record that failed: retry, skip, dead letter, or an error.
//!
//! Takes an error and its record, only after a failure: successful records never get here. Returns
//! "again" or "gone", or the error. A record that is gone is noted in the effects, with its dead letter
//! if it gets one; the engine counts, logs and sends. Never handles an error that no record caused (a
//! broken store, a missing topic, a bug).

#[cfg(test)]
mod tests;

pub use crate::port::failure::{Failure, Raw};
use crate::{ForeignCode, PartitionCounts, Runtime, Udf};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{
    Epoch, Error, ErrorKind, FailureKind, Handler, Header, Lane, NodeId, Origin, Record, Result,
};

/// A callable may return another handler, this many times in a row.
const MAX_HANDLER_DEPTH: u32 = 8;

/// Where an error happened.
#[derive(Clone, Copy, Debug)]
pub struct ErrorOrigin {
    /// The lane.
    pub lane: Lane,
    /// Its open epoch.
    pub epoch: Epoch,
}

/// What to do with the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Call again.
    Again,
    /// Continue without it.
    Gone,
}

/// A record that was left out.
#[derive(Debug)]
pub struct Handled {
    /// The node it failed at.
    pub node: NodeId,
    /// The reason that it is counted by.
    pub reason: &'static str,
    /// The error, for the log.
    pub error: Error,
    /// The dead letter, if it gets one.
    pub letter: Option<DeadLetter>,
}

/// A dead letter without its body: the engine adds the bytes of the input record.
#[derive(Debug)]
pub struct DeadLetter {
    /// The topic.
    pub topic: Arc<str>,
    /// The input record; [`crate::NO_ORIGIN`]: none.
    pub origin: Origin,
    /// Time of the record that failed.
    pub timestamp: stoatflow_core::Timestamp,
    /// What went wrong.
    pub headers: Vec<Header>,
}

#[derive(Clone, Debug)]
enum Decision {
    Fail,
    Continue,
    DeadLetter(Arc<str>),
    Retry {
        times: u32,
        backoff: Duration,
        then: Box<Self>,
    },
    Ask(Arc<dyn Udf>, Arc<[String]>),
}

/// See the module. A node that must fail on errors has no policy, which costs nothing.
#[derive(Debug)]
pub struct ErrorPolicy {
    failing: FailureKind,
    decision: Decision,
    node: NodeId,
    name: Arc<str>,
    runtime: Option<Arc<dyn Runtime>>,
    counts: Option<Arc<dyn PartitionCounts>>,
}

impl ErrorPolicy {
    /// The policy of a node; `None` if its handler is to fail.
    ///
    /// # Errors
    /// `Internal` if the plan and the table of callables don't belong together.
    pub fn new(
        failing: FailureKind,
        handler: Option<&Handler>,
        (node, name): (NodeId, &str),
        foreign: &ForeignCode,
        counts: Option<&Arc<dyn PartitionCounts>>,
    ) -> Result<Option<Arc<Self>>> {
        let decision = match handler {
            None | Some(Handler::Fail) => return Ok(None),
            Some(handler) => Decision::of(handler, foreign)?,
        };
        Ok(Some(Arc::new(Self {
            failing,
            decision,
            node,
            name: name.into(),
            runtime: foreign.runtime.clone(),
            counts: counts.cloned(),
        })))
    }

    /// Decides about one record, for which `attempt` calls have failed. Waits before it returns "again",
    /// if the handler wants a pause.
    ///
    /// # Errors
    /// The error, if the handler decides so or fails; an interruption, if the application is asked to
    /// end meanwhile.
    pub fn handle(
        &self,
        error: Error,
        record: &Record,
        raw: Option<Raw<'_>>,
        attempt: u32,
        place: ErrorOrigin,
        handled: &mut Vec<Handled>,
    ) -> Result<Outcome> {
        let (outcome, pause) = self.decide(error, record, raw, attempt, place, handled)?;
        if let Some(runtime) = self.runtime.as_ref().filter(|_| !pause.is_zero())
            && !runtime.pause(pause)
        {
            return Err(Error::interruption());
        }
        Ok(outcome)
    }

    /// As [`Self::handle`] without waiting: returns the pause.
    ///
    /// # Errors
    /// As [`Self::handle`].
    pub fn decide(
        &self,
        error: Error,
        record: &Record,
        raw: Option<Raw<'_>>,
        attempt: u32,
        place: ErrorOrigin,
        handled: &mut Vec<Handled>,
    ) -> Result<(Outcome, Duration)> {
        let gone = (Outcome::Gone, Duration::ZERO);
        if !is_of_a_record(&error) {
            return Err(error);
        }
        let mut decision = self.decision.clone();
        let mut attempts_left = attempt;
        for _ in 0..MAX_HANDLER_DEPTH {
            decision = match decision {
                Decision::Fail => return Err(error),
                Decision::Continue => {
                    handled.push(self.handled(error, None));
                    return Ok(gone);
                }
                Decision::DeadLetter(topic) => {
                    let letter = self.letter(topic, &error, record, attempt, place);
                    handled.push(self.handled(error, Some(letter)));
                    return Ok(gone);
                }
                Decision::Retry { times, backoff, .. } if attempts_left <= times => {
                    return Ok((Outcome::Again, backoff));
                }
                Decision::Retry { times, then, .. } => {
                    attempts_left -= times;
                    *then
                }
                Decision::Ask(udf, declared) => {
                    let said = udf.decide(&Failure {
                        failing: self.failing,
                        error: &error,
                        node: &self.name,
                        record,
                        raw,
                        lane: place.lane,
                        epoch: place.epoch,
                        attempt,
                    });
                    self.callable_decision(said, &declared, &error)?
                }
            };
        }
        Err(error.hint("the handler returned a callable again and again: return DLQ(...), log_and_continue() or log_and_fail()"))
    }

    /// The decision of a callable. A topic that it has not declared must exist.
    fn callable_decision(
        &self,
        said: Result<Handler>,
        declared: &[String],
        error: &Error,
    ) -> Result<Decision> {
        let told = |e: Error| {
            e.at(|at| {
                let known = error.coordinates();
                at.node.clone_from(&known.node);
                at.topic.clone_from(&known.topic);
                at.partition = known.partition;
                at.offset = known.offset;
            })
        };
        let handler = said.map_err(told)?;
        let others = handler.topics().into_iter();
        let others = others.filter(|topic| declared.iter().all(|known| known != topic));
        for (topic, counts) in others.zip(&self.counts) {
            counts.partitions(topic).map_err(|e| match e.kind() {
                ErrorKind::MissingTopic => told(
                    Error::missing_topic(format!(
                        "a handler gave DLQ(\"{topic}\"), but there is no such topic"
                    ))
                    .hint("create it, or name another one; topics that the handler declares are looked for at the start"),
                ),
                _ => e,
            })?;
        }
        Decision::of(&handler, &ForeignCode::default())
    }

    fn handled(&self, error: Error, letter: Option<DeadLetter>) -> Handled {
        Handled {
            node: self.node,
            reason: self.failing.reason(letter.is_some()),
            error,
            letter,
        }
    }

    fn letter(
        &self,
        topic: Arc<str>,
        error: &Error,
        record: &Record,
        attempt: u32,
        place: ErrorOrigin,
    ) -> DeadLetter {
        let at = error.coordinates();
        let raised = self.runtime.as_ref().and_then(|r| r.exception(error));
        let (exception, message, traceback) = match raised {
            Some(raised) => (raised.class, raised.message, raised.traceback),
            None => (error.kind().class().to_owned(), full(error), None),
        };
        let mut headers = Vec::with_capacity(14);
        let mut put = |name: &str, value: Option<String>| {
            headers.extend(value.map(|value| header(name, value)));
        };
        put("kind", Some(self.failing.name().to_owned()));
        put("node", Some(self.name.to_string()));
        put("function", at.function.clone());
        put("exception", Some(exception));
        put("message", Some(message));
        put("traceback", traceback);
        if record.origin != crate::NO_ORIGIN {
            put("topic", at.topic.clone());
            put("partition", Some(record.origin.partition.to_string()));
            put("offset", Some(record.origin.offset.to_string()));
        }
        put("timestamp", Some(record.timestamp.0.to_string()));
        put("lane", Some(place.lane.0.to_string()));
        put("epoch", Some(place.epoch.0.to_string()));
        put("attempts", Some(attempt.to_string()));
        DeadLetter {
            topic,
            origin: record.origin,
            timestamp: record.timestamp,
            headers,
        }
    }
}

/// True if the error is about one record, so that a handler may decide.
#[must_use]
pub fn is_of_a_record(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::User | ErrorKind::Serde) && !error.bypasses_handlers()
}

/// A header of a dead letter.
pub(crate) fn header(name: &str, value: impl Into<Bytes>) -> Header {
    Header {
        name: format!("__stoatflow.errors.{name}").into(),
        value: Some(value.into()),
    }
}

/// The message of an error, with its cause.
fn full(error: &Error) -> String {
    match error.cause() {
        Some(cause) => format!("{}: {cause}", error.message()),
        None => error.message().to_owned(),
    }
}

impl Decision {
    fn of(handler: &Handler, foreign: &ForeignCode) -> Result<Self> {
        Ok(match handler {
            Handler::Fail => Self::Fail,
            Handler::Continue => Self::Continue,
            Handler::Dlq(topic) => Self::DeadLetter(topic.as_str().into()),
            Handler::Call(calling) => {
                Self::Ask(foreign.udf(calling.udf)?, calling.topics.clone().into())
            }
            Handler::Retry(retrying) => Self::Retry {
                times: retrying.times,
                backoff: Duration::from_millis(retrying.backoff_ms),
                then: Box::new(Self::of(&retrying.then, foreign)?),
            },
        })
    }
}
