//! Values that a function can change in place.

use super::*;
use parking_lot::Mutex;
use std::sync::atomic::AtomicUsize;
use stoatflow_core::datum::Opaque;

/// A Python list, as far as the store can tell.
#[derive(Debug, Default)]
struct List {
    items: Mutex<Vec<u8>>,
    encoded: AtomicUsize,
}

impl Opaque for List {
    fn to_json(&self) -> Result<Bytes> {
        self.encoded.fetch_add(1, Relaxed);
        Ok(Bytes::copy_from_slice(&self.items.lock()))
    }
    fn type_name(&self) -> String {
        "list".into()
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

fn foreign(list: &Arc<List>) -> Option<Stored> {
    Some(Stored {
        value: Datum::Opaque(Arc::<List>::clone(list)),
        timestamp: Timestamp(1),
    })
}

fn json_store() -> (KeyValueStore, MemoryBackend) {
    let backend = MemoryBackend::new(true);
    (
        KeyValueStore::new(
            StoreId(0),
            "lists".into(),
            Serde::Json,
            Arc::new(backend.clone()),
            1 << 20,
        ),
        backend,
    )
}

#[test]
fn is_encoded_once_per_epoch() {
    let (store, _) = json_store();
    let (list, mut dirty) = (Arc::new(List::default()), Dirty::default());
    for i in 0..10 {
        list.items.lock().push(b'0' + i);
        store
            .put(Epoch(1), &mut dirty, &key("k"), foreign(&list))
            .unwrap();
    }
    let sealed = store.seal(Epoch(1), dirty).unwrap();
    assert_eq!(sealed[0].value.as_deref(), Some(b"0123456789".as_slice()));
    assert_eq!(list.encoded.load(Relaxed), 1);
}

#[test]
fn a_change_in_place_by_the_next_epoch_does_not_reach_the_sealed_bytes() {
    let (store, _) = json_store();
    let (list, mut d1, mut d2) = (
        Arc::new(List::default()),
        Dirty::default(),
        Dirty::default(),
    );
    list.items.lock().push(b'1');
    store
        .put(Epoch(1), &mut d1, &key("k"), foreign(&list))
        .unwrap();
    // A lane already in epoch 2 reads, and would change the object if it got it.
    store
        .update_unlocked(Epoch(2), &mut d2, &key("k"), |old| {
            let Some(Stored {
                value: Datum::Json(bytes),
                ..
            }) = old
            else {
                panic!("expected a copy, got {old:?}")
            };
            let more = List {
                items: Mutex::new([bytes.as_ref(), b"2"].concat()),
                ..List::default()
            };
            Ok((foreign(&Arc::new(more)), ()))
        })
        .unwrap();
    // A lane still in epoch 1 has its own object, and what it adds still counts for epoch 1.
    let Some(Stored {
        value: Datum::Opaque(mine),
        ..
    }) = store.get(Epoch(1), b"k").unwrap()
    else {
        panic!()
    };
    mine.as_any()
        .downcast_ref::<List>()
        .unwrap()
        .items
        .lock()
        .push(b'x');
    store
        .put(Epoch(1), &mut d1, &key("k"), foreign(&list))
        .unwrap();
    assert_eq!(
        store.seal(Epoch(1), d1).unwrap()[0].value.as_deref(),
        Some(b"1x".as_slice())
    );
    assert_eq!(
        store.seal(Epoch(2), d2).unwrap()[0].value.as_deref(),
        Some(b"12".as_slice())
    );
}

#[test]
fn a_frozen_value_is_sealed_with_the_bytes_made_before_the_change() {
    let (store, _) = json_store();
    let (list, mut d1) = (Arc::new(List::default()), Dirty::default());
    list.items.lock().push(b'1');
    store
        .put(Epoch(1), &mut d1, &key("k"), foreign(&list))
        .unwrap();
    assert!(store.get(Epoch(2), b"k").unwrap().is_some());
    list.items.lock().push(b'2');
    assert_eq!(
        store.scan(Epoch(2), &KeyRange::default(), 9).unwrap().len(),
        1
    );
    assert_eq!(
        store.seal(Epoch(1), d1).unwrap()[0].value.as_deref(),
        Some(b"1".as_slice())
    );
    assert_eq!(list.encoded.load(Relaxed), 1);
}

/// A serde that needs a lock of the store while it runs, as a lane that holds the interpreter may.
#[derive(Debug)]
struct Nosy(std::sync::Weak<KeyValueStore>);

impl stoatflow_core::CustomSerde for Nosy {
    fn name(&self) -> &'static str {
        "nosy"
    }
    fn encode(&self, datum: &Datum) -> Result<Bytes> {
        self.look();
        Serde::Int64.encode(datum).map(Option::unwrap_or_default)
    }
    fn decode(&self, bytes: &Bytes) -> Result<Datum> {
        self.look();
        Serde::Int64.decode(Some(bytes.clone()))
    }
}

impl Nosy {
    /// Takes every lock of the store from another thread; hangs if one is held here.
    fn look(&self) {
        let Some(store) = self.0.upgrade() else {
            return;
        };
        let nothing = KeyRange {
            to: Some(Bytes::new()),
            ..KeyRange::default()
        };
        std::thread::scope(|s| s.spawn(|| drop(store.scan(Epoch(9), &nothing, 1))).join()).unwrap();
    }
}

#[test]
fn a_users_serde_never_runs_under_a_lock() {
    let backend = MemoryBackend::new(true);
    let store = Arc::new_cyclic(|weak| {
        let serde = Serde::Custom(Arc::new(Nosy(weak.clone())));
        KeyValueStore::new(StoreId(0), "s".into(), serde, Arc::new(backend.clone()), 0)
    });
    let mut dirty = Dirty::default();
    store
        .put(Epoch(1), &mut dirty, &key("k"), Some(int(1, 1)))
        .unwrap();
    let sealed = store.seal(Epoch(1), dirty).unwrap();
    apply(&store, &backend, Epoch(1), &sealed);
    for i in 0..100 {
        store.get(Epoch(2), format!("{i}").as_bytes()).unwrap();
    }
    assert_eq!(store.get(Epoch(2), b"k").unwrap(), Some(int(1, 1)));
    assert_eq!(
        store.scan(Epoch(2), &KeyRange::default(), 9).unwrap().len(),
        1
    );
}
