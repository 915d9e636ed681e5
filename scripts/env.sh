# Shared by all scripts: paths, and functions for messages.
#
# Takes VENV, PYTHON, XDG_CACHE_HOME and LIBCLANG_PATH from the caller. Sets paths and the variables
# of the native build; defines `say` and `fail`. Sourced, never run. All Rust builds get the same
# variables, so that cargo never builds anything twice.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$ROOT"

CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/stoatflow
VENV=${VENV:-$ROOT/.venv}
case $VENV in /*) ;; *) VENV=$ROOT/$VENV ;; esac
PY=$VENV/bin/python

# rustup installs cargo there; a shell opened before the installation doesn't have it in its PATH.
if ! command -v cargo >/dev/null 2>&1 && [ -x "$HOME/.cargo/bin/cargo" ]; then
    PATH=$HOME/.cargo/bin:$PATH
fi

say() { printf '==> %s\n' "$*"; }

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# The version of RocksDB is the part after the plus of the crate's version (0.19.0+11.8.1).
rocksdb_version() {
    awk '$1 == "name" && $3 == "\"librocksdb-sys\"" { found = 1 }
         found && $1 == "version" { gsub(/"/, "", $3); sub(/.*\+/, "", $3); print $3; exit }' Cargo.lock
}

ROCKSDB_VERSION=$(rocksdb_version)
[ -n "$ROCKSDB_VERSION" ] || fail "Cargo.lock names no librocksdb-sys; get the file back: git checkout Cargo.lock"
ROCKSDB_HOME=$CACHE/rocksdb-$ROCKSDB_VERSION

# bindgen reads C headers with libclang: the system's, otherwise the one that setup.sh installs into
# the virtual environment. libclang-cpp, which LLVM's tools may install without libclang, is another
# library.
find_libclang() {
    [ -z "${LIBCLANG_PATH:-}" ] || return 0
    local folder found
    for folder in /usr/lib/llvm-*/lib /usr/lib64 /usr/lib /usr/lib/*-linux-gnu; do
        for found in "$folder"/libclang.so* "$folder"/libclang-[0-9]*.so*; do
            [ ! -e "$found" ] || return 0
        done
    done
    for found in /Library/Developer/CommandLineTools/usr/lib/libclang.dylib /opt/homebrew/opt/llvm/lib/libclang.dylib; do
        [ ! -e "$found" ] || return 0
    done
    if command -v ldconfig >/dev/null 2>&1 && ldconfig -p 2>/dev/null | grep -Eq 'libclang(-[0-9]+[-.0-9]*)?\.so'; then
        return 0
    fi
    for found in "$VENV"/lib/python3*/site-packages/clang/native; do
        if [ -d "$found" ]; then
            export LIBCLANG_PATH=$found
            # The package has the library, but not the compiler's own headers (stddef.h).
            local compiler=gcc
            command -v gcc >/dev/null 2>&1 || compiler=cc
            export BINDGEN_EXTRA_CLANG_ARGS="-I$($compiler -print-file-name=include)"
            return 0
        fi
    done
    return 1
}

find_libclang || true

export CARGO_TARGET_DIR=$CACHE/target
export PYO3_PYTHON=$PY
export PIP_DISABLE_PIP_VERSION_CHECK=1

# From here on RocksDB is linked, not compiled. rocksdb.sh itself must not set these variables.
use_built_rocksdb() {
    [ -f "$ROCKSDB_HOME/librocksdb.a" ] || fail "RocksDB is not built yet; run: make rocksdb"
    export ROCKSDB_LIB_DIR=$ROCKSDB_HOME ROCKSDB_STATIC=1
}
