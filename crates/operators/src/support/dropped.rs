//! Why records are dropped: the reasons that `Effects::dropped` counts (law 11).
//!
//! Names that metrics and docs share. Never decides that a record is dropped.

/// The key is null where a key is needed (tables, aggregations, exchanges).
pub const NULL_KEY: &str = "null_key";
/// The value is null where an aggregation of a stream needs one.
pub const NULL_VALUE: &str = "null_value";
/// A native `flat_map_values` or `flat_map` got null where a list was expected.
pub const NULL_LIST: &str = "null_list";
/// The time of an input record is negative, or a timestamp extractor returned a negative one.
pub const NEGATIVE_TIMESTAMP: &str = "negative_timestamp";
/// The time of an input record is further ahead of the clock than `max.timestamp.ahead.ms` allows, and
/// the handler of its source dropped it.
pub const TIMESTAMP_AHEAD: &str = "timestamp_ahead";
/// The time of an input record is further ahead of the clock than `max.timestamp.ahead.ms` allows,
/// and it went to a dead-letter topic.
pub const TIMESTAMP_AHEAD_DEAD_LETTER: &str = "timestamp_ahead_dead_letter";
/// A partitioner chose no partition for the record.
pub const NO_PARTITION: &str = "no_partition";
/// It arrived after the last of its windows was closed; at a source: it was older than the watermark,
/// and the policy for late records drops it.
pub const LATE: &str = "late";
/// The tick was missed while the application was down, and there were too many to catch up (`scheduled`).
pub const MISSED_TICK: &str = "missed_tick";
/// At a source: it was older than the watermark, and went to a dead-letter topic.
pub const LATE_DEAD_LETTER: &str = "late_dead_letter";
/// An equal record was forwarded already (`deduplicate`).
pub const DUPLICATE: &str = "duplicate";
/// At a source: the broker had deleted it (`retention.ms`, or somebody deleted records) before it was
/// read.
pub const EXPIRED: &str = "expired";
/// An answer to an offload without a correlation that the offload issued: the header is missing, or
/// another's.
pub const NO_CORRELATION: &str = "no_correlation";
/// An answer to an offload whose record is not parked any more: it was answered before, or given up.
pub const NOT_PARKED: &str = "not_parked";
/// An answer to an offload whose record is answered already, and waits for earlier ones of its key.
pub const DUPLICATE_ANSWER: &str = "duplicate_answer";
/// An error in answer to an earlier request: a newer one was sent since.
pub const OUTDATED_ERROR: &str = "outdated_error";
