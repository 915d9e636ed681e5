//! Requests to the coordinators of transactions and groups.
//!
//! Takes the id and what to add, returns the coordinator's answer. Owns who the coordinators are, and
//! the producer's identity. Retries while the answer is "not yet" and there is time. Never knows of
//! records.

mod identity;
#[cfg(test)]
mod tests;
mod transaction;

use crate::kafka::errors::{ErrorContext, error};
use crate::kafka::native::error_class::{ErrorClass, UNKNOWN_SERVER_ERROR, classify, named};
use crate::kafka::native::net::answer_timeout::AnswerTimeout;
use crate::kafka::native::net::cluster::{Cluster, CoordinatorType, Node, version_for};
use crate::kafka::native::net::connection_error::ConnectionError;
use crate::kafka::native::net::throttle::Throttled;
use crate::kafka::native::records::batch_writer::Identity;
use crate::kafka::native::{NativeConfig, unreachable};
use kafka_protocol::messages::{
    EndTxnRequest, ProduceRequest, TransactionalId, TxnOffsetCommitRequest,
};
use kafka_protocol::protocol::{Request, StrBytes};
use std::time::Duration;
use stoatflow_core::{Error, Result};
pub(in crate::kafka::native) use transaction::refused_topic;

/// The hint if a coordinator doesn't complete a transaction (KAFKA-19999).
const STUCK_TRANSACTION_HINT: &str = "the coordinator is still ending the transaction before: start again in a moment; if it stays so, \
    `kafka-transactions.sh list` shows the transaction, and `find-hanging` the partitions that hold it up";

/// The pause before a request is repeated: the first, and the longest.
const PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Request versions that brokers since 2.8 support; partitions and offsets are added to a transaction
/// explicitly.
pub(in crate::kafka::native) const PRODUCE: i16 = 11;
const OFFSETS: i16 = 4;
const END: i16 = 4;
/// Request versions of KIP-890: whatever arrives is added to the transaction at once, and each
/// transaction has an epoch of its own.
pub(in crate::kafka::native) const PRODUCE_V2: i16 = 12;
const OFFSETS_V2: i16 = 5;
const END_V2: i16 = 5;
/// A coordinator's names for the state of an open transaction, and of one that was aborted.
pub(in crate::kafka::native) const ONGOING: &str = "Ongoing";
const COMPLETE_ABORT: &str = "CompleteAbort";
/// The `transaction.version` from which on those are supported.
pub(in crate::kafka::native) const TRANSACTIONS_V2: i16 = 2;

/// How a request to a coordinator ended.
#[derive(Debug)]
pub(in crate::kafka::native) enum CoordinatorAnswer<T> {
    /// It was done.
    Done(T),
    /// It was not done and won't be. With `maybe_applied`, an earlier attempt that got no answer may have
    /// done it; with `maybe_begun`, an earlier attempt was answered with "not yet".
    Code {
        code: i16,
        answer: Option<T>,
        maybe_applied: bool,
        maybe_begun: bool,
    },
    /// There was no final answer in time. With `maybe_applied`, it may have been done: an attempt got no
    /// answer, or "not yet". Without it, no request was sent.
    Silence {
        maybe_applied: bool,
        last: ConnectionError,
    },
}

impl<T> CoordinatorAnswer<T> {
    fn map<U>(self, with: impl FnOnce(T) -> U) -> CoordinatorAnswer<U> {
        match self {
            Self::Done(answer) => CoordinatorAnswer::Done(with(answer)),
            Self::Code {
                code,
                answer,
                maybe_applied,
                maybe_begun,
            } => CoordinatorAnswer::Code {
                code,
                answer: answer.map(with),
                maybe_applied,
                maybe_begun,
            },
            Self::Silence {
                maybe_applied,
                last,
            } => CoordinatorAnswer::Silence {
                maybe_applied,
                last,
            },
        }
    }
}

