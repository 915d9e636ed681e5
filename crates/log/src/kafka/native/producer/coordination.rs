//! What is asked of the brokers that keep transactions and groups.
//!
//! Takes the id and what is to be added, gives what the coordinator said. Owns who the coordinators are and
//! whose identity the producer has. Asks again while the answer is "not yet" and there is time. Never knows
//! of records.

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
    EndTxnRequest, InitProducerIdRequest, ProduceRequest, TransactionalId, TxnOffsetCommitRequest,
};
use kafka_protocol::protocol::{Request, StrBytes};
use std::time::Duration;
use stoatflow_core::{Error, Result};
pub(in crate::kafka::native) use transaction::refused_topic;

/// What to do where a coordinator doesn't come to the end of a transaction (KAFKA-19999).
const STUCK: &str = "the coordinator is still ending the transaction before: start again in a moment; if it stays so, \
    `kafka-transactions.sh list` shows the transaction, and `find-hanging` the partitions that hold it up";

/// The pause before a question is asked again: the first, and the longest.
const PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// The versions of requests that need no more than what brokers since 2.8 have, and add to a transaction what
/// it is told to.
pub(in crate::kafka::native) const PRODUCE: i16 = 11;
/// The first with the form that ours is written in.
pub(in crate::kafka::native) const PRODUCE_LEAST: i16 = 9;
const OFFSETS: i16 = 4;
const END: i16 = 4;
/// Those with which whatever arrives is in the transaction at once, and each transaction has an epoch of its
/// own (KIP-890).
pub(in crate::kafka::native) const PRODUCE_V2: i16 = 12;
const OFFSETS_V2: i16 = 5;
const END_V2: i16 = 5;
/// The rules for transactions from which on they are understood.
const TRANSACTIONS_V2: i16 = 2;

/// How a question ended.
#[derive(Debug)]
pub(in crate::kafka::native) enum CoordinatorAnswer<T> {
    /// It is done.
    Done(T),
    /// It is not done and will not be. An earlier time may have been without an answer, and done
    /// it: `perhaps`.
    Code {
        code: i16,
        answer: Option<T>,
        perhaps: bool,
    },
    /// There was no answer in time, or "not yet", which may be said of what was done before: `perhaps`.
    /// Without it nothing was asked.
    Silence {
        perhaps: bool,
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
                perhaps,
            } => CoordinatorAnswer::Code {
                code,
                answer: answer.map(with),
                perhaps,
            },
            Self::Silence { perhaps, last } => CoordinatorAnswer::Silence { perhaps, last },
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
    /// Are partitions and offsets added by what is sent to them?
    pub transactions_v2: bool,
    /// May the coordinator have a transaction that has to be ended?
    pub touched: bool,
    /// Was a request sent in this epoch that got no answer?
    pub unanswered: bool,
    silence: Duration,
    /// How long one answer may take at first.
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
            touched: false,
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

    /// Our error for a code.
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

    fn seat(
        &mut self,
        seat: CoordinatorType,
        name: &str,
        timeout: Duration,
    ) -> Result<Result<Node, i16>, ConnectionError> {
        match (seat, self.coordinator, &self.group) {
            (CoordinatorType::Transaction, Some(node), _) => Ok(Ok(node)),
            (CoordinatorType::Group, _, Some((known, node))) if known == name => Ok(Ok(*node)),
            _ => {
                let found = self.cluster.coordinator(seat, name, timeout)?;
                if let Ok(node) = found {
                    match seat {
                        CoordinatorType::Transaction => self.coordinator = Some(node),
                        CoordinatorType::Group => self.group = Some((name.to_owned(), node)),
                    }
                }
                Ok(found)
            }
        }
    }

    fn vacate(&mut self, seat: CoordinatorType) {
        match seat {
            CoordinatorType::Transaction => self.coordinator = None,
            CoordinatorType::Group => self.group = None,
        }
    }

    /// Asks whoever has the seat until there is an answer, or no time.
    fn ask<R: Request>(
        &mut self,
        (seat, name): (CoordinatorType, &str),
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
        let (mut perhaps, mut begun) = (false, false);
        let mut last: Option<ConnectionError> = None;
        let mut answer_timeout = AnswerTimeout::new(self.request_timeout);
        loop {
            let left = timeout.saturating_sub(clock.elapsed());
            if left.is_zero() {
                let last =
                    last.unwrap_or_else(|| ConnectionError::lost("there was no time left to ask"));
                let perhaps = perhaps || begun;
                return CoordinatorAnswer::Silence { perhaps, last };
            }
            let most = left.min(answer_timeout.time());
            let said = match self.seat(seat, name, most) {
                Err(why) => why,
                Ok(Err(code)) if classify(code) == ErrorClass::Again => ConnectionError::lost(
                    format!("the coordinator is not found yet: {:?}", named(code)),
                ),
                Ok(Err(code)) => {
                    return CoordinatorAnswer::Code {
                        code,
                        answer: None,
                        perhaps,
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
                            // A coordinator that loses its seat may say so when it has begun what it was
                            // asked. Then a later answer is that it is done, and no other.
                            begun |= matches!(meant, ErrorClass::Ending | ErrorClass::Again);
                            perhaps |= code == UNKNOWN_SERVER_ERROR;
                            match meant {
                                ErrorClass::Fine => return CoordinatorAnswer::Done(answer),
                                ErrorClass::Ending => {}
                                ErrorClass::Again => self.vacate(seat),
                                _ => {
                                    let answer = Some(answer);
                                    return CoordinatorAnswer::Code {
                                        code,
                                        answer,
                                        perhaps,
                                    };
                                }
                            }
                            let hint = (meant == ErrorClass::Ending).then_some(STUCK);
                            ConnectionError::not_now(format!("{:?}", named(code)), hint)
                        }
                        Err(why) => {
                            perhaps |= sent;
                            self.unanswered |= sent;
                            answer_timeout.missed();
                            self.cluster.drop_control(node, &why);
                            self.vacate(seat);
                            why
                        }
                    }
                }
            };
            tracing::debug!(target: "stoatflow::kafka", request = R::KEY, waited = ?clock.elapsed(), "asked again: {said}");
            if said.is_final() {
                let perhaps = perhaps || begun;
                return CoordinatorAnswer::Silence {
                    perhaps,
                    last: said,
                };
            }
            last = Some(said);
            let left = timeout.saturating_sub(clock.elapsed());
            self.cluster.pause(pause.min(left));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Which rules hold for the next transaction; to be asked before it begins. Do brokers know
    /// enough at all?
    pub(in crate::kafka::native) fn negotiate_transaction_version(
        &mut self,
        timeout: Duration,
    ) -> Result<bool, ConnectionError> {
        let Some(node) = self.coordinator else {
            return Ok(true);
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
        Ok(api_versions
            .version::<ProduceRequest>(PRODUCE)
            .is_some_and(|v| v >= PRODUCE_LEAST)
            && api_versions
                .version::<InitProducerIdRequest>(5)
                .is_some_and(|v| v >= 3)
            && api_versions
                .version::<TxnOffsetCommitRequest>(OFFSETS)
                .is_some_and(|v| v >= 3))
    }
}
