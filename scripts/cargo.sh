#!/usr/bin/env bash
# cargo with the variables of all builds here, so that nothing is compiled twice:
# `scripts/cargo.sh test -p stoatflow-core`.
set -euo pipefail
. "$(dirname "$0")/env.sh"
use_built_rocksdb
exec cargo "$@"
