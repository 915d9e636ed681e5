//! What is asked of the brokers that keep transactions and groups.
//!
//! Takes the id and what is to be added, gives what the coordinator said. Owns who the coordinators are and
//! whose identity the producer has. Asks again while the answer is "not yet" and there is time. Never knows
//! of records.

#[cfg(test)]
mod tests;

use crate::CutEntry;
use crate::kafka::errors::{ErrorContext, error};
use crate::kafka::native::error_class::{
    ErrorClass, PRODUCER_FENCED, UNKNOWN_SERVER_ERROR, classify, named,
};
use crate::kafka::native::net::answer_timeout::AnswerTimeout;
use crate::kafka::native::net::cluster::{Cluster, CoordinatorType, Node, version_for};
use crate::kafka::native::net::connection_error::ConnectionError;
use crate::kafka::native::net::throttle::Throttled;
use crate::kafka::native::records::batch_writer::Identity;
use crate::kafka::native::{NativeConfig, unreachable};
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, EndTxnResponse, GroupId,
    InitProducerIdRequest, ProduceRequest, ProducerId, TopicName, TransactionalId,
    TxnOffsetCommitRequest, TxnOffsetCommitResponse,
};
use kafka_protocol::protocol::{Request, StrBytes};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, ErrorKind, Result};

/// What to do where a coordinator doesn't come to the end of a transaction (KAFKA-19999).
const STUCK: &str = "the coordinator is still ending the transaction before: start again in a moment; if it stays so, \
    `kafka-transactions.sh list` shows the transaction, and `find-hanging` the partitions that hold it up";

/// The pause before a question is asked again: the first, and the longest.
const PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// Whoever is taking an id over, and was told to come again, has done so by then.
const NEWCOMER: Duration = Duration::from_millis(600);

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

