//! Whole histories against a model that has no cache, no shards and no laziness.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// One step of a history. `late` lanes are still in the older of the two open epochs.
#[derive(Clone, Debug)]
enum Step {
    Put {
        late: bool,
        key: u8,
        value: Option<i64>,
    },
    Add {
        late: bool,
        key: u8,
        unlocked: bool,
    },
    Get {
        late: bool,
        key: u8,
    },
    Scan {
        late: bool,
        from: u8,
        to: u8,
        reverse: bool,
        limit: usize,
    },
    /// All lanes have left the older epoch.
    Seal,
    /// The oldest sealed epoch reaches the back end; between the two, lanes may read.
    Apply,
    Committed,
}

fn step() -> impl Strategy<Value = Step> {
    let (late, key) = (any::<bool>, || 0..12u8);
    prop_oneof![
        4 => (late(), key(), prop::option::weighted(0.8, 0..99i64)).prop_map(|(late, key, value)| Step::Put { late, key, value }),
        6 => (late(), key(), any::<bool>()).prop_map(|(late, key, unlocked)| Step::Add { late, key, unlocked }),
        4 => (late(), key()).prop_map(|(late, key)| Step::Get { late, key }),
        2 => (late(), key(), key(), any::<bool>(), 0..15usize)
            .prop_map(|(late, from, to, reverse, limit)| Step::Scan { late, from, to, reverse, limit }),
        1 => Just(Step::Seal),
        1 => Just(Step::Apply),
        1 => Just(Step::Committed),
    ]
}

type Data = BTreeMap<Bytes, Option<i64>>;

struct World {
    store: KeyValueStore,
    backend: Arc<dyn Backend>,
    /// What each epoch wrote; never removed.
    model: BTreeMap<u64, Data>,
    /// The older open epoch; the newer one is the next.
    open: u64,
    dirty: [Dirty; 2],
    sealed: Vec<(u64, Vec<Sealed>)>,
    applied: Option<u64>,
    /// Counts updates, so that each one writes another value.
    n: i64,
}

fn name(key: u8) -> Bytes {
    Bytes::from(format!("k{key:02}"))
}

impl World {
    fn new(backend: Arc<dyn Backend>, cache: usize, ordered: bool) -> Self {
        let store = KeyValueStore::new(
            StoreId(0),
            "s".into(),
            Serde::Int64,
            Arc::clone(&backend),
            cache,
        )
        .with_ordered(ordered);
        let dirty = [Dirty::default(), Dirty::default()];
        Self {
            store,
            backend,
            model: BTreeMap::new(),
            open: 0,
            dirty,
            sealed: Vec::new(),
            applied: None,
            n: 0,
        }
    }

    fn epoch(&self, late: bool) -> u64 {
        self.open + u64::from(!late)
    }

