#!/usr/bin/env bash
# Runs steps of the test suite, prints the number and the time of each, and stops at the first that fails.
#
#   scripts/test.sh                  everything, in order
#   scripts/test.sh integration      the steps named, of: lint-rust rust wheel lint-python python conformance
#                                    oracle kafka integration spark; and kafka-versions, recovery, long,
#                                    ports, console, fuzz-admin and other-broker, which take longer or
#                                    need more
set -euo pipefail
. "$(dirname "$0")/env.sh"

ALL=(lint-rust rust wheel lint-python python conformance oracle kafka integration spark)
STEPS=("${@:-${ALL[@]}}")

# Always the whole workspace: a part of it enables other features, and everything would be compiled again.
CARGO_TEST=(cargo --config scripts/tests.toml test --release --locked --workspace --exclude stoatflow-python
    --exclude stoatflow-benches)

pytest() { "$PY" -m pytest -q -p no:cacheprovider "$@"; }

step_lint_rust() { scripts/lint.sh rust; }

# The whole engine without a Python interpreter (law 8): unit tests, contract suites, simulation
# seeds, with assertions and overflow checks. Tests of the client mostly wait, so more threads than
# cores run them.
step_rust() { RUST_TEST_THREADS=${RUST_TEST_THREADS:-6} "${CARGO_TEST[@]}"; }

step_wheel() { scripts/wheel.sh; }

step_lint_python() { scripts/lint.sh python; }

step_python() {
    scripts/setup.sh examples bench docs typing
    # Most of these tests wait for timeouts, kills and child processes.
    pytest -n 4 tests/python
    # A process of its own: the benchmarks are scripts that import each other from their folder. Tests
    # that need a broker are in the step `integration`.
    pytest -n 2 -m "not broker and not slow" benches/versus benches/scaling benches/spark
    # Each benchmark once with few records, untimed: they are otherwise run only by `make bench-border`,
    # and must keep working.
    pytest --benchmark-disable benches/border
}

# Of the ports of other libraries' programs, only the tests that need none of these libraries.
step_conformance() { pytest -n 2 tests/conformance tests/semantics tests/ports/test_ported.py; }

# The real Kafka Streams in a JVM: it replays the vectors, and random topologies that our engine runs
# too. Then it runs on a broker, over partitions with different timestamps. The newest Kafka Streams
# replays the vectors as well; with STOATFLOW_TEST_KAFKA_STREAMS_VERSION one version does all of it.
step_oracle() {
    pytest -n 2 tests/oracle
    if [ -z "${STOATFLOW_TEST_KAFKA_STREAMS_VERSION:-}" ]; then
        STOATFLOW_TEST_KAFKA_STREAMS_VERSION=4.4.0 pytest -n 2 -k "recorded or parity" \
            tests/oracle/test_oracle.py tests/oracle/test_parity.py tests/oracle/test_serializers.py
    fi
    # Three brokers: these tests mostly wait.
    pytest -n 3 tests/skew
}

# Not for every change: all vectors in all variants, also on disk, and longer runs of random topologies.
step_recovery() {
    STOATFLOW_TEST_RECOVERY=all pytest -n 2 tests/conformance/test_recovery.py
    STOATFLOW_TEST_RANDOM_EXAMPLES=${STOATFLOW_TEST_RANDOM_EXAMPLES:-2000} pytest tests/semantics/test_random.py tests/oracle
}

# Faust, Quix Streams and Bytewax, each in an environment of its own in the cache: runs their programs
# again, on a real broker where they need one, and compares with the recorded results.
step_ports() { pytest tests/ports; }

