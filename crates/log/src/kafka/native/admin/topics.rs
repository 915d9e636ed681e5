//! Topics: listing, creating and deleting them.
//!
//! The controller creates and deletes topics. Other brokers learn of it later, and a client may ask any
//! of them: both calls end when every broker that answers has learned of it.

use super::{ANSWER_TIMEOUT, Call, text, topic_name};
use crate::kafka::native::error_class::named;
use crate::{NewTopic, TopicInfo};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, MetadataRequest, MetadataResponse,
};
use rdkafka::types::RDKafkaErrorCode as Code;
use std::iter;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{ErrorKind, Result, TopicPartition};

/// A broker that doesn't answer a metadata request for this long is skipped.
const SILENT_BROKER_TIMEOUT: Duration = Duration::from_secs(2);
/// How long it is skipped: a start asks all brokers several times.
const SILENT_BROKER_PAUSE: Duration = Duration::from_secs(10);
/// The first version that has a name or an id for each topic.
const BY_ID: i16 = 6;

impl Call<'_> {
    /// Describes topics, in the order asked.
    pub(super) fn topics(&mut self, names: &[&str]) -> Result<Vec<Option<TopicInfo>>> {
        let answer = self.metadata(names)?;
        self.topics_of_answer(&answer, names, false)
    }

    /// The names of all topics that this user may see.
    pub(super) fn topic_names(&mut self) -> Result<Vec<Arc<str>>> {
        let all = MetadataRequest::default()
            .with_topics(None)
            .with_allow_auto_topic_creation(false);
        let answer = self.ask_anyone(&all)?;
        if answer.brokers.is_empty() {
            return Err(self.not_yet("the broker has just started, and knows of no other", None));
        }
        let names = answer.topics.into_iter().filter_map(|topic| topic.name);
        let mut names: Vec<Arc<str>> = names.map(|name| Arc::from(&*name.0)).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Creates topics; leaves those that exist as they are. Waits until all brokers know them, and their
    /// leaders serve them.
    pub(super) fn create_topics(&mut self, topics: &[NewTopic]) -> Result<()> {
        let mut wanted: Vec<&NewTopic> = Vec::new();
        for topic in topics {
            if !wanted.iter().any(|w| w.name == topic.name) {
                wanted.push(topic);
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let creatable = wanted
            .iter()
            .map(|topic| self.creatable(topic))
            .collect::<Result<Vec<_>>>()?;
        self.until_ready(|call| call.create(&creatable))?;
        let names: Vec<_> = wanted.iter().map(|t| t.name.as_str()).collect();
        self.until_ready(|call| {
            for answer in call.metadata_of_each(&names)? {
                let found = call.topics_of_answer(&answer, &names, true)?;
                let mut missing = names
                    .iter()
                    .zip(&found)
                    .filter(|(_, found)| found.is_none());
                if let Some((name, _)) = missing.next() {
                    let said = "the new topic is not known to all brokers yet";
                    return Err(call.not_yet(said, Some(name)));
                }
            }
            Ok(())
        })?;
        self.await_leaders(&names)
    }

    /// A broker that is a leader by its metadata may not have opened the log yet. Kafka 3.6 then refuses a
    /// transaction's records for ever, instead of for the moment.
    fn await_leaders(&mut self, names: &[&str]) -> Result<()> {
        let topics = self.topics(names)?;
        let partitions: Vec<_> = (topics.iter().flatten())
            .flat_map(|t| (0..t.partitions).map(|p| TopicPartition::new(t.name.clone(), p)))
            .collect();
        self.high_watermarks(&partitions).map(drop)
    }

    fn creatable(&self, topic: &NewTopic) -> Result<CreatableTopic> {
        let replication = i16::try_from(topic.replication).map_err(|_| {
            let said = format!("{} replicas", topic.replication);
            self.failed(Code::InvalidArgument, &said, Some(&topic.name))
        })?;
        let config = topic.config.iter().map(|(name, value)| {
            CreatableTopicConfig::default()
                .with_name(text(name))
                .with_value(Some(text(value)))
        });
        Ok(CreatableTopic::default()
            .with_name(topic_name(&topic.name))
            .with_num_partitions(topic.partitions)
            .with_replication_factor(replication)
            .with_configs(config.collect()))
    }

    fn create(&mut self, topics: &[CreatableTopic]) -> Result<()> {
        let controller = self.controller()?;
        let request = CreateTopicsRequest::default()
            .with_topics(topics.to_vec())
            .with_timeout_ms(self.millis());
        for outcome in self.ask(controller, ANSWER_TIMEOUT, |_| request)?.topics {
            let code = named(outcome.error_code);
            if !matches!(code, Code::NoError | Code::TopicAlreadyExists) {
                let said = outcome.error_message.as_deref();
                let said = said.unwrap_or("the broker makes no such topic");
                return Err(self.failed(code, said, Some(&outcome.name.0)));
            }
        }
        Ok(())
    }

    /// Deletes topics. A missing topic counts as deleted, so a deletion whose answer was lost can be
    /// repeated.
    pub(super) fn delete_topics(&mut self, names: &[&str]) -> Result<()> {
        let mut names = names.to_vec();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            return Ok(());
        }
        self.until_ready(|call| call.delete(&names))?;
        self.until_ready(|call| {
            for answer in call.metadata_of_each(&names)? {
                let left = call.topics_of_answer(&answer, &names, false)?;
                if let Some(topic) = left.into_iter().flatten().next() {
                    let said = "the deleted topic is still known to a broker";
                    return Err(call.not_yet(said, Some(&topic.name)));
                }
            }
            Ok(())
        })
    }

    fn delete(&mut self, names: &[&str]) -> Result<()> {
        let controller = self.controller()?;
        let timeout = self.millis();
        let request = |version| {
            let request = DeleteTopicsRequest::default().with_timeout_ms(timeout);
            let names = names.iter().map(|name| topic_name(name));
            if version < BY_ID {
                return request.with_topic_names(names.collect());
            }
            let topics = names.map(|name| DeleteTopicState::default().with_name(Some(name)));
            request.with_topics(topics.collect())
        };
        for outcome in self.ask(controller, ANSWER_TIMEOUT, request)?.responses {
            let code = named(outcome.error_code);
            if matches!(
                code,
                Code::NoError | Code::UnknownTopicOrPartition | Code::UnknownTopic
            ) {
                continue;
            }
            let name = outcome.name.as_ref().map_or("", |name| &*name.0);
            let said = outcome.error_message.as_deref();
            let said = said.unwrap_or("the broker doesn't delete it");
            let error = self.failed(code, said, Some(name));
            return Err(match error.kind() {
                ErrorKind::Unauthorized => {
                    error.hint(format!("grant this user Delete on the topic '{name}'"))
                }
                _ if code == Code::TopicDeletionDisabled => {
                    error.hint("set delete.topic.enable=true on the brokers")
                }
                _ => error,
            });
        }
        Ok(())
    }

    /// Collects the newest leader epochs from all brokers: later requests are sent to the current
    /// leaders.
    pub(super) fn learn_leaders(&mut self, names: &[&str]) -> Result<()> {
        self.metadata_of_each(names).map(drop)
    }

    /// The metadata of these topics from every broker that answers; at least one.
    fn metadata_of_each(&mut self, names: &[&str]) -> Result<Vec<MetadataResponse>> {
        let first = self.metadata(names)?;
        let nodes: Vec<_> = first.brokers.iter().map(|b| b.node_id.0).collect();
        let began = self.admin.clock.elapsed();
        self.admin.silent.lock().retain(|_, until| *until > began);
        let wanted = names.iter().map(|name| {
            let name = Some(topic_name(name));
            MetadataRequestTopic::default().with_name(name)
        });
        let request = MetadataRequest::default()
            .with_topics(Some(wanted.collect()))
            .with_allow_auto_topic_creation(false);
        let mut told = Vec::new();
        if nodes.len() > 1 {
            for node in nodes {
                if self.admin.silent.lock().contains_key(&node) {
                    continue;
                }
                let asked = self.admin.clock.elapsed();
                match self.ask(node, SILENT_BROKER_TIMEOUT, |_| request.clone()) {
                    // A broker that has just started knows no brokers and no topics.
                    Ok(answer) if answer.brokers.is_empty() => {}
                    Ok(answer) => told.push((node, answer)),
                    Err(error) => {
                        tracing::debug!(target: "stoatflow::kafka", %error, "a broker is left out");
                        let now = self.admin.clock.elapsed();
                        if now.saturating_sub(asked) >= SILENT_BROKER_TIMEOUT {
                            (self.admin.silent.lock()).insert(node, now + SILENT_BROKER_PAUSE);
                        }
                    }
                }
            }
        }
        // Twice: a broker's metadata may be older than that of one that answered after it.
        for (node, answer) in told.iter().chain(&told) {
            let _is_behind = self.cluster.leader_epochs().learn(answer, Some(*node));
        }
        Ok(iter::once(first)
            .chain(told.into_iter().map(|(_, answer)| answer))
            .collect())
    }

    /// The topics of an answer, in the order asked. With `led`, a partition without a leader is an error
    /// that is retried.
    fn topics_of_answer(
        &self,
        answer: &MetadataResponse,
        names: &[&str],
        led: bool,
    ) -> Result<Vec<Option<TopicInfo>>> {
        let info = |name: &&str| {
            let Some(topic) = named_in(answer, name) else {
                return Ok(None);
            };
            match named(topic.error_code) {
                Code::NoError => {}
                Code::UnknownTopicOrPartition | Code::UnknownTopic => return Ok(None),
                code => return Err(self.failed(code, "the topic is refused", Some(name))),
            }
            if led && topic.partitions.iter().any(|p| p.leader_id.0 < 0) {
                return Err(self.not_yet("a partition has no leader yet", Some(name)));
            }
            Ok(Some(TopicInfo {
                name: Arc::from(*name),
                partitions: i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX),
                id: topic_id(topic.topic_id.as_u128()),
            }))
        };
        names.iter().map(info).collect()
    }
}

pub(super) fn named_in<'a>(
    answer: &'a MetadataResponse,
    name: &str,
) -> Option<&'a MetadataResponseTopic> {
    let mut topics = answer.topics.iter();
    topics.find(|topic| topic.name.as_ref().is_some_and(|n| *n.0 == *name))
}

/// A topic's id in base64, exactly as librdkafka writes it: applications store it with their state, and
/// may have got it from there. `None` for brokers without topic ids.
pub(super) fn topic_id(id: u128) -> Option<Arc<str>> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    /// 21 digits of six bits, and one for the two bits that are left.
    const LENGTH: u32 = 22;
    if id == 0 {
        return None;
    }
    let digit = |at: u32| {
        let rest = if at + 1 == LENGTH {
            id << 4
        } else {
            id >> (122 - 6 * at)
        };
        char::from(DIGITS[(rest & 63) as usize])
    };
    Some((0..LENGTH).map(digit).collect::<String>().into())
}
