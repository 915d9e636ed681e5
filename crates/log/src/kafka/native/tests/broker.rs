//! The broker of the tests: it keeps transactions as Kafka does, with and without KIP-890.
//!
//! It implements producer ids, epochs, sequence numbers, and the partitions of transactions.

use super::faults::Dice;
use crate::kafka::native::records::batch_writer::Identity;
use bytes::{Bytes, BytesMut};
use kafka_protocol::ResponseError as Fault;
use kafka_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
};
use kafka_protocol::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey};
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use kafka_protocol::records::RecordBatchDecoder;
use std::collections::{BTreeMap, BTreeSet};

mod entry;
mod fetching;
mod id;
mod idempotent;

pub(in crate::kafka::native) use entry::Entry;
pub(in crate::kafka::native) use fetching::mark;
use id::Id;
pub(in crate::kafka::native) use id::ROLLED;

pub(in crate::kafka::native) const PARTITIONS: i32 = 3;
type Part = (String, i32);

#[derive(Debug)]
pub(in crate::kafka::native) struct Kept {
    logs: BTreeMap<Part, Vec<Entry>>,
    ids: BTreeMap<String, Id>,
    pub committed: BTreeMap<Part, i64>,
    pub dice: Dice,
    /// One of so many requests fails; 0: none.
    pub one_of: u64,
    transactions_v2: bool,
    pub advertised: (&'static str, i32),
    pub faults: u32,
    /// How many fetches it got, and how many produce requests.
    pub fetches: u32,
    pub produces: u32,
    /// How many producer ids without transactions it has assigned; whether it loses their state at times.
    named: i64,
    pub forgetful: bool,
    /// The next request that ends a transaction of this id is lost.
    pub lose_end: Option<String>,
    /// The next request that ends a transaction of this id is applied without an answer; then another
    /// producer takes the id over, and aborts a transaction.
    pub take_over_at_end: Option<String>,
    /// Produce requests are lost.
    pub deaf: bool,
    /// Maximum size of a batch.
    pub most: usize,
    /// The epoch before the first one of an id.
    pub first_epoch: i16,
    /// Batches that one epoch of a producer has written twice.
    pub doubled: Vec<String>,
    /// The newest version of fetches.
    pub fetch_version: i16,
    /// How often each topic that was asked for was deleted and created again.
    pub recreated: BTreeMap<String, u8>,
}

fn decoded<R: Request>(mut body: Bytes, version: i16) -> R {
    R::decode(&mut body, version).unwrap()
}

impl Kept {
    pub(in crate::kafka::native) fn new(
        dice: Dice,
        one_of: u64,
        transactions_v2: bool,
        port: u16,
    ) -> Self {
        Self {
            logs: BTreeMap::new(),
            ids: BTreeMap::new(),
            committed: BTreeMap::new(),
            dice,
            one_of,
            transactions_v2,
            advertised: ("127.0.0.1", port.into()),
            faults: 0,
            fetches: 0,
            produces: 0,
            named: 0,
            forgetful: false,
            lose_end: None,
            take_over_at_end: None,
            deaf: false,
            most: 1 << 20,
            first_epoch: -1,
            doubled: Vec::new(),
            fetch_version: 13,
            recreated: BTreeMap::new(),
        }
    }

    /// The records of a partition that a `read_committed` reader sees.
    pub(in crate::kafka::native) fn visible(&self, topic: &str, partition: i32) -> Vec<Bytes> {
        let log = self.logs.get(&(topic.to_owned(), partition));
        let entries = log.into_iter().flatten();
        (entries.filter(|e| e.committed == Some(true)))
            .flat_map(|e| e.values.clone())
            .collect()
    }

    /// The offset after the last batch of a partition.
    pub(in crate::kafka::native) fn end_of(&self, topic: &str, partition: i32) -> i64 {
        let log = self.logs.get(&(topic.to_owned(), partition));
        log.and_then(|log| log.last()).map_or(0, Entry::end)
    }

    /// Whether a batch is neither committed nor aborted.
    pub(in crate::kafka::native) fn is_hanging(&self) -> bool {
        let mut entries = self.logs.values().flatten();
        entries.any(|e| e.committed.is_none())
    }

