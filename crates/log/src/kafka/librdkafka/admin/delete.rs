//! Deleting topics.
//!
//! Takes names, returns `Ok` once a broker no longer reports them. A missing topic counts as deleted,
//! so a deletion whose answer was lost can be repeated.

use super::call::{Call, outcomes};
use super::{Admin, Code, Op, c_text, sys};
use std::time::Duration;
use stoatflow_core::{ErrorKind, Result};

impl Admin {
    pub(super) fn remove(&self, names: &[&str], timeout: Duration) -> Result<()> {
        let call = self.call(timeout, "deleting topics")?;
        let mut names = names.to_vec();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            return Ok(());
        }
        call.until_ready(|| self.delete(&call, &names))?;
        self.recent.note(&names, false);
        // The controller has answered; a broker that doesn't know yet would still report the topics.
        call.until_ready(|| {
            let left = self.describe(&call, &names, false)?;
            match left.into_iter().flatten().next() {
                Some(topic) => Err(call.fail(
                    Code::LeaderNotAvailable,
                    "the deleted topic is still known to a broker",
                    Some(&topic.name),
                )),
                None => Ok(()),
            }
        })
    }

    fn delete(&self, call: &Call<'_>, names: &[&str]) -> Result<()> {
        let mut native = DeleteTopics(Vec::new());
        for name in names {
            native.add(name)?;
        }
        let answer = call.ask(Op::RD_KAFKA_ADMIN_OP_DELETETOPICS, |options, queue| {
            // SAFETY: the request copies the names, which `native` frees later.
            unsafe {
                sys::rd_kafka_DeleteTopics(
                    self.client.ptr(),
                    native.0.as_mut_ptr(),
                    native.0.len(),
                    options,
                    queue,
                )
            };
        })?;
        let mut count = 0;
        // SAFETY: everything read here belongs to the answer.
        let outcomes = unsafe {
            let result = sys::rd_kafka_event_DeleteTopics_result(answer.0);
            let topics = sys::rd_kafka_DeleteTopics_result_topics(result, &mut count);
            outcomes(topics, count)
        };
        for (code, name, said) in outcomes {
            if matches!(
                code,
                Code::NoError | Code::UnknownTopicOrPartition | Code::UnknownTopic
            ) {
                continue;
            }
            let error = call.fail(code, &said, Some(&name));
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
}

/// Topics to delete, freed on drop.
struct DeleteTopics(Vec<*mut sys::rd_kafka_DeleteTopic_t>);

impl DeleteTopics {
    fn add(&mut self, name: &str) -> Result<()> {
        let name = c_text(name)?;
        // SAFETY: the name is copied; the entry is owned by `self`.
        self.0
            .push(unsafe { sys::rd_kafka_DeleteTopic_new(name.as_ptr()) });
        Ok(())
    }
}

impl Drop for DeleteTopics {
    fn drop(&mut self) {
        for topic in &self.0 {
            // SAFETY: made by `add`, freed here only.
            unsafe { sys::rd_kafka_DeleteTopic_destroy(*topic) };
        }
    }
}
