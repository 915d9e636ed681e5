//! Admin requests to old and new brokers: versions, "not yet", refusals, and what is waited for.

mod cluster;
mod transactions;

use super::topics::topic_id;
use super::{MAX_IDLE_CONNECTIONS, NativeAdmin};
use crate::kafka::admin::AdminClient;
use crate::kafka::native::NativeConfig;
use crate::{Committed, GroupInUse, GroupMember, NewTopic, OpenTransaction, Range};
use cluster::{
    ANCIENT, BEGIN, BY_TIME, CONTROLLER, EPOCH_END, HIGH_WATERMARK, NEW, OLD, STABLE_END,
    TwoBrokers, Versions,
};
use kafka_protocol::messages::ApiKey;
use rdkafka_sys as sys;
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::Builder;
use std::time::Duration;
use stoatflow_core::{Clock, ErrorKind, Offset, Result, SystemClock, Timestamp, TopicPartition};

const WAIT: Duration = Duration::from_secs(20);

fn admin(cluster: &TwoBrokers) -> NativeAdmin {
    NativeAdmin::new(NativeConfig::plaintext(&cluster.bootstrap))
}

fn topic(name: &str, partitions: i32) -> NewTopic {
    NewTopic {
        name: name.into(),
        partitions,
        replication: -1,
        config: vec![("cleanup.policy".into(), "compact".into())],
    }
}

/// A cluster with a topic `t` of three partitions that all brokers know.
fn with_topic(versions: Versions) -> (TwoBrokers, NativeAdmin) {
    let cluster = TwoBrokers::start(versions);
    cluster.kept.lock().topics.insert("t".into(), (3, 0));
    let admin = admin(&cluster);
    (cluster, admin)
}

fn parts(numbers: &[i32]) -> Vec<TopicPartition> {
    let part = |p: &i32| TopicPartition::new("t", *p);
    numbers.iter().map(part).collect()
}

fn in_versions(versions: Versions) {
    let cluster = TwoBrokers::start(versions);
    let admin = admin(&cluster);
    admin
        .create_topics(&[topic("t", 3), topic("t", 9)], WAIT)
        .unwrap();
    // `t` exists, and is left as it is.
    admin
        .create_topics(&[topic("t", 8), topic("u", 1)], WAIT)
        .unwrap();
    let known = admin.topics(&["u", "none", "t", "u"], WAIT).unwrap();
    let known: Vec<_> = known
        .iter()
        .map(|t| t.as_ref().map(|t| (&*t.name, t.partitions)))
        .collect();
    assert_eq!(
        known,
        [Some(("u", 1)), None, Some(("t", 3)), Some(("u", 1))]
    );
    let ids = admin.topics(&["t"], WAIT).unwrap()[0].clone().unwrap().id;
    assert_eq!(ids.is_some(), versions != ANCIENT, "{ids:?}");
    let names = admin.topic_names(WAIT).unwrap();
    assert_eq!(names, ["t", "u"].map(Arc::from));
    of_partitions(&admin, versions);

    let ms = |ms| Some(Duration::from_millis(ms));
    let kept = admin
        .tombstone_retention(&["t", "deleted", "t"], WAIT)
        .unwrap();
    assert_eq!(kept, [ms(5000), None, ms(5000)]);

    admin.delete_topics(&["t", "none", "t"], WAIT).unwrap();
    let gone = admin.topics(&["t", "u"], WAIT).unwrap();
    assert_eq!((gone[0].is_none(), gone[1].is_some()), (true, true));
    assert_eq!(admin.topic_names(WAIT).unwrap(), [Arc::from("u")]);
    let missing = admin.ranges(&parts(&[0]), WAIT).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::MissingTopic, "{missing}");
    of_the_group(&cluster, &admin, versions);
    transactions::are_described_and_ended(&cluster, &admin, versions);
    asked_in(&cluster, versions);
}

