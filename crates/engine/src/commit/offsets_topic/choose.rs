//! Which offset counts if the group and the offsets topic disagree.
//!
//! Both are written in one transaction, so they differ only if one of them has lost something, or a tool
//! has changed the group's offset. Pure functions.

use crate::intake::watermarks::is_own;
use std::cmp::Ordering;
use stoatflow_core::Guarantee;
use stoatflow_log::Committed;

/// The origin of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PositionOrigin {
    /// Nothing is committed.
    Nowhere,
    /// Both agree.
    Both,
    /// Only the group has it: committed by a version without the topic.
    Group,
    /// Only the topic has it: the group's has expired.
    Expired,
    /// The group's: a tool has set it (`kafka-consumer-groups --reset-offsets`).
    Moved,
    /// The group's, which is ahead: under at-least-once the topic follows it.
    Ahead,
    /// The topic's: under exactly-once both are committed in one transaction, so what the group has beyond
    /// it was never committed. A coordinator that lost the end of a transaction settles its offsets with
    /// the next one of that producer.
    Uncommitted,
    /// The topic's: the group has an older commit of this application, so the broker has lost a
    /// newer one.
    Lost,
}

/// The position to continue from.
pub(crate) fn choose_position(
    guarantee: Guarantee,
    group: Option<Committed>,
    topic: Option<&Committed>,
) -> (Option<Committed>, PositionOrigin) {
    match (group, topic) {
        (None, None) => (None, PositionOrigin::Nowhere),
        (Some(group), None) => (Some(group), PositionOrigin::Group),
        (None, Some(topic)) => (Some(topic.clone()), PositionOrigin::Expired),
        (Some(group), Some(topic)) => {
            let own = is_own(&group.metadata);
            match group.offset.cmp(&topic.offset) {
                Ordering::Equal if own => (Some(group), PositionOrigin::Both),
                Ordering::Equal => (Some(topic.clone()), PositionOrigin::Both),
                _ if !own => (Some(group), PositionOrigin::Moved),
                Ordering::Greater if guarantee == Guarantee::ExactlyOnceV2 => {
                    (Some(topic.clone()), PositionOrigin::Uncommitted)
                }
                Ordering::Greater => (Some(group), PositionOrigin::Ahead),
                Ordering::Less => (Some(topic.clone()), PositionOrigin::Lost),
            }
        }
    }
}