/// The first topic that the coordinator refused with this code.
pub(in crate::kafka::native) fn refused_topic(
    answer: &TxnOffsetCommitResponse,
    code: i16,
) -> Option<&str> {
    let refused = (answer.topics.iter())
        .find(|topic| topic.partitions.iter().any(|p| p.error_code == code))?;
    Some(refused.name.as_str())
}

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

    /// Takes the id over, or with an identity of one's own asks for the next epoch of it.
    pub(in crate::kafka::native) fn init_producer_id(
        &mut self,
        own: Identity,
        timeout: Duration,
    ) -> Result<()> {
        let id = self.id.clone();
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(self.id()))
            .with_transaction_timeout_ms(
                i32::try_from(self.silence.as_millis()).unwrap_or(i32::MAX),
            )
            .with_producer_id(ProducerId(own.id))
            .with_producer_epoch(own.epoch);
        let seat = (CoordinatorType::Transaction, id.as_str());
        match self.ask(seat, 5, &request, |a| a.error_code, timeout) {
            CoordinatorAnswer::Done(answer) => {
                self.identity = Identity {
                    id: answer.producer_id.0,
                    epoch: answer.producer_epoch,
                };
                // What was sent in an epoch before is refused, whenever it comes.
                self.unanswered = false;
                Ok(())
            }
            CoordinatorAnswer::Code { code, .. } => Err(match classify(code) {
                // An epoch that the broker does not know as ours is somebody's who came later.
                ErrorClass::Outdated | ErrorClass::Fenced => self.refused(
                    PRODUCER_FENCED,
                    "its epoch is outdated",
                    "opening the producer",
                ),
                _ => self.refused(code, "refused", "opening the producer"),
            }),
            CoordinatorAnswer::Silence { last, .. } => {
                Err(self.silent(&last, "opening the producer"))
            }
        }
    }

    /// Asks anybody for an identity that is nobody's yet: for what belongs to no transaction.
    pub(in crate::kafka::native) fn init_idempotent_id(&mut self, timeout: Duration) -> Result<()> {
        let what = "opening the producer";
        let clock = self.cluster.stopwatch();
        let mut pause = PAUSE;
        loop {
            let left = timeout.saturating_sub(clock.elapsed());
            let request = |_| InitProducerIdRequest::default().with_transactional_id(None);
            let most = left.min(self.request_timeout);
            let last = match self.cluster.ask_anyone(5, request, most) {
                Ok((answer, _)) if answer.error_code == 0 => {
                    let (id, epoch) = (answer.producer_id.0, answer.producer_epoch);
                    self.identity = Identity { id, epoch };
                    return Ok(());
                }
                Ok((answer, _)) => match classify(answer.error_code) {
                    ErrorClass::Again | ErrorClass::Ending => {
                        ConnectionError::lost(format!("{:?}", named(answer.error_code)))
                    }
                    _ => return Err(self.refused(answer.error_code, "refused", what)),
                },
                Err(why) => why,
            };
            let left = timeout.saturating_sub(clock.elapsed());
            if left.is_zero() || last.is_final() {
                return Err(self.silent(&last, what));
            }
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

    /// Adds partitions to the transaction; gives the first code that is not fine, and the topic.
    pub(in crate::kafka::native) fn add(
        &mut self,
        parts: &[(Arc<str>, Vec<i32>)],
        timeout: Duration,
    ) -> CoordinatorAnswer<Option<String>> {
        let topics = parts.iter().map(|(name, parts)| {
            AddPartitionsToTxnTopic::default()
                .with_name(TopicName::from(StrBytes::from_string(name.to_string())))
                .with_partitions(parts.clone())
        });
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(self.id())
            .with_v3_and_below_producer_id(ProducerId(self.identity.id))
            .with_v3_and_below_producer_epoch(self.identity.epoch)
            .with_v3_and_below_topics(topics.collect());
        let id = self.id.clone();
        let asked_for: usize = parts.iter().map(|(_, parts)| parts.len()).sum();
        let worst = |answer: &<AddPartitionsToTxnRequest as Request>::Response| {
            let topics = answer.results_by_topic_v3_and_below.iter();
            let codes = topics.flat_map(|t| {
                (t.results_by_partition.iter())
                    .map(|p| (t.name.0.to_string(), p.partition_error_code))
            });
            // One that is refused says more than those that were not attempted because of it (55).
            let bad: Vec<_> = codes.filter(|(_, code)| *code != 0).collect();
            let telling = bad.iter().find(|(_, code)| *code != 55).or(bad.first());
            let results = answer.results_by_topic_v3_and_below.iter();
            let said: usize = results.map(|t| t.results_by_partition.len()).sum();
            let left_out = (said < asked_for).then(|| (String::new(), UNKNOWN_SERVER_ERROR));
            telling.cloned().or(left_out)
        };
        let asked = self.ask(
            (CoordinatorType::Transaction, &id),
            3,
            &request,
            |answer| worst(answer).map_or(0, |(_, code)| code),
            timeout,
        );
        asked.map(|answer| worst(&answer).map(|(topic, _)| topic))
    }

    /// Adds positions of a group to the transaction.
    pub(in crate::kafka::native) fn offsets(
        &mut self,
        group: &str,
        cut: &[CutEntry],
        timeout: Duration,
    ) -> CoordinatorAnswer<TxnOffsetCommitResponse> {
        let clock = self.cluster.stopwatch();
        let group_id = || GroupId::from(StrBytes::from_string(group.to_owned()));
        if !self.transactions_v2 {
            let request = AddOffsetsToTxnRequest::default()
                .with_transactional_id(self.id())
                .with_producer_id(ProducerId(self.identity.id))
                .with_producer_epoch(self.identity.epoch)
                .with_group_id(group_id());
            let id = self.id.clone();
            let seat = (CoordinatorType::Transaction, id.as_str());
            let added = self.ask(seat, 3, &request, |a| a.error_code, timeout);
            if !matches!(added, CoordinatorAnswer::Done(_)) {
                return added.map(|_| TxnOffsetCommitResponse::default());
            }
        }
        let mut topics: Vec<TxnOffsetCommitRequestTopic> = Vec::new();
        for entry in cut {
            let part = TxnOffsetCommitRequestPartition::default()
                .with_partition_index(entry.partition.partition.0)
                .with_committed_offset(entry.offset.0)
                .with_committed_metadata(Some(StrBytes::from_string(entry.metadata.clone())));
            match topics.last_mut() {
                Some(topic) if *topic.name.0 == *entry.partition.topic => {
                    topic.partitions.push(part)
                }
                _ => {
                    let name = StrBytes::from_string(entry.partition.topic.to_string());
                    topics.push(
                        TxnOffsetCommitRequestTopic::default()
                            .with_name(TopicName::from(name))
                            .with_partitions(vec![part]),
                    );
                }
            }
        }
        // A partition that is not said to have another epoch has -1, and a group that nobody has
        // joined no generation.
        let request = TxnOffsetCommitRequest::default()
            .with_transactional_id(self.id())
            .with_group_id(group_id())
            .with_producer_id(ProducerId(self.identity.id))
            .with_producer_epoch(self.identity.epoch)
            .with_generation_id(-1)
            .with_topics(topics);
        let most = if self.transactions_v2 {
            OFFSETS_V2
        } else {
            OFFSETS
        };
        let left = timeout.saturating_sub(clock.elapsed());
        let worst = |answer: &TxnOffsetCommitResponse| {
            let codes = || {
                let parts = answer.topics.iter().flat_map(|t| &t.partitions);
                parts.map(|p| p.error_code)
            };
            let left_out = codes().count() < cut.len();
            let fine = if left_out { UNKNOWN_SERVER_ERROR } else { 0 };
            codes().find(|code| *code != 0).unwrap_or(fine)
        };
        self.ask((CoordinatorType::Group, group), most, &request, worst, left)
    }

    /// Ends the transaction.
    pub(in crate::kafka::native) fn end(
        &mut self,
        committed: bool,
        timeout: Duration,
    ) -> CoordinatorAnswer<EndTxnResponse> {
        let request = EndTxnRequest::default()
            .with_transactional_id(self.id())
            .with_producer_id(ProducerId(self.identity.id))
            .with_producer_epoch(self.identity.epoch)
            .with_committed(committed);
        let most = if self.transactions_v2 { END_V2 } else { END };
        let id = self.id.clone();
        let seat = (CoordinatorType::Transaction, id.as_str());
        self.ask(seat, most, &request, |a| a.error_code, timeout)
    }

    /// Takes the next epoch of the id, and once more in a moment. Whoever is just taking it over has only
    /// ended our transaction when it is told to come again, and until it does we are not fenced.
    fn prove(&mut self, timeout: Duration) -> Result<()> {
        self.init_producer_id(self.identity, timeout)?;
        self.prove_again(timeout)
    }

    /// The second half, for who has the next epoch already.
    pub(in crate::kafka::native) fn prove_again(&mut self, timeout: Duration) -> Result<()> {
        let clock = self.cluster.stopwatch();
        loop {
            let left = NEWCOMER.saturating_sub(clock.elapsed());
            if left.is_zero() {
                return self.init_producer_id(self.identity, timeout);
            }
            self.cluster.pause(left);
        }
    }

    /// Somebody knows a newer epoch than ours: of a newer writer, or of the broker, which has ended a
    /// transaction that took too long. Whoever is fenced is told so when it asks for the next epoch of its
    /// own; the other one has it then.
    pub(in crate::kafka::native) fn lost(
        &mut self,
        code: i16,
        what: &str,
        timeout: Duration,
    ) -> Error {
        match self.prove(timeout) {
            Err(error) if error.kind() == ErrorKind::Fenced => return error,
            Err(_) if classify(code) == ErrorClass::Fenced => {
                return self.refused(code, "fenced", what);
            }
            _ => {}
        }
        Error::unavailable(format!(
            "{what}: the broker at {} gave the transaction of '{}' up, which took too long ({:?})",
            self.address,
            self.id,
            named(code)
        ))
        .hint("start again: nothing of it is visible, and its records are read again")
    }
}
