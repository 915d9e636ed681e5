#!/usr/bin/env bash
# Compiles RocksDB once, into a cache outside the clone; all other builds link the result.
#
# It is most of a first build (some 340 C++ files). Skipped if the result exists. To build it again,
# remove the folder that the script names.
set -euo pipefail
. "$(dirname "$0")/env.sh"

# About the number of RocksDB's object files; only for the progress message.
OBJECTS=343

if [ -f "$ROCKSDB_HOME/librocksdb.a" ]; then
    exit 0
fi
mkdir -p "$CACHE"

say "compiling RocksDB $ROCKSDB_VERSION, once: its C++ is most of a first build"
say "the result is kept in $ROCKSDB_HOME"

# These would make cargo link a library instead of building one.
unset ROCKSDB_LIB_DIR ROCKSDB_STATIC
export CARGO_TARGET_DIR=$CACHE/native
if command -v flock >/dev/null && "${CXX:-c++}" --version 2>/dev/null | grep -q 'Free Software Foundation'; then
    export STOATFLOW_CXX=${CXX:-c++} STOATFLOW_HEADERS=$CARGO_TARGET_DIR/headers
    export CXX=$ROOT/scripts/rocksdb_cxx.sh
fi
log=$CACHE/rocksdb-build.log
# In a process group of its own: an interrupt also ends the compilers, not only cargo.
set -m
cargo build --release --locked -p librocksdb-sys >"$log" 2>&1 </dev/null &
build=$!
set +m
trap 'kill -TERM -- "-$build" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
began=$SECONDS
shown=$SECONDS
while kill -0 "$build" 2>/dev/null; do
    sleep 1
    if ((SECONDS - shown >= 10)); then
        shown=$SECONDS
        done_now=$(find "$CARGO_TARGET_DIR/release/build" -path '*librocksdb-sys-*' -name '*.o' 2>/dev/null | wc -l || true)
        if ((done_now == 0)); then
            what="what the build itself needs comes first"
        else
            what="$done_now of about $OBJECTS files"
        fi
        printf '    %3d min %02d s: %s\n' $(((SECONDS - began) / 60)) $(((SECONDS - began) % 60)) "$what"
    fi
done
trap - INT TERM EXIT
if ! wait "$build"; then
    tail -n 40 "$log" >&2
    next="No memory left? Try with fewer jobs: CARGO_BUILD_JOBS=1 make rocksdb"
    if grep -q 'Unable to find libclang' "$log"; then
        next="libclang is missing; install it (Debian, Ubuntu: sudo apt-get install libclang-dev), or say where it is: \
LIBCLANG_PATH=/its/folder make rocksdb"
    fi
    fail "RocksDB did not compile; the whole log is in $log. $next"
fi

built=$(find "$CARGO_TARGET_DIR/release/build" -path '*librocksdb-sys-*/out/librocksdb.a' -print 2>/dev/null | head -n 1 || true)
[ -n "$built" ] || fail "cargo built librocksdb-sys, but no librocksdb.a: is ROCKSDB_LIB_DIR set in a .cargo/config.toml? \
Remove it there, or point it to $ROCKSDB_HOME and put the library there"

# The folder is renamed at the end, so that it never contains a partial library.
partial=$CACHE/.rocksdb-$ROCKSDB_VERSION.$$
rm -rf "$partial"
mkdir -p "$partial"
cp "$built" "$partial/librocksdb.a"
rm -rf "$ROCKSDB_HOME"
mv "$partial" "$ROCKSDB_HOME"
rm -rf "$CARGO_TARGET_DIR"
say "RocksDB is built, in $(((SECONDS - began) / 60)) min $(((SECONDS - began) % 60)) s"