    pub(in crate::kafka::native) fn answer(&mut self, request: Bytes, not_yet: bool) -> Vec<u8> {
        let key = i16::from_be_bytes(request[..2].try_into().unwrap());
        let version = i16::from_be_bytes(request[2..4].try_into().unwrap());
        let key = ApiKey::try_from(key).unwrap();
        let mut body = request;
        let header = RequestHeader::decode(&mut body, key.request_header_version(version)).unwrap();
        let mut out = BytesMut::from(&[0; 4][..]);
        let into = &mut out;
        let number = header.correlation_id;
        match key {
            ApiKey::ApiVersions => {
                put::<ApiVersionsRequest>(into, number, version, &self.versions())
            }
            ApiKey::Metadata => {
                let answer = self.metadata(&decoded(body, version));
                put::<MetadataRequest>(into, number, version, &answer);
            }
            ApiKey::FindCoordinator => {
                let answer = self.coordinator(&decoded(body, version), not_yet);
                put::<FindCoordinatorRequest>(into, number, version, &answer);
            }
            ApiKey::InitProducerId => {
                let answer = self.init_producer_id(&decoded(body, version), not_yet);
                put::<InitProducerIdRequest>(into, number, version, &answer);
            }
            ApiKey::DescribeTransactions => {
                let answer = self.describe_transactions(&decoded(body, version));
                put::<DescribeTransactionsRequest>(into, number, version, &answer);
            }
            ApiKey::AddPartitionsToTxn => {
                let answer = self.add(&decoded(body, version), not_yet);
                put::<AddPartitionsToTxnRequest>(into, number, version, &answer);
            }
            ApiKey::AddOffsetsToTxn => {
                let request: AddOffsetsToTxnRequest = decoded(body, version);
                let own = identity(request.producer_id, request.producer_epoch);
                let checked = self.join(&request.transactional_id, own, &[], not_yet);
                let answer = AddOffsetsToTxnResponse::default().with_error_code(code(checked));
                put::<AddOffsetsToTxnRequest>(into, number, version, &answer);
            }
            ApiKey::TxnOffsetCommit => {
                let answer = self.offsets(&decoded(body, version), version, not_yet);
                put::<TxnOffsetCommitRequest>(into, number, version, &answer);
            }
            ApiKey::Produce => {
                let answer = self.produce(&decoded(body, version), version, not_yet);
                put::<ProduceRequest>(into, number, version, &answer);
            }
            ApiKey::EndTxn => {
                let answer = self.end(&decoded(body, version), not_yet);
                put::<EndTxnRequest>(into, number, version, &answer);
            }
            ApiKey::Fetch => {
                let answer = self.fetch(&decoded(body, version), not_yet);
                put::<FetchRequest>(into, number, version, &answer);
            }
            other => panic!("nobody has any business with {other:?}"),
        }
        let size = u32::try_from(out.len() - 4).unwrap();
        out[..4].copy_from_slice(&size.to_be_bytes());
        out.to_vec()
    }

    fn versions(&self) -> ApiVersionsResponse {
        let keys = [
            (ApiKey::Produce, 12),
            (ApiKey::Fetch, self.fetch_version),
            (ApiKey::Metadata, 12),
            (ApiKey::FindCoordinator, 4),
            (ApiKey::InitProducerId, 5),
            (ApiKey::DescribeTransactions, 0),
            (ApiKey::AddPartitionsToTxn, 3),
            (ApiKey::AddOffsetsToTxn, 3),
            (ApiKey::TxnOffsetCommit, 5),
            (ApiKey::EndTxn, 5),
            (ApiKey::ApiVersions, 3),
        ];
        let key = |(key, max): (ApiKey, i16)| {
            ApiVersion::default()
                .with_api_key(key as i16)
                .with_max_version(max)
        };
        let rules = FinalizedFeatureKey::default()
            .with_name(StrBytes::from_static_str("transaction.version"))
            .with_max_version_level(if self.transactions_v2 { 2 } else { 0 });
        ApiVersionsResponse::default()
            .with_api_keys(keys.map(key).to_vec())
            .with_finalized_features(vec![rules])
    }