    fn seen(&self, epoch: u64) -> BTreeMap<Bytes, i64> {
        let mut seen = BTreeMap::new();
        for data in self.model.range(..=epoch).map(|(_, d)| d) {
            for (k, v) in data {
                match v {
                    Some(v) => drop(seen.insert(k.clone(), *v)),
                    None => drop(seen.remove(k)),
                }
            }
        }
        seen
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Put { late, key, value } => {
                let epoch = self.epoch(late);
                self.store
                    .put(
                        Epoch(epoch),
                        &mut self.dirty[usize::from(!late)],
                        &name(key),
                        value.map(|v| int(v, v)),
                    )
                    .unwrap();
                self.model
                    .entry(epoch)
                    .or_default()
                    .insert(name(key), value);
            }
            Step::Add {
                late,
                key,
                unlocked,
            } => {
                let epoch = self.epoch(late);
                let before = self.seen(epoch).get(&name(key)).copied();
                self.n += 1;
                let after = before.unwrap_or(0) * 3 + self.n;
                let check = |old: Option<&Stored>| {
                    assert_eq!(old.cloned(), before.map(|v| int(v, v)));
                    Ok((Some(int(after, after)), ()))
                };
                let dirty = &mut self.dirty[usize::from(!late)];
                if unlocked {
                    self.store
                        .update_unlocked(Epoch(epoch), dirty, &name(key), check)
                        .unwrap();
                } else {
                    self.store
                        .update(Epoch(epoch), dirty, &name(key), check)
                        .unwrap();
                }
                self.model
                    .entry(epoch)
                    .or_default()
                    .insert(name(key), Some(after));
            }
            Step::Get { late, key } => {
                let epoch = self.epoch(late);
                let expected = self.seen(epoch).get(&name(key)).map(|v| int(*v, *v));
                assert_eq!(self.store.get(Epoch(epoch), &name(key)).unwrap(), expected);
            }
            Step::Scan {
                late,
                from,
                to,
                reverse,
                limit,
            } => {
                let epoch = self.epoch(late);
                let range = KeyRange {
                    from: Some(name(from)),
                    to: Some(name(to)),
                    reverse,
                };
                let mut expected: Vec<_> = self
                    .seen(epoch)
                    .into_iter()
                    .filter(|(k, _)| range.contains(k))
                    .map(|(k, v)| (k, int(v, v)))
                    .collect();
                if reverse {
                    expected.reverse();
                }
                expected.truncate(limit);
                assert_eq!(
                    self.store.scan(Epoch(epoch), &range, limit).unwrap(),
                    expected
                );
            }
            Step::Seal => self.seal(),
            Step::Apply => self.apply(),
            Step::Committed => self.finish(),
        }
    }

    fn seal(&mut self) {
        let dirty = std::mem::take(&mut self.dirty[0]);
        self.dirty.swap(0, 1);
        let sealed = self.store.seal(Epoch(self.open), dirty).unwrap();
        let got: BTreeMap<_, _> = sealed
            .iter()
            .map(|s| (s.key.clone(), s.value.clone()))
            .collect();
        assert_eq!(got.len(), sealed.len(), "a key was sealed twice");
        let wrote = self.model.get(&self.open).cloned().unwrap_or_default();
        let wrote: BTreeMap<_, _> = wrote
            .into_iter()
            .map(|(k, v)| (k, v.map(|v| Bytes::copy_from_slice(&v.to_be_bytes()))))
            .collect();
        let before = self.open.checked_sub(1).map(|e| self.seen(e));
        for (key, value) in &wrote {
            let was = before.as_ref().is_some_and(|b| b.contains_key(key));
            // A key created and deleted within an epoch leaves nothing, or an unneeded deletion.
            if got.contains_key(key) || value.is_some() || was {
                assert_eq!(got.get(key), Some(value));
            }
        }
        assert!(got.keys().all(|key| wrote.contains_key(key)));
        self.sealed.push((self.open, sealed));
        self.open += 1;
    }

    fn apply(&mut self) {
        if self.sealed.is_empty() || self.applied.is_some() {
            return;
        }
        let (epoch, sealed) = self.sealed.remove(0);
        let writes = sealed.iter().map(KeyValueStore::stored_bytes).collect();
        let batch = EpochBatch {
            epoch: Epoch(epoch),
            writes: vec![(self.store.id(), writes)],
            ..EpochBatch::default()
        };
        self.backend.apply(batch).unwrap();
        self.applied = Some(epoch);
    }

    fn finish(&mut self) {
        if let Some(epoch) = self.applied.take() {
            self.store.committed(Epoch(epoch));
        }
    }

    fn end(&mut self) {
        self.seal();
        self.seal();
        while !self.sealed.is_empty() || self.applied.is_some() {
            self.finish();
            self.apply();
        }
        assert_eq!(self.store.staged_bytes(), 0);
        let committed: Vec<_> = self
            .seen(u64::MAX)
            .into_iter()
            .map(|(k, v)| (k, int(v, v)))
            .collect();
        assert_eq!(
            self.store
                .scan(Epoch(self.open), &KeyRange::default(), usize::MAX)
                .unwrap(),
            committed
        );
        let fresh = KeyValueStore::new(
            StoreId(0),
            "s".into(),
            Serde::Int64,
            Arc::clone(&self.backend),
            0,
        );
        assert_eq!(
            fresh
                .scan(Epoch(self.open), &KeyRange::default(), usize::MAX)
                .unwrap(),
            committed
        );
    }
}

fn history(backend: Arc<dyn Backend>, cache: usize, ordered: bool, steps: Vec<Step>) {
    let mut world = World::new(backend, cache, ordered);
    steps.into_iter().for_each(|s| world.run(s));
    world.end();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn memory_back_end_agrees_with_the_model(cache in prop_oneof![Just(0usize), Just(1 << 20)], ordered: bool, steps in prop::collection::vec(step(), 0..120)) {
        history(Arc::new(MemoryBackend::new(false)), cache, ordered, steps);
    }
}

proptest! {
    // Opening a database takes longer than running a history.
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn rocksdb_back_end_agrees_with_the_model(cache in prop_oneof![Just(0usize), Just(1 << 20)], ordered: bool, steps in prop::collection::vec(step(), 0..400)) {
        let dir = tempfile::tempdir().unwrap();
        let (id, name, format) = (StoreId(0), "s".to_owned(), "test".to_owned());
        let layout = crate::StoreLayout { id, name, format, rocksdb: stoatflow_core::RocksDbOptions::default() };
        let backend = crate::rocksdb::RocksBackend::open(dir.path(), &[layout], 8 << 20).unwrap();
        history(Arc::new(backend), cache, ordered, steps);
    }
}