/// Coordination of one transactional id.
#[derive(Debug)]
pub(in crate::kafka::native) struct Coordination {
    pub cluster: Cluster,
    pub id: String,
    pub address: String,
    pub identity: Identity,
    /// Whether partitions and offsets are added to the transaction by being sent (KIP-890).
    pub transactions_v2: bool,
    /// Whether the coordinator may have a transaction that must be ended.
    pub may_be_open_at_coordinator: bool,
    /// Whether the coordinator has acknowledged an open transaction of this epoch, and can't have ended it
    /// for a request of ours. Only without KIP-890.
    pub known_open: bool,
    /// Whether a request of this epoch got no answer.
    pub unanswered: bool,
    silence: Duration,
    /// The first timeout of an answer.
    pub request_timeout: Duration,
    coordinator: Option<Node>,
    group: Option<(String, Node)>,
}

impl Coordination {
    pub(in crate::kafka::native) fn new(
        config: &NativeConfig,
        id: &str,
        silence: Duration,
    ) -> Self {
        Self {
            cluster: Cluster::new(config),
            id: id.to_owned(),
            address: config.address.clone(),
            identity: Identity::NONE,
            transactions_v2: false,
            may_be_open_at_coordinator: false,
            known_open: false,
            unanswered: false,
            silence,
            request_timeout: config.request_timeout,
            coordinator: None,
            group: None,
        }
    }