    fn coordinator(
        &self,
        request: &FindCoordinatorRequest,
        not_yet: bool,
    ) -> FindCoordinatorResponse {
        let code = if not_yet {
            Fault::CoordinatorNotAvailable.code()
        } else {
            0
        };
        let found = request.coordinator_keys.iter().map(|key| {
            Coordinator::default()
                .with_key(key.clone())
                .with_node_id(BrokerId(1))
                .with_host(StrBytes::from_static_str("127.0.0.1"))
                .with_port(self.advertised.1)
                .with_error_code(code)
        });
        FindCoordinatorResponse::default().with_coordinators(found.collect())
    }

    fn init_producer_id(
        &mut self,
        request: &InitProducerIdRequest,
        not_yet: bool,
    ) -> InitProducerIdResponse {
        let answer = InitProducerIdResponse::default();
        if not_yet {
            return answer.with_error_code(Fault::ConcurrentTransactions.code());
        }
        let Some(name) = request.transactional_id.as_ref().map(|id| id.to_string()) else {
            return self.name_somebody();
        };
        let own = identity(request.producer_id, request.producer_epoch);
        let (fresh, epoch) = (self.ids.len(), self.first_epoch);
        let id = self.ids.entry(name.clone()).or_insert_with(|| Id {
            now: Identity {
                id: 1000 + i64::try_from(fresh).unwrap(),
                epoch,
            },
            before: None,
            open: false,
            parts: BTreeSet::new(),
            pending: BTreeMap::new(),
            last_end: None,
        });
        // As in Kafka, the epoch is not compared before an open transaction is aborted.
        let is_other_id = own != Identity::NONE && own.id != id.now.id;
        if id.open && !is_other_id {
            // It is aborted in an epoch of its own, and the client is asked to retry.
            self.time_out(&name);
            return answer.with_error_code(Fault::ConcurrentTransactions.code());
        }
        let known = own == id.now || id.before == Some(own);
        if own != Identity::NONE && !known {
            return answer.with_error_code(Fault::ProducerFenced.code());
        }
        if own != Identity::NONE && id.before == Some(own) {
            // A retry, because the answer was lost.
            return answer
                .with_producer_id(ProducerId(id.now.id))
                .with_producer_epoch(id.now.epoch);
        }
        id.advance(own != Identity::NONE);
        id.last_end = None;
        answer
            .with_producer_id(ProducerId(id.now.id))
            .with_producer_epoch(id.now.epoch)
    }

    /// Adds partitions to the open transaction, if the identity is the current one.
    fn join(
        &mut self,
        name: &str,
        own: Identity,
        parts: &[Part],
        not_yet: bool,
    ) -> Result<(), Fault> {
        let id = self
            .ids
            .get_mut(name)
            .ok_or(Fault::InvalidProducerIdMapping)?;
        if own != id.now {
            return Err(Fault::InvalidProducerEpoch);
        }
        if not_yet {
            return Err(Fault::ConcurrentTransactions);
        }
        id.open = true;
        id.parts.extend(parts.iter().cloned());
        Ok(())
    }

    fn add(
        &mut self,
        request: &AddPartitionsToTxnRequest,
        not_yet: bool,
    ) -> AddPartitionsToTxnResponse {
        let own = identity(
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
        );
        let topics = &request.v3_and_below_topics;
        let parts: Vec<Part> = (topics.iter())
            .flat_map(|t| t.partitions.iter().map(|p| (t.name.to_string(), *p)))
            .collect();
        assert!(
            !self.transactions_v2,
            "nobody asks for that under the newer rules"
        );
        let code = code(self.join(&request.v3_and_below_transactional_id, own, &parts, not_yet));
        let results = topics.iter().map(|topic| {
            let part = |p: &i32| {
                AddPartitionsToTxnPartitionResult::default()
                    .with_partition_index(*p)
                    .with_partition_error_code(code)
            };
            AddPartitionsToTxnTopicResult::default()
                .with_name(topic.name.clone())
                .with_results_by_partition(topic.partitions.iter().map(part).collect())
        });
        AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(results.collect())
    }

