//! The last transaction of an id, and the markers of hanging ones.

use super::cluster::{NEW, TwoBrokers, Versions};
use super::{NativeAdmin, WAIT, parts, with_topic};
use crate::kafka::admin::AdminClient;
use crate::{LastTransaction, OpenTransaction, TransactionOutcome};
use kafka_protocol::messages::ApiKey;
use stoatflow_core::{ErrorKind, Offset, Timestamp};

const OPEN: OpenTransaction = OpenTransaction {
    producer: 7,
    epoch: 3,
    start: Offset(21),
    last: Timestamp(99),
    coordinator_epoch: 4,
};

/// Which outcome the client takes for the open transaction of epoch 3.
fn outcome(
    cluster: &TwoBrokers,
    admin: &NativeAdmin,
    state: &'static str,
    epoch: i16,
) -> Option<TransactionOutcome> {
    cluster.kept.lock().transaction = Some((state, epoch));
    let last = admin.end_last_transactions(&["app"], WAIT).unwrap();
    last.first()
        .filter(|last| last.is(&OPEN))
        .map(|last| last.outcome)
}

pub(super) fn are_described_and_ended(
    cluster: &TwoBrokers,
    admin: &NativeAdmin,
    versions: Versions,
) {
    let ended = admin.end_last_transactions(&["app"], WAIT).unwrap();
    assert_eq!(ended, [], "there is no such id, or no such request");
    cluster.kept.lock().transaction = Some(("Ongoing", 3));
    let ended = admin.end_last_transactions(&["app"], WAIT).unwrap();
    assert_eq!(ended.len(), usize::from(versions == NEW));
    cluster.kept.lock().topics.insert("t".into(), (3, 0));
    let written = admin.write_marker(&parts(&[1])[0], &OPEN, TransactionOutcome::Aborted, WAIT);
    if versions == NEW {
        written.unwrap();
        assert_eq!(cluster.kept.lock().markers, [(7, 3, false, 4, 1)]);
    } else {
        assert_eq!(written.unwrap_err().kind(), ErrorKind::Config);
    }
}

/// Only with KIP-890 does the epoch tell which transaction is meant.
#[test]
fn a_coordinator_tells_how_the_last_transaction_ends() {
    let (cluster, admin) = with_topic(NEW);
    let told = |state, epoch| outcome(&cluster, &admin, state, epoch);
    let (committed, aborted) = (
        Some(TransactionOutcome::Committed),
        Some(TransactionOutcome::Aborted),
    );
    assert_eq!(told("Ongoing", 3), aborted, "it is aborted");
    assert_eq!(cluster.kept.lock().transaction, Some(("PrepareAbort", 4)));
    assert_eq!(told("Ongoing", 4), None, "another one is aborted");
    for (state, outcome) in [
        ("PrepareCommit", committed),
        ("CompleteCommit", committed),
        ("PrepareAbort", aborted),
        ("CompleteAbort", aborted),
    ] {
        let found = [3, 4, 5].map(|epoch| told(state, epoch));
        assert_eq!(found, [None, outcome, None], "{state}");
    }
    assert_eq!(told("Empty", 4), None);
    cluster.kept.lock().transaction = Some(("CompleteAbort", 4));
    let found = admin.end_last_transactions(&["app"], WAIT).unwrap();
    let stranger = OpenTransaction {
        producer: 8,
        ..OPEN
    };
    assert!(!found[0].is(&stranger), "{found:?}");
}

#[test]
fn without_an_epoch_for_each_transaction_none_is_ended() {
    let (cluster, admin) = with_topic(NEW);
    cluster.kept.lock().transaction_version = 1;
    cluster.kept.lock().transaction = Some(("CompleteCommit", 4));
    assert_eq!(
        admin.end_last_transactions(&["app"], WAIT).unwrap(),
        Vec::<LastTransaction>::new()
    );
}

#[test]
fn coordinators_and_leaders_that_are_not_ready_are_asked_again() {
    let (cluster, admin) = with_topic(NEW);
    cluster.kept.lock().transaction = Some(("CompleteCommit", 4));
    cluster.say(ApiKey::DescribeTransactions, &[14, 15, 16]);
    assert_eq!(
        admin.end_last_transactions(&["app"], WAIT).unwrap().len(),
        1
    );
    let open = || admin.open_transactions(&parts(&[0]), WAIT).unwrap();
    cluster.say(ApiKey::DescribeProducers, &[6, 3]);
    assert_eq!(open(), [Some(OPEN)]);
    cluster.say(ApiKey::DescribeProducers, &[29]);
    assert_eq!(open(), [None], "the user may not read it");
    cluster.say(ApiKey::WriteTxnMarkers, &[6, 5]);
    let write = || admin.write_marker(&parts(&[0])[0], &OPEN, TransactionOutcome::Committed, WAIT);
    write().unwrap();
    assert_eq!(cluster.kept.lock().markers, [(7, 3, true, 4, 0)]);
    cluster.say(ApiKey::WriteTxnMarkers, &[31]);
    assert_eq!(write().unwrap_err().kind(), ErrorKind::Unauthorized);
    // Meanwhile ended by the producer or the coordinator; or the broker doesn't take it.
    for (codes, known) in [(&[51, 47, 90, 16][..], 1), (&[48], 0), (&[53], 0)] {
        cluster.kept.lock().transaction = Some(("Ongoing", 3));
        cluster.say(ApiKey::EndTxn, codes);
        let last = admin.end_last_transactions(&["app"], WAIT).unwrap();
        assert_eq!(last.len(), known, "{codes:?}");
    }
    cluster.say(ApiKey::DescribeTransactions, &[53]);
    let refused = admin.end_last_transactions(&["app"], WAIT).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unauthorized);
}
