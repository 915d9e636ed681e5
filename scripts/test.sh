#!/usr/bin/env bash
# Runs steps of the test suite, each announced with its number and its time; stops at the first that fails.
#
#   scripts/test.sh                  everything, in order
#   scripts/test.sh integration      the steps named, of: lint-rust rust wheel lint-python python conformance
#                                    oracle kafka integration spark; and recovery, long, ports and console,
#                                    which take longer or need more installed
set -euo pipefail
. "$(dirname "$0")/env.sh"

ALL=(lint-rust rust wheel lint-python python conformance oracle kafka integration spark)
STEPS=("${@:-${ALL[@]}}")

# Always of the whole workspace: of a part of it, other features are on, and everything is compiled again.
CARGO_TEST=(cargo --config scripts/tests.toml test --release --locked --workspace --exclude stoatflow-python
    --exclude stoatflow-benches)

pytest() { "$PY" -m pytest -q -p no:cacheprovider "$@"; }

step_lint_rust() { scripts/lint.sh rust; }

# The whole engine without a Python interpreter (law 8): unit tests, contract suites, simulation
# seeds. With assertions and overflow checks on. Tests of the client mostly wait, so there are more
# of them than cores.
step_rust() { RUST_TEST_THREADS=${RUST_TEST_THREADS:-6} "${CARGO_TEST[@]}"; }

step_wheel() { scripts/wheel.sh; }

step_lint_python() { scripts/lint.sh python; }

step_python() {
    scripts/setup.sh examples bench docs typing
    # Most of these wait: for time-outs, kills and children.
    pytest -n 4 tests/python
    # A process of its own: the benchmarks are scripts beside each other, which find each other by
    # their folder. Those that need a broker are in the step `integration`.
    pytest -n 2 -m "not broker and not slow" benches/versus benches/scaling
    # Each of them once with few records, untimed: they run for `make bench-border` only, and must
    # not rot meanwhile.
    pytest --benchmark-disable benches/border
}

# Of the ports of other libraries' programs only what needs none of these libraries.
step_conformance() { pytest -n 2 tests/conformance tests/semantics tests/ports/test_ported.py; }

# The real Kafka Streams in a JVM beside: it replays the vectors, and random topologies that ours
# runs too. Then it runs on a broker, over partitions whose times differ.
step_oracle() {
    pytest -n 2 tests/oracle
    pytest tests/skew
}

# Not with every change: every vector in every way, on the disk too, and longer searches for new topologies.
step_recovery() {
    STOATFLOW_TEST_RECOVERY=all pytest -n 2 tests/conformance/test_recovery.py
    STOATFLOW_TEST_RANDOM_EXAMPLES=${STOATFLOW_TEST_RANDOM_EXAMPLES:-2000} pytest tests/semantics/test_random.py tests/oracle
}

# Faust, Quix Streams and Bytewax, each in an environment of its own in the cache: their programs
# again, on a real broker where they need one, beside what was recorded of them.
step_ports() { pytest tests/ports; }

# The Rust side against a real broker. The broker ends when its standard input closes, also if this
# script dies.
step_kafka() {
    local folder broker bootstrap code=0
    folder=$(mktemp -d)
    mkfifo "$folder/stdin" "$folder/stdout"
    "$PY" tests/integration/broker/kafka_broker.py --print-bootstrap <"$folder/stdin" >"$folder/stdout" &
    broker=$!
    exec 8>"$folder/stdin" 9<"$folder/stdout"
    # A pipe gives its end when the broker ends early: then nothing is read, and its own message is above.
    if IFS= read -r bootstrap <&9; then
        echo "    a broker runs at $bootstrap"
        STOATFLOW_TEST_BOOTSTRAP=$bootstrap \
            "${CARGO_TEST[@]}" --test kafka 8>&- 9<&- || code=$?
    else
        echo "    the broker did not start; its message is above" >&2
        code=1
    fi
    exec 8>&- 9<&-
    wait "$broker" || true
    rm -rf "$folder"
    ((code == 0)) || return "$code"
    # The contract again, by both clients, while requests are lost, late and refused. librdkafka's
    # producer fails after an end of a transaction without an answer, which an application restarts
    # after, and the contract doesn't.
    "$PY" tests/integration/broker/through_proxy.py 7 \
        "${CARGO_TEST[@]}" --test kafka contract_on_kafka
    "$PY" tests/integration/broker/through_proxy.py 7 --spare END_TXN \
        "${CARGO_TEST[@]}" --test kafka contract_through_librdkafka
    # The contract again, encrypted and with users.
    "$PY" tests/integration/broker/through_listeners.py SASL_SSL_SCRAM,MTLS \
        "${CARGO_TEST[@]}" --test kafka contract_on_kafka
}

