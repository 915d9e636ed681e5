"""The parts of the latency benchmark on which the trust in its figures depends."""

from __future__ import annotations

import contextlib
import json
import signal
import struct
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[2] / "tests" / "integration")]

import latency as measuring  # noqa: E402
from broker.kafka_broker import KafkaBroker  # noqa: E402
from conditions import Conditions  # noqa: E402
from confluent_kafka import Consumer, Producer, TopicPartition  # noqa: E402
from engines import FLAVOURS, KSTREAMS, EngineError, Job, command  # noqa: E402
from latency import Bench, Latency, arguments, as_text, in_turn, quantile, running  # noqa: E402
from machine import peak_rss_kb  # noqa: E402
from probe import Reader, Stage, Taken  # noqa: E402
from workloads.probes import EVERY, PROBES  # noqa: E402
from workloads.workload import Row  # noqa: E402

RATE, COUNT, DELAY_S = 400, 800, 0.15
AT = Conditions("localhost:1", 1, 100, 0, "exactly_once_v2", 2, 30.0)
JOB = Job("w1", KSTREAMS, "run", ("in",), ("out",), 0, 0)


def latency(engine: str, p99: float, *, missing: int = 0, repeat: int = 0, security: str = "plaintext") -> Latency:
    quantiles = {"50": 1.0, "95": 2.0, "99": p99, "99.9": p99}
    return Latency("w1", engine, 500, repeat, 100, missing, 0, quantiles, p99, 10.0, 0.1, 0.5, 0.3, 40.0, security)


def test_quantiles_are_values_that_were_measured() -> None:
    hundred = [float(n) for n in range(1, 101)]
    assert [quantile(hundred, percent) for percent in (50, 95, 99, 99.9)] == [50, 95, 99, 100]
    assert quantile([7.0], 50) == 7


@pytest.mark.parametrize("workload", PROBES)
def test_probes_are_reproducible_and_continue_where_the_last_ended(workload: str) -> None:
    make = PROBES[workload].make
    probes, again, later = make(0, 400, 50), make(0, 400, 50), make(400, 400, 50)
    assert probes == again
    reported = [answer for answer in probes.answers if answer is not None]
    assert len(reported) == len(set(reported)) >= 400 // EVERY
    assert not set(reported) & set(later.answers)


def test_an_output_is_matched_by_key_or_id() -> None:
    window = struct.pack(">q", 1_767_225_600_000)
    assert PROBES["w2"].number_of(b"probe-12", b"") == 12
    assert PROBES["w2"].number_of(b"word", b"") is None
    assert PROBES["w3"].number_of(b"probe-12" + window, b"") == 12
    assert PROBES["w3"].number_of(b"user-00012" + window, b"") is None
    # Bytes of a time may be digits.
    assert PROBES["w3"].number_of(b"probe-12" + b"34567890", b"") == 12
    assert PROBES["w5"].number_of(b"probe-12" + window + window, b"") == 12
    assert PROBES["w5"].number_of(b"user-00012" + window + window, b"") is None
    assert PROBES["w7"].number_of(b"probe-12", b"") == 12
    assert PROBES["w7"].number_of(b"product-0012", b"") is None
    for workload in ("w1", "w4"):
        assert PROBES[workload].number_of(b"", b'{"id":12}') == 12


def test_orders_of_the_shop_find_their_product_and_their_user(monkeypatch: pytest.MonkeyPatch) -> None:
    filled: dict[str, list[Row]] = {}
    monkeypatch.setattr(measuring, "fill_topic", lambda _, topic, rows: filled.update({topic: list(rows)}))

    class Broker:
        def create_topic(self, *_: object) -> None:
            pass

    options = arguments(["--rates", "100,40", "--seconds", "2", "--warm", "1"])
    bench = Bench("w7", options, Broker(), AT)  # type: ignore[arg-type]
    bench.fill()
    assert list(filled) == ["latency-w7-users", "latency-w7-products"]
    users, products = ({row.key for row in rows} for rows in filled.values())
    assert all(row.timestamp_ms is not None for rows in filled.values() for row in rows)
    stages = bench._stages()
    assert [(one.first, one.count, one.rate) for one in stages] == [(0, 40, 40), (40, 80, 40), (120, 200, 100)]
    for stage in stages:
        probes = PROBES["w7"].make(stage.first, stage.count, stage.table_keys)
        assert {probes.inputs[n] for n, answer in enumerate(probes.answers) if answer is not None} == {1}
        assert {probes.inputs[n] for n, answer in enumerate(probes.answers) if answer is None} == {0}
        assert {row.key for row in probes.rows} <= users
        assert {json.loads(row.value)["product"] for row in probes.rows} <= products