    fn offsets(
        &mut self,
        request: &TxnOffsetCommitRequest,
        version: i16,
        not_yet: bool,
    ) -> TxnOffsetCommitResponse {
        let own = identity(request.producer_id, request.producer_epoch);
        assert_eq!(version >= 5, self.transactions_v2);
        let name = request.transactional_id.to_string();
        let outcome = if self.transactions_v2 || self.ids.get(&name).is_some_and(|id| id.open) {
            self.join(&name, own, &[], not_yet)
        } else {
            Err(Fault::InvalidTxnState)
        };
        let topics = request.topics.iter().map(|topic| {
            let part = |p: i32| {
                TxnOffsetCommitResponsePartition::default()
                    .with_partition_index(p)
                    .with_error_code(code(outcome))
            };
            TxnOffsetCommitResponseTopic::default()
                .with_name(topic.name.clone())
                .with_partitions(
                    topic
                        .partitions
                        .iter()
                        .map(|p| part(p.partition_index))
                        .collect(),
                )
        });
        let answer = TxnOffsetCommitResponse::default().with_topics(topics.collect());
        if outcome.is_ok() {
            let id = self.ids.get_mut(&name).unwrap();
            for topic in &request.topics {
                for part in &topic.partitions {
                    let at = (topic.name.to_string(), part.partition_index);
                    id.pending.insert(at, part.committed_offset);
                }
            }
        }
        answer
    }

    fn produce(
        &mut self,
        request: &ProduceRequest,
        version: i16,
        not_yet: bool,
    ) -> ProduceResponse {
        let name = request.transactional_id.as_ref().map(|id| id.to_string());
        assert_eq!(version >= 12, self.transactions_v2 && name.is_some());
        self.produces += 1;
        // Some partitions of a request may be accepted and others not.
        let topics = request.topic_data.iter().map(|topic| {
            let parts = topic.partition_data.iter().map(|data| {
                let part = (topic.name.to_string(), data.index);
                let refuse = not_yet && self.dice.roll(2) == 0;
                let outcome = if refuse {
                    Err(Fault::NotLeaderOrFollower)
                } else {
                    let records = data.records.clone().unwrap();
                    match &name {
                        Some(name) => self.append(name, &part, records),
                        None => self.append_idempotent(&part, records),
                    }
                };
                PartitionProduceResponse::default()
                    .with_index(data.index)
                    .with_error_code(outcome.err().map_or(0, |fault| fault.code()))
                    .with_base_offset(outcome.unwrap_or(-1))
            });
            TopicProduceResponse::default()
                .with_name(topic.name.clone())
                .with_partition_responses(parts.collect())
        });
        ProduceResponse::default().with_responses(topics.collect())
    }

    fn append(&mut self, name: &str, part: &Part, mut records: Bytes) -> Result<i64, Fault> {
        if records.len() > self.most {
            return Err(Fault::MessageTooLarge);
        }
        let whole = records.clone();
        let read = RecordBatchDecoder::decode(&mut records).map_err(|_| Fault::CorruptMessage)?;
        let first = &read.records[0];
        let owner = Identity {
            id: first.producer_id,
            epoch: first.producer_epoch,
        };
        let id = self.ids.get(name);
        if id.is_some_and(|id| id.now != owner) {
            return Err(Fault::InvalidProducerEpoch);
        }
        if !self.transactions_v2 && !id.is_some_and(|id| id.parts.contains(part)) {
            return Err(Fault::InvalidTxnState);
        }
        let values: Vec<_> = read
            .records
            .iter()
            .map(|r| r.value.clone().unwrap())
            .collect();
        let log = self.logs.entry(part.clone()).or_default();
        let mine: Vec<_> = (0..)
            .zip(log.iter())
            .filter(|(_, e)| e.owner == owner)
            .collect();
        if let Some((_, known)) = mine
            .iter()
            .rev()
            .take(5)
            .find(|(_, e)| e.first == first.sequence && e.values == values)
        {
            return Ok(known.base);
        }
        let next = mine
            .last()
            .map_or(0, |(_, e)| e.first + i32::try_from(e.values.len()).unwrap());
        self.join(name, owner, std::slice::from_ref(part), false)?;
        if first.sequence != next {
            return Err(Fault::OutOfOrderSequenceNumber);
        }
        let log = self.logs.entry(part.clone()).or_default();
        if log.iter().any(|e| e.owner == owner && e.values == values) {
            self.doubled.push(format!("{part:?} {first:?}"));
        }
        let base = log.last().map_or(0, Entry::end);
        log.push(Entry {
            owner,
            first: first.sequence,
            values,
            committed: None,
            base,
            bytes: fetching::placed(&whole, base),
            mark: None,
        });
        Ok(base)
    }

