//! Joins of streams, tables and global tables.

pub(crate) mod epoch_updates;
pub(crate) mod foreign_key;
pub(crate) mod global_join;
pub(crate) mod joiner;
pub(crate) mod stream_join;
pub(crate) mod stream_table_join;
pub(crate) mod table_join;
pub(crate) mod table_merge;
