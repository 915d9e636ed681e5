//! Creating topics.
//!
//! Takes topics with their settings, returns `Ok` once a broker reports them. One that exists is left as
//! it is.

use super::call::{Call, outcomes};
use super::{Admin, Code, Op, c_text, sys, text};
use crate::NewTopic;
use crate::kafka::errors::{ErrorContext, error};
use std::time::Duration;
use stoatflow_core::Result;

impl Admin {
    pub(super) fn make(&self, topics: &[NewTopic], timeout: Duration) -> Result<()> {
        let call = self.call(timeout, "making topics")?;
        let mut wanted: Vec<&NewTopic> = Vec::new();
        for topic in topics {
            if !wanted.iter().any(|w| w.name == topic.name) {
                wanted.push(topic);
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        call.until_ready(|| self.create(&call, &wanted))?;
        // The controller has answered; others may not know the topics yet.
        let names: Vec<_> = wanted.iter().map(|t| t.name.as_str()).collect();
        self.recent.note(&names, true);
        call.until_ready(|| {
            let found = self.describe(&call, &names, true)?;
            match names.iter().zip(&found).find(|(_, found)| found.is_none()) {
                Some((name, _)) => Err(call.fail(
                    Code::LeaderNotAvailable,
                    "the new topic is not known to a broker yet",
                    Some(name),
                )),
                None => Ok(()),
            }
        })
    }

    fn create(&self, call: &Call<'_>, topics: &[&NewTopic]) -> Result<()> {
        let mut native = NewTopics(Vec::new());
        for topic in topics {
            native.add(topic, &call.admin.address)?;
        }
        let answer = call.ask(Op::RD_KAFKA_ADMIN_OP_CREATETOPICS, |options, queue| {
            // SAFETY: the request copies the topics, which `native` frees later.
            unsafe {
                sys::rd_kafka_CreateTopics(
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
            let result = sys::rd_kafka_event_CreateTopics_result(answer.0);
            let topics = sys::rd_kafka_CreateTopics_result_topics(result, &mut count);
            outcomes(topics, count)
        };
        for (code, name, said) in outcomes {
            if !matches!(code, Code::NoError | Code::TopicAlreadyExists) {
                return Err(call.fail(code, &said, Some(&name)));
            }
        }
        Ok(())
    }
}

/// Topics to create, freed on drop.
struct NewTopics(Vec<*mut sys::rd_kafka_NewTopic_t>);

impl NewTopics {
    fn add(&mut self, topic: &NewTopic, address: &str) -> Result<()> {
        let mut said = [0; 512];
        let what = "making topics";
        let refused = |said: &str| {
            error(
                Code::InvalidArgument,
                said,
                ErrorContext {
                    address,
                    what,
                    topic: Some(&topic.name),
                },
            )
        };
        let name = c_text(&topic.name)?;
        // SAFETY: name, buffer and size live as long as the calls; the topic is owned by `self`.
        unsafe {
            let native = sys::rd_kafka_NewTopic_new(
                name.as_ptr(),
                topic.partitions,
                topic.replication,
                said.as_mut_ptr(),
                said.len(),
            );
            if native.is_null() {
                return Err(refused(&text(said.as_ptr())));
            }
            self.0.push(native);
            for (name, value) in &topic.config {
                let code = Code::from(sys::rd_kafka_NewTopic_set_config(
                    native,
                    c_text(name)?.as_ptr(),
                    c_text(value)?.as_ptr(),
                ));
                if code != Code::NoError {
                    return Err(refused(&format!("the setting {name}={value}")));
                }
            }
        }
        Ok(())
    }
}

impl Drop for NewTopics {
    fn drop(&mut self) {
        for topic in &self.0 {
            // SAFETY: made by `add`, freed here only.
            unsafe { sys::rd_kafka_NewTopic_destroy(*topic) };
        }
    }
}