def test_an_engine_that_did_not_keep_up_is_shown_but_is_no_base() -> None:
    text = as_text([latency(KSTREAMS, 300.0), latency("native", 30.0)])
    assert "P99 against kstreams: 0.100x" in text
    text = as_text([latency(KSTREAMS, 300.0, missing=3), latency("native", 30.0)])
    assert "against" not in text
    assert "3 MISSING" in text


def test_tls_is_compared_with_the_engines_own_plaintext() -> None:
    ways = {"plaintext": (300.0, 30.0), "sasl_ssl": (400.0, 33.0)}
    text = as_text(
        [
            latency(engine, p99, security=way, repeat=repeat)
            for repeat in range(3)
            for way, both in ways.items()
            for engine, p99 in zip((KSTREAMS, "native"), both, strict=True)
        ]
    )
    plain, secured = (next(one for one in text.splitlines() if who in one) for who in ("native  ", "native sasl_ssl"))
    assert "P99 against kstreams: 0.100x" in plain
    assert "plaintext" not in plain
    assert "P99 against kstreams: 0.083x   P99 against its own on plaintext: 1.100x" in secured
    assert text.count("its own on plaintext") == 2
    assert "its own" not in as_text([latency("native", 30.0, missing=1), latency("native", 33.0, security="sasl_ssl")])


def test_an_engine_connects_in_each_way_before_the_next_one_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, str, int]] = []

    def measure(bench: Bench, engine: str, repeat: int) -> list[Latency]:
        ran.append((bench._called, engine, repeat))
        if (bench._called, engine) == ("latency-sasl_ssl-w1", "lambda"):
            raise EngineError("no connection")
        return [latency(engine, 1.0, repeat=repeat)]

    monkeypatch.setattr(Bench, "measure", measure)
    options = arguments(["--security", "plaintext,sasl_ssl"])
    benches = [Bench("w1", options, None, AT, security=way) for way in options.security]  # type: ignore[arg-type]
    measured = in_turn(benches, ["native", "lambda"], 2)
    plain, secured = "latency-w1", "latency-sasl_ssl-w1"
    assert ran == [
        (plain, "native", 0), (secured, "native", 0), (plain, "lambda", 0), (secured, "lambda", 0),
        (plain, "lambda", 1), (secured, "native", 1), (plain, "native", 1),
    ]  # fmt: skip
    assert {one.engine for one in measured} == {"native"}


def test_arguments_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    for given, why in (
        (["--rates", "fast"], "'fast' is not a list of numbers"),
        (["--rates", "0"], "rates and times are positive"),
        (["--warm-broker", "-1"], "rates and times are positive"),
        (["--workloads", "w9"], "unknown workload 'w9'; there are w1, w2, w3, w4, w5, w7"),
        (["--engines", "spark"], "unknown engine 'spark'"),
        (["--security", "sasl_ssl,ssl"], "--security takes plaintext and one of the others"),
        (["--security", "plaintext,ssl", "--charts", "x"], "--markdown and --charts show one --security"),
        (["--set", "a"], "--set: wants KEY=VALUE, not 'a'"),
        (["--set", "=a"], "--set: wants KEY=VALUE, not '=a'"),
        (["--repeats", "0"], "--repeats: wants a whole number of at least 1, not '0'"),
    ):
        with pytest.raises(SystemExit):
            arguments(given)
        assert why in capsys.readouterr().err
    assert arguments(["--rates", "9,3"]).rates == [3, 9]
    given = arguments(["--workloads", "w3,w1,w3", "--set", "a=b", "--set", "c=d=e"])
    assert (given.workloads, given.set) == (["w3", "w1"], ["a=b", "c=d=e"])


