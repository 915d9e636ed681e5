#!/usr/bin/env bash
# C++ compiler for building RocksDB that precompiles its common headers, which otherwise take most of
# the time of each of 340 files. GCC only (rocksdb.sh checks that). A file that does not compile with
# them is compiled without.
#
# Takes STOATFLOW_CXX, the compiler, and STOATFLOW_HEADERS, a folder for the precompiled headers.
set -euo pipefail

source=
for argument; do
    case $argument in rocksdb/*.cc) source=$argument ;; esac
done
[ -n "$source" ] || exec "$STOATFLOW_CXX" "$@"

header=$STOATFLOW_HEADERS/common.h

# With the options of the first file: all files have the same.
read_headers() {
    local options=() skip=
    for argument; do
        case $skip$argument in
            skip*) skip= ;;
            -o) skip=skip ;;
            -c | "$source") ;;
            *) options+=("$argument") ;;
        esac
    done
    printf '#include <cstdint>\n#include "db/db_impl/db_impl.h"\n' >"$header"
    "$STOATFLOW_CXX" "${options[@]}" -x c++-header -o "$header.part" "$header" && mv "$header.part" "$header.gch"
}

mkdir -p "$STOATFLOW_HEADERS"
exec 9>"$STOATFLOW_HEADERS/lock"
flock 9
if [ ! -e "$STOATFLOW_HEADERS/tried" ]; then
    read_headers "$@" >/dev/null 2>&1 || true
    : >"$STOATFLOW_HEADERS/tried"
fi
flock -u 9

if [ -e "$header.gch" ] && "$STOATFLOW_CXX" -include "$header" "$@" 2>/dev/null; then
    exit 0
fi
exec "$STOATFLOW_CXX" "$@"
