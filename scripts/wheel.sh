#!/usr/bin/env bash
# Builds the release wheel and installs it into the virtual environment. Skipped if no input is newer
# than the last wheel.
set -euo pipefail
. "$(dirname "$0")/env.sh"

WHEELS=$CACHE/wheels
stamp=$VENV/.installed-wheel

if [ -f "$stamp" ] && "$PY" -c 'import importlib.metadata as m; m.version("stoatflow")' 2>/dev/null; then
    newer=$(find crates python Cargo.toml Cargo.lock pyproject.toml -newer "$stamp" -type f \
        ! -name '*.pyc' ! -name '*.so' ! -path '*/tests/*' ! -path '*_cache/*' -print -quit 2>/dev/null)
    if [ -z "$newer" ]; then
        exit 0
    fi
fi

use_built_rocksdb
say "building the release wheel (the first time compiles some 200 crates; cargo shows which)"
mkdir -p "$WHEELS" "$CARGO_TARGET_DIR"
# Files edited during the build must be newer than the stamp.
touch "$stamp.new"
"$VENV/bin/maturin" build --release --locked --interpreter "$PY" --out "$WHEELS" ||
    fail "the wheel was not built; cargo's message above says why"
wheel=$(ls -t "$WHEELS"/stoatflow-*.whl | head -n 1)
say "installing ${wheel##*/}"
"$PY" -m pip install --quiet --force-reinstall --no-deps "$wheel"
mv "$stamp.new" "$stamp"