/// Old brokers know only one protocol.
fn of_the_group(cluster: &TwoBrokers, admin: &NativeAdmin, versions: Versions) {
    let in_use = || admin.group_in_use("group", WAIT).unwrap();
    assert_eq!(in_use(), None, "there is no such group");
    let member = GroupMember {
        client_id: "app-1-consumer".into(),
        host: "10.0.0.7".into(),
    };
    for (protocol, state, members) in [
        ("classic", "Stable", vec![member.clone()]),
        ("consumer", "Reconciling", vec![member]),
        ("streams", "NotReady", vec![]),
    ] {
        cluster.kept.lock().group = Some((protocol, "Empty"));
        assert_eq!(in_use(), None, "{protocol}");
        cluster.kept.lock().group = Some((protocol, state));
        let known = protocol == "classic" || versions == NEW;
        let expected = known.then(|| GroupInUse {
            state: state.into(),
            members,
        });
        assert_eq!(in_use(), expected, "{protocol}");
    }
}

fn of_partitions(admin: &NativeAdmin, versions: Versions) {
    let asked_for = parts(&[2, 0, 1, 2]);
    let plus = |base: i64| [2, 0, 1, 2].map(|p| Offset(base + p));
    let range = |p: i64| Range {
        begin: Offset(BEGIN + p),
        stable_end: Offset(STABLE_END + p),
    };
    assert_eq!(
        admin.ranges(&asked_for, WAIT).unwrap(),
        [2, 0, 1, 2].map(range)
    );
    assert_eq!(
        admin.high_watermarks(&asked_for, WAIT).unwrap(),
        plus(HIGH_WATERMARK)
    );
    for since in [i64::MIN, -1, 0, 1000] {
        let found = admin
            .offsets_for_times(&asked_for, Timestamp(since), WAIT)
            .unwrap();
        assert_eq!(found, plus(BY_TIME).map(Some), "since {since}");
    }
    let found = admin
        .offsets_for_times(&asked_for, Timestamp(1001), WAIT)
        .unwrap();
    assert_eq!(found, [None; 4], "nothing is as new");

    let committed = |p: i64| {
        (p % 2 == 0).then(|| Committed {
            offset: Offset(100 + p),
            metadata: "wm".into(),
        })
    };
    let found = admin.committed("group", &asked_for, WAIT).unwrap();
    assert_eq!(found, [2, 0, 1, 2].map(committed));

    let (epoch, end) = EPOCH_END;
    let with = |epoch: i32| {
        asked_for
            .iter()
            .map(|p| (p.clone(), epoch))
            .collect::<Vec<_>>()
    };
    let ends = admin.epoch_ends(&with(epoch), WAIT).unwrap();
    if versions == ANCIENT {
        assert_eq!(ends, [None; 4], "nobody knows the question");
    } else {
        assert_eq!(ends, [2, 0, 1, 2].map(|p| Some(Offset(end + p))));
        let ends = admin.epoch_ends(&with(epoch + 1), WAIT).unwrap();
        assert_eq!(ends, [None; 4], "a leader that knows of no such epoch");
    }

    let open = admin.open_transactions(&asked_for, WAIT);
    if versions == ANCIENT {
        assert_eq!(
            open.unwrap_err().kind(),
            ErrorKind::Config,
            "nobody knows the question"
        );
    } else {
        let first = OpenTransaction {
            producer: 7,
            epoch: 3,
            start: Offset(21),
            last: Timestamp(99),
            coordinator_epoch: 4,
        };
        assert_eq!(open.unwrap(), [None, Some(first), None, None]);
    }
}

