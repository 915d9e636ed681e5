//! Topic settings.
//!
//! Takes topic names, returns how long each topic keeps its tombstones.

use super::{Admin, Call, Code, Op, c_text, sys, text};
use crate::kafka::admin::{DEFAULT_TOMBSTONE_RETENTION, default_retention, retention_of};
use std::time::Duration;
use stoatflow_core::{ErrorKind, Result};

impl Admin {
    /// `delete.retention.ms` of each topic; `None` where `cleanup.policy` has no `compact`.
    pub(super) fn retention(
        &self,
        names: &[&str],
        timeout: Duration,
    ) -> Result<Vec<Option<Duration>>> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let call = self.call(timeout, "asking for the settings of topics")?;
        match call.until_ready(|| self.describe_configs(&call, names)) {
            Err(error) if error.kind() == ErrorKind::Unauthorized => {
                Ok(default_retention(&error, names.len()))
            }
            outcome => outcome,
        }
    }

    fn describe_configs(&self, call: &Call<'_>, names: &[&str]) -> Result<Vec<Option<Duration>>> {
        let mut resources = Resources(Vec::new());
        for name in names {
            resources.add(name)?;
        }
        let answer = call.ask(Op::RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, |options, queue| {
            // SAFETY: the request copies the resources, which `resources` frees later.
            unsafe {
                sys::rd_kafka_DescribeConfigs(
                    self.client.ptr(),
                    resources.0.as_mut_ptr(),
                    resources.0.len(),
                    options,
                    queue,
                )
            };
        })?;
        let mut found = vec![Some(DEFAULT_TOMBSTONE_RETENTION); names.len()];
        // SAFETY: everything read here belongs to the answer, which lives until the end.
        unsafe {
            let mut count = 0;
            let result = sys::rd_kafka_event_DescribeConfigs_result(answer.0);
            let described = sys::rd_kafka_DescribeConfigs_result_resources(result, &mut count);
            for at in 0..count {
                let resource = *described.add(at);
                let name = text(sys::rd_kafka_ConfigResource_name(resource));
                let code = Code::from(sys::rd_kafka_ConfigResource_error(resource));
                if code != Code::NoError {
                    let said = text(sys::rd_kafka_ConfigResource_error_string(resource));
                    return Err(call.fail(code, &said, Some(&name)));
                }
                let mut entries = 0;
                let first = sys::rd_kafka_ConfigResource_configs(resource, &mut entries);
                let value = |wanted: &str| {
                    (0..entries)
                        .map(|entry| *first.add(entry))
                        .find(|entry| text(sys::rd_kafka_ConfigEntry_name(*entry)) == wanted)
                        .map(|entry| text(sys::rd_kafka_ConfigEntry_value(entry)))
                };
                let policy = value("cleanup.policy");
                let retention = value("delete.retention.ms");
                let kept = retention_of(policy.as_deref(), retention.as_deref());
                for (asked, found) in names.iter().zip(&mut found) {
                    if **asked == *name {
                        *found = kept;
                    }
                }
            }
        }
        Ok(found)
    }
}

/// Topics to describe, freed on drop.
struct Resources(Vec<*mut sys::rd_kafka_ConfigResource_t>);

impl Resources {
    fn add(&mut self, name: &str) -> Result<()> {
        let name = c_text(name)?;
        let topic = sys::rd_kafka_ResourceType_t::RD_KAFKA_RESOURCE_TOPIC;
        // SAFETY: the name is copied; the entry is owned by `self`.
        self.0
            .push(unsafe { sys::rd_kafka_ConfigResource_new(topic, name.as_ptr()) });
        Ok(())
    }
}

impl Drop for Resources {
    fn drop(&mut self) {
        for resource in &self.0 {
            // SAFETY: made by `add`, freed here only.
            unsafe { sys::rd_kafka_ConfigResource_destroy(*resource) };
        }
    }
}
