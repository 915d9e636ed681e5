//! The coordinator's answers about the one group.

use super::{CONTROLLER, Kept};
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;

const CLIENT: StrBytes = StrBytes::from_static_str("app-1-consumer");
const HOST: StrBytes = StrBytes::from_static_str("/10.0.0.7");
const NOT_FOUND: i16 = 69;

impl Kept {
    /// Even partitions have an offset, odd ones have none. A code that only a coordinator returns
    /// applies to the group.
    pub(super) fn offset_fetch(
        &mut self,
        node: i32,
        version: i16,
        request: &OffsetFetchRequest,
    ) -> OffsetFetchResponse {
        assert_eq!(node, CONTROLLER, "the coordinator is asked");
        assert_eq!(request.require_stable, version >= 7);
        let code = self.code(ApiKey::OffsetFetch);
        let (of_group, of_part) = if [14, 15, 16, 30].contains(&code) {
            (code, 0)
        } else {
            (0, code)
        };
        let offset = |p: i32| if p % 2 == 0 { 100 + i64::from(p) } else { -1 };
        let metadata = |p: i32| (p % 2 == 0).then(|| StrBytes::from_static_str("wm"));
        let answer = OffsetFetchResponse::default();
        if version < 8 {
            assert_eq!(&*request.group_id.0, "group");
            let topics = request.topics.iter().flatten().map(|topic| {
                let part = |p: &i32| {
                    OffsetFetchResponsePartition::default()
                        .with_partition_index(*p)
                        .with_committed_offset(offset(*p))
                        .with_metadata(metadata(*p))
                        .with_error_code(of_part)
                };
                OffsetFetchResponseTopic::default()
                    .with_name(topic.name.clone())
                    .with_partitions(topic.partition_indexes.iter().map(part).collect())
            });
            return answer
                .with_error_code(of_group)
                .with_topics(topics.collect());
        }
        let [group] = &request.groups[..] else {
            panic!("one group is asked for")
        };
        assert_eq!(&*group.group_id.0, "group");
        assert_eq!((&group.member_id, group.member_epoch), (&None, -1));
        let topics = group.topics.iter().flatten().map(|topic| {
            let part = |p: &i32| {
                OffsetFetchResponsePartitions::default()
                    .with_partition_index(*p)
                    .with_committed_offset(offset(*p))
                    .with_metadata(metadata(*p))
                    .with_error_code(of_part)
            };
            OffsetFetchResponseTopics::default()
                .with_name(topic.name.clone())
                .with_partitions(topic.partition_indexes.iter().map(part).collect())
        });
        let group = OffsetFetchResponseGroup::default()
            .with_group_id(group.group_id.clone())
            .with_error_code(of_group)
            .with_topics(topics.collect());
        answer.with_groups(vec![group])
    }

    /// The code of the answer, and the state of the group if it has this protocol.
    fn state(&mut self, key: ApiKey, protocol: &str) -> (i16, Option<StrBytes>) {
        let code = self.code(key);
        let found = self.group.filter(|(of, _)| *of == protocol);
        let state = found.map(|(_, state)| StrBytes::from_static_str(state));
        match state {
            None if code == 0 => (NOT_FOUND, None),
            state => (code, state),
        }
    }

    pub(super) fn describe_groups(
        &mut self,
        node: i32,
        version: i16,
        request: &DescribeGroupsRequest,
    ) -> DescribeGroupsResponse {
        assert_eq!(node, CONTROLLER, "the coordinator is asked");
        let (mut code, state) = self.state(ApiKey::DescribeGroups, "classic");
        if version < 6 && code == NOT_FOUND {
            code = 0;
        }
        let member = describe_groups_response::DescribedGroupMember::default()
            .with_client_id(CLIENT)
            .with_client_host(HOST);
        let members = state.iter().filter(|state| &***state != "Empty");
        let group = describe_groups_response::DescribedGroup::default()
            .with_group_id(request.groups[0].clone())
            .with_error_code(code)
            .with_members(members.map(|_| member.clone()).collect())
            .with_group_state(state.clone().unwrap_or(StrBytes::from_static_str("Dead")));
        DescribeGroupsResponse::default().with_groups(vec![group])
    }

    pub(super) fn describe_consumer_groups(
        &mut self,
        node: i32,
        _version: i16,
        request: &ConsumerGroupDescribeRequest,
    ) -> ConsumerGroupDescribeResponse {
        assert_eq!(node, CONTROLLER, "the coordinator is asked");
        let (code, state) = self.state(ApiKey::ConsumerGroupDescribe, "consumer");
        let member = consumer_group_describe_response::Member::default()
            .with_client_id(CLIENT)
            .with_client_host(HOST);
        let members = state.iter().filter(|state| &***state != "Empty");
        let group = consumer_group_describe_response::DescribedGroup::default()
            .with_group_id(request.group_ids[0].clone())
            .with_error_code(code)
            .with_members(members.map(|_| member.clone()).collect())
            .with_group_state(state.clone().unwrap_or_default());
        ConsumerGroupDescribeResponse::default().with_groups(vec![group])
    }

    pub(super) fn list_groups(
        &mut self,
        node: i32,
        _version: i16,
        request: &ListGroupsRequest,
    ) -> ListGroupsResponse {
        assert_eq!(node, CONTROLLER, "the coordinator is asked");
        assert_eq!(
            request.types_filter,
            ["streams"].map(StrBytes::from_static_str)
        );
        let (code, state) = self.state(ApiKey::ListGroups, "streams");
        let listed = |(name, state): (&'static str, StrBytes)| {
            list_groups_response::ListedGroup::default()
                .with_group_id(GroupId::from(StrBytes::from_static_str(name)))
                .with_group_state(state)
        };
        let stable = StrBytes::from_static_str("Stable");
        let groups = [("another", stable)]
            .into_iter()
            .chain(state.map(|state| ("group", state)));
        ListGroupsResponse::default()
            .with_error_code(if code == NOT_FOUND { 0 } else { code })
            .with_groups(groups.map(listed).collect())
    }
}
