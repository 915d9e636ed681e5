//! What followers get while epochs are applied: everything, once, in order, or an error.

use super::super::{ChangeBatch, ChangedRow, FollowSpec, Follower, KeySpan, StoreReaders};
use super::{ChangesEnd, Followers};
use crate::admin::status::Status;
use crate::admin::tests::fixture::Still;
use crate::runtime::failpoint::Failpoints;
use crate::runtime::shared::Shared;
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Wake, Waker};
use std::thread;
use std::time::Duration;
use stoatflow_core::{
    Bytes, Clock, Datum, Epoch, ErrorKind, Offset, Result, StoreId, TopicPartition,
};
use stoatflow_operators::ForeignCode;
use stoatflow_plan::find::FindSpec;
use stoatflow_plan::{Expression, PhysicalPlan};
use stoatflow_state::memory::MemoryBackend;
use stoatflow_state::rocksdb::RocksBackend;
use stoatflow_state::{Backend, EpochBatch, KeyRange, Page, StoreLayout, Write};
use tempfile::TempDir;

const ID: StoreId = StoreId(0);

type Row<'k> = (&'k str, Option<i64>);
/// Epoch, whether it is the snapshot, whether it is complete, rows.
type BatchRows = (u64, bool, bool, Vec<(String, Option<i64>)>);

struct Run {
    readers: StoreReaders,
    shared: Arc<Shared>,
    plan: Arc<PhysicalPlan>,
    state: Arc<dyn Backend>,
    _folder: Option<TempDir>,
}

impl Run {
    fn in_memory() -> Self {
        Self::of(Arc::new(MemoryBackend::new(false)), None)
    }

    fn on_disk() -> Self {
        let folder = TempDir::new().unwrap();
        let layout = StoreLayout {
            id: ID,
            name: "rows".into(),
            format: "test".into(),
            rocksdb: stoatflow_core::RocksDbOptions::default(),
        };
        let state = RocksBackend::open(folder.path(), &[layout], 8 << 20).unwrap();
        Self::of(Arc::new(state), Some(folder))
    }

    fn of(state: Arc<dyn Backend>, folder: Option<TempDir>) -> Self {
        let table = json!({
            "op": "table", "topic": "in", "key": "string", "value": "int64",
            "materialized": {"store": "rows"},
        });
        let plan = json!({
            "version": 1, "nodes": [table], "functions": [], "serdes": [], "processors": [],
        });
        let plan = Arc::new(stoatflow_plan::compile(plan.to_string().as_bytes()).unwrap());
        let status = Arc::new(Status::new("app", Arc::clone(&plan), 1));
        let clock: Arc<dyn Clock> = Arc::new(Still);
        let shared = Shared::new(status, clock, 1, 1, true, Failpoints::default());
        let (shared, readers) = (Arc::new(shared), StoreReaders::default());
        readers.begin(&state, &shared);
        Self {
            readers,
            shared,
            plan,
            state,
            _folder: folder,
        }
    }

    fn followers(&self) -> &Arc<Followers> {
        &self.shared.followers
    }

    /// Commits an epoch; `None` deletes.
    fn commit(&self, epoch: u64, rows: &[Row<'_>]) {
        let write = |(key, value): &Row<'_>| Write {
            key: Bytes::copy_from_slice(key.as_bytes()),
            value: value.map(|n| [[0; 8], n.to_be_bytes()].concat().into()),
        };
        let batch = EpochBatch {
            epoch: Epoch(epoch),
            writes: vec![(ID, rows.iter().map(write).collect())],
            ..EpochBatch::default()
        };
        let at = Offset(i64::try_from(epoch).unwrap());
        let reached = vec![(TopicPartition::new("in".to_owned(), 0), at)];
        let lock = &self.shared.snapshot_lock;
        (self
            .followers()
            .apply(lock, batch, reached, self.state.as_ref()))
        .unwrap();
    }

    fn follow(&self, spec: &FollowSpec) -> Follower {
        let (store, foreign) = (&self.plan.stores[0], ForeignCode::default());
        (self.readers.follow(&self.plan, &foreign, store, spec)).unwrap()
    }
}

fn everything() -> FollowSpec {
    FollowSpec {
        snapshot: true,
        keys: KeySpan::Between(None, None),
        condition: None,
        buffer_bytes: 64 << 20,
    }
}

