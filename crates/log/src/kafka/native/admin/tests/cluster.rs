//! A cluster of two brokers with topics, which answers admin requests in the configured versions.

mod groups;
mod transactions;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey};
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult,
};
use kafka_protocol::messages::describe_producers_response::{
    PartitionResponse, ProducerState, TopicResponse,
};
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use kafka_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::Builder;

/// The newest version of each request that the brokers know.
pub(super) type Versions = &'static [(ApiKey, i16)];

/// Kafka 4.4.
pub(super) const NEW: Versions = &[
    (ApiKey::Metadata, 13),
    (ApiKey::FindCoordinator, 6),
    (ApiKey::ListOffsets, 11),
    (ApiKey::OffsetFetch, 10),
    (ApiKey::CreateTopics, 7),
    (ApiKey::DeleteTopics, 6),
    (ApiKey::DescribeConfigs, 4),
    (ApiKey::DescribeProducers, 0),
    (ApiKey::DescribeTransactions, 0),
    (ApiKey::WriteTxnMarkers, 2),
    (ApiKey::EndTxn, 5),
    (ApiKey::OffsetForLeaderEpoch, 4),
    (ApiKey::DescribeGroups, 6),
    (ApiKey::ConsumerGroupDescribe, 1),
    (ApiKey::ListGroups, 5),
];
/// Kafka 2.8.
pub(super) const OLD: Versions = &[
    (ApiKey::Metadata, 11),
    (ApiKey::FindCoordinator, 3),
    (ApiKey::ListOffsets, 6),
    (ApiKey::OffsetFetch, 7),
    (ApiKey::CreateTopics, 7),
    (ApiKey::DeleteTopics, 6),
    (ApiKey::DescribeConfigs, 4),
    (ApiKey::DescribeProducers, 0),
    (ApiKey::OffsetForLeaderEpoch, 4),
    (ApiKey::DescribeGroups, 5),
];
/// Kafka 1.0, or a broker that claims to be no newer.
pub(super) const ANCIENT: Versions = &[
    (ApiKey::Metadata, 5),
    (ApiKey::FindCoordinator, 1),
    (ApiKey::ListOffsets, 2),
    (ApiKey::OffsetFetch, 3),
    (ApiKey::CreateTopics, 2),
    (ApiKey::DeleteTopics, 1),
    (ApiKey::DescribeConfigs, 1),
    (ApiKey::DescribeGroups, 1),
];

/// The controller. It also coordinates the group and leads odd partitions. The other broker is asked
/// first.
pub(super) const CONTROLLER: i32 = 2;
/// Offsets of partition 0; those of another one are larger by its number.
pub(super) const BEGIN: i64 = 10;
pub(super) const STABLE_END: i64 = 20;
pub(super) const HIGH_WATERMARK: i64 = 30;
pub(super) const BY_TIME: i64 = 15;
/// A leader epoch and where its records end; the brokers know no other epoch.
pub(super) const EPOCH_END: (i32, i64) = (6, 18);

