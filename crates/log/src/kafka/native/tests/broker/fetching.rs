//! The broker's answers to fetches.

use super::{Entry, Kept, PARTITIONS, Part};
use crate::kafka::native::records::batch_writer::{
    ATTRIBUTES, CONTROL, CRC, Identity, TRANSACTIONAL,
};
use bytes::{Bytes, BytesMut};
use kafka_protocol::ResponseError as Fault;
use kafka_protocol::messages::fetch_response::{
    AbortedTransaction, FetchableTopicResponse, PartitionData,
};
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{
    BrokerId, FetchRequest, FetchResponse, MetadataRequest, MetadataResponse, ProducerId,
};
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records::{
    Compression, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};
use uuid::Uuid;

/// The batch with its base offset in the log.
pub(super) fn placed(batch: &[u8], base: i64) -> Bytes {
    let mut bytes = BytesMut::from(batch);
    bytes[..8].copy_from_slice(&base.to_be_bytes());
    bytes.freeze()
}

/// The marker at the end of a transaction.
pub(in crate::kafka::native) fn mark(of: Identity, committed: bool, base: i64) -> Bytes {
    let key = [0, 0, 0, u8::from(committed)];
    let record = Record {
        transactional: true,
        delete_horizon: false,
        control: true,
        partition_leader_epoch: 0,
        producer_id: of.id,
        producer_epoch: of.epoch,
        timestamp_type: TimestampType::Creation,
        offset: 0,
        sequence: -1,
        timestamp: 1,
        key: Some(Bytes::copy_from_slice(&key)),
        value: Some(Bytes::from_static(&[0; 6])),
        headers: Default::default(),
    };
    let options = RecordEncodeOptions {
        version: 2,
        compression: Compression::None,
    };
    let mut bytes = BytesMut::new();
    RecordBatchEncoder::encode(&mut bytes, [&record], &options).unwrap();
    // Its attributes are set by hand, whatever the encoder writes.
    let attributes = TRANSACTIONAL | CONTROL;
    bytes[ATTRIBUTES..ATTRIBUTES + 2].copy_from_slice(&attributes.to_be_bytes());
    let crc = crc32c::crc32c(&bytes[ATTRIBUTES..]);
    bytes[CRC..CRC + 4].copy_from_slice(&crc.to_be_bytes());
    placed(&bytes, base)
}

/// Transactions that were aborted after an offset: producer id and first offset.
fn aborted(log: &[Entry], from: i64) -> Vec<(i64, i64)> {
    let mut begun: Vec<(i64, i64)> = Vec::new();
    let mut found = Vec::new();
    for entry in log {
        match entry.mark {
            None if begun.iter().any(|(id, _)| *id == entry.owner.id) => {}
            None => begun.push((entry.owner.id, entry.base)),
            Some(id) => {
                let ended = begun.iter().position(|(of, _)| *of == id);
                let ended = ended.map(|at| begun.swap_remove(at));
                if entry.committed == Some(false) && entry.base >= from {
                    found.extend(ended);
                }
            }
        }
    }
    found
}

impl Kept {
    /// The id of a topic: its name's bytes, and how often it was created again.
    fn topic_id(&self, name: &str) -> Uuid {
        let again = self.recreated.get(name).copied().unwrap_or(0);
        let bytes = name.bytes().chain([again]);
        Uuid::from_u128(bytes.fold(1, |id, byte| (id << 8) | u128::from(byte)))
    }

    /// The name of the topic that has this id now.
    fn name_of(&self, id: Uuid) -> Option<String> {
        let mut names = self.recreated.keys();
        names.find(|name| self.topic_id(name) == id).cloned()
    }

    pub(super) fn metadata(&mut self, request: &MetadataRequest) -> MetadataResponse {
        for wanted in request.topics.iter().flatten() {
            let name = wanted.name.as_ref().unwrap().to_string();
            self.recreated.entry(name).or_default();
        }
        let broker = MetadataResponseBroker::default()
            .with_node_id(BrokerId(1))
            .with_host(StrBytes::from_static_str(self.advertised.0))
            .with_port(self.advertised.1);
        let topics = request.topics.iter().flatten().map(|wanted| {
            let part = |p| {
                MetadataResponsePartition::default()
                    .with_partition_index(p)
                    .with_leader_id(BrokerId(1))
            };
            MetadataResponseTopic::default()
                .with_name(wanted.name.clone())
                .with_topic_id(self.topic_id(wanted.name.as_ref().unwrap()))
                .with_partitions((0..PARTITIONS).map(part).collect())
        });
        MetadataResponse::default()
            .with_brokers(vec![broker])
            .with_topics(topics.collect())
    }

    pub(super) fn fetch(&mut self, request: &FetchRequest, not_yet: bool) -> FetchResponse {
        assert_eq!(request.isolation_level, 1, "committed records only");
        self.fetches += 1;
        let mut room = usize::try_from(request.max_bytes).unwrap();
        let topics = request.topics.iter().map(|topic| {
            let by_id = self.fetch_version >= 13;
            let name = if by_id {
                self.name_of(topic.topic_id)
            } else {
                Some(topic.topic.to_string())
            };
            let parts = topic.partitions.iter().map(|wanted| {
                let answer = PartitionData::default().with_partition_index(wanted.partition);
                if not_yet && self.dice.roll(2) == 0 {
                    return answer.with_error_code(Fault::NotLeaderOrFollower.code());
                }
                let Some(name) = name.clone() else {
                    return answer.with_error_code(Fault::UnknownTopicId.code());
                };
                let part = (name, wanted.partition);
                let most = usize::try_from(wanted.partition_max_bytes).unwrap();
                let data = self.part(&part, wanted.fetch_offset, most.min(room), answer);
                room -= room.min(data.records.as_ref().map_or(0, Bytes::len));
                data
            });
            FetchableTopicResponse::default()
                .with_topic(topic.topic.clone())
                .with_topic_id(topic.topic_id)
                .with_partitions(parts.collect())
        });
        FetchResponse::default().with_responses(topics.collect())
    }

    fn part(
        &mut self,
        part: &Part,
        from: i64,
        most: usize,
        answer: PartitionData,
    ) -> PartitionData {
        let log = self.logs.get(part).map_or(&[][..], Vec::as_slice);
        let end = log.last().map_or(0, Entry::end);
        if from > end {
            return answer.with_error_code(Fault::OffsetOutOfRange.code());
        }
        let open = log.iter().find(|entry| entry.committed.is_none());
        let stable_end = open.map_or(end, |entry| entry.base);
        let mut records = BytesMut::new();
        for entry in log.iter().filter(|e| e.end() > from && e.base < stable_end) {
            if !records.is_empty() && records.len() + entry.bytes.len() > most {
                // The last batch is truncated when the answer is full.
                let left = most.saturating_sub(records.len());
                records.extend_from_slice(&entry.bytes[..left.min(entry.bytes.len() / 2)]);
                break;
            }
            records.extend_from_slice(&entry.bytes);
        }
        if self.one_of > 0 && self.dice.roll(20) == 0 {
            // A flipped bit.
            if let Some(last) = records.last_mut() {
                *last ^= 1;
            }
        }
        let aborted = aborted(log, from).into_iter().map(|(id, first)| {
            AbortedTransaction::default()
                .with_producer_id(ProducerId(id))
                .with_first_offset(first)
        });
        answer
            .with_high_watermark(end)
            .with_last_stable_offset(stable_end)
            .with_aborted_transactions(Some(aborted.collect()))
            .with_records(Some(records.freeze()))
    }
}