/// Requests have the newest version that both sides know, and go to the right broker.
fn asked_in(cluster: &TwoBrokers, versions: Versions) {
    let asked = |key: ApiKey| {
        let kept = cluster.kept.lock();
        let of_key = kept.asked.iter().filter(|(_, k, _)| *k == key);
        let of_key = of_key.map(|(node, _, version)| (*node, *version));
        of_key.collect::<Vec<_>>()
    };
    for (key, theirs) in versions {
        let ours = match key {
            ApiKey::Metadata => 12..=13,
            ApiKey::FindCoordinator => 4..=4,
            ApiKey::OffsetFetch => 9..=9,
            ApiKey::ListOffsets => 10..=10,
            ApiKey::WriteTxnMarkers => 1..=1,
            _ => *theirs..=*theirs,
        };
        let expected = (*theirs).min(*ours.start())..=(*theirs).min(*ours.end());
        let asked = asked(*key);
        assert!(!asked.is_empty(), "{key:?}");
        assert!(
            asked.iter().all(|(_, v)| expected.contains(v)),
            "{key:?}: {asked:?}"
        );
    }
    for key in [
        ApiKey::CreateTopics,
        ApiKey::DeleteTopics,
        ApiKey::OffsetFetch,
    ] {
        assert!(
            asked(key).iter().all(|(node, _)| *node == CONTROLLER),
            "{key:?}"
        );
    }
}

#[test]
fn every_question_is_asked_as_new_brokers_understand_it() {
    in_versions(NEW);
}

#[test]
fn every_question_is_asked_as_old_brokers_understand_it() {
    in_versions(OLD);
}

#[test]
fn every_question_is_asked_as_ancient_brokers_understand_it() {
    in_versions(ANCIENT);
}

#[test]
fn empty_requests_are_not_sent() {
    let admin = NativeAdmin::new(NativeConfig::plaintext("127.0.0.1:1"));
    assert_eq!(admin.topics(&[], WAIT).unwrap(), []);
    admin.create_topics(&[], WAIT).unwrap();
    admin.delete_topics(&[], WAIT).unwrap();
    assert_eq!(admin.ranges(&[], WAIT).unwrap(), []);
    assert_eq!(admin.high_watermarks(&[], WAIT).unwrap(), []);
    assert_eq!(
        admin.offsets_for_times(&[], Timestamp(0), WAIT).unwrap(),
        []
    );
    assert_eq!(admin.committed("group", &[], WAIT).unwrap(), []);
    assert_eq!(admin.tombstone_retention(&[], WAIT).unwrap(), []);
    assert_eq!(admin.open_transactions(&[], WAIT).unwrap(), []);
}

/// Not the controller; throttled; leaders that moved or don't know their end; coordinators that moved,
/// are loading or wait for a transaction.
#[test]
fn not_yet_is_asked_again() {
    let (cluster, admin) = with_topic(NEW);
    cluster.say(ApiKey::CreateTopics, &[41, 89, 7]);
    admin.create_topics(&[topic("new", 1)], WAIT).unwrap();
    cluster.say(ApiKey::DeleteTopics, &[41, 89]);
    admin.delete_topics(&["new"], WAIT).unwrap();
    cluster.say(ApiKey::Metadata, &[5, 5]);
    assert!(admin.topics(&["t"], WAIT).unwrap()[0].is_some());
    cluster.say(ApiKey::ListOffsets, &[6, 3, 78, 75, 5, 72]);
    let ends = admin.high_watermarks(&parts(&[0, 1]), WAIT).unwrap();
    assert_eq!(ends, [Offset(HIGH_WATERMARK), Offset(HIGH_WATERMARK + 1)]);
    cluster.say(ApiKey::FindCoordinator, &[15, 15]);
    cluster.say(ApiKey::OffsetFetch, &[14, 16, 88, 15]);
    let found = admin.committed("group", &parts(&[0]), WAIT).unwrap();
    assert_eq!(found[0].as_ref().map(|c| c.offset), Some(Offset(100)));
    cluster.say(ApiKey::DescribeGroups, &[14, 16, 15]);
    assert_eq!(admin.group_in_use("group", WAIT).unwrap(), None);
    cluster.say(ApiKey::DescribeConfigs, &[7]);
    admin.tombstone_retention(&["t"], WAIT).unwrap();
    let kept = cluster.kept.lock();
    assert!(
        kept.codes.values().all(|codes| codes.is_empty()),
        "{:?}",
        kept.codes
    );
}

