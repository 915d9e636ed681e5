#!/usr/bin/env bash
# Runs cargo with the environment variables of all builds, so that nothing is compiled twice:
# `scripts/cargo.sh test -p stoatflow-core`.
set -euo pipefail
. "$(dirname "$0")/env.sh"
use_built_rocksdb
exec cargo "$@"