#[derive(Debug)]
pub(super) struct Kept {
    versions: Versions,
    ports: [u16; 2],
    /// The number of partitions of each topic, and how many more times the first broker is asked before
    /// it knows the topic.
    pub topics: BTreeMap<String, (i32, usize)>,
    /// The same for deleted ones.
    pub deleted: BTreeMap<String, (i32, usize)>,
    /// The protocol of the group and its state; unless that is "Empty", the group has a member.
    pub group: Option<(&'static str, &'static str)>,
    /// The state and the epoch of the transactional id "app", and the `transaction.version`.
    pub transaction: Option<(&'static str, i16)>,
    pub transaction_version: i16,
    /// The markers written: producer, epoch, committed, coordinator epoch, partition.
    pub markers: Vec<(i64, i16, bool, i32, i32)>,
    /// The codes of the next answers, by request.
    pub codes: BTreeMap<i16, VecDeque<i16>>,
    /// How many answers lack their last partition.
    pub left_out: usize,
    /// The second broker leads all partitions; the first one missed that election.
    pub behind: bool,
    /// The second broker closes the connection instead of answering.
    pub alone: bool,
    /// Both brokers do.
    pub closing: bool,
    /// The second broker reads requests and never answers.
    pub mute: bool,
    pub connections: usize,
    /// The requests so far: broker, request and version.
    pub asked: Vec<(i32, ApiKey, i16)>,
}

/// The cluster; its threads end with the process.
#[derive(Debug)]
pub(super) struct TwoBrokers {
    pub kept: Arc<Mutex<Kept>>,
    /// The address of the first broker.
    pub bootstrap: String,
    /// Holding this lock delays answers about settings.
    pub settings: Arc<Mutex<()>>,
}

impl TwoBrokers {
    pub(super) fn start(versions: Versions) -> Self {
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let ports = [0, 1].map(|at: usize| listeners[at].local_addr().unwrap().port());
        let kept = Arc::new(Mutex::new(Kept {
            versions,
            ports,
            topics: BTreeMap::new(),
            deleted: BTreeMap::new(),
            group: None,
            transaction: None,
            transaction_version: 2,
            markers: Vec::new(),
            codes: BTreeMap::new(),
            left_out: 0,
            behind: false,
            alone: false,
            mute: false,
            closing: false,
            connections: 0,
            asked: Vec::new(),
        }));
        let settings = Arc::new(Mutex::new(()));
        for (node, listener) in (1..).zip(listeners) {
            let (kept, settings) = (Arc::clone(&kept), Arc::clone(&settings));
            let accept = move || {
                for stream in listener.incoming() {
                    let (kept, settings) = (Arc::clone(&kept), Arc::clone(&settings));
                    kept.lock().connections += 1;
                    let serve = move || serve(node, stream.unwrap(), &kept, &settings);
                    Builder::new().spawn(serve).unwrap();
                }
            };
            Builder::new().spawn(accept).unwrap();
        }
        Self {
            kept,
            bootstrap: format!("127.0.0.1:{}", ports[0]),
            settings,
        }
    }

    /// Sets the codes of the next answers to a request.
    pub(super) fn say(&self, key: ApiKey, codes: &[i16]) {
        let mut kept = self.kept.lock();
        kept.codes.entry(key as i16).or_default().extend(codes);
    }
}

fn serve(node: i32, mut stream: TcpStream, kept: &Mutex<Kept>, settings: &Mutex<()>) {
    // A failed read means that the client is gone.
    let _gone = (|| -> std::io::Result<()> {
        loop {
            let mut size = [0; 4];
            stream.read_exact(&mut size)?;
            let mut request = vec![0; u32::from_be_bytes(size) as usize];
            stream.read_exact(&mut request)?;
            let key = i16::from_be_bytes(request[..2].try_into().unwrap());
            if key == ApiKey::DescribeConfigs as i16 {
                drop(settings.lock());
            }
            let mut kept = kept.lock();
            if kept.closing || kept.alone && node == CONTROLLER {
                return Ok(());
            }
            let answer = kept.answer(node, Bytes::from(request));
            if kept.mute && node == CONTROLLER {
                continue;
            }
            drop(kept);
            stream.write_all(&answer)?;
        }
    })();
}

fn decoded<R: Request>(mut body: Bytes, version: i16) -> R {
    let request = R::decode(&mut body, version).unwrap();
    assert!(body.is_empty(), "all of the request is understood");
    request
}

fn put<R: Request>(number: i32, version: i16, answer: &R::Response) -> Vec<u8> {
    let mut out = BytesMut::from(&[0; 4][..]);
    let form = <R::Response as HeaderVersion>::header_version(version);
    let header = ResponseHeader::default().with_correlation_id(number);
    header.encode(&mut out, form).unwrap();
    answer.encode(&mut out, version).unwrap();
    let size = u32::try_from(out.len() - 4).unwrap();
    out[..4].copy_from_slice(&size.to_be_bytes());
    out.to_vec()
}

impl Kept {
    fn code(&mut self, key: ApiKey) -> i16 {
        let codes = self.codes.entry(key as i16).or_default();
        codes.pop_front().unwrap_or(0)
    }

