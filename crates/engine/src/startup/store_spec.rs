//! How a store's keys are laid out, and how its directory and data format are named.

use stoatflow_core::RocksDbOptions;
use stoatflow_plan::{Store, StoreKind};
use stoatflow_state::{Layout, StoreLayout};

/// The layout of the keys of this kind of store.
#[must_use]
pub const fn layout(kind: StoreKind) -> Layout {
    match kind {
        StoreKind::KeyValue | StoreKind::TimestampedKeyValue => Layout::KeyValue,
        StoreKind::Window { retention_ms, .. } => Layout::window(retention_ms),
        StoreKind::Session { retention_ms } => Layout::session(retention_ms),
        StoreKind::Versioned { history_ms } => Layout::Versioned { history_ms },
        StoreKind::TimeOrdered => Layout::TimeKey,
        StoreKind::Timers => Layout::Timers,
    }
}

/// The part of the format that says whether values have headers. As with the lengths of segments, it
/// concerns only the disk: with or without headers, a store is rebuilt from the same changelog.
const fn with_headers(store: &Store) -> &'static str {
    if store.headers { "(headers)" } else { "" }
}

/// A store's name on disk, its data format, and its RocksDB options.
#[must_use]
pub fn store_layout(store: &Store, key: &str, value: &str, rocksdb: RocksDbOptions) -> StoreLayout {
    StoreLayout {
        id: store.id,
        name: store.name.clone(),
        format: format!(
            "{}{}:{key}:{value}",
            layout(store.kind).format(),
            with_headers(store)
        ),
        rocksdb,
    }
}
