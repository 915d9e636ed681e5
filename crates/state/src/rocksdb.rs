//! RocksDB.
