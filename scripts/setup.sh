#!/usr/bin/env bash
# Checks the machine, creates the virtual environment and installs what the named extras need.
#
#   scripts/setup.sh [build] [test] [spark] [sail] [dev] [examples] [docs] [typing] [fuzz] [java] [maven]
#                    [prometheus] [chromium]
#
# `java` and `maven` install nothing: they check, before half an hour of compiling, that the machine
# has them. `prometheus` is downloaded into the cache, once and without root, if the machine has
# none. PYTHON= chooses the interpreter, VENV= the folder (default .venv). A second run finds its
# stamps and does nothing.
set -euo pipefail
. "$(dirname "$0")/env.sh"

good_python() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; }

# PyO3 itself checks this only after the engine was compiled. The variable that disables its check disables
# this too.
check_threading() {
    [ "${UNSAFE_PYO3_SKIP_VERSION_CHECK:-}" = 1 ] || "$PY" - <<'PYTHON' ||
import sys, sysconfig
sys.exit(bool(sysconfig.get_config_var("Py_GIL_DISABLED")) and sys.version_info < (3, 14))
PYTHON
        fail "$("$PY" --version) without a GIL is too old: free-threaded interpreters are supported from 3.14 on." \
            "Remove $VENV, then name another one: PYTHON=python3.14t make ..."
}

find_python() {
    local candidate
    if [ -n "${PYTHON:-}" ]; then
        good_python "$PYTHON" || fail "PYTHON=$PYTHON is no Python 3.10 or newer; name another one, or leave PYTHON out"
        echo "$PYTHON"
        return
    fi
    for candidate in python3.11 python3.12 python3.13 python3.10 python3; do
        if good_python "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    fail "Python 3.10 or newer was not found. Install it (Debian, Ubuntu: sudo apt-get install python3 python3-venv;" \
        "macOS: brew install python@3.12), or name it: PYTHON=/path/to/python make ..."
}

check_rust() {
    local wanted found
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    local get="Get it: curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh (then open a new shell)"
    command -v cargo >/dev/null 2>&1 || fail "Rust $wanted or newer is needed, and there is no cargo. $get"
    # The version of rustc matters, not that of cargo.
    found=$(rustc --version 2>/dev/null | awk '{ print $2 }')
    [ -n "$found" ] || fail "cargo is there, but rustc does not run. Try: rustup update stable"
    if [ "$(printf '%s\n%s\n' "$wanted" "${found%%-*}" | sort -V | head -n 1)" != "$wanted" ]; then
        fail "Rust $found is too old, $wanted or newer is needed. Try: rustup update stable"
    fi
}

check_compiler() {
    local get="Get it: Debian, Ubuntu: sudo apt-get install build-essential; Fedora: sudo dnf install gcc-c++ make;\
 macOS: xcode-select --install"
    command -v "${CC:-cc}" >/dev/null 2>&1 || fail "a C compiler is needed (librdkafka is C), and there is no ${CC:-cc}. $get"
    command -v "${CXX:-c++}" >/dev/null 2>&1 || fail "a C++ compiler is needed (RocksDB is C++), and there is no ${CXX:-c++}. $get"
    command -v make >/dev/null 2>&1 || fail "make is needed (librdkafka is built with it). $get"
    command -v perl >/dev/null 2>&1 ||
        fail "perl is needed (OpenSSL is configured with it). Get it: Debian, Ubuntu: sudo apt-get install perl;" \
            "Fedora: sudo dnf install perl-core"
}

make_venv() {
    [ ! -x "$PY" ] || return 0
    local python
    python=$(find_python)
    say "making $VENV with $("$python" --version)"
    "$python" -m venv "$VENV" ||
        fail "$python can't make virtual environments. Debian, Ubuntu: sudo apt-get install python3-venv; then run this again"
}

# The tests' own functions find these tools, or say how to get them.
check_tool() {
    PYTHONPATH=tests/integration "$PY" - "find_$1" "$2" <<'PYTHON' || fail "$1 is missing, see above; 'make test-rust test-python' needs neither Java, Maven nor Prometheus"
import importlib
import sys
try:
    getattr(importlib.import_module(sys.argv[2]), sys.argv[1])()
except RuntimeError as error:
    sys.exit(str(error))
PYTHON
}

# A browser is too large for the cache: it is installed from the system's packages.
check_chromium() {
    local name
    for name in chromium chromium-browser google-chrome chrome; do
        ! command -v "$name" >/dev/null || return 0
    done
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing Chromium with apt-get"
        apt-get install --yes --quiet chromium >/dev/null && return 0
    fi
    fail "there is no Chromium. Debian, Ubuntu: sudo apt-get install chromium"
}

# One stamp per group lists what was installed: a changed requirement installs the group again.
install() {
    local group=$1 stamp=$VENV/.installed-$1
    shift
    local wanted
    wanted=$(printf '%s\n' "$@")
    [ "$(cat "$stamp" 2>/dev/null || true)" != "$wanted" ] || return 0
    say "installing for '$group': $*"
    "$PY" -m pip install --quiet "$@" ||
        fail "pip could not install: $* -- look at its message above; behind a proxy set PIP_INDEX_URL or HTTPS_PROXY"
    printf '%s\n' "$wanted" >"$stamp"
}

install_extra() {
    local lines=() line listed
    listed=$("$PY" scripts/requirements.py "$1")
    while IFS= read -r line; do [ -z "$line" ] || lines+=("$line"); done <<<"$listed"
    install "$1" "${lines[@]}"
}

check_rust
check_compiler
make_venv
check_threading
if ! find_libclang; then
    install libclang libclang
    find_libclang || fail "the libclang package brings no library for this system; install clang with the system's packages"
fi
install build 'maturin>=1.9,<2'
for extra in "$@"; do
    case $extra in
        java | maven) check_tool "$extra" broker.java_home ;;
        prometheus) check_tool "$extra" monitoring.finding ;;
        chromium) check_chromium ;;
    esac
done
for extra in "$@"; do
    case $extra in
        build | java | maven | prometheus | chromium) ;;
        *) install_extra "$extra" ;;
    esac
done
