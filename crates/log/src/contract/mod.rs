//! What every broker behind the port must do: the promises the engine is built on, as a suite.
//!
//! Takes any [`Broker`](crate::Broker) and a tag that keeps its topics, groups and ids apart from other
//! runs. Returns `Ok` or the first broken promise. Owns the topics it creates. Never knows which broker
//! it tests: the embedded one, the simulated one and real Kafka pass the same cases.
//! [`contract_cases!`](crate::contract_cases) is the only list, so a new case reaches every broker at
//! once: `macro_rules! each { ($($case:ident),* $(,)?) => { $(#[test] fn $case() { .. })* } }`.

mod fencing;
mod offsets;
mod order;
mod progress;
mod stage;
mod topics;
mod transactions;

pub use fencing::*;
pub use offsets::*;
pub use order::*;
pub use progress::*;
pub use topics::*;
pub use transactions::*;

/// Calls `$each!` with the names of all cases. Each is a `fn(&dyn Broker, tag: &str) -> Result<()>`.
#[macro_export]
macro_rules! contract_cases {
    ($each:ident) => {
        $each! {
            order_within_partitions, much_at_once_keeps_its_order, keys_choose_partitions, keyless_records_spread_when_they_are_many, records_round_trip, poll_borrowed_passes_what_poll_returns, reading_starts_anywhere, assignment_replaces,
            open_transaction_is_invisible, transaction_appears_whole, transactions_follow_one_another, aborted_records_never_appear, empty_transaction_commits,
            plain_records_appear_at_flush,
            offsets_only_with_commit, plain_offsets_only_with_commit, offsets_of_a_fenced_producer_never_appear,
            newer_transactional_producer_fences, whatever_is_open_is_fenced, newer_plain_producer_fences, ids_do_not_fence_each_other,
            fenced_sends_are_refused, standing_offsets_ask_for_the_fence,
            positions_pass_an_aborted_tail, pause_holds_and_loses_nothing, pause_at_the_end_loses_nothing,
            a_reader_knows_whether_it_has_caught_up, acknowledged_offsets_are_the_logs,
            topics_are_made_once, topics_are_deleted, a_missing_topic_is_named, ranges_follow_commits, offsets_are_found_by_time,
        }
    };
}
