#!/usr/bin/env bash
# Runs tests of what lanes share and of what is lent to foreign objects in Miri, which checks every access to memory,
# and every interleaving that its seeds give. RocksDB is C++ and can't run there: these tests use stores in memory.
set -euo pipefail
. "$(dirname "$0")/env.sh"
use_built_rocksdb

command -v rustup >/dev/null 2>&1 || fail "Miri comes with a nightly Rust by rustup: https://rustup.rs"
if ! rustup +nightly component list --installed 2>/dev/null | grep -q '^miri'; then
    say "installing Miri with a nightly Rust, once"
    rustup toolchain install nightly --profile minimal --component miri --component rust-src
fi

# Test cases that proptest would keep in a file, and clocks of the machine, are outside of Miri's isolation.
export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-many-seeds=0..${SEEDS:-4}"
# An interpreter is some hundred times slower.
export PROPTEST_CASES=${PROPTEST_CASES:-4}
export CARGO_TARGET_DIR=$CACHE/target-miri

say "what is lent to foreign objects, and orders of records"
cargo +nightly miri test --locked -p stoatflow-core --lib -- lent:: order:: ordered::
say "alignment of lanes, and where they meet"
cargo +nightly miri test --locked -p stoatflow-protocol --lib -- rendezvous:: alignment::
say "stores that lanes share"
cargo +nightly miri test --locked -p stoatflow-state --lib -- key_value::tests