def test_both_sides_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kstreams_build.class_path", lambda: "x.jar")
    monkeypatch.setattr("engines.find_java", lambda: Path("java"))
    assert "stoatflow.versus.Follow" in command(JOB, AT, "s", follow=True)
    for flavour in FLAVOURS:
        assert command(replace(JOB, engine=flavour), AT, "s", follow=True)[-1] == "--follow"


def engine_is(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(measuring, "command", lambda *_, **__: [sys.executable, "-c", program])


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_an_engine_is_stopped_by_a_signal_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_is(monkeypatch, "import time; time.sleep(0.5); print('RUNNING', flush=True); time.sleep(60)")
    start = time.monotonic()
    with running(JOB, AT) as process:
        took = time.monotonic() - start
        assert is_there(process.pid)
    assert not is_there(process.pid)
    # It reported that half a second after its interpreter had started.
    assert 0.5 < process.ready_seconds < took + 0.01


@pytest.mark.parametrize(
    ("program", "seconds", "why"),
    [
        ("import time; time.sleep(60)", 0.3, r"w1, kstreams does not run after 0\.3 s \(--timeout\)"),
        ("import sys; sys.exit('no topic')", 30.0, r"ended before it ran; its last words:\nno topic"),
    ],
)
def test_an_engine_that_does_not_run_is_an_error(
    monkeypatch: pytest.MonkeyPatch, program: str, seconds: float, why: str
) -> None:
    engine_is(monkeypatch, program)
    with pytest.raises(EngineError, match=why), running(JOB, replace(AT, timeout_s=seconds)):
        pytest.fail("it never said that it runs")


def test_an_engine_that_does_not_end_is_an_error_and_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "END_S", 0.3)
    engine_is(
        monkeypatch,
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('RUNNING', flush=True); "
        "time.sleep(60)",
    )
    pids: list[int] = []
    with pytest.raises(EngineError, match=r"did not end within 0\.3 s of a signal"), running(JOB, AT) as process:
        pids.append(process.pid)
    assert not is_there(*pids)


def test_a_stopped_benchmark_stops_its_engine() -> None:
    # It prints the pid of the engine's process, and sleeps as a benchmark does while an engine runs.
    program = (
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "import latency, test_latency; from stopping import stop_with_all_of_it\n"
        "engine = \"import time; print('RUNNING', flush=True); time.sleep(60)\"\n"
        "latency.command = lambda *_, **__: [sys.executable, '-c', engine]\n"
        "stop_with_all_of_it()\n"
        "with latency.running(test_latency.JOB, test_latency.AT) as process:\n"
        "    print(process.pid, flush=True); time.sleep(60)\n"
    )
    here = str(Path(__file__).parent)
    bench = subprocess.Popen([sys.executable, "-c", program, here], stdout=subprocess.PIPE, text=True)
    assert bench.stdout is not None
    try:
        engine = int(bench.stdout.readline())
        assert is_there(engine)
        bench.send_signal(signal.SIGTERM)
        assert bench.wait(60) == 128 + signal.SIGTERM
    finally:
        bench.kill()
        bench.stdout.close()
    assert not is_there(engine)


def test_an_engine_that_fails_once_has_no_figures_and_the_others_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench("w1", arguments([]), None, AT)  # type: ignore[arg-type]
    ran: list[tuple[str, int]] = []

    def run(engine: str, repeat: int) -> list[Latency]:
        ran.append((engine, repeat))
        if (engine, repeat) == ("native", 1):
            raise EngineError("1 of 100 records came twice")
        return [latency(engine, 1.0, repeat=repeat)]

    monkeypatch.setattr(bench, "measure", run)
    measured = bench.all([KSTREAMS, "native"], 3)
    assert [(one.engine, one.repeat) for one in measured] == [(KSTREAMS, 0), (KSTREAMS, 1), (KSTREAMS, 2)]
    assert bench.wrong == {"native": "1 of 100 records came twice"}
    assert ("native", 2) not in ran