#[test]
fn a_partition_that_an_answer_leaves_out_is_asked_for_again() {
    let (cluster, admin) = with_topic(NEW);
    cluster.kept.lock().left_out = 3;
    let ends = admin.high_watermarks(&parts(&[0, 1, 2]), WAIT).unwrap();
    assert_eq!(ends, [0, 1, 2].map(|p| Offset(HIGH_WATERMARK + p)));
    cluster.kept.lock().left_out = usize::MAX;
    let short = Duration::from_millis(400);
    let never = admin
        .high_watermarks(&parts(&[0, 1, 2]), short)
        .unwrap_err();
    assert_eq!(never.kind(), ErrorKind::Unavailable);
    assert!(
        never.to_string().contains("missing in the answer"),
        "{never}"
    );
}

/// Creating waits until every broker knows the topic, deleting until none does.
#[test]
fn all_brokers_are_waited_for() {
    let cluster = TwoBrokers::start(NEW);
    let admin = admin(&cluster);
    admin.create_topics(&[topic("t", 2)], WAIT).unwrap();
    assert_eq!(
        cluster.kept.lock().topics["t"],
        (2, 0),
        "the other broker has heard of it"
    );
    admin.delete_topics(&["t"], WAIT).unwrap();
    assert_eq!(
        cluster.kept.lock().deleted["t"],
        (2, 0),
        "and that it is gone"
    );
    let mut kept = cluster.kept.lock();
    kept.topics.insert("late".into(), (1, usize::MAX));
    drop(kept);
    let late = admin.create_topics(&[topic("late", 1)], Duration::from_millis(300));
    let late = late.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Unavailable);
    assert!(
        late.to_string().contains("'late'") || late.to_string().contains("not known"),
        "{late}"
    );
}

/// A broker that was paused, or is cut off from the controllers, still acts as the leader, and reports
/// an old end.
#[test]
fn a_broker_that_has_not_heard_of_an_election_is_not_believed() {
    let (cluster, admin) = with_topic(NEW);
    cluster.kept.lock().behind = true;
    let leaders = || {
        let mut kept = cluster.kept.lock();
        let asked = std::mem::take(&mut kept.asked);
        let offsets = asked
            .into_iter()
            .filter(|(_, key, _)| *key == ApiKey::ListOffsets);
        offsets.map(|(node, ..)| node).collect::<BTreeSet<_>>()
    };
    admin.high_watermarks(&parts(&[0, 1, 2]), WAIT).unwrap();
    assert_eq!(
        leaders(),
        BTreeSet::from([1]),
        "no broker has told of the election yet"
    );
    admin.learn_leaders(&["t"], WAIT).unwrap();
    admin.high_watermarks(&parts(&[0, 1, 2]), WAIT).unwrap();
    assert_eq!(leaders(), BTreeSet::from([CONTROLLER]));
    // A client that knows only the stale broker finds the others in its metadata.
    let another = NativeAdmin::new(admin.config.clone());
    another.high_watermarks(&parts(&[0, 1, 2]), WAIT).unwrap();
    assert_eq!(leaders(), BTreeSet::from([CONTROLLER]));
    // A stale answer is refused even if no other broker answers.
    cluster.kept.lock().alone = true;
    let error = admin
        .high_watermarks(&parts(&[0]), Duration::from_millis(500))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(
        error.to_string().contains(
            "metadata of this broker is stale: it does not know the newest leader of t-0"
        ),
        "{error}"
    );
}

