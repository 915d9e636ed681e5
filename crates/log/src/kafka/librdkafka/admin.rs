//! Admin requests with librdkafka: topics, committed positions, ranges.
//!
//! Takes names, returns answers within a deadline. Owns one client that is created with the broker and
//! shared by all callers. Retries while the cluster answers "not yet" (a leader is being elected, a
//! transaction is being completed), but not beyond the timeout.

mod call;
mod configs;
mod create;
mod delete;
mod members;
mod recent_changes;
#[cfg(test)]
mod tests;

use super::client::{Client, RdKafkaError, c_text, list, millis, text};
use super::group::Group;
use crate::kafka::admin::AdminClient;
use crate::kafka::properties::Properties;
use crate::{Committed, GroupInUse, NewTopic, OpenTransaction, Range, TopicInfo};
use call::Call;
use parking_lot::Mutex;
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka_sys as sys;
use recent_changes::RecentChanges;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, Offset, Result, SystemClock, Timestamp, TopicPartition};

use sys::rd_kafka_admin_op_t as Op;

/// Stands for an offset that the client didn't learn.
const NO_ANSWER: i64 = sys::RD_KAFKA_OFFSET_INVALID as i64;

/// The end of a partition is its last stable offset.
const COMMITTED: sys::rd_kafka_IsolationLevel_t =
    sys::rd_kafka_IsolationLevel_t::RD_KAFKA_ISOLATION_LEVEL_READ_COMMITTED;
/// The end of a partition is its high watermark.
const UNCOMMITTED: sys::rd_kafka_IsolationLevel_t =
    sys::rd_kafka_IsolationLevel_t::RD_KAFKA_ISOLATION_LEVEL_READ_UNCOMMITTED;

/// The admin client.
#[derive(Debug)]
pub(in crate::kafka) struct Admin {
    client: Client,
    address: String,
    properties: Properties,
    /// One per group that was queried: an application has one.
    groups: Mutex<BTreeMap<String, Arc<Group>>>,
    recent: RecentChanges,
}

impl Admin {
    pub(in crate::kafka) fn new(properties: &Properties) -> Result<Self> {
        Ok(Self {
            client: Client::new(false, &properties.admin())?,
            address: properties.bootstrap().to_owned(),
            properties: properties.clone(),
            groups: Mutex::default(),
            recent: RecentChanges::new(),
        })
    }

    fn group(&self, name: &str) -> Result<Arc<Group>> {
        let mut groups = self.groups.lock();
        if let Some(group) = groups.get(name) {
            return Ok(Arc::clone(group));
        }
        let group = Arc::new(Group::new(&self.properties, name)?);
        groups.insert(name.to_owned(), Arc::clone(&group));
        Ok(group)
    }

    fn call<'a>(&'a self, timeout: Duration, what: &'a str) -> Result<Call<'a>> {
        Call {
            admin: self,
            clock: SystemClock::new(),
            timeout,
            what,
        }
        .reach()
    }

    fn names(&self, call: &Call<'_>) -> Result<Vec<Arc<str>>> {
        let mut metadata = ptr::null();
        // SAFETY: the client is alive; the answer is written to `metadata`, and freed below.
        let code = unsafe {
            sys::rd_kafka_metadata(
                self.client.ptr(),
                1,
                ptr::null_mut(),
                &mut metadata,
                millis(call.left()).max(1),
            )
        };
        let code = Code::from(code);
        if code != Code::NoError {
            return Err(call.fail(code, "the broker gave no list of topics", None));
        }
        // SAFETY: without an error the answer is there, with as many topics as it says.
        let names: Vec<Arc<str>> = unsafe {
            let count = usize::try_from((*metadata).topic_cnt).unwrap_or(0);
            let names = (0..count)
                .map(|at| text((*(*metadata).topics.add(at)).topic).into())
                .collect();
            sys::rd_kafka_metadata_destroy(metadata);
            names
        };
        Ok(self.recent.applied(names))
    }