    fn answer(&mut self, node: i32, request: Bytes) -> Vec<u8> {
        let key = i16::from_be_bytes(request[..2].try_into().unwrap());
        let version = i16::from_be_bytes(request[2..4].try_into().unwrap());
        let key = ApiKey::try_from(key).unwrap();
        let mut body = request;
        let header = RequestHeader::decode(&mut body, key.request_header_version(version)).unwrap();
        let number = header.correlation_id;
        self.asked.push((node, key, version));
        macro_rules! answered {
            ($request:ty, $by:ident) => {{
                let answer = self.$by(node, version, &decoded::<$request>(body, version));
                put::<$request>(number, version, &answer)
            }};
        }
        match key {
            ApiKey::ApiVersions => put::<ApiVersionsRequest>(number, version, &self.versions()),
            ApiKey::Metadata => answered!(MetadataRequest, metadata),
            ApiKey::FindCoordinator => answered!(FindCoordinatorRequest, coordinator),
            ApiKey::ListOffsets => answered!(ListOffsetsRequest, list_offsets),
            ApiKey::OffsetFetch => answered!(OffsetFetchRequest, offset_fetch),
            ApiKey::CreateTopics => answered!(CreateTopicsRequest, create),
            ApiKey::DeleteTopics => answered!(DeleteTopicsRequest, delete),
            ApiKey::DescribeConfigs => answered!(DescribeConfigsRequest, configs),
            ApiKey::DescribeProducers => answered!(DescribeProducersRequest, producers),
            ApiKey::DescribeTransactions => {
                answered!(DescribeTransactionsRequest, describe_transactions)
            }
            ApiKey::EndTxn => answered!(EndTxnRequest, end_transaction),
            ApiKey::WriteTxnMarkers => answered!(WriteTxnMarkersRequest, write_markers),
            ApiKey::OffsetForLeaderEpoch => answered!(OffsetForLeaderEpochRequest, epoch_ends),
            ApiKey::DescribeGroups => answered!(DescribeGroupsRequest, describe_groups),
            ApiKey::ConsumerGroupDescribe => {
                answered!(ConsumerGroupDescribeRequest, describe_consumer_groups)
            }
            ApiKey::ListGroups => answered!(ListGroupsRequest, list_groups),
            other => panic!("nobody has any business with {other:?}"),
        }
    }

    fn versions(&self) -> ApiVersionsResponse {
        let keys = self.versions.iter().map(|(key, max)| {
            ApiVersion::default()
                .with_api_key(*key as i16)
                .with_max_version(*max)
        });
        let rules = FinalizedFeatureKey::default()
            .with_name(StrBytes::from_static_str("transaction.version"))
            .with_max_version_level(self.transaction_version);
        ApiVersionsResponse::default()
            .with_api_keys(keys.collect())
            .with_finalized_features(vec![rules])
    }

    fn metadata(&mut self, node: i32, version: i16, request: &MetadataRequest) -> MetadataResponse {
        let brokers = (1..).zip(self.ports).map(|(node, port)| {
            MetadataResponseBroker::default()
                .with_node_id(BrokerId(node))
                .with_host(StrBytes::from_static_str("127.0.0.1"))
                .with_port(port.into())
        });
        assert!(
            !request.allow_auto_topic_creation,
            "nobody makes one by asking"
        );
        let late = node != CONTROLLER;
        let mut known = BTreeMap::new();
        for (name, (partitions, hearing)) in &mut self.topics {
            if !late || *hearing == 0 {
                known.insert(name.clone(), *partitions);
            } else {
                *hearing -= 1;
            }
        }
        for (name, (partitions, hearing)) in &mut self.deleted {
            if late && *hearing > 0 {
                *hearing -= 1;
                known.insert(name.clone(), *partitions);
            }
        }
        let code = if request.topics.as_ref().is_none_or(|t| !t.is_empty()) {
            self.code(ApiKey::Metadata)
        } else {
            0
        };
        let names: Vec<String> = match &request.topics {
            None => known.keys().cloned().collect(),
            Some(topics) => topics
                .iter()
                .flat_map(|t| t.name.clone())
                .map(|n| n.to_string())
                .collect(),
        };
        let topics = names.into_iter().map(|name| {
            let partitions = known.get(&name).copied();
            let part = |p: i32| {
                MetadataResponsePartition::default()
                    .with_partition_index(p)
                    .with_leader_id(BrokerId(if self.behind { node } else { 1 + p % 2 }))
                    .with_leader_epoch(if self.behind { node } else { -1 })
            };
            let topic = MetadataResponseTopic::default()
                .with_name(Some(TopicName::from(StrBytes::from_string(name))))
                .with_error_code(if partitions.is_some() { code } else { 3 })
                .with_partitions((0..partitions.unwrap_or(0)).map(part).collect());
            // A different id for each number of partitions.
            let id = format!("00000000-0000-0000-0000-{:012x}", partitions.unwrap_or(0));
            if version >= 10 {
                topic.with_topic_id(id.parse().unwrap())
            } else {
                topic
            }
        });
        MetadataResponse::default()
            .with_brokers(brokers.collect())
            .with_controller_id(BrokerId(CONTROLLER))
            .with_topics(topics.collect())
    }