# Four at a time with the runs of kills, each with a broker of its own: they mostly wait. With more
# two cores starve, and time-outs fail. What the kills say comes at the end. Those that assert how
# fast something is come last and alone.
step_integration() {
    local code=0
    # Not local: the trap outlives the function. Each step is a shell of its own.
    said=$(mktemp)
    # Not the function: what is to be stopped with this script is Python, not a shell around it.
    "$PY" -m pytest -q -p no:cacheprovider tests/integration/chaos >"$said" 2>&1 &
    chaos=$!
    # `wait` fails with what chaos was stopped by, and `set -e` would end the trap before it shows
    # what was said.
    trap '{ kill -TERM "$chaos" 2>/dev/null && wait "$chaos"; } || true; cat "$said"; rm -f "$said"' EXIT
    # Those in a group share a cluster of several brokers, so one process takes them all.
    pytest -n 3 --dist loadgroup --durations=60 -m "not alone and not long" tests/integration \
        --ignore=tests/integration/chaos || code=$?
    # Those of the benchmarks that need a broker, one for all of them: the others are in the step `python`.
    pytest -m "broker and not slow" benches/versus || code=$?
    wait "$chaos" || code=$?
    pytest -m alone tests/integration || code=$?
    return "$code"
}

# Not with every change: the long siblings of what the step `integration` runs.
step_long() { pytest -n 2 --dist loadgroup --durations=20 -m long tests/integration; }

# The console in a headless Chromium.
step_console() { pytest tests/console; }

# A process of its own: PySpark leaves a JVM and its sockets behind.
step_spark() { pytest tests/spark; }

runs() {
    local step wanted
    for step in "${STEPS[@]}"; do
        for wanted in "$@"; do
            [ "$step" != "$wanted" ] || return 0
        done
    done
    return 1
}

for step in "${STEPS[@]}"; do
    declare -F "step_${step//-/_}" >/dev/null || fail "there is no step '$step'; there are: ${ALL[*]}"
done

# Said now, not after half an hour of compiling.
if runs oracle recovery long ports kafka integration spark; then
    scripts/setup.sh java maven
    # The set-up may have installed it just now.
    find_libclang || true
fi
if runs integration; then
    scripts/setup.sh prometheus
fi

# What tests leave behind goes with this folder, also what a process that was killed has left:
# RocksDB allocates ahead.
TMPDIR=$(mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

use_built_rocksdb
began=$SECONDS
number=0
for step in "${STEPS[@]}"; do
    number=$((number + 1))
    printf '\n=== [%d/%d] %s\n' "$number" "${#STEPS[@]}" "$step"
    started=$SECONDS
    # In a shell of its own, and not as a condition: there `set -e` would be off inside.
    set +e
    (set -e; "step_${step//-/_}")
    code=$?
    set -e
    if ((code != 0)); then
        printf '\n=== FAILED: %s (step %d of %d, exit code %d, after %d s)\n    again, alone: scripts/test.sh %s\n' \
            "$step" "$number" "${#STEPS[@]}" "$code" "$((SECONDS - started))" "$step" >&2
        exit 1
    fi
    printf '=== ok: %s, %d s\n' "$step" "$((SECONDS - started))"
done
printf '\n=== all %d steps are green, %d min %02d s\n' "${#STEPS[@]}" $(((SECONDS - began) / 60)) $(((SECONDS - began) % 60))
