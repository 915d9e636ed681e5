//! Histories of windows, sessions and versions against maps that have no slots, segments or pruning.

use super::*;
use crate::{PutResult, SessionView, VersionedView, WindowView};
use proptest::prelude::*;
use std::collections::BTreeMap;

const SEGMENT: i64 = 100;
const RETENTION: i64 = 250;
const HISTORY: i64 = 120;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Window,
    Session,
    Versioned,
}

impl Kind {
    fn layout(self) -> Layout {
        match self {
            Self::Window => Layout::Window {
                segment_ms: SEGMENT,
                retention_ms: RETENTION,
            },
            Self::Session => Layout::Session {
                segment_ms: SEGMENT,
                retention_ms: RETENTION,
            },
            Self::Versioned => Layout::Versioned {
                history_ms: HISTORY,
            },
        }
    }
}

/// `late` lanes are still in the older of the two open epochs. `back` counts from the clock.
#[derive(Clone, Debug)]
enum Step {
    Put {
        late: bool,
        key: usize,
        back: i64,
        length: i64,
        value: Option<i64>,
    },
    Get {
        late: bool,
        key: usize,
        back: i64,
        length: i64,
    },
    Row {
        late: bool,
        key: usize,
        back: i64,
        length: i64,
        reverse: bool,
        limit: usize,
    },
    Keys {
        late: bool,
        from: usize,
        to: usize,
        back: i64,
        reverse: bool,
    },
    Advance(i64),
    Seal,
    Apply,
    Committed,
    Restart,
}

/// Keys, some of which look like another key's windows.
const KEYS: [&[u8]; 5] = [
    b"",
    b"k",
    b"k\0\0\0\0\0\0\0\x40\0\0\0\0",
    b"k\x80\0\0\0\0\0\0\x40",
    b"z",
];

fn step() -> impl Strategy<Value = Step> {
    let (late, key, back, length) = (
        any::<bool>,
        || 0..KEYS.len(),
        || prop_oneof![3 => 0..40i64, 1 => 0..400i64],
        || 0..90i64,
    );
    prop_oneof![
        10 => (late(), key(), back(), length(), prop::option::weighted(0.75, 0..99i64))
            .prop_map(|(late, key, back, length, value)| Step::Put { late, key, back, length, value }),
        4 => (late(), key(), back(), length())
            .prop_map(|(late, key, back, length)| Step::Get { late, key, back, length }),
        5 => (late(), key(), back(), 0..300i64, any::<bool>(), prop_oneof![0..4usize, Just(99)])
            .prop_map(|(late, key, back, length, reverse, limit)| Step::Row { late, key, back, length, reverse, limit }),
        2 => (late(), key(), key(), back(), any::<bool>())
            .prop_map(|(late, from, to, back, reverse)| Step::Keys { late, from, to, back, reverse }),
        4 => (0..60i64).prop_map(Step::Advance),
        2 => Just(Step::Seal),
        2 => Just(Step::Apply),
        2 => Just(Step::Committed),
        1 => Just(Step::Restart),
    ]
}

/// Key, end (start of a window, time of a version), start of a session.
type Id = (Bytes, i64, i64);
/// A missing entry was never written; `None` is a deletion, kept for versions.
type Data = BTreeMap<Id, Option<i64>>;

struct World {
    kind: Kind,
    cache: usize,
    store: KeyValueStore,
    backend: Arc<dyn Backend>,
    model: BTreeMap<u64, Data>,
    open: u64,
    clock: i64,
    observed: i64,
    dirty: [Dirty; 2],
    sealed: Vec<(u64, Vec<Sealed>)>,
    applied: Option<(u64, Option<KeyRange>)>,
    changelog: Vec<crate::ChangelogRecord>,
}

impl World {
    fn new(kind: Kind, backend: Arc<dyn Backend>, cache: usize) -> Self {
        Self {
            kind,
            cache,
            store: open(kind, &backend, cache),
            backend,
            model: BTreeMap::new(),
            open: 0,
            clock: 0,
            observed: -1,
            dirty: [Dirty::default(), Dirty::default()],
            sealed: Vec::new(),
            applied: None,
            changelog: Vec::new(),
        }
    }

    fn epoch(&self, late: bool) -> u64 {
        self.open + u64::from(!late)
    }

    fn seen(&self, epoch: u64) -> Data {
        let mut seen = Data::new();
        for data in self.model.range(..=epoch).map(|(_, d)| d) {
            seen.extend(data.iter().map(|(k, v)| (k.clone(), *v)));
        }
        seen
    }

    /// Live windows and sessions.
    fn live(&self, epoch: u64) -> Vec<(Id, i64)> {
        self.seen(epoch)
            .into_iter()
            .filter(|((_, end, _), _)| *end > self.observed - RETENTION)
            .filter_map(|(k, v)| Some((k, v?)))
            .collect()
    }

