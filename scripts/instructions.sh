#!/usr/bin/env bash
# Counts the instructions of the modules on the hot path, with valgrind, and fails if one exceeds its
# limit.
#
# The limits are in crates/benches/benches/instructions.rs. Its runner is installed into the cache, once.
set -euo pipefail
. "$(dirname "$0")/env.sh"
use_built_rocksdb

command -v valgrind >/dev/null 2>&1 || fail "valgrind counts the instructions, and there is none." \
    "Get it: Debian, Ubuntu: sudo apt-get install valgrind; Fedora: sudo dnf install valgrind"

version=$(awk '$1 == "name" && $3 == "\"gungraun\"" { found = 1 }
               found && $1 == "version" { gsub(/"/, "", $3); print $3; exit }' Cargo.lock)
runner=$CACHE/gungraun-$version
if [ ! -x "$runner/bin/gungraun-runner" ]; then
    say "installing gungraun-runner $version into the cache, once"
    cargo install gungraun-runner --version "=$version" --locked --quiet --root "$runner"
fi
export GUNGRAUN_RUNNER=$runner/bin/gungraun-runner
exec cargo bench --locked -p stoatflow-benches --bench instructions "$@"