    fn coordinator(
        &mut self,
        _node: i32,
        version: i16,
        request: &FindCoordinatorRequest,
    ) -> FindCoordinatorResponse {
        let code = self.code(ApiKey::FindCoordinator);
        let (node, port) = (BrokerId(CONTROLLER), i32::from(self.ports[1]));
        let host = StrBytes::from_static_str("127.0.0.1");
        let key = ["group", "app"][usize::try_from(request.key_type).unwrap()];
        let answer = FindCoordinatorResponse::default();
        if version < 4 {
            assert_eq!(&*request.key, key);
            return (answer.with_error_code(code).with_node_id(node))
                .with_host(host)
                .with_port(port);
        }
        assert_eq!(
            request.coordinator_keys,
            [key].map(StrBytes::from_static_str)
        );
        let found = Coordinator::default()
            .with_error_code(code)
            .with_node_id(node);
        answer.with_coordinators(vec![found.with_host(host).with_port(port)])
    }

    fn list_offsets(
        &mut self,
        node: i32,
        _version: i16,
        request: &ListOffsetsRequest,
    ) -> ListOffsetsResponse {
        assert_eq!(request.replica_id, BrokerId(-1), "it is a client");
        let code = self.code(ApiKey::ListOffsets);
        let topics = request.topics.iter().map(|topic| {
            let mut parts: Vec<_> = (topic.partitions.iter())
                .map(|part| {
                    let index = part.partition_index;
                    let leads = self.behind || node == 1 + index % 2;
                    assert!(leads, "its leader is asked");
                    let offset = match (part.timestamp, request.isolation_level) {
                        (-2, _) => BEGIN,
                        (-1, 1) => STABLE_END,
                        (-1, 0) => HIGH_WATERMARK,
                        (0..=1000, 1) => BY_TIME,
                        (1001.., 1) => -1 - i64::from(index),
                        other => panic!("nobody asks for {other:?}"),
                    };
                    ListOffsetsPartitionResponse::default()
                        .with_partition_index(index)
                        .with_error_code(code)
                        .with_offset(offset + i64::from(index))
                })
                .collect();
            if self.left_out > 0 {
                self.left_out -= 1;
                parts.pop();
            }
            ListOffsetsTopicResponse::default()
                .with_name(topic.name.clone())
                .with_partitions(parts)
        });
        let topics = topics.collect();
        ListOffsetsResponse::default().with_topics(topics)
    }

    fn create(
        &mut self,
        node: i32,
        _version: i16,
        request: &CreateTopicsRequest,
    ) -> CreateTopicsResponse {
        let code = if node == CONTROLLER {
            self.code(ApiKey::CreateTopics)
        } else {
            41
        };
        let topics = request.topics.iter().map(|topic| {
            let name = topic.name.to_string();
            let known = self.topics.contains_key(&name);
            let code = if code == 0 && known { 36 } else { code };
            if code == 0 {
                assert_eq!(topic.replication_factor, -1);
                assert_eq!(topic.configs[0].value.as_deref(), Some("compact"));
                self.topics.insert(name, (topic.num_partitions, 3));
            }
            CreatableTopicResult::default()
                .with_name(topic.name.clone())
                .with_error_code(code)
                .with_error_message(
                    (code == 40).then(|| StrBytes::from_static_str("no such policy")),
                )
        });
        let topics = topics.collect();
        CreateTopicsResponse::default().with_topics(topics)
    }