    /// Versions of a key, ascending: time, value, end.
    fn versions(&self, epoch: u64, key: &[u8]) -> Vec<(i64, Option<i64>, Option<i64>)> {
        let row: Vec<_> = self
            .seen(epoch)
            .into_iter()
            .filter(|((k, ..), _)| k == key)
            .map(|((_, ts, _), v)| (ts, v))
            .collect();
        (0..row.len())
            .map(|i| (row[i].0, row[i].1, row.get(i + 1).map(|n| n.0)))
            .collect()
    }

    fn put(&mut self, late: bool, key: usize, back: i64, length: i64, value: Option<i64>) {
        let (epoch, key) = (self.epoch(late), KEYS[key]);
        let end = (self.clock - back).max(0);
        let start = (end - length).max(0);
        let stored = value.map(|v| int(v, v));
        let dirty = &mut self.dirty[usize::from(!late)];
        let (store, e, observed) = (&self.store, Epoch(epoch), self.observed);
        let (written, id) = match self.kind {
            Kind::Window => {
                let mut view = WindowView::new(store, e, observed).unwrap();
                let written = view.put(dirty, key, end, stored).unwrap();
                self.observed = view.observed();
                (written, (Bytes::from_static(key), end, 0))
            }
            Kind::Session => {
                let mut view = SessionView::new(store, e, observed).unwrap();
                let written = view.put(dirty, key, start, end, stored).unwrap();
                self.observed = view.observed();
                (written, (Bytes::from_static(key), end, start))
            }
            Kind::Versioned => {
                let mut view = VersionedView::new(store, e, observed).unwrap();
                let said = view.put(dirty, key, value.map(Datum::Int), end).unwrap();
                let next = self
                    .versions(epoch, key)
                    .iter()
                    .map(|v| v.0)
                    .find(|ts| *ts > end);
                let expected = match next {
                    _ if end < observed - HISTORY => PutResult::NotPut,
                    Some(ts) => PutResult::ValidTo(ts),
                    None => PutResult::Undefined,
                };
                assert_eq!(said, expected);
                self.observed = view.observed();
                (said != PutResult::NotPut, (Bytes::from_static(key), end, 0))
            }
        };
        if self.kind != Kind::Versioned {
            assert_eq!(self.observed, observed.max(end));
            assert_eq!(written, end > self.observed - RETENTION);
        }
        if written {
            self.model.entry(epoch).or_default().insert(id, value);
        }
        if written
            && self.kind == Kind::Versioned
            && let Some((ts, latest, _)) = self.versions(epoch, key).pop()
            && ts > end
        {
            // The latest version is written again after one that came late.
            let id = (Bytes::from_static(key), ts, 0);
            self.model.entry(epoch).or_default().insert(id, latest);
        }
    }

    fn get(&self, late: bool, key: usize, back: i64, length: i64) {
        let (epoch, key) = (self.epoch(late), KEYS[key]);
        let at = (self.clock - back).max(0);
        let (store, e, observed) = (&self.store, Epoch(epoch), self.observed);
        let start = (at - length).max(0);
        let live = |id: Id| {
            self.live(epoch)
                .into_iter()
                .find(|(k, _)| *k == id)
                .map(|(_, v)| int(v, v))
        };
        match self.kind {
            Kind::Window => {
                let view = WindowView::new(store, e, observed).unwrap();
                assert_eq!(
                    view.fetch(key, at).unwrap(),
                    live((Bytes::from_static(key), at, 0))
                );
            }
            Kind::Session => {
                let view = SessionView::new(store, e, observed).unwrap();
                assert_eq!(
                    view.fetch_session(key, start, at).unwrap(),
                    live((Bytes::from_static(key), at, start))
                );
            }
            Kind::Versioned => {
                let view = VersionedView::new(store, e, observed).unwrap();
                let versions = self.versions(epoch, key);
                let show = |r: Option<crate::VersionedRecord>| {
                    r.map(|r| (r.timestamp, Some(r.value), r.valid_to))
                };
                let model = |v: &(i64, Option<i64>, Option<i64>)| {
                    v.1.map(|n| (v.0, Some(Datum::Int(n)), v.2))
                };
                assert_eq!(
                    show(view.get(key).unwrap()),
                    versions.last().and_then(model)
                );
                let held = versions
                    .iter()
                    .rfind(|v| v.0 <= at)
                    .filter(|v| v.2.is_none() || at >= observed - HISTORY);
                assert_eq!(
                    show(view.get_as_of(key, at).unwrap()),
                    held.and_then(model),
                    "as of {at}, observed {observed}"
                );
            }
        }
    }

