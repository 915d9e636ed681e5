//! The members of a group, from its coordinator; never joins.
//!
//! Takes the name of a group, returns its members. A group has one protocol, and each protocol has its
//! own request: a coordinator that has the group under another protocol, or not at all, answers that it
//! doesn't know it.

use super::{ANSWER_TIMEOUT, Call, text};
use crate::kafka::native::net::cluster::Node;
use crate::{GroupInUse, GroupMember};
use kafka_protocol::messages::{
    ConsumerGroupDescribeRequest, DescribeGroupsRequest, GroupId, ListGroupsRequest,
};
use stoatflow_core::Result;

const UNSUPPORTED_VERSION: i16 = 35;
const GROUP_ID_NOT_FOUND: i16 = 69;
/// The first version of ListGroups with a group's protocol.
const TYPES: i16 = 5;

impl Call<'_> {
    /// The group with its members; `None` if it has none.
    pub(super) fn group_in_use(&mut self, group: &str) -> Result<Option<GroupInUse>> {
        let refused = format!("the members of group '{group}' are not readable");
        let node = self.group_coordinator(group, &refused)?;
        let id = || GroupId::from(text(group));
        let mut found = self.classic_group(node, id(), &refused)?;
        if found.is_none() {
            found = self.consumer_group(node, id(), &refused)?;
        }
        if found.is_none() {
            found = self.streams_group(node, &id(), &refused)?;
        }
        Ok(found.filter(|group| {
            let idle = matches!(group.state.as_str(), "Empty" | "Dead");
            !(idle && group.members.is_empty())
        }))
    }

    /// `None` if there is no such group of this protocol.
    fn classic_group(
        &mut self,
        node: Node,
        id: GroupId,
        refused: &str,
    ) -> Result<Option<GroupInUse>> {
        let request = DescribeGroupsRequest::default().with_groups(vec![id]);
        let answer = self.ask_from(node, 0, ANSWER_TIMEOUT, |_| request)?;
        let Some(group) = answer.and_then(|answer| answer.groups.into_iter().next()) else {
            return Ok(None);
        };
        // Up to version 5, a group that doesn't exist is reported as "Dead".
        if group.error_code == 0 && &*group.group_state == "Dead" {
            return Ok(None);
        }
        let members = group.members.iter();
        let members = members.map(|m| member(&m.client_id, &m.client_host));
        self.known(group.error_code, refused, &group.group_state, members)
    }

    /// The same for the protocol of KIP-848.
    fn consumer_group(
        &mut self,
        node: Node,
        id: GroupId,
        refused: &str,
    ) -> Result<Option<GroupInUse>> {
        let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![id]);
        let answer = self.ask_from(node, 0, ANSWER_TIMEOUT, |_| request)?;
        let Some(group) = answer.and_then(|answer| answer.groups.into_iter().next()) else {
            return Ok(None);
        };
        let members = group.members.iter();
        let members = members.map(|m| member(&m.client_id, &m.client_host));
        self.known(group.error_code, refused, &group.group_state, members)
    }

    /// The same for the protocol of KIP-1071. The crate kafka-protocol lacks the request for its
    /// members, so only the state is known.
    fn streams_group(
        &mut self,
        node: Node,
        id: &GroupId,
        refused: &str,
    ) -> Result<Option<GroupInUse>> {
        let request = ListGroupsRequest::default().with_types_filter(vec![text("streams")]);
        let Some(answer) = self.ask_from(node, TYPES, ANSWER_TIMEOUT, |_| request)? else {
            return Ok(None);
        };
        if answer.error_code != 0 {
            return Err(self.fail(answer.error_code, refused, None));
        }
        let found = answer.groups.into_iter().find(|g| g.group_id == *id);
        Ok(found.map(|group| GroupInUse {
            state: group.group_state.to_string(),
            members: Vec::new(),
        }))
    }

    fn known(
        &self,
        code: i16,
        refused: &str,
        state: &str,
        members: impl Iterator<Item = GroupMember>,
    ) -> Result<Option<GroupInUse>> {
        match code {
            0 => Ok(Some(GroupInUse {
                state: state.to_owned(),
                members: members.collect(),
            })),
            GROUP_ID_NOT_FOUND | UNSUPPORTED_VERSION => Ok(None),
            code => Err(self.fail(code, refused, None)),
        }
    }
}

fn member(client_id: &str, host: &str) -> GroupMember {
    GroupMember {
        client_id: client_id.to_owned(),
        // Java prints an address without a host name like this.
        host: host.trim_start_matches('/').to_owned(),
    }
}
