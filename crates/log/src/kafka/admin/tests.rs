//! What both clients answer alike, on librdkafka's mock cluster, which supports few requests: no
//! controller, no settings.

use super::*;
use crate::kafka::connect;
use crate::kafka::librdkafka::admin::Admin;
use crate::kafka::native::NativeConfig;
use crate::kafka::native::admin::NativeAdmin;
use crate::kafka::properties::Properties;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::mocking::{MockCluster, MockCoordinator};
use rdkafka::producer::DefaultProducerContext;
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::types::{RDKafkaApiKey as Api, RDKafkaRespErr as Native};
use stoatflow_core::settings::ClientRole;
use stoatflow_core::{Clock, ErrorKind, SystemClock};

const WAIT: Duration = Duration::from_secs(20);

type Cluster = MockCluster<'static, DefaultProducerContext>;
type New = fn(&str) -> Arc<dyn AdminClient>;

fn native(bootstrap: &str) -> Arc<dyn AdminClient> {
    Arc::new(NativeAdmin::new(NativeConfig::plaintext(bootstrap)))
}

fn librdkafka(bootstrap: &str) -> Arc<dyn AdminClient> {
    Arc::new(Admin::new(&Properties::new(bootstrap, &[]).unwrap()).unwrap())
}

macro_rules! both {
    ($($case:ident),* $(,)?) => {
        mod through_librdkafka {
            $( #[test] fn $case() { super::$case(super::librdkafka); } )*
        }
        mod natively {
            $( #[test] fn $case() { super::$case(super::native); } )*
        }
    };
}

both!(
    ends_are_asked_for_again,
    leaders_that_move_are_found,
    ends_that_may_not_be_known_are_a_permission,
    committed_offsets_are_read_whoever_coordinates,
    committed_offsets_of_a_group_that_is_refused,
    no_broker_at_the_address,
);

fn cluster() -> Cluster {
    let cluster = MockCluster::new(3).unwrap();
    cluster.create_topic("t", 2, 3).unwrap();
    cluster
}

fn both_partitions() -> [TopicPartition; 2] {
    [1, 0].map(|p| TopicPartition::new("t", p))
}

/// Commits this offset of the first partition for the group `g`. The mock drops offsets committed in
/// transactions.
fn commit(bootstrap: &str, offset: i64) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "g")
        .create()
        .unwrap();
    let mut list = TopicPartitionList::new();
    let at = rdkafka::Offset::Offset(offset);
    list.add_partition_offset("t", 0, at).unwrap();
    consumer.commit(&list, CommitMode::Sync).unwrap();
}

fn ends_are_asked_for_again(new: New) {
    let cluster = cluster();
    let admin = new(&cluster.bootstrap_servers());
    let moved = Native::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION;
    cluster.request_errors(Api::ListOffsets, &[moved; 3]);
    let ends = admin.high_watermarks(&both_partitions(), WAIT).unwrap();
    assert_eq!(ends, [Offset(0); 2]);
}

fn leaders_that_move_are_found(new: New) {
    let cluster = cluster();
    let admin = new(&cluster.bootstrap_servers());
    for leader in [1, 2, 3, 1] {
        cluster.partition_leader("t", 0, Some(leader)).unwrap();
        let ends = admin.high_watermarks(&both_partitions(), WAIT).unwrap();
        assert_eq!(ends, [Offset(0); 2], "broker {leader} leads");
    }
}

fn ends_that_may_not_be_known_are_a_permission(new: New) {
    let cluster = cluster();
    let admin = new(&cluster.bootstrap_servers());
    let denied = Native::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    cluster.request_errors(Api::ListOffsets, &[denied; 2]);
    let refused = admin.high_watermarks(&both_partitions(), WAIT).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unauthorized, "{refused}");
    assert!(refused.next_step().contains("'t'"), "{refused}");
}

fn committed_offsets_are_read_whoever_coordinates(new: New) {
    let cluster = cluster();
    let bootstrap = cluster.bootstrap_servers();
    let admin = new(&bootstrap);
    for (round, node) in [(1, 1), (2, 2), (3, 3)] {
        let coordinator = MockCoordinator::Group("g".into());
        cluster.coordinator(coordinator, node).unwrap();
        commit(&bootstrap, round);
        let loading = Native::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS;
        cluster.request_errors(Api::OffsetFetch, &[loading; 2]);
        let found = admin.committed("g", &both_partitions(), WAIT).unwrap();
        let expected = Committed {
            offset: Offset(round),
            metadata: String::new(),
        };
        assert_eq!(found, [None, Some(expected)]);
    }
}

fn committed_offsets_of_a_group_that_is_refused(new: New) {
    let cluster = cluster();
    let admin = new(&cluster.bootstrap_servers());
    let denied = Native::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
    cluster.request_errors(Api::OffsetFetch, &[denied; 4]);
    let refused = admin.committed("g", &both_partitions(), WAIT).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unauthorized, "{refused}");
    assert!(refused.next_step().contains("group"), "{refused}");
}

fn no_broker_at_the_address(new: New) {
    let admin = new("127.0.0.1:1");
    let short = Duration::from_millis(700);
    let parts = both_partitions();
    let outcomes: [&dyn Fn() -> Result<()>; 4] = [
        &|| admin.topics(&["t"], short).map(drop),
        &|| admin.ranges(&parts, short).map(drop),
        &|| admin.committed("g", &parts, short).map(drop),
        &|| admin.delete_topics(&["t"], short),
    ];
    for outcome in outcomes {
        let clock = SystemClock::new();
        let gone = outcome().unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::Unavailable, "{gone}");
        assert!(gone.to_string().contains("127.0.0.1:1"), "{gone}");
        let took = clock.monotonic();
        assert!((short / 2..WAIT).contains(&took), "{took:?}");
    }
}

/// Without a property that only librdkafka knows, none of its clients and threads are started.
#[test]
fn librdkafka_asks_only_where_it_must() {
    let asks = |properties: &[(ClientRole, &str, &str)]| {
        let own = |(role, name, value): &(ClientRole, &str, &str)| {
            (*role, (*name).to_owned(), (*value).to_owned())
        };
        let properties: Vec<_> = properties.iter().map(own).collect();
        format!("{:?}", connect("127.0.0.1:1", &properties).unwrap())
    };
    for known in [
        &[][..],
        &[(ClientRole::All, "client.id", "me")],
        &[(ClientRole::Consumer, "fetch.min.bytes", "7")],
    ] {
        assert!(asks(known).contains("NativeAdmin"), "{known:?}");
    }
    let only = [(ClientRole::Admin, "debug", "broker")];
    assert!(!asks(&only).contains("NativeAdmin"));
}

#[test]
fn only_compacted_topics_have_tombstones() {
    let day = Some(DEFAULT_TOMBSTONE_RETENTION);
    let ms = |ms| Some(Duration::from_millis(ms));
    assert_eq!(retention_of(Some("delete"), Some("5")), None);
    assert_eq!(retention_of(Some("compact"), Some("5")), ms(5));
    assert_eq!(retention_of(Some("compact,delete"), Some("0")), ms(0));
    assert_eq!(retention_of(Some("delete, compact"), None), day);
    assert_eq!(retention_of(None, None), day, "unknown counts as compacted");
}