    fn row(&self, late: bool, key: usize, from: i64, to: i64, reverse: bool, limit: usize) {
        let (epoch, key) = (self.epoch(late), KEYS[key]);
        let (store, e, observed) = (&self.store, Epoch(epoch), self.observed);
        let mut expected: Vec<_> = self.live(epoch);
        expected.retain(|((k, ..), _)| k == key);
        if reverse {
            expected.reverse();
        }
        match self.kind {
            Kind::Window => {
                let view = WindowView::new(store, e, observed).unwrap();
                expected.retain(|((_, start, _), _)| (from..=to).contains(start));
                expected.truncate(limit);
                let expected: Vec<_> = expected
                    .into_iter()
                    .map(|((_, start, _), v)| (start, int(v, v)))
                    .collect();
                assert_eq!(
                    view.fetch_range(key, from, to, reverse, limit).unwrap(),
                    expected
                );
            }
            Kind::Session => {
                let view = SessionView::new(store, e, observed).unwrap();
                expected.retain(|((_, end, start), _)| *end >= from && *start <= to);
                let found = view.find_sessions(key, from, to, reverse).unwrap();
                let found: Vec<_> = found
                    .into_iter()
                    .map(|s| ((s.key, s.end, s.start), s.value))
                    .collect();
                let expected: Vec<_> = expected
                    .into_iter()
                    .map(|(id, v)| (id, int(v, v)))
                    .collect();
                assert_eq!(found, expected);
            }
            Kind::Versioned => {
                let view = VersionedView::new(store, e, observed).unwrap();
                let from = from.max(observed - HISTORY);
                let expected: Vec<_> = self
                    .versions(epoch, key)
                    .into_iter()
                    .filter(|v| v.0 <= to && v.2.is_none_or(|end| end > from))
                    .filter_map(|v| Some((v.0, Datum::Int(v.1?), v.2)))
                    .collect();
                let found = view.history(key, from, to).unwrap();
                let found: Vec<_> = found
                    .into_iter()
                    .map(|r| (r.timestamp, r.value, r.valid_to))
                    .collect();
                assert_eq!(found, expected);
            }
        }
    }

