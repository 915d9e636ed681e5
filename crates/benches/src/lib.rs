//! Benchmarks of inner steps; they are in `benches/`.
