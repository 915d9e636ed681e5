//! What operators share: errors and dead letters, tables and their caches, keys that wait for a time.

pub mod active_node;
pub(crate) mod attach_scope;
pub mod dropped;
pub mod error_policy;
pub(crate) mod fault_injection;
pub(crate) mod function;
pub mod lane_hash;
pub mod late;
pub(crate) mod node_context;
pub(crate) mod parked_record;
pub(crate) mod record_size;
pub(crate) mod row_ttl;
pub(crate) mod schema_ids;
pub(crate) mod table_writer;
pub(crate) mod time_index;
pub(crate) mod update_cache;
pub(crate) mod waiting;