    fn keys(&self, late: bool, from_key: usize, to_key: usize, from: i64, reverse: bool) {
        let epoch = self.epoch(late);
        let (store, e, observed) = (&self.store, Epoch(epoch), self.observed);
        let (from_key, to_key) = (KEYS[from_key], KEYS[to_key]);
        let mut expected: Vec<_> = self.live(epoch);
        expected.retain(|((k, end, _), _)| **k >= *from_key && **k <= *to_key && *end >= from);
        expected.sort_by_key(|((k, end, start), _)| match self.kind {
            Kind::Session => crate::session_key(SEGMENT, k, *start, *end),
            _ => crate::window_key(SEGMENT, k, *end, 0),
        });
        if reverse {
            expected.reverse();
        }
        let (low, high) = (Some(from_key), Some(to_key));
        let found: Vec<_> = match self.kind {
            Kind::Window => WindowView::new(store, e, observed)
                .unwrap()
                .fetch_keys(low, high, from, i64::MAX, reverse)
                .unwrap()
                .into_iter()
                .map(|(k, start, v)| ((k, start, 0), v.timestamp.0))
                .collect(),
            Kind::Session => SessionView::new(store, e, observed)
                .unwrap()
                .find_keys(low, high, from, i64::MAX, reverse)
                .unwrap()
                .into_iter()
                .map(|s| ((s.key, s.end, s.start), s.value.timestamp.0))
                .collect(),
            Kind::Versioned => return,
        };
        assert_eq!(found, expected);
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Put {
                late,
                key,
                back,
                length,
                value,
            } => self.put(late, key, back, length, value),
            Step::Get {
                late,
                key,
                back,
                length,
            } => self.get(late, key, back, length),
            Step::Row {
                late,
                key,
                back,
                length,
                reverse,
                limit,
            } => {
                let from = (self.clock - back - length).max(0);
                self.row(late, key, from, from + length, reverse, limit);
            }
            Step::Keys {
                late,
                from,
                to,
                back,
                reverse,
            } => self.keys(late, from, to, (self.clock - back).max(0), reverse),
            Step::Advance(by) => self.clock += by,
            Step::Seal => self.seal(),
            Step::Apply => self.apply(),
            Step::Committed => self.finish(),
            Step::Restart => self.restart(),
        }
    }

    fn seal(&mut self) {
        let dirty = std::mem::take(&mut self.dirty[0]);
        self.dirty.swap(0, 1);
        let sealed = self.store.seal(Epoch(self.open), dirty).unwrap();
        let layout = self.kind.layout();
        let logged: Vec<_> = sealed
            .iter()
            .filter_map(|s| layout.to_changelog(s))
            .collect();
        let wrote = self.model.get(&self.open).cloned().unwrap_or_default();
        let before = self.open.checked_sub(1).map(|e| self.seen(e));
        let was = |id| {
            before
                .as_ref()
                .is_some_and(|b| matches!(b.get(id), Some(Some(_))))
        };
        // A key created and deleted within an epoch leaves nothing, or an unneeded deletion.
        let least = match self.kind {
            Kind::Versioned => wrote.len(),
            _ => wrote
                .iter()
                .filter(|(id, v)| v.is_some() || was(id))
                .count(),
        };
        assert!((least..=wrote.len()).contains(&logged.len()));
        self.changelog.extend(logged);
        self.sealed.push((self.open, sealed));
        self.open += 1;
    }

    fn apply(&mut self) {
        if self.sealed.is_empty() || self.applied.is_some() {
            return;
        }
        let (epoch, sealed) = self.sealed.remove(0);
        let drop = self.kind.layout().expired_at(self.observed);
        let batch = EpochBatch {
            epoch: Epoch(epoch),
            drops: drop.iter().map(|r| (self.store.id(), r.clone())).collect(),
            writes: vec![(
                self.store.id(),
                sealed.iter().map(KeyValueStore::stored_bytes).collect(),
            )],
            ..EpochBatch::default()
        };
        self.backend.apply(batch).unwrap();
        self.applied = Some((epoch, drop));
    }

    fn finish(&mut self) {
        if let Some((epoch, drop)) = self.applied.take() {
            self.store.committed(Epoch(epoch));
            if let Some(range) = drop {
                self.store.forget(&range);
            }
        }
    }

    fn settle(&mut self) {
        self.seal();
        self.seal();
        while !self.sealed.is_empty() || self.applied.is_some() {
            self.finish();
            self.apply();
        }
    }

    fn restart(&mut self) {
        self.settle();
        assert_eq!(self.store.staged_bytes(), 0);
        self.store = open(self.kind, &self.backend, self.cache);
    }

    /// Reads everything.
    fn check(&self) {
        for key in 0..KEYS.len() {
            self.row(true, key, 0, i64::MAX, false, usize::MAX);
            for back in (0..400).step_by(23) {
                self.get(true, key, back, 3);
            }
        }
        self.keys(true, 0, KEYS.len() - 1, 0, false);
    }

    fn end(mut self) {
        self.settle();
        self.check();
        self.restart();
        self.check();
        // A store restored from the changelog alone returns the same.
        let layout = self.kind.layout();
        let restored: Arc<dyn Backend> = Arc::new(MemoryBackend::new(false));
        let writes = std::mem::take(&mut self.changelog)
            .into_iter()
            .map(|r| {
                layout
                    .from_changelog(&r.key, r.value.as_deref(), r.timestamp)
                    .unwrap()
            })
            .collect();
        restored.restore(StoreId(0), writes, &[]).unwrap();
        self.store = open(self.kind, &restored, self.cache);
        self.check();
    }
}

fn open(kind: Kind, backend: &Arc<dyn Backend>, cache: usize) -> KeyValueStore {
    KeyValueStore::with_layout(
        StoreId(0),
        "s".into(),
        Serde::Int64,
        Arc::clone(backend),
        cache,
        kind.layout(),
    )
}

fn history(kind: Kind, backend: Arc<dyn Backend>, cache: usize, steps: Vec<Step>) {
    let mut world = World::new(kind, backend, cache);
    steps.into_iter().for_each(|s| world.run(s));
    world.end();
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Window),
        Just(Kind::Session),
        Just(Kind::Versioned)
    ]
}

fn cache() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0usize), Just(30 << 10), Just(1 << 20)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn layouts_in_memory_agree_with_the_model(kind in kind(), cache in cache(), steps in prop::collection::vec(step(), 0..150)) {
        history(kind, Arc::new(MemoryBackend::new(false)), cache, steps);
    }
}

proptest! {
    // Opening a database takes longer than running a history.
    #![proptest_config(ProptestConfig { cases: 30, ..ProptestConfig::default() })]

    #[test]
    fn layouts_in_rocksdb_agree_with_the_model(kind in kind(), cache in cache(), steps in prop::collection::vec(step(), 0..400)) {
        let dir = tempfile::tempdir().unwrap();
        let (id, name, format) = (StoreId(0), "s".to_owned(), kind.layout().format());
        let layout = crate::StoreLayout { id, name, format, rocksdb: stoatflow_core::RocksDbOptions::default() };
        let backend = crate::rocksdb::RocksBackend::open(dir.path(), &[layout], 8 << 20).unwrap();
        history(kind, Arc::new(backend), cache, steps);
    }
}