# The Rust tests that need a real broker. The broker ends when its standard input is closed, which
# also happens if this script is killed.
step_kafka() {
    local folder broker bootstrap code=0
    folder=$(mktemp -d)
    mkfifo "$folder/stdin" "$folder/stdout"
    "$PY" tests/integration/broker/kafka_broker.py --print-bootstrap <"$folder/stdin" >"$folder/stdout" &
    broker=$!
    exec 8>"$folder/stdin" 9<"$folder/stdout"
    # If the broker ends early, the pipe is at its end and nothing is read; the broker has printed why.
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
    # The contract again, with both clients, while requests are lost, delayed and refused. librdkafka's
    # producer fails if EndTxn gets no answer; an application restarts after that, the contract
    # doesn't.
    "$PY" tests/integration/broker/through_proxy.py 7 \
        "${CARGO_TEST[@]}" --test kafka contract_on_kafka
    "$PY" tests/integration/broker/through_proxy.py 7 --spare END_TXN \
        "${CARGO_TEST[@]}" --test kafka contract_through_librdkafka
    # The contract again, with both clients, on three brokers with encryption and authentication.
    "$PY" tests/integration/broker/through_listeners.py SASL_SSL_SCRAM,MTLS \
        "${CARGO_TEST[@]}" --test kafka contract_
}

# Four processes at a time, one of them for the chaos tests, each with its own broker: they mostly
# wait. More would overload two cores, and timeouts would fail. The output of the chaos tests is
# printed at the end. Tests that assert how fast something is run last and alone.
step_integration() {
    local code=0
    # Not local: the trap outlives the function. Each step runs in a shell of its own.
    said=$(mktemp)
    # Not through the function `pytest`: the trap must stop Python, not a shell around it.
    "$PY" -m pytest -q -p no:cacheprovider tests/integration/chaos >"$said" 2>&1 &
    chaos=$!
    # `wait` returns the exit code of the stopped process, and `set -e` would end the trap before it
    # prints the output.
    trap '{ kill -TERM "$chaos" 2>/dev/null && wait "$chaos"; } || true; cat "$said"; rm -f "$said"' EXIT
    # Tests of a group share a cluster of several brokers, so one process runs all of them.
    pytest -n 3 --dist loadgroup --durations=60 -m "not alone and not long" tests/integration \
        --ignore=tests/integration/chaos || code=$?
    # Tests of the benchmarks that need a broker, one for all of them; the others are in the step `python`.
    pytest -m "broker and not slow" benches/versus || code=$?
    wait "$chaos" || code=$?
    pytest -m alone tests/integration || code=$?
    return "$code"
}

# Not for every change: the steps `kafka` and `integration` on several versions of Kafka, without the chaos
# tests, which choose a version themselves. The other versions run also after a failure.
step_kafka_versions() {
    local version part failed=
    for version in ${STOATFLOW_TEST_KAFKA_VERSIONS:-4.1.1 3.9.1 3.6.2}; do
        export STOATFLOW_TEST_KAFKA_VERSION=$version
        for part in step_kafka integration_on_a_version; do
            printf '\n--- Kafka %s: %s\n' "$version" "$part"
            set +e
            (set -e; "$part")
            [ $? = 0 ] || failed="$failed $version ($part)"
            set -e
        done
    done
    [ -z "$failed" ] || fail "failed:$failed"
}

integration_on_a_version() {
    local code=0
    pytest -n 3 --dist loadgroup -m "not alone and not long" tests/integration --ignore=tests/integration/chaos || code=$?
    pytest -m alone tests/integration || code=$?
    return "$code"
}

# Not for every change: longer variants of the tests in the step `integration`.
step_long() { pytest -n 2 --dist loadgroup --durations=20 -m long tests/integration; }

# Not for every change: random requests to the admin port, for STOATFLOW_TEST_FUZZ_SECONDS.
step_fuzz_admin() {
    "$PY" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "Schemathesis needs Python 3.11 or newer"
    scripts/setup.sh fuzz
    pytest -n 3 tests/fuzz
}

# The console in a headless Chromium.
step_console() { pytest tests/console; }

# Nisshi, a broker with Kafka's protocol that has none of Kafka's code. It is compiled the first time.
step_other_broker() {
    "${CARGO_TEST[@]}" --test kafka --no-run
    pytest tests/other_broker
}

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

# Checked now, not after half an hour of compiling.
if runs oracle recovery long ports kafka kafka-versions integration spark; then
    scripts/setup.sh java maven
    # The setup may just have installed it.
    find_libclang || true
fi
if runs integration kafka-versions; then
    scripts/setup.sh prometheus
fi

# Files that tests leave behind are removed with this folder, also those of killed processes: RocksDB
# preallocates.
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
    # In a subshell, and not as a condition: that would disable `set -e` inside.
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