fn positive() -> Expression {
    let zero = json!({"op": "lit", "value": 0});
    let query = json!({"where": {"op": "gt", "args": [{"op": "value"}, zero]}});
    let spec = FindSpec::decode(query.to_string().as_bytes()).unwrap();
    spec.condition.unwrap()
}

fn next(follower: &Follower, rows: usize) -> Result<Option<ChangeBatch>> {
    let bytes = usize::MAX;
    follower.next(Page { rows, bytes })
}

fn shown(row: &ChangedRow) -> (String, Option<i64>) {
    let Datum::Str(key) = &row.key else {
        panic!("{row:?}")
    };
    let value = row.value.as_ref().map(|stored| match &stored.value {
        Datum::Int(n) => *n,
        other => panic!("{other:?}"),
    });
    (key.as_str().to_owned(), value)
}

fn next_rows(follower: &Follower, rows: usize) -> Option<BatchRows> {
    let batch = next(follower, rows).unwrap()?;
    let rows = batch.rows.iter().map(shown).collect();
    let epoch = batch.cut.epoch.0;
    Some((epoch, batch.is_snapshot, batch.is_complete, rows))
}

fn snapshot(epoch: u64, rows: &[Row<'_>]) -> Option<BatchRows> {
    Some((epoch, true, true, owned(rows)))
}

fn changes(epoch: u64, rows: &[Row<'_>]) -> Option<BatchRows> {
    Some((epoch, false, true, owned(rows)))
}

fn owned(rows: &[Row<'_>]) -> Vec<(String, Option<i64>)> {
    let owned = |(key, value): &Row<'_>| ((*key).to_owned(), *value);
    rows.iter().map(owned).collect()
}

fn lost(follower: &Follower) -> String {
    let error = next(follower, 10).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChangesLost);
    error.to_string()
}

#[test]
fn a_follower_gets_the_rows_then_the_changes_of_each_commit() {
    for run in [Run::in_memory(), Run::on_disk()] {
        run.commit(1, &[("a", Some(1)), ("b", Some(2))]);
        let follower = run.follow(&everything());
        run.commit(2, &[("b", None), ("c", Some(3))]);
        run.commit(3, &[]);
        run.commit(4, &[("a", Some(4))]);
        let first = snapshot(1, &[("a", Some(1)), ("b", Some(2))]);
        assert_eq!(next_rows(&follower, 10), first);
        let second = changes(2, &[("b", None), ("c", Some(3))]);
        assert_eq!(next_rows(&follower, 10), second);
        let batch = next(&follower, 10).unwrap().unwrap();
        // A commit without changes for it is left out.
        assert_eq!(batch.cut.epoch, Epoch(4));
        let at = TopicPartition::new("in".to_owned(), 0);
        assert_eq!(batch.cut.positions, [(at, Offset(4))]);
        assert_eq!(next_rows(&follower, 10), None);
        assert!(!follower.is_over());
    }
}

#[test]
fn an_empty_store_tells_where_it_begins() {
    let run = Run::in_memory();
    assert_eq!(next_rows(&run.follow(&everything()), 10), snapshot(0, &[]));
}

#[test]
fn much_comes_in_several_batches() {
    let run = Run::in_memory();
    let rows = [("a", Some(1)), ("b", Some(2)), ("c", Some(3))];
    run.commit(1, &rows);
    let follower = run.follow(&everything());
    run.commit(2, &rows);
    for (epoch, is_snapshot) in [(1, true), (2, false)] {
        let first = Some((epoch, is_snapshot, false, owned(&rows[..2])));
        assert_eq!(next_rows(&follower, 2), first);
        let last = Some((epoch, is_snapshot, true, owned(&rows[2..])));
        assert_eq!(next_rows(&follower, 2), last);
    }
}

#[test]
fn without_a_snapshot_only_changes_come() {
    let run = Run::in_memory();
    run.commit(1, &[("a", Some(1))]);
    let spec = FollowSpec {
        snapshot: false,
        ..everything()
    };
    let follower = run.follow(&spec);
    assert_eq!(next_rows(&follower, 10), None);
    run.commit(2, &[("b", Some(2))]);
    assert_eq!(next_rows(&follower, 10), changes(2, &[("b", Some(2))]));
}

#[test]
fn keys_choose_rows() {
    let run = Run::in_memory();
    run.commit(1, &[("a", Some(1)), ("b1", Some(1)), ("c", Some(1))]);
    let spec = FollowSpec {
        keys: KeySpan::Prefix(Datum::text("b")),
        ..everything()
    };
    let follower = run.follow(&spec);
    run.commit(2, &[("a", Some(2)), ("c", Some(2))]);
    run.commit(3, &[("b2", Some(3)), ("c", Some(3))]);
    assert_eq!(next_rows(&follower, 10), snapshot(1, &[("b1", Some(1))]));
    assert_eq!(next_rows(&follower, 10), changes(3, &[("b2", Some(3))]));
}

#[test]
fn a_row_that_no_longer_meets_the_condition_is_gone_once() {
    let run = Run::in_memory();
    run.commit(1, &[("a", Some(1)), ("b", Some(-1))]);
    for (at, gives_snapshot) in [(1, true), (11, false)] {
        let spec = FollowSpec {
            snapshot: gives_snapshot,
            condition: Some(positive()),
            ..everything()
        };
        let follower = run.follow(&spec);
        run.commit(at + 1, &[("a", Some(-5)), ("b", Some(-2)), ("c", None)]);
        run.commit(at + 2, &[("a", Some(-6)), ("b", None)]);
        run.commit(at + 3, &[("a", Some(1)), ("b", Some(-1))]);
        if gives_snapshot {
            assert_eq!(next_rows(&follower, 10), snapshot(at, &[("a", Some(1))]));
        }
        assert_eq!(next_rows(&follower, 10), changes(at + 1, &[("a", None)]));
        assert_eq!(next_rows(&follower, 10), changes(at + 3, &[("a", Some(1))]));
        assert_eq!(next_rows(&follower, 10), None);
    }
}

#[test]
fn a_slow_reader_is_ended_and_keeps_no_memory() {
    let run = Run::in_memory();
    let spec = FollowSpec {
        buffer_bytes: 1,
        ..everything()
    };
    let (slow, other) = (run.follow(&spec), run.follow(&everything()));
    assert_eq!(next_rows(&slow, 10), snapshot(0, &[]));
    // One commit always fits, however large it is.
    run.commit(1, &[("a", Some(1)), ("b", Some(1))]);
    assert_eq!(next_rows(&slow, 10).unwrap().0, 1);
    for epoch in 2..5 {
        run.commit(epoch, &[("a", Some(2))]);
    }
    for _ in 0..2 {
        let text = lost(&slow);
        for part in [
            "fell behind",
            "epoch 1",
            "follow the store again",
            "raise buffer_bytes",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    let known = run.followers().known.lock();
    let held = |at: usize| known.all[at].waiting.lock().epochs.len();
    assert_eq!((held(0), held(1)), (0, 4));
    drop(known);
    let epochs = std::iter::from_fn(|| next_rows(&other, 10)).map(|batch| batch.0);
    assert_eq!(epochs.collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

#[test]
fn committed_changes_come_before_the_end() {
    for (end, text) in [
        (ChangesEnd::Stopped, None),
        (ChangesEnd::Failed, Some("began again from its last commit")),
        (ChangesEnd::NewPartitions, Some("new partitions")),
    ] {
        let run = Run::in_memory();
        let follower = run.follow(&everything());
        run.commit(1, &[("a", Some(1))]);
        run.followers().end(end);
        run.commit(2, &[("a", Some(2))]);
        assert_eq!(next_rows(&follower, 10), snapshot(0, &[]));
        assert_eq!(next_rows(&follower, 10), changes(1, &[("a", Some(1))]));
        let late = run.follow(&everything());
        assert_eq!(next_rows(&late, 10), snapshot(2, &[("a", Some(2))]));
        for follower in [follower, late] {
            match text {
                None => assert!(next_rows(&follower, 10).is_none() && follower.is_over()),
                Some(text) => {
                    assert!(lost(&follower).contains(text));
                    assert!(!follower.is_over());
                }
            }
        }
    }
}

#[test]
fn an_end_amid_the_snapshot_is_no_end_of_the_rows() {
    let run = Run::in_memory();
    run.commit(1, &[("a", Some(1)), ("b", Some(1))]);
    let follower = run.follow(&everything());
    assert!(!next_rows(&follower, 1).unwrap().2);
    run.commit(2, &[("a", Some(2))]);
    run.readers.end();
    // The reason is not known yet.
    assert!(next_rows(&follower, 1).is_none() && !follower.is_over());
    run.followers().end(ChangesEnd::Stopped);
    assert!(!follower.is_over());
    let text = lost(&follower);
    assert!(text.contains("ended before its rows were read"), "{text}");
}

struct Counted(AtomicUsize);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn waiters_are_woken_by_a_change_and_by_the_end() {
    let run = Run::in_memory();
    let follower = run.follow(&everything());
    assert!(next_rows(&follower, 10).is_some());
    let counted = Arc::new(Counted(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&counted));
    assert!(follower.wake(&waker));
    run.commit(1, &[]);
    assert_eq!(counted.0.load(SeqCst), 0, "nothing has changed");
    run.commit(2, &[("a", Some(1))]);
    assert_eq!(counted.0.load(SeqCst), 1);
    assert!(!follower.wake(&waker), "there is something already");
    assert_eq!(next_rows(&follower, 10).unwrap().0, 2);
    thread::scope(|scope| {
        let waits = scope.spawn(|| follower.wait(Duration::from_secs(600)));
        assert!(follower.wake(&waker));
        follower.close();
        waits.join().unwrap();
    });
    assert_eq!(counted.0.load(SeqCst), 2);
    assert!(next_rows(&follower, 10).is_none() && follower.is_over());
}

#[test]
fn closed_followers_cost_nothing() {
    let run = Run::in_memory();
    assert_eq!(run.followers().count.load(SeqCst), 0);
    let (one, other) = (run.follow(&everything()), run.follow(&everything()));
    assert_eq!(run.followers().count.load(SeqCst), 2);
    one.close();
    drop(other);
    assert_eq!(run.followers().count.load(SeqCst), 0);
    assert!(run.followers().known.lock().all.is_empty());
    run.commit(1, &[("a", Some(1))]);
    assert!(next_rows(&one, 10).is_none() && one.is_over());
}

#[test]
fn followers_of_the_same_rows_share_them() {
    let run = Run::in_memory();
    let (_one, _other) = (run.follow(&everything()), run.follow(&everything()));
    run.commit(1, &[("a", Some(1))]);
    let known = run.followers().known.lock();
    let writes = |at: usize| Arc::clone(&known.all[at].waiting.lock().epochs[0].writes);
    assert!(Arc::ptr_eq(&writes(0), &writes(1)));
}

/// A reader's copy of the store, and the epoch of its last batch.
#[derive(Default)]
struct ReadersCopy {
    rows: BTreeMap<String, i64>,
    epoch: Option<u64>,
    /// True if the last batch was not the last of its commit.
    goes_on: bool,
}

impl ReadersCopy {
    /// Applies a batch, which must follow the one before. Every epoch has changes.
    fn take(&mut self, batch: &ChangeBatch) {
        let epoch = batch.cut.epoch.0;
        match self.epoch {
            None => assert!(batch.is_snapshot),
            Some(before) if self.goes_on => assert_eq!(epoch, before),
            Some(before) => assert!(!batch.is_snapshot && epoch == before + 1),
        }
        self.epoch = Some(epoch);
        self.goes_on = !batch.is_complete;
        for (key, value) in batch.rows.iter().map(shown) {
            put(&mut self.rows, key, value);
        }
    }
}

fn put(rows: &mut BTreeMap<String, i64>, key: String, value: Option<i64>) -> Option<i64> {
    match value {
        Some(value) => rows.insert(key, value),
        None => rows.remove(&key),
    }
}

/// Follows again and again; returns what the last follower has in the end.
fn read_to(last: u64, run: &Run) -> BTreeMap<String, i64> {
    for turn in (0..10).rev() {
        let follower = run.follow(&everything());
        let mut copy = ReadersCopy::default();
        while copy.epoch != Some(last) || copy.goes_on {
            match next(&follower, 2).unwrap() {
                Some(batch) => copy.take(&batch),
                None => follower.wait(Duration::from_millis(50)),
            }
            let is_enough = turn > 0 && copy.epoch.is_some_and(|epoch| epoch % 40 == 39);
            if is_enough {
                break;
            }
        }
        if turn == 0 {
            return copy.rows;
        }
    }
    BTreeMap::new()
}

#[test]
fn nothing_is_missed_or_doubled_between_the_snapshot_and_the_first_change() {
    const EPOCHS: u64 = 400;
    for run in [Run::in_memory(), Run::on_disk()] {
        let keys = ["a", "b", "c", "d", "e"];
        let copies: Vec<_> = thread::scope(|scope| {
            let readers: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| read_to(EPOCHS, &run)))
                .collect();
            for epoch in 1..=EPOCHS {
                let key = |n: u64| keys[usize::try_from((epoch + n) % 5).unwrap()];
                let value = i64::try_from(epoch).unwrap();
                let rows = [
                    (key(0), Some(value)),
                    (key(1), None),
                    (key(2), Some(-value)),
                ];
                run.commit(epoch, &rows);
                thread::yield_now();
            }
            let ended = readers.into_iter().map(|reader| reader.join().unwrap());
            ended.collect()
        });
        let stored = run.state.scan(ID, &KeyRange::default(), 100).unwrap();
        let row = |(key, value): &(Bytes, Bytes)| {
            let number = i64::from_be_bytes(value[8..].try_into().unwrap());
            (String::from_utf8(key.to_vec()).unwrap(), number)
        };
        let stored: BTreeMap<_, _> = stored.iter().map(row).collect();
        assert_eq!(copies, vec![stored; 3]);
    }
}

type Commits = Vec<BTreeMap<String, Option<i64>>>;

fn commits() -> impl Strategy<Value = Commits> {
    let value = prop_oneof![Just(None), (-2_i64..3).prop_map(Some)];
    let commit = proptest::collection::btree_map("[a-g]", value, 0..6);
    proptest::collection::vec(commit, 1..12)
}

/// After how many commits it begins to follow, whether with a condition, whether with keys, and its page
/// size.
fn starts() -> impl Strategy<Value = Vec<(usize, bool, bool, usize)>> {
    let start = (0_usize..12, any::<bool>(), any::<bool>(), 1_usize..4);
    proptest::collection::vec(start, 1..4)
}

/// A follower, and what it has read.
struct Reader {
    follower: Follower,
    has_condition: bool,
    has_keys: bool,
    page: usize,
    rows: BTreeMap<String, i64>,
}

impl Reader {
    fn new(run: &Run, &(_, has_condition, has_keys, page): &(usize, bool, bool, usize)) -> Self {
        let keys = if has_keys {
            (Some(Datum::text("c")), Some(Datum::text("e")))
        } else {
            (None, None)
        };
        let spec = FollowSpec {
            condition: has_condition.then(positive),
            keys: KeySpan::Between(keys.0, keys.1),
            ..everything()
        };
        Self {
            follower: run.follow(&spec),
            has_condition,
            has_keys,
            page,
            rows: BTreeMap::new(),
        }
    }

    fn read(&mut self) {
        while let Some(batch) = next(&self.follower, self.page).unwrap() {
            for (key, value) in batch.rows.iter().map(shown) {
                let before = put(&mut self.rows, key, value);
                // A deletion is only reported for rows that met the condition before.
                assert!(!self.has_condition || value.is_some() || before.is_some());
            }
        }
    }

    fn wanted(&self, model: &BTreeMap<String, i64>) -> BTreeMap<String, i64> {
        let wanted = |(key, value): &(&String, &i64)| {
            let in_keys = ("c"..="e").contains(&key.as_str());
            (!self.has_condition || **value > 0) && (!self.has_keys || in_keys)
        };
        let rows = model.iter().filter(wanted);
        rows.map(|(key, value)| (key.clone(), *value)).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whenever a reader begins to follow, all of a store or a part of it, it ends up with what the
    /// store has.
    #[test]
    fn snapshot_and_changes_are_the_store(
        commits in commits(),
        starts in starts(),
        reads_between in any::<bool>(),
    ) {
        let run = Run::in_memory();
        let mut readers: Vec<Reader> = Vec::new();
        let mut model = BTreeMap::new();
        for (at, commit) in commits.iter().enumerate() {
            let new = starts.iter().filter(|start| start.0 == at);
            readers.extend(new.map(|start| Reader::new(&run, start)));
            let rows: Vec<Row<'_>> = commit.iter().map(|(key, value)| (key.as_str(), *value)).collect();
            run.commit(at as u64 + 1, &rows);
            for (key, value) in commit {
                put(&mut model, key.clone(), *value);
            }
            if reads_between || at + 1 == commits.len() {
                for reader in &mut readers {
                    reader.read();
                    prop_assert_eq!(&reader.rows, &reader.wanted(&model));
                }
            }
        }
    }
}
