"""The parts of the latency benchmark that decide whether its figures may be believed."""

from __future__ import annotations

import struct
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[2] / "tests" / "integration")]

from broker.kafka_broker import KafkaBroker  # noqa: E402
from confluent_kafka import Consumer, Producer, TopicPartition  # noqa: E402
from engines import FLAVOURS, KSTREAMS, Conditions, Job, command  # noqa: E402
from latency import Latency, arguments, as_text, quantile  # noqa: E402
from probe import Reader, Stage  # noqa: E402
from workloads.probes import EVERY, PROBES  # noqa: E402

RATE, COUNT, DELAY_S = 400, 800, 0.15


def latency(engine: str, p99: float, *, missing: int = 0, repeat: int = 0) -> Latency:
    quantiles = {"50": 1.0, "95": 2.0, "99": p99, "99.9": p99}
    return Latency("w1", engine, 500, repeat, 100, missing, 0, quantiles, p99, 10.0, 0.1, 0.5)


def test_quantiles_are_values_that_were_measured() -> None:
    hundred = [float(n) for n in range(1, 101)]
    assert [quantile(hundred, percent) for percent in (50, 95, 99, 99.9)] == [50, 95, 99, 100]
    assert quantile([7.0], 50) == 7


@pytest.mark.parametrize("workload", PROBES)
def test_probes_are_the_same_each_time_and_go_on_where_the_last_ended(workload: str) -> None:
    make = PROBES[workload].make
    probes, again, later = make(0, 400, 50), make(0, 400, 50), make(400, 400, 50)
    assert probes == again
    told = [answer for answer in probes.answers if answer is not None]
    assert len(told) == len(set(told)) >= 400 // EVERY
    assert not set(told) & set(later.answers)


def test_an_output_is_told_by_its_key_or_its_id() -> None:
    window = struct.pack(">q", 1_767_225_600_000)
    assert PROBES["w2"].number_of(b"probe-12", b"") == 12
    assert PROBES["w2"].number_of(b"word", b"") is None
    assert PROBES["w3"].number_of(b"probe-12" + window, b"") == 12
    assert PROBES["w3"].number_of(b"user-00012" + window, b"") is None
    for workload in ("w1", "w4"):
        assert PROBES[workload].number_of(b"", b'{"id":12}') == 12


def test_who_did_not_keep_up_is_no_base_and_no_secret() -> None:
    text = as_text([latency(KSTREAMS, 300.0), latency("native", 30.0)])
    assert "P99 against kstreams: 0.100x" in text
    text = as_text([latency(KSTREAMS, 300.0, missing=3), latency("native", 30.0)])
    assert "against" not in text
    assert "3 MISSING" in text


def test_arguments_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    for given in (["--rates", "fast"], ["--rates", "0"], ["--workloads", "w9"], ["--engines", "spark"]):
        with pytest.raises(SystemExit):
            arguments(given)
    assert "w9" in capsys.readouterr().err
    assert arguments(["--rates", "9,3"]).rates == [3, 9]


def test_both_sides_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kstreams_build.class_path", lambda: "x.jar")
    at = Conditions("localhost:1", 1, 100, 0, "exactly_once_v2", 2, 1.0)
    assert "stoatflow.versus.Follow" in command(
        Job("w1", KSTREAMS, "run", ("in",), ("out",), 0, 0), at, "s", follow=True
    )
    for flavour in FLAVOURS:
        assert command(Job("w1", flavour, "run", ("in",), ("out",), 0, 0), at, "s", follow=True)[-1] == "--follow"


def test_a_delay_is_measured_from_the_instant_at_which_a_record_was_due() -> None:
    """An engine that hands on what it gets, but stands still for a while once: everybody behind waits too."""
    with KafkaBroker() as broker:
        for topic in ("in", "out"):
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
                taken = reader.take("in", stage, 10)
                lost = reader.take("nowhere", Stage("w4", COUNT, 40, RATE, 50), 0.2)
        finally:
            done.set()
            thread.join()
    assert (taken.missing, taken.repeated) == (0, 0)
    assert taken.expected == COUNT * 19 // 20
    assert all(one > 0 for one in taken.latencies_ms)
    # Records that were due while it stood still waited for the rest of that time.
    waited = sum(one >= DELAY_S * 1000 / 2 for one in taken.latencies_ms)
    assert waited >= RATE * DELAY_S / 2 * 0.8
    assert lost.missing == lost.expected > 0
