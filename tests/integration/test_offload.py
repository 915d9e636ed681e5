"""`offload` on a real broker with `stoatflow worker`: each record's result once, in order, through kills of both."""

from __future__ import annotations

import random
import signal
import threading
import urllib.request
from pathlib import Path

import pytest
from calls import HERE, admin_url, check, create, write, written
from counting import until
from processes import Process
from topics import KafkaTopics

import stoatflow as sf

PARTITIONS = 6
RECORDS = 8_000


def engine(kafka: KafkaTopics, name: str, state: Path, lanes: int) -> Process:
    """The application."""
    return Process([HERE / "offloading.py", kafka.address, name, state, lanes])


def worker(kafka: KafkaTopics, name: str, most_s: float) -> Process:
    """The one that answers, within so many seconds."""
    topics = ["--requests", f"{name}-asked", "--responses", f"{name}-answered", "--bootstrap", kafka.address]
    return Process(["-m", "stoatflow", "worker", f"{HERE / 'offloading.py'}:shout", *topics], {"SHOUT_S": str(most_s)})


class KilledWorker:
    """A worker that is killed again and again, and replaced each time, until its end: that is a clean one.

    It is slow until it is told to hurry: a fast machine would be done before the last kill.
    """

    def __init__(self, kafka: KafkaTopics, name: str, rng: random.Random) -> None:
        """Not started yet."""
        self._kafka, self._name, self._rng = kafka, name, rng
        self._hurry, self._enough = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.kills = 0
        self.code: int | None = None

    def __enter__(self) -> KilledWorker:
        """Start."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the last one."""
        self._enough.set()
        self._thread.join()

    def hurry(self) -> None:
        """Be fast from the next life on."""
        self._hurry.set()

    def _run(self) -> None:
        answered = f"{self._name}-answered"
        while True:
            goal = written(self._kafka, answered) + self._rng.randint(200, 2000)
            with worker(self._kafka, self._name, 0.03 if self._hurry.is_set() else 0.15) as running:
                running.until(
                    lambda goal=goal: self._enough.is_set() or written(self._kafka, answered) >= goal,  # type: ignore[misc]
                    "it answers",
                    patience=120,
                )
                if self._enough.is_set():
                    # One that was just started dies of a signal until it has said that it reads.
                    running.until(lambda running=running: "reads partitions" in running.errors, "it reads")  # type: ignore[misc]
                    running.signal(signal.SIGTERM)
                    self.code = running.wait()
                    return
                running.signal(signal.SIGKILL)
                running.wait()
                self.kills += 1


@pytest.mark.long
def test_the_engine_and_its_worker_are_killed(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    create(kafka, name)
    for topic in ("asked", "answered"):
        kafka.create(f"{name}-{topic}", PARTITIONS)
    write(kafka, name, RECORDS, [f"k{number}" for number in range(300)])
    out = f"{name}-out"
    rng = random.Random(7)
    with KilledWorker(kafka, name, random.Random(8)) as killed:
        for _ in range(5):
            with engine(kafka, name, tmp_path, rng.choice([1, 2, 5])) as running:
                goal = written(kafka, out) + rng.randint(1, RECORDS // 10)
                running.until(lambda goal=goal: written(kafka, out) >= goal, "it is at work")  # type: ignore[misc]
                running.signal(signal.SIGKILL)
                running.wait()
        assert kafka.count(out) < RECORDS, "the kills came too late"
        killed.hurry()
        with engine(kafka, name, tmp_path, 4) as running:
            url = admin_url(running)
            until(lambda: written(kafka, out) >= RECORDS and kafka.count(out) >= RECORDS, "all is written", 120)
            with urllib.request.urlopen(f"{url}metrics", timeout=10) as answer:  # noqa: S310  # its own port
                metrics = answer.read().decode()
            running.signal(signal.SIGTERM)
            assert running.wait() == 0, running.reported()
    check(kafka, name, RECORDS)
    assert f'stoatflow_parked_records{{application_id="{name}",node="shout"}} 0\n' in metrics
    assert killed.kills >= 2
    assert killed.code == 0
    requests = kafka.count(f"{name}-asked")
    print(f"\n{RECORDS} records, {requests} requests, 5 kills of the engine, {killed.kills} of the worker")  # noqa: T201


def grow(value: str) -> str:
    """As large as it says."""
    return "x" * int(value)


def test_an_answer_that_is_too_large_is_an_error(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    for topic in ("in", "asked", "answered", "out"):
        kafka.create(f"{name}-{topic}")
    asked, answered = f"{name}-asked", f"{name}-answered"
    builder = sf.StreamsBuilder()
    builder.stream(f"{name}-in", key=str, value=str).offload(
        asked,
        answered,
        joiner=lambda value, answer: f"{value}: {len(answer)}",
        on_error=lambda value, error: f"{value}: {str(error)[:31]}",
        response_value=str,
        name="grow",
    ).to(f"{name}-out", key=str, value=str)
    config = {"application.id": name, "bootstrap.servers": kafka.address, "state.dir": tmp_path}
    worker = sf.Worker(grow, requests=asked, responses=answered, bootstrap_servers=kafka.address)
    with sf.StoatFlow(builder.build(), config), worker:
        kafka.write(f"{name}-in", ["1", "2000000", "900000"], key="k")
        until(lambda: kafka.count(f"{name}-out") == 3, "all are answered", 60)
    assert [row.value for row in kafka.read(f"{name}-out")] == [
        b"1: 1",
        b"2000000: SerdeError: the answer can't be",
        b"900000: 900000",
    ]
    assert sum(kafka.committed(f"{asked}-worker", asked).values()) >= 3