/// Of several requests to all brokers, only the first waits for a frozen one.
#[test]
fn a_broker_that_was_silent_is_left_out_for_a_while() {
    let (cluster, admin) = with_topic(NEW);
    let asked = || {
        let asked = std::mem::take(&mut cluster.kept.lock().asked);
        let of_all = asked
            .into_iter()
            .filter(|(node, key, _)| *key == ApiKey::Metadata && *node == CONTROLLER);
        of_all.count()
    };
    admin.learn_leaders(&["t"], WAIT).unwrap();
    cluster.kept.lock().mute = true;
    asked();
    let clock = SystemClock::new();
    admin.learn_leaders(&["t"], WAIT).unwrap();
    let first = clock.monotonic();
    assert!(first >= Duration::from_secs(2) && asked() > 0, "{first:?}");
    admin.learn_leaders(&["t"], WAIT).unwrap();
    let second = clock.monotonic() - first;
    assert!(
        second < Duration::from_secs(1) && asked() == 0,
        "{second:?}"
    );
}

#[test]
fn refusals_name_the_cause_and_the_remedy() {
    let (cluster, admin) = with_topic(NEW);
    let refused = |key: ApiKey, code: i16, outcome: &dyn Fn() -> Result<()>| {
        cluster.say(key, &[code]);
        outcome().unwrap_err()
    };
    let create = || admin.create_topics(&[topic("new", 1)], WAIT);
    let error = refused(ApiKey::CreateTopics, 40, &create);
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("no such policy"), "{error}");
    let error = refused(ApiKey::CreateTopics, 31, &create);
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");

    let delete = || admin.delete_topics(&["t"], WAIT);
    let error = refused(ApiKey::DeleteTopics, 29, &delete);
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    assert!(
        error.next_step().contains("Delete on the topic 't'"),
        "{error}"
    );
    let error = refused(ApiKey::DeleteTopics, 73, &delete);
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.next_step().contains("delete.topic.enable"), "{error}");

    let ends = || admin.high_watermarks(&parts(&[0]), WAIT).map(drop);
    for key in [ApiKey::Metadata, ApiKey::ListOffsets] {
        let error = refused(key, 29, &ends);
        assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
        assert!(error.next_step().contains("'t'"), "{error}");
    }
    let committed = || admin.committed("group", &parts(&[0]), WAIT).map(drop);
    for key in [ApiKey::FindCoordinator, ApiKey::OffsetFetch] {
        let error = refused(key, 30, &committed);
        assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
        assert!(error.next_step().contains("group"), "{error}");
    }
    let members = || admin.group_in_use("group", WAIT).map(drop);
    for key in [
        ApiKey::DescribeGroups,
        ApiKey::ConsumerGroupDescribe,
        ApiKey::ListGroups,
    ] {
        let error = refused(key, 30, &members);
        assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    }
    // The coordinator is configured for classic groups only.
    cluster.say(ApiKey::ConsumerGroupDescribe, &[35]);
    members().unwrap();
    // Nothing is committed for a deleted topic.
    cluster.say(ApiKey::OffsetFetch, &[3]);
    assert_eq!(
        admin.committed("group", &parts(&[0]), WAIT).unwrap(),
        [None]
    );

    // A user without permission to describe a topic gets Kafka's default.
    cluster.say(ApiKey::DescribeConfigs, &[29]);
    let day = Some(Duration::from_secs(86_400));
    assert_eq!(admin.tombstone_retention(&["t"], WAIT).unwrap(), [day]);
    let missing = refused(ApiKey::DescribeConfigs, 3, &|| {
        admin.tombstone_retention(&["t"], WAIT).map(drop)
    });
    assert_eq!(missing.kind(), ErrorKind::MissingTopic, "{missing}");

    let many = NewTopic {
        replication: 40_000,
        ..topic("new", 1)
    };
    let error = admin.create_topics(&[many], WAIT).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

