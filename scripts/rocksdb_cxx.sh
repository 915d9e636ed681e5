#!/usr/bin/env bash
# The C++ compiler while RocksDB is built, which reads its common headers once and not with each of
# 340 files: they are most of the work. GCC only (rocksdb.sh sees to that). A file that does not
# compile this way is compiled the usual way.
#
# Takes: STOATFLOW_CXX, the compiler, and STOATFLOW_HEADERS, a folder to keep the headers in.
set -euo pipefail

source=
for argument; do
    case $argument in rocksdb/*.cc) source=$argument ;; esac
done
[ -n "$source" ] || exec "$STOATFLOW_CXX" "$@"

header=$STOATFLOW_HEADERS/common.h

# With the options of the first file, which are those of all.
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
