//! Benchmarks of the inner steps; they are in `benches/`.