#[test]
fn a_partition_that_is_not_there_is_named() {
    let (_cluster, admin) = with_topic(NEW);
    let there = (TopicPartition::new("t", 2), Offset(0));
    admin.must_have(std::slice::from_ref(&there), WAIT).unwrap();
    for lost in [TopicPartition::new("t", 3), TopicPartition::new("none", 0)] {
        let both = [there.clone(), (lost.clone(), Offset(0))];
        for error in [
            admin.must_have(&both, WAIT).unwrap_err(),
            admin.ranges(std::slice::from_ref(&lost), WAIT).unwrap_err(),
            admin
                .high_watermarks(std::slice::from_ref(&lost), WAIT)
                .unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::MissingTopic, "{error}");
            assert!(error.to_string().contains(&lost.to_string()), "{error}");
        }
    }
}

/// Brokers close connections that are unused for long.
#[test]
fn connections_are_used_again_and_one_that_was_closed_is_made_anew() {
    let (cluster, admin) = with_topic(NEW);
    let everything = || {
        admin.topics(&["t"], WAIT).unwrap();
        admin.ranges(&parts(&[0, 1]), WAIT).unwrap();
        admin.committed("group", &parts(&[0]), WAIT).unwrap();
    };
    for _ in 0..6 {
        everything();
    }
    // One connection for the bootstrap, and one to each broker, however many requests there are. On a
    // busy machine, where connecting takes long, another broker is tried as well.
    let connections = cluster.kept.lock().connections;
    assert!(connections <= 6, "{connections}");
    cluster.kept.lock().closing = true;
    let short = Duration::from_millis(300);
    let gone = admin.topics(&["t"], short).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::Unavailable, "{gone}");
    cluster.kept.lock().closing = false;
    everything();
}

#[test]
fn a_call_that_waits_holds_no_other_up() {
    let (cluster, admin) = with_topic(NEW);
    let admin = Arc::new(admin);
    let held = cluster.settings.lock();
    let (say, hear) = channel();
    let waiting: Vec<_> = (0..2 * MAX_IDLE_CONNECTIONS)
        .map(|_| {
            let (admin, say) = (Arc::clone(&admin), say.clone());
            let wait = move || {
                say.send(()).unwrap();
                admin.tombstone_retention(&["t"], WAIT).unwrap()
            };
            Builder::new().spawn(wait).unwrap()
        })
        .collect();
    for _ in &waiting {
        hear.recv().unwrap();
    }
    let clock = SystemClock::new();
    admin.ranges(&parts(&[0, 1, 2]), WAIT).unwrap();
    assert!(clock.monotonic() < WAIT / 2, "{:?}", clock.monotonic());
    // And not longer than its timeout.
    let short = Duration::from_millis(300);
    let silent = admin.tombstone_retention(&["t"], short).unwrap_err();
    assert_eq!(silent.kind(), ErrorKind::Unavailable, "{silent}");
    assert!(clock.monotonic() < WAIT / 2, "{:?}", clock.monotonic());
    drop(held);
    for waits in waiting {
        waits.join().unwrap();
    }
    assert_eq!(admin.idle.lock().len(), MAX_IDLE_CONNECTIONS);
}

/// Applications compare the id with a stored one, whichever client returned it.
#[test]
fn a_topic_has_the_id_that_librdkafka_tells() {
    let ids = [
        1,
        0xfb_ff00_0000,
        u128::MAX,
        0x0123_4567_89ab_cdef_fedc_ba98_7654_3210,
    ];
    for id in ids {
        let half = |bits: u128| i64::from_ne_bytes(u64::try_from(bits).unwrap().to_ne_bytes());
        let (most, least) = (half(id >> 64), half(id & u128::from(u64::MAX)));
        // SAFETY: the id is freed after its text was copied.
        let theirs = unsafe {
            let theirs = sys::rd_kafka_Uuid_new(most, least);
            let text = CStr::from_ptr(sys::rd_kafka_Uuid_base64str(theirs)).to_owned();
            sys::rd_kafka_Uuid_destroy(theirs);
            text
        };
        assert_eq!(topic_id(id).as_deref(), theirs.to_str().ok());
    }
    assert_eq!(topic_id(0), None);
}
