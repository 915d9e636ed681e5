#!/usr/bin/env bash
# Runs tests of `unsafe` code under Valgrind, which checks each memory access: values lent to foreign
# objects, stores that lanes share, calls of librdkafka, and the native module. Fails on an invalid
# access, and in Rust also on a branch that depends on uninitialized memory. Python itself has such
# branches, so they are not checked there, and only errors with our library in the stack count.
set -euo pipefail
. "$(dirname "$0")/env.sh"
use_built_rocksdb

command -v valgrind >/dev/null 2>&1 || fail "valgrind looks at memory, and there is none." \
    "Get it: Debian, Ubuntu: sudo apt-get install valgrind; Fedora: sudo dnf install valgrind"

# Valgrind takes about thirty instructions for one.
export PROPTEST_CASES=${PROPTEST_CASES:-8}
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="valgrind --quiet --error-exitcode=9 --leak-check=no"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=$CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER

rust() { # crate, filters of its tests
    local crate=$1
    shift
    say "$crate: $*"
    cargo --config scripts/tests.toml test --release --locked -p "$crate" --lib -- --test-threads 2 "$@"
}
rust stoatflow-core lent:: order:: ordered::
rust stoatflow-protocol rendezvous:: alignment::
rust stoatflow-state key_value::
rust stoatflow-log kafka::librdkafka kafka::partitioner

border=(test_processor test_mock_context test_lazy)
say "the border to Python: ${border[*]}"
files=("${border[@]/#/tests/python/}")
files=("${files[@]/%/.py}")
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
PYTHONMALLOC=malloc valgrind --quiet --leak-check=no --undef-value-errors=no --log-file="$logs/%p" \
    "$PY" -m pytest --quiet -p no:xdist -p no:cacheprovider "${files[@]}" "$@"
# An error is a block of lines; it is ours if our library is in its stack.
awk 'function end() { if (block ~ /_native\.abi3\.so/) { printf "%s", block; ours++ } block = "" }
     $0 ~ /^==[0-9]+== *$/ { end(); next }
     { block = block $0 "\n" }
     END { end(); if (ours) { print ours " errors have our library in their stack"; exit 1 } }' "$logs"/*
say "memory: nothing found"
