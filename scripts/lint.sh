#!/usr/bin/env bash
# Checks the source code.
#
#   scripts/lint.sh rust     rustfmt, clippy and rustdoc with warnings denied, the dependencies between
#                            crates and the rules for files
#   scripts/lint.sh python   ruff (rules and format), mypy --strict, the stub of the native module
#                            against the module
set -euo pipefail
. "$(dirname "$0")/env.sh"

rust() {
    say "rustfmt"
    cargo fmt --all --check || fail "not formatted as rustfmt does; run: cargo fmt --all"
    say "clippy, warnings denied"
    # The release profile, so that compiled crates are shared with tests and wheel.
    cargo clippy --release --locked --workspace --all-targets -- -D warnings ||
        fail "clippy has something to say; its message above names file and line"
    say "rustdoc, warnings denied"
    RUSTDOCFLAGS="-D warnings" cargo doc --quiet --release --locked --workspace --no-deps ||
        fail "a doc comment has a link that leads nowhere; the message above names file and line"
    say "tidy: crate arrows, files, banned words"
    cargo run --quiet --release --locked -p xtask -- tidy || fail "the house rules are broken; see CONTRIBUTING.md"
}

python() {
    local folders=(python tests scripts examples benches)
    say "ruff"
    "$VENV/bin/ruff" check --quiet "${folders[@]}" || fail "ruff has something to say; often enough: .venv/bin/ruff check --fix"
    "$VENV/bin/ruff" format --check --quiet "${folders[@]}" || fail "not formatted; run: .venv/bin/ruff format ${folders[*]}"
    say "mypy --strict"
    "$VENV/bin/mypy" || fail "mypy has something to say; its message above names file and line"
    say "stubtest: the stub against the native module"
    # Checks the installed package, not the sources.
    "$PY" -m mypy.stubtest stoatflow._native --mypy-config-file pyproject.toml ||
        fail "python/stoatflow/_native.pyi and the native module disagree"
}

for part in "${@:-rust}"; do
    case $part in
        rust)
            use_built_rocksdb
            rust
            ;;
        python) python ;;
        *) fail "there is no part '$part': rust or python" ;;
    esac
done
