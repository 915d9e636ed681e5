//! Runs seeds: the engine with faults, each seed twice with equal results, and the engine broken on
//! purpose.
//!
//! `STOATFLOW_TEST_SIM_SEEDS=n` runs n seeds, `STOATFLOW_TEST_SIM_SEED=n` repeats one and prints its
//! events.

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use stoatflow_sim::{Detector, Failure, Mutation, PHASES, Report, Statistics, simulate};

const SEEDS: u64 = 1_000;

// The only way to pass a number to a test; the engine's own settings are not passed this way.
#[allow(clippy::disallowed_methods)]
fn number_from_env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
    )
}

/// Runs a seed; a panic of the engine counts as a violation.
fn run(seed: u64, mutation: Mutation, keep_events: bool) -> Result<Report, Failure> {
    catch_unwind(AssertUnwindSafe(|| simulate(seed, mutation, keep_events))).unwrap_or_else(
        |panic| {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            let what = format!("panicked: {}", said.unwrap_or_default());
            Err(Failure {
                what,
                detector: Detector::Engine,
                events: Vec::new(),
            })
        },
    )
}

/// Shortens long histories; `replay` prints all of it.
fn short(what: &str) -> String {
    let cut: String = what.chars().take(600).collect();
    if cut.len() < what.len() {
        cut + " ..."
    } else {
        cut
    }
}

fn repeat_command(seed: u64) -> String {
    format!(
        "STOATFLOW_TEST_SIM_SEED={seed} cargo test --profile checked -p stoatflow-sim --test simulation seeds -- --nocapture"
    )
}

/// Many violations are found by assertions.
#[test]
fn assertions_are_on() {
    let broken = catch_unwind(|| debug_assert!(false, "on purpose"));
    assert!(
        broken.is_err(),
        "run scripts/test.sh rust, or add --profile checked"
    );
}

/// Seeds that failed once, each with a sentence that says why.
fn known_seeds() -> Vec<u64> {
    let lines = include_str!("seeds.txt")
        .lines()
        .filter(|l| !l.starts_with('#') && !l.is_empty());
    let seed = |line: &str| {
        let (seed, why) = line.split_once(' ').expect("a kept seed needs a sentence");
        assert!(!why.trim().is_empty(), "a kept seed needs a sentence");
        seed.parse().expect("a kept seed is a number")
    };
    lines.map(seed).collect()
}

#[test]
fn seeds() {
    if let Some(seed) = number_from_env("STOATFLOW_TEST_SIM_SEED") {
        return replay(seed);
    }
    let count = number_from_env("STOATFLOW_TEST_SIM_SEEDS").unwrap_or(SEEDS);
    let mut statistics = Statistics::default();
    let mut failed = String::new();
    let mut failures = 0;
    for seed in known_seeds().into_iter().chain(0..count) {
        match run(seed, Mutation::None, false) {
            Ok(report) => statistics.merge(&report.statistics),
            Err(failure) => {
                failures += 1;
                let _ = writeln!(
                    failed,
                    "seed {seed}: {}\n  {}",
                    short(&failure.what),
                    repeat_command(seed)
                );
                if failures == 5 {
                    break;
                }
            }
        }
    }
    for (what, times) in statistics.iter() {
        println!("{times:>9}  {what}");
    }
    assert!(failed.is_empty(), "promises were broken\n{failed}");
    if count >= SEEDS {
        assert_all_faults_happened(&statistics);
    }
}

/// Repeats one seed and prints its events.
fn replay(seed: u64) {
    let (events, what) = match run(seed, Mutation::None, true) {
        Ok(mut report) => {
            report
                .events
                .push(format!("trace hash {:016x}", report.hash));
            (report.events, None)
        }
        Err(failure) => (failure.events, Some(failure.what)),
    };
    for event in events {
        println!("{event}");
    }
    assert!(
        what.is_none(),
        "seed {seed}: {}\n  {}",
        what.unwrap_or_default(),
        repeat_command(seed)
    );
    println!("seed {seed} kept all promises");
}

