//! The epoch that readers see while another one is applied.

use super::{CommittedSnapshot, StoreReaders};
use crate::admin::status::Status;
use crate::admin::tests::fixture::{Still, plan};
use crate::runtime::failpoint::Failpoints;
use crate::runtime::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use stoatflow_core::{Bytes, Clock, Epoch, StoreId};
use stoatflow_plan::PhysicalPlan;
use stoatflow_state::memory::MemoryBackend;
use stoatflow_state::rocksdb::RocksBackend;
use stoatflow_state::{Backend, EpochBatch, Page, StoreLayout, Write};
use tempfile::TempDir;

struct Run {
    readers: StoreReaders,
    shared: Arc<Shared>,
    plan: Arc<PhysicalPlan>,
    /// Readers hold no reference to the state, so the test does.
    state: Arc<dyn Backend>,
    _folder: Option<TempDir>,
}

fn on_disk() -> Run {
    let folder = TempDir::new().unwrap();
    let layout = |id| StoreLayout {
        id: StoreId(id),
        name: format!("store-{id}"),
        format: "test".into(),
        rocksdb: stoatflow_core::RocksDbOptions::default(),
    };
    let layouts: Vec<StoreLayout> = (0..8).map(layout).collect();
    let state = RocksBackend::open(folder.path(), &layouts, 8 << 20).unwrap();
    run(Arc::new(state), Some(folder))
}

fn run(state: Arc<dyn Backend>, folder: Option<TempDir>) -> Run {
    let plan = Arc::new(plan());
    let status = Arc::new(Status::new("app", Arc::clone(&plan), 1));
    let clock: Arc<dyn Clock> = Arc::new(Still);
    let shared = Shared::new(status, clock, 1, 1, true, Failpoints::default());
    let shared = Arc::new(shared);
    let readers = StoreReaders::default();
    readers.begin(&state, &shared);
    Run {
        readers,
        shared,
        plan,
        state,
        _folder: folder,
    }
}

impl Run {
    fn of_a_store(&self) -> CommittedSnapshot {
        let store = &self.plan.stores[0].name;
        self.readers.snapshot(&self.plan, Some(store)).unwrap()
    }

    fn of_all(&self) -> CommittedSnapshot {
        self.readers.snapshot(&self.plan, None).unwrap()
    }

    fn apply(&self, epoch: u64, meanwhile: impl FnOnce()) {
        let lock = &self.shared.snapshot_lock;
        let apply = || {
            meanwhile();
            Ok(())
        };
        lock.apply(Epoch(epoch), Vec::new(), apply).unwrap();
    }
}

fn epoch(of: &CommittedSnapshot) -> u64 {
    of.cut().epoch.0
}

#[test]
fn a_shared_snapshot_is_read_while_the_next_epoch_is_applied() {
    let run = on_disk();
    run.apply(1, || ());
    let first = run.of_a_store();
    assert_eq!(epoch(&first), 1);
    // If it waited for the epoch, which waits for it here, the test would never end.
    run.apply(2, || {
        let shared = run.of_a_store();
        assert!(Arc::ptr_eq(&shared.open, &first.open));
        assert_eq!(epoch(&shared), 1);
    });
    assert_eq!(epoch(&run.of_a_store()), 2, "not that of an older epoch");
    assert!(first.is_open());
}

#[test]
fn a_shared_snapshot_stays_open_for_other_readers() {
    let run = on_disk();
    let (mine, other) = (run.of_a_store(), run.of_a_store());
    assert!(Arc::ptr_eq(&mine.open, &other.open));
    mine.close();
    assert!(other.is_open());

    let (mine, other) = (run.of_all(), run.of_all());
    mine.close();
    assert!(!mine.is_open() && other.is_open());
}

#[test]
fn a_store_in_memory_is_not_shared_since_the_next_epoch_would_copy_it() {
    let run = run(Arc::new(MemoryBackend::new(false)), None);
    let (one, other) = (run.of_a_store(), run.of_a_store());
    assert!(!Arc::ptr_eq(&one.open, &other.open));
}

#[test]
fn waiting_for_an_epoch_blocks_no_other_reader() {
    let run = on_disk();
    run.apply(1, || ());
    drop(run.of_a_store());
    let (answer, answered) = channel();
    thread::scope(|scope| {
        run.apply(2, || {
            let run = &run;
            scope.spawn(move || answer.send(epoch(&run.of_all())).unwrap());
            assert!(answered.recv_timeout(Duration::from_millis(50)).is_err());
            assert_eq!(epoch(&run.of_a_store()), 1);
        });
    });
    assert_eq!(answered.recv().unwrap(), 2);
}

#[test]
fn the_end_of_the_run_closes_what_is_shared() {
    let run = on_disk();
    let shared = run.of_a_store();
    run.readers.end();
    assert!(!shared.is_open());
    assert!(run.readers.snapshot(&run.plan, None).is_err());
}

#[test]
fn a_snapshot_that_others_share_is_taken_without_waiting() {
    let run = on_disk();
    let store = &run.plan.stores[0];
    let shared = || run.readers.shared_snapshot(&run.plan, store);
    run.apply(1, || ());
    assert!(shared().is_none(), "no reader has taken one");
    let first = run.of_a_store();
    run.apply(2, || {
        let found = shared().unwrap();
        assert!(Arc::ptr_eq(&found.open, &first.open));
        assert_eq!(epoch(&found), 1);
    });
    assert!(shared().is_none(), "the epoch is over");
    drop(run.of_a_store());
    assert_eq!(epoch(&shared().unwrap()), 2);
    run.readers.end();
    assert!(shared().is_none());
}

#[test]
fn a_read_that_must_not_wait_fails_if_it_needs_the_disk() {
    let run = on_disk();
    let row = Write {
        key: Bytes::from_static(b"key"),
        value: Some(Bytes::from_static(b"value")),
    };
    let store = run.plan.stores[0].id;
    let batch = EpochBatch {
        writes: vec![(store, vec![row])],
        ..EpochBatch::default()
    };
    run.state.apply(batch).unwrap();
    let (cached, is_on_disk) = run.of_a_store().cached();
    let get = |key: &[u8]| cached.open.read(|snapshot| snapshot.get(store, key));
    assert_eq!(get(b"key").unwrap().unwrap(), "value");
    assert!(get(b"none").unwrap().is_none());
    assert!(!is_on_disk.load(Relaxed));
    let page = Page { rows: 1, bytes: 99 };
    let scanned = (cached.open).read(|snapshot| snapshot.page(store, None, page));
    assert!(scanned.is_err() && is_on_disk.load(Relaxed));
}
