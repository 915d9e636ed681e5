//! Topic settings.
//!
//! Takes topic names, returns how long each topic keeps its tombstones.

use super::{Call, text};
use crate::kafka::admin::{DEFAULT_TOMBSTONE_RETENTION, default_retention, retention_of};
use kafka_protocol::messages::DescribeConfigsRequest;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::protocol::StrBytes;
use std::time::Duration;
use stoatflow_core::{ErrorKind, Result};

/// The resource type of a topic.
const TOPIC: i8 = 2;
const POLICY: &str = "cleanup.policy";
const RETENTION: &str = "delete.retention.ms";

impl Call<'_> {
    /// `delete.retention.ms` of each topic; `None` where `cleanup.policy` has no `compact`.
    pub(super) fn tombstone_retention(&mut self, names: &[&str]) -> Result<Vec<Option<Duration>>> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        match self.until_ready(|call| call.describe_configs(names)) {
            Err(error) if error.kind() == ErrorKind::Unauthorized => {
                Ok(default_retention(&error, names.len()))
            }
            outcome => outcome,
        }
    }

    fn describe_configs(&mut self, names: &[&str]) -> Result<Vec<Option<Duration>>> {
        let keys = [POLICY, RETENTION].map(StrBytes::from_static_str).to_vec();
        let mut unique = names.to_vec();
        unique.sort_unstable();
        unique.dedup();
        let resources = unique.iter().map(|name| {
            DescribeConfigsResource::default()
                .with_resource_type(TOPIC)
                .with_resource_name(text(name))
                .with_configuration_keys(Some(keys.clone()))
        });
        let request = DescribeConfigsRequest::default().with_resources(resources.collect());
        let answer = self.ask_anyone(&request)?;
        let mut found = vec![Some(DEFAULT_TOMBSTONE_RETENTION); names.len()];
        for resource in answer.results {
            let name = &*resource.resource_name;
            if resource.error_code != 0 {
                let said = resource.error_message.as_deref();
                let said = said.unwrap_or("its settings are refused");
                return Err(self.fail(resource.error_code, said, Some(name)));
            }
            let value = |wanted: &str| {
                let entry = resource.configs.iter().find(|c| &*c.name == wanted);
                entry.and_then(|entry| entry.value.as_deref())
            };
            let kept = retention_of(value(POLICY), value(RETENTION));
            for (asked, found) in names.iter().zip(&mut found) {
                if *asked == name {
                    *found = kept;
                }
            }
        }
        Ok(found)
    }
}
