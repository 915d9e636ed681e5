use super::*;
use crate::{ClockRule, Effects, KeyAssignment, LaneClocks, RunCoordinator, Time};
use stoatflow_core::{Epoch, Serde, StoreId};
use stoatflow_state::memory::MemoryBackend;
use stoatflow_state::{Dirty, KeyValueStore};

const CLOCK: ClockId = ClockId(1);
const KEY: &[u8] = b"some key";

/// A lane with the store of stream times only.
struct Rig {
    stores: Vec<LaneStore>,
    clocks: LaneClocks,
    effects: Effects,
    run: Arc<RunCoordinator>,
}

impl Rig {
    fn new() -> Self {
        let id = StoreId(0);
        let backend = Arc::new(MemoryBackend::new(true));
        let store = KeyValueStore::new(id, "clocks".into(), Serde::Bytes, backend, 1 << 20);
        let rule = ClockRule {
            group: None,
            tasks: 4,
            by_key: false,
            dispatched: false,
            ..ClockRule::default()
        };
        let mut clocks = LaneClocks::new(2, false).ruled(&[rule, rule]);
        let names = ["one", "other"].map(|name| Bytes::copy_from_slice(name.as_bytes()));
        clocks.rows = Some((id, Arc::new(names)));
        Self {
            stores: vec![LaneStore {
                store: Arc::new(store),
                dirty: Dirty::default(),
            }],
            clocks,
            effects: Effects::default(),
            run: Arc::default(),
        }
    }

    fn context(&mut self) -> Context<'_> {
        Context {
            epoch: Epoch(1),
            stores: &mut self.stores,
            effects: &mut self.effects,
            clocks: &mut self.clocks,
            assignment: KeyAssignment::new(0, 1),
            run: &self.run,
        }
    }

    fn rows(&self) -> usize {
        let all = KeyRange::default();
        self.stores[0]
            .store
            .scan(Epoch(1), &all, 100)
            .unwrap()
            .len()
    }

    /// The task in which a starting lane finds what waits.
    fn found(&mut self, clock: ClockId) -> Task {
        let tasks = Tasks::read(clock, &mut self.context()).unwrap();
        tasks.of(&mut self.context(), (7, KEY), KEY).unwrap()
    }
}

fn waiting(rows: Rows) -> Waiting {
    Waiting::new(
        CLOCK,
        Serde::builtin("string").unwrap(),
        |place| place,
        rows,
    )
}

#[test]
fn entries_in_another_task_are_found_there() {
    let mut rig = Rig::new();
    let home = rig.clocks.task_of(CLOCK, KEY);
    let away = Task((home.0 + 1) % 4);
    let mut waiting = waiting(Rows::OfKeysInOtherTasks);
    let place = Bytes::from_static(KEY);
    waiting
        .insert(away, (7, place.clone()), &mut rig.context())
        .unwrap();
    waiting
        .insert(away, (7, place.clone()), &mut rig.context())
        .unwrap();
    assert_eq!((rig.rows(), rig.found(CLOCK)), (1, away));
    assert_eq!(
        rig.found(ClockId(0)),
        home,
        "another clock has its own rows"
    );
    let due = waiting.pop_due(away, 6, &mut rig.context()).unwrap();
    assert_eq!((due, rig.rows()), (None, 1));
    let due = waiting.pop_due(away, 7, &mut rig.context()).unwrap();
    assert_eq!(due, Some((7, place)));
    assert_eq!((rig.rows(), rig.found(CLOCK)), (0, home));
}

#[test]
fn removed_entries_have_no_row() {
    let mut rig = Rig::new();
    let home = rig.clocks.task_of(CLOCK, KEY);
    let away = Task((home.0 + 3) % 4);
    let mut waiting = waiting(Rows::OfKeysInOtherTasks);
    let place = Bytes::from_static(KEY);
    let at = (7, place.clone());
    waiting.insert(away, at, &mut rig.context()).unwrap();
    let elsewhere = (7, &place);
    waiting.remove(home, elsewhere, &mut rig.context()).unwrap();
    assert_eq!(rig.rows(), 1, "it does not wait there");
    waiting
        .remove(away, (7, &place), &mut rig.context())
        .unwrap();
    assert_eq!(rig.rows(), 0);
}

#[test]
fn entries_in_the_task_of_their_key_need_no_row() {
    let mut rig = Rig::new();
    let home = rig.clocks.task_of(CLOCK, KEY);
    let mut waiting = waiting(Rows::OfKeysInOtherTasks);
    let at = (7, Bytes::from_static(KEY));
    waiting.insert(home, at, &mut rig.context()).unwrap();
    assert_eq!((rig.rows(), rig.found(CLOCK)), (0, home));
}

#[test]
fn of_all_that_wait_those_at_home_have_rows_too() {
    let mut rig = Rig::new();
    let home = rig.clocks.task_of(CLOCK, KEY);
    let mut waiting = waiting(Rows::OfAll);
    let at = (7, Bytes::from_static(KEY));
    waiting.insert(home, at, &mut rig.context()).unwrap();
    let tasks = Tasks::read(CLOCK, &mut rig.context()).unwrap();
    assert_eq!(tasks.known((7, KEY)), Some(home));
    waiting.pop_due(home, 7, &mut rig.context()).unwrap();
    let tasks = Tasks::read(CLOCK, &mut rig.context()).unwrap();
    assert_eq!((tasks.known((7, KEY)), rig.rows()), (None, 0));
}

#[test]
fn with_more_partitions_what_waits_stays_in_its_own_and_gets_a_row() {
    let mut rig = Rig::new();
    let home = rig.clocks.task_of(CLOCK, KEY);
    let before = (1..4)
        .find(|tasks| task_of_many(*tasks) != home)
        .unwrap_or(1);
    let of_clock = vec![Time::NONE; usize::from(before)];
    let times = Arc::new(vec![of_clock.clone(), of_clock]);
    rig.clocks = rig.clocks.continuing(Some(&times));
    let away = task_of_many(before);
    assert_ne!(away, home, "else it shows nothing");
    assert_eq!((rig.found(CLOCK), rig.rows()), (away, 1));
    // The next start finds the row.
    rig.clocks = rig.clocks.continuing(None);
    assert_eq!((rig.found(CLOCK), rig.rows()), (away, 1));
}

fn task_of_many(tasks: u16) -> Task {
    Task::of(stoatflow_core::murmur2::partition_of(KEY, i32::from(tasks)))
}