    fn delete(
        &mut self,
        node: i32,
        version: i16,
        request: &DeleteTopicsRequest,
    ) -> DeleteTopicsResponse {
        let code = if node == CONTROLLER {
            self.code(ApiKey::DeleteTopics)
        } else {
            41
        };
        let names: Vec<_> = if version < 6 {
            request.topic_names.iter().map(|n| n.to_string()).collect()
        } else {
            request
                .topics
                .iter()
                .flat_map(|t| &t.name)
                .map(|n| n.to_string())
                .collect()
        };
        let topics = names.into_iter().map(|name| {
            let code = match self.topics.get(&name) {
                None if code == 0 => 3,
                Some((partitions, _)) if code == 0 => {
                    self.deleted.insert(name.clone(), (*partitions, 3));
                    self.topics.remove(&name);
                    0
                }
                _ => code,
            };
            DeletableTopicResult::default()
                .with_name(Some(TopicName::from(StrBytes::from_string(name))))
                .with_error_code(code)
        });
        let topics = topics.collect();
        DeleteTopicsResponse::default().with_responses(topics)
    }

    fn configs(
        &mut self,
        _node: i32,
        _version: i16,
        request: &DescribeConfigsRequest,
    ) -> DescribeConfigsResponse {
        let code = self.code(ApiKey::DescribeConfigs);
        let results = request.resources.iter().map(|resource| {
            assert_eq!(resource.resource_type, 2, "it is a topic");
            let value = |key: &StrBytes| match &**key {
                "cleanup.policy" if &*resource.resource_name == "deleted" => "delete",
                "cleanup.policy" => "delete,compact",
                "delete.retention.ms" => "5000",
                other => panic!("nobody asks for {other}"),
            };
            let configs = resource.configuration_keys.iter().flatten().map(|key| {
                DescribeConfigsResourceResult::default()
                    .with_name(key.clone())
                    .with_value(Some(StrBytes::from_static_str(value(key))))
            });
            DescribeConfigsResult::default()
                .with_resource_type(2)
                .with_resource_name(resource.resource_name.clone())
                .with_error_code(code)
                .with_configs(configs.collect())
        });
        DescribeConfigsResponse::default().with_results(results.collect())
    }

    fn producers(
        &mut self,
        node: i32,
        _version: i16,
        request: &DescribeProducersRequest,
    ) -> DescribeProducersResponse {
        let code = self.code(ApiKey::DescribeProducers);
        let topics = request.topics.iter().map(|topic| {
            let part = |p: &i32| {
                assert_eq!(node, 1 + p % 2, "its leader is asked");
                let producer = |start| {
                    ProducerState::default()
                        .with_producer_id(ProducerId(7))
                        .with_producer_epoch(3)
                        .with_last_timestamp(99)
                        .with_coordinator_epoch(4)
                        .with_current_txn_start_offset(start)
                };
                let open = [-1, 25, 21].map(producer).to_vec();
                PartitionResponse::default()
                    .with_partition_index(*p)
                    .with_error_code(code)
                    .with_active_producers(if *p == 0 { open } else { vec![producer(-1)] })
            };
            TopicResponse::default()
                .with_name(topic.name.clone())
                .with_partitions(topic.partition_indexes.iter().map(part).collect())
        });
        DescribeProducersResponse::default().with_topics(topics.collect())
    }

    fn epoch_ends(
        &mut self,
        node: i32,
        _version: i16,
        request: &OffsetForLeaderEpochRequest,
    ) -> OffsetForLeaderEpochResponse {
        let code = self.code(ApiKey::OffsetForLeaderEpoch);
        let topics = request.topics.iter().map(|topic| {
            let end = |asked: &OffsetForLeaderPartition| {
                assert_eq!(node, 1 + asked.partition % 2, "its leader is asked");
                let (epoch, end) = EPOCH_END;
                let end = if asked.leader_epoch == epoch {
                    end + i64::from(asked.partition)
                } else {
                    -1
                };
                EpochEndOffset::default()
                    .with_partition(asked.partition)
                    .with_error_code(code)
                    .with_end_offset(end)
            };
            OffsetForLeaderTopicResult::default()
                .with_topic(topic.topic.clone())
                .with_partitions(topic.partitions.iter().map(end).collect())
        });
        OffsetForLeaderEpochResponse::default().with_topics(topics.collect())
    }
}
