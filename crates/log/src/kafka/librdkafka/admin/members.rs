//! The members of a group, as its coordinator describes them; never joins.
//!
//! Takes the name of a group, returns its members: of a classic group, and of one with the protocol of
//! KIP-848. librdkafka doesn't know groups of the `streams` protocol (KIP-1071) and doesn't list them
//! either: for them the result is `None`.
//!
//! Each attempt has a client of its own, because librdkafka 2.12.1 has three defects here:
//! - A client keeps asking a coordinator that has left the cluster (confluentinc/librdkafka#5511).
//! - It looks for a coordinator three times, then waits for one without asking again.
//! - The answer to a request that has timed out in librdkafka ends the process by an assertion (#4605).
//!   So no request times out here: the client is closed before.

use super::{Admin, Call, Code, Op, c_text, sys, text};
use crate::kafka::librdkafka::client::RdKafkaError;
use crate::{GroupInUse, GroupMember};
use std::time::Duration;
use stoatflow_core::{Clock, ErrorKind, Result, SystemClock};

use sys::rd_kafka_consumer_group_state_t as State;

/// Timeout of one attempt.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(4);
/// Pause before the next attempt.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Request timeout for librdkafka: the longest that it accepts, so that no request times out.
const LONGEST_REQUEST_TIMEOUT: Duration = Duration::from_secs(3600);

impl Admin {
    pub(super) fn members(&self, group: &str, timeout: Duration) -> Result<Option<GroupInUse>> {
        let clock = SystemClock::new();
        loop {
            let left = timeout.saturating_sub(clock.monotonic());
            let asker = Self::new(&self.properties)?;
            let found = asker.describe_group(group, left.min(ATTEMPT_TIMEOUT));
            let left = timeout.saturating_sub(clock.monotonic());
            match found {
                Err(e) if e.kind() == ErrorKind::Unavailable && left > RETRY_PAUSE => {
                    asker.client.serve(RETRY_PAUSE);
                }
                found => return found,
            }
        }
    }

    fn describe_group(&self, group: &str, timeout: Duration) -> Result<Option<GroupInUse>> {
        let call = self.call(timeout, "asking for the members of the group")?;
        call.until_ready(|| self.ask_members(&call, group))
    }

    fn ask_members(&self, call: &Call<'_>, group: &str) -> Result<Option<GroupInUse>> {
        let name = c_text(group)?;
        let mut names = [name.as_ptr()];
        let answer = call.ask_for(
            LONGEST_REQUEST_TIMEOUT,
            Op::RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS,
            |options, queue| {
                // SAFETY: the request copies the name.
                unsafe {
                    sys::rd_kafka_DescribeConsumerGroups(
                        self.client.ptr(),
                        names.as_mut_ptr(),
                        names.len(),
                        options,
                        queue,
                    );
                }
            },
        )?;
        // SAFETY: everything read here belongs to the answer.
        unsafe {
            let mut count = 0;
            let result = sys::rd_kafka_event_DescribeConsumerGroups_result(answer.0);
            let groups = sys::rd_kafka_DescribeConsumerGroups_result_groups(result, &mut count);
            if count == 0 {
                return Ok(None);
            }
            let found = *groups;
            let error = sys::rd_kafka_ConsumerGroupDescription_error(found);
            if !error.is_null() {
                let fault = RdKafkaError::look(error);
                return match fault.code {
                    Code::NoError | Code::GroupIdNotFound => Ok(None),
                    code => Err(call.fail(code, &fault.said, None)),
                };
            }
            let members = (0..sys::rd_kafka_ConsumerGroupDescription_member_count(found))
                .map(|index| {
                    let member = sys::rd_kafka_ConsumerGroupDescription_member(found, index);
                    let host = text(sys::rd_kafka_MemberDescription_host(member));
                    GroupMember {
                        client_id: text(sys::rd_kafka_MemberDescription_client_id(member)),
                        // Java prints an address without a host name like this.
                        host: host.trim_start_matches('/').to_owned(),
                    }
                })
                .collect::<Vec<_>>();
            let state = sys::rd_kafka_ConsumerGroupDescription_state(found);
            let state = match state {
                State::RD_KAFKA_CONSUMER_GROUP_STATE_PREPARING_REBALANCE => "PreparingRebalance",
                State::RD_KAFKA_CONSUMER_GROUP_STATE_COMPLETING_REBALANCE => "CompletingRebalance",
                State::RD_KAFKA_CONSUMER_GROUP_STATE_STABLE => "Stable",
                State::RD_KAFKA_CONSUMER_GROUP_STATE_EMPTY => "Empty",
                State::RD_KAFKA_CONSUMER_GROUP_STATE_DEAD => "Dead",
                _ => "of an unknown state",
            };
            Ok((!members.is_empty()).then(|| GroupInUse {
                state: state.to_owned(),
                members,
            }))
        }
    }
}
