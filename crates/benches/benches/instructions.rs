//! Instruction counts of the rooms on the hot path, with limits.
//!
//! Unlike time, the number of instructions doesn't depend on what else the machine does, so a room that
//! becomes more expensive fails. The limits are measured values (rustc 1.95, x86-64 with AVX2) plus 5 %
//! (the compiler alone may change one by 3 %). When you make a room cheaper, lower its limit; when you
//! make it more expensive for a reason, note the reason at the limit.

#![expect(missing_docs, reason = "the macros write functions without any")]
#![expect(
    clippy::disallowed_methods,
    reason = "and a main that ends the process"
)]

mod rooms;

use gungraun::{
    Callgrind, EventKind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main,
};
use rooms::{BenchEngine, ORDERS, Overlay, WORDS};

fn at_most(instructions: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::with_args(["--cache-sim=no"]);
    callgrind.hard_limits([(EventKind::Ir, instructions)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

// Includes numbering each record, and checking whether its times must be recorded (ADR 0018).
#[library_benchmark(config = at_most(3_920_000))]
#[bench::four_lanes(args = (&ORDERS, 4), setup = BenchEngine::read)]
fn dispatch(mut engine: BenchEngine) -> BenchEngine {
    engine.dispatch();
    engine
}

// A fifth of it is the scan of each 1 KB value for invalid JSON and duplicate members.
#[library_benchmark(config = at_most(60_300_000))]
#[bench::one_lane(args = (&ORDERS, 1), setup = BenchEngine::admitted)]
fn lane_json(mut engine: BenchEngine) -> BenchEngine {
    engine.run_lanes();
    engine
}

// Records that pass an exchange get a place in the input order, and are merged by it (ADR 0018).
#[library_benchmark(config = at_most(58_000_000))]
#[bench::four_lanes(args = (&WORDS, 4), setup = BenchEngine::admitted)]
fn lane_words_exchange_count(mut engine: BenchEngine) -> BenchEngine {
    engine.run_lanes();
    engine
}

// Includes applying an epoch under the lock that snapshots for queries take (ADR 0023).
#[library_benchmark(config = at_most(4_060_000))]
#[bench::four_lanes(args = (&WORDS, 4), setup = BenchEngine::sealed)]
fn commit_outputs_and_changelog(mut engine: BenchEngine) -> BenchEngine {
    engine.commit();
    engine
}

#[library_benchmark(config = at_most(10_100_000))]
#[bench::ten_thousand_keys(setup = Overlay::empty)]
fn overlay_put(mut overlay: Overlay) -> Overlay {
    overlay.put();
    overlay
}

#[library_benchmark(config = at_most(7_150_000))]
#[bench::ten_thousand_keys(setup = Overlay::filled)]
fn overlay_update(mut overlay: Overlay) -> Overlay {
    overlay.update();
    overlay
}

#[library_benchmark(config = at_most(4_130_000))]
#[bench::ten_thousand_keys(setup = Overlay::filled)]
fn overlay_get(overlay: Overlay) -> Overlay {
    overlay.get();
    overlay
}

#[library_benchmark(config = at_most(4_050_000))]
#[bench::a_hundred_rows(setup = Overlay::filled)]
fn overlay_scan(overlay: Overlay) -> Overlay {
    overlay.scan();
    overlay
}

library_benchmark_group!(
    name = floors,
    benchmarks = [
        dispatch,
        lane_json,
        lane_words_exchange_count,
        commit_outputs_and_changelog
    ]
);
library_benchmark_group!(
    name = overlay,
    benchmarks = [overlay_put, overlay_update, overlay_get, overlay_scan]
);
main!(library_benchmark_groups = [floors, overlay]);