    pub(in crate::kafka::native) fn doing<'a>(
        &'a self,
        what: &'a str,
        topic: Option<&'a str>,
    ) -> ErrorContext<'a> {
        ErrorContext {
            address: &self.address,
            what,
            topic,
        }
    }

    /// The error for a code.
    pub(in crate::kafka::native) fn refused(&self, code: i16, said: &str, what: &str) -> Error {
        let what = format!("{what} of '{}'", self.id);
        error(named(code), said, self.doing(&what, None))
    }

    pub(in crate::kafka::native) fn silent(&self, last: &ConnectionError, what: &str) -> Error {
        unreachable(&self.address, &format!("{what} of '{}'", self.id), last)
    }

    fn id(&self) -> TransactionalId {
        TransactionalId::from(StrBytes::from_string(self.id.clone()))
    }

    fn coordinator_for(
        &mut self,
        kind: CoordinatorType,
        name: &str,
        timeout: Duration,
    ) -> Result<Result<Node, i16>, ConnectionError> {
        match (kind, self.coordinator, &self.group) {
            (CoordinatorType::Transaction, Some(node), _) => Ok(Ok(node)),
            (CoordinatorType::Group, _, Some((known, node))) if known == name => Ok(Ok(*node)),
            _ => {
                let found = self.cluster.coordinator(kind, name, timeout)?;
                if let Ok(node) = found {
                    match kind {
                        CoordinatorType::Transaction => self.coordinator = Some(node),
                        CoordinatorType::Group => self.group = Some((name.to_owned(), node)),
                    }
                }
                Ok(found)
            }
        }
    }

    fn forget_coordinator(&mut self, kind: CoordinatorType) {
        match kind {
            CoordinatorType::Transaction => self.coordinator = None,
            CoordinatorType::Group => self.group = None,
        }
    }

    /// Sends a request to the coordinator, and repeats it until there is a final answer or no time left.
    fn ask<R: Request>(
        &mut self,
        (kind, name): (CoordinatorType, &str),
        most_version: i16,
        request: &R,
        code_of: impl Fn(&R::Response) -> i16,
        timeout: Duration,
    ) -> CoordinatorAnswer<R::Response>
    where
        R::Response: Throttled,
    {
        let clock = self.cluster.stopwatch();
        let mut pause = PAUSE;
        let (mut maybe_applied, mut begun) = (false, false);
        let mut last: Option<ConnectionError> = None;
        let mut answer_timeout = AnswerTimeout::new(self.request_timeout);
        loop {
            let left = timeout.saturating_sub(clock.elapsed());
            if left.is_zero() {
                let last =
                    last.unwrap_or_else(|| ConnectionError::lost("there was no time left to ask"));
                let maybe_applied = maybe_applied || begun;
                return CoordinatorAnswer::Silence {
                    maybe_applied,
                    last,
                };
            }
            let most = left.min(answer_timeout.time());
            let said = match self.coordinator_for(kind, name, most) {
                Err(why) => why,
                Ok(Err(code)) if classify(code) == ErrorClass::Again => ConnectionError::lost(
                    format!("the coordinator is not found yet: {:?}", named(code)),
                ),
                Ok(Err(code)) => {
                    return CoordinatorAnswer::Code {
                        code,
                        answer: None,
                        maybe_applied,
                        maybe_begun: begun,
                    };
                }
                Ok(Ok(node)) => {
                    let mut sent = false;
                    let asked = self.cluster.control(node, most).and_then(|link| {
                        let version = version_for::<R>(link, most_version)?;
                        sent = true;
                        link.call(version, request, most)
                    });
                    match asked {
                        Ok(answer) => {
                            let code = code_of(&answer);
                            let meant = classify(code);
                            // A coordinator that is being moved may answer so although it has begun the
                            // request. Repeating it then gives "done" and no other answer.
                            begun |= matches!(meant, ErrorClass::Ending | ErrorClass::Again);
                            maybe_applied |= code == UNKNOWN_SERVER_ERROR;
                            match meant {
                                ErrorClass::Fine => return CoordinatorAnswer::Done(answer),
                                ErrorClass::Ending => {}
                                ErrorClass::Again => self.forget_coordinator(kind),
                                _ => {
                                    let answer = Some(answer);
                                    return CoordinatorAnswer::Code {
                                        code,
                                        answer,
                                        maybe_applied,
                                        maybe_begun: begun,
                                    };
                                }
                            }
                            let hint =
                                (meant == ErrorClass::Ending).then_some(STUCK_TRANSACTION_HINT);
                            ConnectionError::not_now(format!("{:?}", named(code)), hint)
                        }
                        Err(why) => {
                            maybe_applied |= sent;
                            self.unanswered |= sent;
                            answer_timeout.missed();
                            self.cluster.drop_control(node, &why);
                            self.forget_coordinator(kind);
                            why
                        }
                    }
                }
            };
            tracing::debug!(target: "stoatflow::kafka", request = R::KEY, waited = ?clock.elapsed(), "asked again: {said}");
            if said.is_final() {
                let maybe_applied = maybe_applied || begun;
                return CoordinatorAnswer::Silence {
                    maybe_applied,
                    last: said,
                };
            }
            last = Some(said);
            self.cluster.count_retries::<R>(1);
            let left = timeout.saturating_sub(clock.elapsed());
            self.cluster.pause(pause.min(left));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Finds out the version of the next transaction; to be called before it begins.
    pub(in crate::kafka::native) fn negotiate_transaction_version(
        &mut self,
        timeout: Duration,
    ) -> Result<(), ConnectionError> {
        let Some(node) = self.coordinator else {
            return Ok(());
        };
        let link = self.cluster.control(node, timeout)?;
        let api_versions = &link.api_versions;
        let before = self.transactions_v2;
        self.transactions_v2 = api_versions.transaction_version >= TRANSACTIONS_V2
            && api_versions.version::<ProduceRequest>(PRODUCE_V2) == Some(PRODUCE_V2)
            && api_versions.version::<TxnOffsetCommitRequest>(OFFSETS_V2) == Some(OFFSETS_V2)
            && api_versions.version::<EndTxnRequest>(END_V2) == Some(END_V2);
        if self.transactions_v2 != before {
            tracing::debug!(target: "stoatflow::kafka", id = self.id, each_has_an_epoch = self.transactions_v2, "other rules for transactions");
        }
        Ok(())
    }
}
