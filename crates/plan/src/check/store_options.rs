//! Checks the RocksDB options of a store, and that RocksDB keeps the store at all.
//!
//! Takes a call, returns a finding. Whether all caches fit into memory is only known at the start.

use crate::logical::DslCall;

/// Problems with the call's `RocksDBConfig`.
pub(super) fn rocksdb_problem(call: &DslCall) -> Option<String> {
    let (store, config, in_memory) = match call {
        DslCall::StateStore {
            store,
            rocksdb,
            in_memory,
            ..
        } => (Some(store), *rocksdb, *in_memory),
        DslCall::GlobalStore { store, rocksdb, .. } => (Some(store), *rocksdb, false),
        call => {
            let m = call.materialized()?;
            (m.store.as_ref(), m.rocksdb, m.in_memory)
        }
    };
    let config = config?;
    let Some(store) = store else {
        return Some(
            "a store with a RocksDBConfig needs a name: write Materialized(\"orders\", rocksdb=...)"
                .to_owned(),
        );
    };
    if in_memory {
        return Some(format!(
            "the store '{store}' is in memory, where RocksDB keeps nothing: leave rocksdb= out, or keep the store on disk"
        ));
    }
    let what = config.problem()?;
    Some(format!("the store '{store}': {what}"))
}

#[cfg(test)]
mod tests;
