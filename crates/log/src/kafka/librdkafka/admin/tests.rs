use super::{Admin, COMMITTED, Code, NO_ANSWER, RecentChanges};
use crate::kafka::properties::Properties;
use rdkafka::mocking::MockCluster;
use rdkafka::types::{RDKafkaApiKey as Api, RDKafkaRespErr as Native};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{ErrorKind, Offset, TopicPartition};

const WAIT: Duration = Duration::from_secs(20);

/// While a broker restarts, `ListOffsets` returns offset -1001 and no error.
#[test]
fn an_unreported_end_is_no_end() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("t", 2, 1).unwrap();
    let properties = Properties::new(&cluster.bootstrap_servers(), &[]).unwrap();
    let admin = Admin::new(&properties).unwrap();
    let call = admin.call(WAIT, "asking").unwrap();
    let parts = [TopicPartition::new("t", 0), TopicPartition::new("t", 1)];
    let ask = || admin.offsets(&call, &parts, -1, COMMITTED);
    for _ in 0..3 {
        cluster.request_errors(Api::ListOffsets, &[Native::RD_KAFKA_RESP_ERR__TRANSPORT; 8]);
        let answer = ask();
        cluster.clear_request_errors(Api::ListOffsets);
        let refused = answer.expect_err("there was no answer");
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    }
    let told = call.until_ready(ask).unwrap();
    assert!(!told.contains(&Offset(NO_ANSWER)), "{told:?}");
}

/// Brokers learn of a new topic, and of a deleted one, after the controller.
#[test]
fn an_answer_that_contradicts_a_recent_change_is_not_ready() {
    let recent = RecentChanges::new();
    recent.note(&["new"], true);
    recent.note(&["gone"], false);
    assert!(recent.contradicts("new", false) && !recent.contradicts("new", true));
    assert!(recent.contradicts("gone", true) && !recent.contradicts("gone", false));
    assert!(!recent.contradicts("other", true) && !recent.contradicts("other", false));
    let unknown = Code::UnknownTopicOrPartition;
    assert_eq!(recent.code("new", unknown), Code::LeaderNotAvailable);
    assert_eq!(recent.code("gone", unknown), unknown);
    assert_eq!(recent.code("new", Code::NoError), Code::NoError);
    let listed = ["gone", "other"].map(Arc::from).to_vec();
    assert_eq!(recent.applied(listed), ["new", "other"].map(Arc::from));
    recent.note(&["gone"], true);
    assert!(!recent.contradicts("gone", true), "it was created again");
}