/// Checks that all faults happened: a test that nothing disturbed would prove nothing.
fn assert_all_faults_happened(statistics: &Statistics) {
    let phases = PHASES.iter().map(|phase| format!("crash {phase}"));
    let others = [
        "unknown_outcome at Commit, happened: true",
        "unknown_outcome at Commit, happened: false",
        "commit answered with an abort",
        "unavailable at Send, happened: true",
        "unavailable at Flush, happened: true",
        "unavailable at Flush, happened: false",
        "unavailable at Offsets, happened: true",
        "unavailable at Offsets, happened: false",
        "disk_full at Apply, happened: false",
        "second instances here",
        "second instances elsewhere",
        "second instances elsewhere, at least once",
        "ended: Fenced",
        "ended: Stopped",
        "lanes changed",
        "disks lost",
        "records restored",
        "runs exactly once",
        "runs at least once",
        "runs by watermark",
        "runs with timers",
        "runs with a bank",
        "runs with async calls",
        "calls that were answered",
        "calls that were refused once",
        "calls that were refused",
        "calls that were silent until the limit",
        "calls that began again after a start",
        "runs with an async joiner",
        "runs with an offload",
        "requests that were answered",
        "requests that were answered with an error",
        "requests that were answered in garbled bytes",
        "requests that were not answered",
        "answers that were repeated",
        "answers to nobody",
        "answers that came before a start",
        "crashes of a worker",
        "runs with batches",
        "runs with indexes",
        "entries of indexes compared",
        "late records",
        "long pauses",
        "stale leaders",
    ];
    for what in phases.chain(others.map(str::to_owned)) {
        assert!(
            statistics.of(&what) >= 5,
            "'{what}' happened {} times",
            statistics.of(&what)
        );
    }
}

#[test]
fn determinism() {
    let (mut with_calls, mut with_offload) = (0, 0);
    for seed in 0..20 {
        let (one, two) = (
            run(seed, Mutation::None, true),
            run(seed, Mutation::None, true),
        );
        let (one, two) = (
            one.expect("seed keeps its promises"),
            two.expect("and again"),
        );
        let differs = one.events.iter().zip(&two.events).find(|(a, b)| a != b);
        assert_eq!(
            one.hash, two.hash,
            "seed {seed} ran differently, first at {differs:?}"
        );
        assert_eq!(one.statistics, two.statistics);
        with_calls += one.statistics.of("runs with async calls");
        with_offload += one.statistics.of("runs with an offload");
    }
    assert!(with_calls > 0, "no seed of these calls anything");
    assert!(with_offload > 0, "no seed of these offloads anything");
    let hashes: std::collections::BTreeSet<u64> = (0..20)
        .map(|s| run(s, Mutation::None, false).expect("kept").hash)
        .collect();
    assert_eq!(hashes.len(), 20, "different seeds must run differently");
}

/// Checks that a checker catches the mutation, not an assertion inside the broken engine.
fn assert_caught(mutation: Mutation, within: u64) {
    let mut by_engine = 0;
    for seed in 0..within {
        match run(seed, mutation, false) {
            Err(Failure {
                what,
                detector: Detector::Checker,
                ..
            }) => {
                println!("{mutation:?} is caught by seed {seed}: {}", short(&what));
                return;
            }
            Err(_) => by_engine += 1,
            Ok(_) => {}
        }
    }
    panic!(
        "no checker caught {mutation:?} within {within} seeds; the engine itself did in {by_engine}"
    );
}

#[test]
fn mutation_store_first_is_caught() {
    assert_caught(Mutation::StoreFirst, 50);
}

/// The damage shows in the results too, not only to the check at the disk.
#[test]
fn mutation_store_first_is_caught_by_its_results() {
    assert_caught(Mutation::StoreFirstUnseen, 200);
}

#[test]
fn mutation_index_entries_kept_is_caught() {
    assert_caught(Mutation::IndexEntriesKept, 200);
}

#[test]
fn mutation_store_before_commit_is_caught() {
    assert_caught(Mutation::StoreBeforeCommit, 200);
}