def test_duplicates_are_not_measured_and_missing_records_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "process_cpu", lambda _: 0.0)
    bench = Bench("w1", arguments([]), None, AT)  # type: ignore[arg-type]
    stage = Stage("w1", 0, 100, 500, 50)

    class Fake:
        def __init__(self, missing: int, repeated: int) -> None:
            self.taken = Taken([1.0, 2.0], 100, 80, missing, repeated, 0.0)

        def take(self, *_: object) -> Taken:
            return self.taken

    process = measuring.Running(1, 0.3)
    one = bench._stage("native", 0, process, Fake(78, 0), ["in"], stage)  # type: ignore[arg-type]
    assert (one.missing, one.ready_seconds) == (78, 0.3)
    with pytest.raises(EngineError, match="w1, native: 1 of 80 records came twice"):
        bench._stage("native", 0, process, Fake(0, 1), ["in"], stage)  # type: ignore[arg-type]


def test_every_engine_uses_the_broker_before_any_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, str, list[float], float]] = []

    class Fake:
        pid, bootstrap = 1, "localhost:1"

        def create_topic(self, *_: object) -> None:
            pass

    def measure(bench: Bench, engine: str, repeat: int) -> list[Latency]:
        seconds = bench._stages()[1].count / bench._stages()[1].rate
        ran.append((bench._called, engine, [one.rate for one in bench._stages()[1:]], seconds))
        return [latency(engine, 1.0, repeat=repeat)]

    monkeypatch.setattr(measuring, "bench_broker", lambda **_: contextlib.nullcontext(Fake()))
    monkeypatch.setattr(Bench, "measure", measure)
    given = ["--workloads", "w1", "--engines", "kstreams,native", "--rates", "50,100", "--seconds", "3"]
    measured, failed = measuring.measure(arguments([*given, "--warm-broker", "2"]))
    warming = [("warming-w1", KSTREAMS, [100], 2.0), ("warming-w1", "native", [100], 2.0)]
    counted = [("latency-w1", KSTREAMS, [50, 100], 3.0), ("latency-w1", "native", [50, 100], 3.0)]
    assert ran == [*warming, *counted]
    assert ([one.engine for one in measured], failed) == ([KSTREAMS, "native"], [])
    ran.clear()
    measuring.measure(arguments([*given, "--warm-broker", "0"]))
    assert ran == counted


def test_memory_is_the_peak_of_the_process() -> None:
    # A child that touches 64 MB and frees them before it is sampled.
    program = "b = bytearray(64 << 20); b[::4096] = b'x' * len(b[::4096]); del b; print(flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        assert 64 << 10 < peak_rss_kb(child.pid) < 128 << 10
    finally:
        child.kill()
        child.communicate()


@pytest.mark.broker
def test_a_delay_is_measured_from_the_instant_at_which_a_record_was_due(broker: KafkaBroker) -> None:
    """An engine that forwards its input, but pauses once: all later records wait too."""
    for topic in ("in", "out", "nowhere"):
        broker.create_topic(topic, 8)
    done = threading.Event()

    def forward() -> None:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "x", "fetch.wait.max.ms": 5})
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
        consumer.assign([TopicPartition("in", number, 0) for number in range(8)])
        taken = 0
        while not done.is_set():
            for message in consumer.consume(100, 0.01):
                taken += 1
                if taken == COUNT // 2:
                    time.sleep(DELAY_S)
                producer.produce("out", key=message.key(), value=message.value())
            producer.poll(0)
        consumer.close()

    thread = threading.Thread(target=forward)
    thread.start()
    try:
        with Reader(broker.bootstrap, "out", 8) as reader:
            stage = Stage("w4", 0, COUNT, RATE, 50)
            taken = reader.take(["in"], stage, 60)
            lost = reader.take(["nowhere"], Stage("w4", COUNT, 40, RATE, 50), 0.2)
    finally:
        done.set()
        thread.join()
    assert (taken.missing, taken.repeated) == (0, 0)
    assert taken.expected == COUNT * 19 // 20
    assert all(one > 0 for one in taken.latencies_ms)
    # Records that were due during the pause waited for the rest of it.
    waited = sum(one >= DELAY_S * 1000 / 2 for one in taken.latencies_ms)
    assert waited >= RATE * DELAY_S / 2 * 0.8
    assert lost.missing == lost.expected > 0