    fn end(&mut self, request: &EndTxnRequest, not_yet: bool) -> EndTxnResponse {
        let answer = EndTxnResponse::default();
        if not_yet {
            return answer.with_error_code(Fault::NotCoordinator.code());
        }
        let name = request.transactional_id.to_string();
        let own = identity(request.producer_id, request.producer_epoch);
        let transactions_v2 = self.transactions_v2;
        let id = self.ids.get_mut(&name).unwrap();
        let again = id.last_end == Some(request.committed) && !id.open;
        let (before, now) = (id.before, id.now);
        let says = |id: Identity| {
            EndTxnResponse::default()
                .with_producer_id(ProducerId(id.id))
                .with_producer_epoch(id.epoch)
        };
        if own != now {
            // With KIP-890, a repeated or late end has the previous epoch.
            let late = transactions_v2 && before == Some(own);
            return match (late, again) {
                (true, true) => says(now),
                (true, false) => answer.with_error_code(Fault::InvalidTxnState.code()),
                (false, _) => answer.with_error_code(Fault::ProducerFenced.code()),
            };
        }
        if !id.open {
            // Without, it has the same epoch.
            let fine = !transactions_v2 && again;
            return if fine {
                says(now)
            } else {
                answer.with_error_code(Fault::InvalidTxnState.code())
            };
        }
        self.settle(&name, request.committed);
        let id = self.ids.get_mut(&name).unwrap();
        id.last_end = Some(request.committed);
        if transactions_v2 {
            id.advance(true);
            return says(id.now);
        }
        answer
    }

    pub(in crate::kafka::native) fn end_is_lost(&mut self, request: &[u8]) -> Option<String> {
        let end = (ApiKey::EndTxn as i16).to_be_bytes();
        self.lose_end.take_if(|_| request.starts_with(&end))
    }

    pub(in crate::kafka::native) fn is_lost(&self, request: &[u8]) -> bool {
        self.deaf && request.starts_with(&(ApiKey::Produce as i16).to_be_bytes())
    }

    /// The producer id of a transactional id.
    pub(in crate::kafka::native) fn producer(&self, name: &str) -> i64 {
        self.ids[name].now.id
    }

    pub(in crate::kafka::native) fn is_open(&self, name: &str) -> bool {
        self.ids[name].open
    }

    /// A transaction was open for too long, and is aborted.
    pub(in crate::kafka::native) fn time_out(&mut self, name: &str) {
        self.settle(name, false);
        let id = self.ids.get_mut(name).unwrap();
        // Without KIP-890, no producer may continue from the previous epoch: it could be another one's.
        id.advance(self.transactions_v2);
        id.last_end = Some(false);
    }

    fn settle(&mut self, name: &str, committed: bool) {
        let id = self.ids.get_mut(name).unwrap();
        id.open = false;
        let pending = std::mem::take(&mut id.pending);
        let owner = id.now;
        for part in std::mem::take(&mut id.parts) {
            let log = self.logs.entry(part).or_default();
            for entry in log.iter_mut() {
                if entry.owner.id == owner.id && entry.committed.is_none() {
                    entry.committed = Some(committed);
                }
            }
            let base = log.last().map_or(0, Entry::end);
            log.push(Entry {
                owner: Identity::NONE,
                first: 0,
                values: Vec::new(),
                committed: Some(committed),
                base,
                bytes: fetching::mark(owner, committed, base),
                mark: Some(owner.id),
            });
        }
        if committed {
            self.committed.extend(pending);
        }
    }
}

fn identity(id: ProducerId, epoch: i16) -> Identity {
    Identity { id: id.0, epoch }
}

fn code(outcome: Result<(), Fault>) -> i16 {
    outcome.err().map_or(0, |fault| fault.code())
}

fn put<R: Request>(into: &mut BytesMut, number: i32, version: i16, answer: &R::Response) {
    let header = ResponseHeader::default().with_correlation_id(number);
    let form = <R::Response as HeaderVersion>::header_version(version);
    header.encode(into, form).unwrap();
    answer.encode(into, version).unwrap();
}
