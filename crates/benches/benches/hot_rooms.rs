//! Times of the rooms on the hot path (intake, lanes, commit): per record, word or key, as criterion's
//! throughput.

mod rooms;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rooms::{BenchEngine, KEYS, ORDERS, Overlay, RECORDS, WORDS, WORDS_PER_LINE};
use std::time::Duration;

fn floors(c: &mut Criterion) {
    let mut group = c.benchmark_group("rooms");
    group
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .sample_size(20);
    let words = RECORDS * WORDS_PER_LINE;
    type Make = fn() -> BenchEngine;
    type Work = fn(&mut BenchEngine);
    let floors: [(&str, usize, Make, Work); 4] = [
        (
            "dispatch",
            RECORDS,
            || BenchEngine::read(&ORDERS, 4),
            BenchEngine::dispatch,
        ),
        (
            "lane_json",
            RECORDS,
            || BenchEngine::admitted(&ORDERS, 1),
            BenchEngine::run_lanes,
        ),
        (
            "lane_words_exchange_count",
            words,
            || BenchEngine::admitted(&WORDS, 4),
            BenchEngine::run_lanes,
        ),
        (
            "commit_outputs_and_changelog",
            RECORDS,
            || BenchEngine::sealed(&WORDS, 4),
            BenchEngine::commit,
        ),
    ];
    for (name, elements, make, work) in floors {
        group.throughput(Throughput::Elements(elements as u64));
        group.bench_function(name, |b| {
            b.iter_batched_ref(make, work, BatchSize::PerIteration)
        });
    }
    group.finish();
}

fn overlay(c: &mut Criterion) {
    let mut group = c.benchmark_group("overlay");
    group
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .sample_size(20)
        .throughput(Throughput::Elements(KEYS as u64));
    group.bench_function("put", |b| {
        b.iter_batched_ref(Overlay::empty, Overlay::put, BatchSize::PerIteration);
    });
    let mut filled = Overlay::filled();
    group.bench_function("update", |b| b.iter(|| filled.update()));
    group.bench_function("get", |b| b.iter(|| filled.get()));
    group.throughput(Throughput::Elements(1));
    group.bench_function("scan_of_100_rows", |b| b.iter(|| filled.scan()));
    group.finish();
}

criterion_group!(benches, floors, overlay);
criterion_main!(benches);