    /// Describes the topics in the order of `names`. With `led`, a partition without a leader is an
    /// error that is retried.
    fn describe(
        &self,
        call: &Call<'_>,
        names: &[&str],
        led: bool,
    ) -> Result<Vec<Option<TopicInfo>>> {
        let mut unique = names.to_vec();
        unique.sort_unstable();
        unique.dedup();
        if unique.is_empty() {
            return Ok(Vec::new());
        }
        let texts = unique
            .iter()
            .map(|name| c_text(name))
            .collect::<Result<Vec<CString>>>()?;
        let mut pointers: Vec<_> = texts.iter().map(|t| t.as_ptr()).collect();
        let answer = call.ask(Op::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS, |options, queue| {
            // SAFETY: the names live until the request has copied them; the collection is freed here.
            unsafe {
                let collection = sys::rd_kafka_TopicCollection_of_topic_names(
                    pointers.as_mut_ptr(),
                    pointers.len(),
                );
                sys::rd_kafka_DescribeTopics(self.client.ptr(), collection, options, queue);
                sys::rd_kafka_TopicCollection_destroy(collection);
            }
        })?;
        let mut found = Vec::new();
        // SAFETY: everything read here belongs to the answer, which lives until the end.
        unsafe {
            let mut count = 0;
            let topics = sys::rd_kafka_DescribeTopics_result_topics(
                sys::rd_kafka_event_DescribeTopics_result(answer.0),
                &mut count,
            );
            for index in 0..count {
                let topic = *topics.add(index);
                let name = text(sys::rd_kafka_TopicDescription_name(topic));
                let fault = RdKafkaError::look(sys::rd_kafka_TopicDescription_error(topic));
                match fault.code {
                    Code::NoError => {}
                    Code::UnknownTopicOrPartition | Code::UnknownTopic => continue,
                    code => return Err(call.fail(code, &fault.said, Some(&name))),
                }
                let mut partitions = 0;
                let first = sys::rd_kafka_TopicDescription_partitions(topic, &mut partitions);
                let leaderless = (0..partitions)
                    .any(|p| sys::rd_kafka_TopicPartitionInfo_leader(*first.add(p)).is_null());
                if led && leaderless {
                    return Err(call.fail(
                        Code::LeaderNotAvailable,
                        "a partition has no leader yet",
                        Some(&name),
                    ));
                }
                found.push(TopicInfo {
                    name: name.into(),
                    partitions: i32::try_from(partitions).unwrap_or(i32::MAX),
                    id: topic_id(sys::rd_kafka_TopicDescription_topic_id(topic)),
                });
            }
        }
        let found: Vec<_> = names
            .iter()
            .map(|name| found.iter().find(|t| *t.name == **name).cloned())
            .collect();
        for (name, found) in names.iter().zip(&found) {
            if self.recent.contradicts(name, found.is_some()) {
                let said = "a broker doesn't know yet that the topic was created or deleted";
                return Err(call.fail(Code::LeaderNotAvailable, said, Some(name)));
            }
        }
        Ok(found)
    }

    /// Fails if a partition doesn't exist: librdkafka would wait for the leader of a missing topic.
    fn known(&self, call: &Call<'_>, partitions: &[TopicPartition]) -> Result<()> {
        let names: Vec<_> = partitions.iter().map(|p| &*p.topic).collect();
        let known = call.until_ready(|| self.describe(call, &names, false))?;
        for (partition, known) in partitions.iter().zip(known) {
            if known.is_none_or(|t| !(0..t.partitions).contains(&partition.partition.0)) {
                return Err(call.fail(
                    Code::UnknownTopicOrPartition,
                    &format!("{partition} is unknown"),
                    Some(&partition.topic),
                ));
            }
        }
        Ok(())
    }

    fn offsets(
        &self,
        call: &Call<'_>,
        partitions: &[TopicPartition],
        spec: i64,
        isolation: sys::rd_kafka_IsolationLevel_t,
    ) -> Result<Vec<Offset>> {
        let mut unique: Vec<_> = partitions.iter().collect();
        unique.sort();
        unique.dedup();
        let asked = list(unique.into_iter().map(|p| (p, spec, None)))?;
        let answer = call.ask(Op::RD_KAFKA_ADMIN_OP_LISTOFFSETS, |options, queue| {
            // SAFETY: the request copies the list.
            unsafe {
                RdKafkaError::take(sys::rd_kafka_AdminOptions_set_isolation_level(
                    options, isolation,
                ));
                sys::rd_kafka_ListOffsets(self.client.ptr(), asked.ptr(), options, queue);
            }
        })?;
        let mut found = vec![None; partitions.len()];
        // SAFETY: everything read here belongs to the answer.
        unsafe {
            let mut count = 0;
            let infos = sys::rd_kafka_ListOffsets_result_infos(
                sys::rd_kafka_event_ListOffsets_result(answer.0),
                &mut count,
            );
            for index in 0..count {
                let row = &*sys::rd_kafka_ListOffsetsResultInfo_topic_partition(*infos.add(index));
                let topic = text(row.topic);
                let code = self.recent.code(&topic, Code::from(row.err));
                if code != Code::NoError {
                    return Err(call.fail(
                        code,
                        &format!("partition {}", row.partition),
                        Some(&topic),
                    ));
                }
                // When the client loses a leader before it answers, it reports no error.
                if row.offset == NO_ANSWER {
                    continue;
                }
                for (partition, found) in partitions.iter().zip(&mut found) {
                    if *partition.topic == *topic && partition.partition.0 == row.partition {
                        *found = Some(Offset(row.offset));
                    }
                }
            }
        }
        let missing = || {
            call.fail(
                Code::LeaderNotAvailable,
                "a partition is missing in the answer",
                None,
            )
        };
        found
            .into_iter()
            .map(|offset| offset.ok_or_else(missing))
            .collect()
    }
}