#[test]
fn mutation_store_forgotten_is_caught() {
    assert_caught(Mutation::StoreForgotten, 200);
}

#[test]
fn mutation_offsets_forgotten_is_caught() {
    assert_caught(Mutation::OffsetsForgotten, 200);
}

#[test]
fn mutation_changelog_forgotten_is_caught() {
    assert_caught(Mutation::ChangelogForgotten, 200);
}

#[test]
fn mutation_changelog_late_is_caught() {
    assert_caught(Mutation::ChangelogLate, 200);
}

/// Under exactly-once the broker's commit waits for sends by itself: only at-least-once can show it.
#[test]
fn mutation_flush_forgotten_is_caught() {
    assert_caught(Mutation::FlushForgotten, 1_000);
}

#[test]
fn mutation_offsets_outside_transaction_is_caught() {
    assert_caught(Mutation::OffsetsOutsideTransaction, 200);
}

#[test]
fn mutation_barriers_unaligned_is_caught() {
    assert_caught(Mutation::BarriersUnaligned, 200);
}

/// Shows the need for the check before outputs and changelog, and that checkers can fail under
/// at-least-once.
#[test]
fn mutation_lease_never_checked_is_caught() {
    assert_caught(Mutation::LeaseNeverChecked, 1_000);
}

/// Shows the need for the wait of a new instance.
#[test]
fn mutation_lease_not_awaited_is_caught() {
    assert_caught(Mutation::LeaseNotAwaited, 10_000);
}

/// The group's offsets are gone after a long pause.
#[test]
fn mutation_offsets_expire_is_caught() {
    assert_caught(Mutation::OffsetsExpire, 500);
}

/// Rows reappear whose tombstones were compacted away.
#[test]
fn mutation_stale_state_trusted_is_caught() {
    assert_caught(Mutation::StaleStateTrusted, 5_000);
}

/// A broker that missed an election reports the ends of logs.
#[test]
fn mutation_stale_metadata_trusted_is_caught() {
    assert_caught(Mutation::StaleMetadataTrusted, 1_000);
}

#[test]
fn mutation_calls_not_parked_is_caught() {
    assert_caught(Mutation::CallsNotParked, 500);
}

#[test]
fn mutation_calls_parked_forever_is_caught() {
    assert_caught(Mutation::CallsParkedForever, 500);
}

#[test]
fn mutation_calls_overtaken_is_caught() {
    assert_caught(Mutation::CallsOvertaken, 500);
}

#[test]
fn mutation_batches_held_over_barrier_is_caught() {
    assert_caught(Mutation::BatchesHeldOverBarrier, 1_000);
}

#[test]
fn mutation_joined_in_answer_order_is_caught() {
    assert_caught(Mutation::JoinedInAnswerOrder, 500);
}

#[test]
fn mutation_answers_twice_is_caught() {
    assert_caught(Mutation::AnswersTwice, 500);
}

#[test]
fn mutation_records_parked_forever_is_caught() {
    assert_caught(Mutation::RecordsParkedForever, 500);
}

#[test]
fn mutation_answers_overtake_is_caught() {
    assert_caught(Mutation::AnswersOvertake, 500);
}

#[test]
fn mutation_answers_unread_is_caught() {
    assert_caught(Mutation::AnswersUnread, 1_000);
}

#[test]
fn mutation_requests_outside_transaction_is_caught() {
    assert_caught(Mutation::RequestsOutsideTransaction, 500);
}

#[test]
fn mutation_exchange_in_arrival_order_is_caught() {
    assert_caught(Mutation::ExchangeInArrivalOrder, 500);
}

#[test]
fn mutation_stream_time_from_later_records_is_caught() {
    assert_caught(Mutation::StreamTimeFromLaterRecords, 500);
}

/// One lane changes state in the next epoch that another has yet to change in this one.
#[test]
fn mutation_epoch_ends_unaligned_is_caught() {
    assert_caught(Mutation::EpochEndsUnaligned, 1_000);
}