impl AdminClient for Admin {
    fn address(&self) -> &str {
        &self.address
    }

    fn topics(&self, names: &[&str], timeout: Duration) -> Result<Vec<Option<TopicInfo>>> {
        let call = self.call(timeout, "asking for topics")?;
        call.until_ready(|| self.describe(&call, names, false))
    }

    /// The names of all topics that this user may see.
    fn topic_names(&self, timeout: Duration) -> Result<Vec<Arc<str>>> {
        let call = self.call(timeout, "asking for the names of topics")?;
        call.until_ready(|| self.names(&call))
    }

    fn ranges(&self, partitions: &[TopicPartition], timeout: Duration) -> Result<Vec<Range>> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let call = self.call(timeout, "asking for the ranges of partitions")?;
        self.known(&call, partitions)?;
        let earliest = sys::rd_kafka_OffsetSpec_t::RD_KAFKA_OFFSET_SPEC_EARLIEST as i64;
        let latest = sys::rd_kafka_OffsetSpec_t::RD_KAFKA_OFFSET_SPEC_LATEST as i64;
        let begin = call.until_ready(|| self.offsets(&call, partitions, earliest, COMMITTED))?;
        let end = call.until_ready(|| self.offsets(&call, partitions, latest, COMMITTED))?;
        Ok(begin
            .into_iter()
            .zip(end)
            .map(|(begin, stable_end)| Range { begin, stable_end })
            .collect())
    }

    fn high_watermarks(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Offset>> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let call = self.call(timeout, "asking for the ends of partitions")?;
        let latest = sys::rd_kafka_OffsetSpec_t::RD_KAFKA_OFFSET_SPEC_LATEST as i64;
        call.until_ready(|| self.offsets(&call, partitions, latest, UNCOMMITTED))
    }

    /// The first offset of each partition with a record that is not older. librdkafka's request is the
    /// one for offsets, with a timestamp in place of "earliest" and "latest".
    fn offsets_for_times(
        &self,
        partitions: &[TopicPartition],
        since: Timestamp,
        timeout: Duration,
    ) -> Result<Vec<Option<Offset>>> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let call = self.call(timeout, "asking for offsets by time")?;
        self.known(&call, partitions)?;
        // Negative numbers would mean "earliest" or "latest".
        let since = since.0.max(0);
        let found = call.until_ready(|| self.offsets(&call, partitions, since, COMMITTED))?;
        let some = |offset: Offset| (offset.0 >= 0).then_some(offset);
        Ok(found.into_iter().map(some).collect())
    }

    fn create_topics(&self, topics: &[NewTopic], timeout: Duration) -> Result<()> {
        self.make(topics, timeout)
    }

    fn delete_topics(&self, names: &[&str], timeout: Duration) -> Result<()> {
        self.remove(names, timeout)
    }

    fn tombstone_retention(
        &self,
        names: &[&str],
        timeout: Duration,
    ) -> Result<Vec<Option<Duration>>> {
        self.retention(names, timeout)
    }

    fn committed(
        &self,
        group: &str,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Option<Committed>>> {
        self.group(group)?.committed(partitions, timeout)
    }

    fn group_in_use(&self, group: &str, timeout: Duration) -> Result<Option<GroupInUse>> {
        self.members(group, timeout)
    }

    fn open_transactions(
        &self,
        _partitions: &[TopicPartition],
        _timeout: Duration,
    ) -> Result<Vec<Option<OpenTransaction>>> {
        Err(Error::config("librdkafka can't ask for open transactions"))
    }
}

/// A topic's id in base64; a broker that has no topic ids returns zeros.
///
/// # Safety
/// `id` is null or alive.
unsafe fn topic_id(id: *const sys::rd_kafka_Uuid_t) -> Option<Arc<str>> {
    if id.is_null() {
        return None;
    }
    // SAFETY: the caller's promise; librdkafka keeps the text as long as the id.
    unsafe {
        let (most, least) = (
            sys::rd_kafka_Uuid_most_significant_bits(id),
            sys::rd_kafka_Uuid_least_significant_bits(id),
        );
        ((most, least) != (0, 0)).then(|| text(sys::rd_kafka_Uuid_base64str(id)).into())
    }
}
