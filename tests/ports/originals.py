"""Runs the program of another library, and gives what it wrote.

Takes: a case; for Faust and Quix Streams the topics of a real broker. Gives: the library's version, and its outputs.
Owns: the process of the library, and the topics, which are deleted at the end. Never: compares.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from broker.kafka_broker import KafkaBroker
from confluent_kafka import Consumer, Producer, TopicPartition
from topics import PATIENCE_S, KafkaTopics

from ports.cases import FOLDER, Case, Outputs, Row, decode, encode, ours, text
from ports.environments import interpreter

_RUN_S = 120.0
_QUIET_S = 5.0
"""So long nothing is written by a Faust worker that has worked off its input."""


@contextmanager
def broker() -> Iterator[KafkaTopics]:
    """Topics of a real broker."""
    settings = {
        # Topics are deleted after each program, and come again under the same names.
        "log.segment.delete.delay.ms": "1000",
        # The records are years old.
        "log.retention.ms": "-1",
    }
    with KafkaBroker(settings=settings) as running:
        yield KafkaTopics(running.bootstrap)
        # Nobody needs what it holds.
        running.kill()


def run(case: Case, kafka: KafkaTopics | None) -> tuple[str, Outputs]:
    """Run it to the end of its inputs."""
    if case.library == "bytewax":
        return _bytewax(case)
    assert kafka is not None
    with topics(case, kafka) as name:
        write(case, kafka)
        version = process(case, kafka, name)
        # A worker of Faust gives its results the time at which it writes them: they are other ones
        # in each run.
        return version, written(case, kafka, name, timestamps=case.library == "quix")


def process(case: Case, kafka: KafkaTopics, name: str) -> str:
    """Let it work off what is in its topics, as the consumer group of that name; give the library's version."""
    with tempfile.TemporaryDirectory() as state:
        if case.library == "quix":
            return str(_said(_command(case, kafka.address, name, state))["version"])
        return _faust(case, kafka, name, Path(state))


def _command(case: Case, *arguments: str) -> list[str]:
    runner = FOLDER / "runners" / f"{case.library}_runner.py"
    return [str(interpreter(case.library)), str(runner), str(case.folder / "original.py"), *arguments]


def _said(command: list[str]) -> dict[str, object]:
    """What a runner says in its last line."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=_RUN_S, check=False)
    assert ended.returncode == 0, f"{command}\n{ended.stdout}\n{ended.stderr}"
    said: dict[str, object] = json.loads(ended.stdout.splitlines()[-1])
    return said


def _bytewax(case: Case) -> tuple[str, Outputs]:
    said = _said(_command(case, str(case.folder / "inputs.json")))
    return str(said["version"]), said["outputs"]  # type: ignore[return-value]


def _faust(case: Case, kafka: KafkaTopics, name: str, data: Path) -> str:
    said = data / "said"
    command = _command(case, kafka.address, name, str(data))
    with said.open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as worker:
        try:
            _await_end(worker, kafka, name, said)
        finally:
            _end(worker)
    return str(json.loads(said.read_text("utf-8").splitlines()[0])["version"])


def _end(worker: subprocess.Popen[bytes]) -> None:
    """In order if it can: some wait for half a minute, one that has crashed for ever. All it gives is there already."""
    worker.terminate()
    try:
        worker.wait(5.0)
    except subprocess.TimeoutExpired:
        worker.kill()


def _await_end(worker: subprocess.Popen[bytes], kafka: KafkaTopics, name: str, said: Path) -> None:
    """Wait until the worker has committed all that it reads, and writes nothing more."""
    deadline, before, since = time.monotonic() + _RUN_S, None, time.monotonic()
    while before is None or time.monotonic() - since < _QUIET_S:
        assert worker.poll() is None, f"the worker has ended:\n{said.read_text('utf-8')}"
        assert time.monotonic() < deadline, f"the worker doesn't come to an end:\n{said.read_text('utf-8')}"
        time.sleep(0.2)
        ends = {topic: kafka.ends(topic) for topic in kafka.topics() if not topic.startswith("__")}
        committed = {topic: kafka.committed(name, topic, "read_uncommitted") for topic in ends}
        read = {topic for topic, offsets in committed.items() if any(offset >= 0 for offset in offsets.values())}
        if not read or any(committed[topic][0] < ends[topic][0] for topic in read):
            before = None
        elif ends != before:
            before, since = ends, time.monotonic()


@contextmanager
def topics(case: Case, kafka: KafkaTopics) -> Iterator[str]:
    """What it reads, and what it writes to, which Faust doesn't make; in the end all topics are deleted.

    Gives a name for the application.
    """
    for topic in {record["topic"] for record in case.records} | {*ours(case)}:
        kafka.create(topic)
    try:
        yield f"{case.program.replace('_', '-')}-{time.time_ns()}"
    finally:
        kafka.delete([topic for topic in kafka.topics() if not topic.startswith("__")])


def write(case: Case, kafka: KafkaTopics) -> None:
    """Write its inputs, in this order between topics as well."""
    producer = Producer({"bootstrap.servers": kafka.address, "acks": "all", "log_level": 0})
    for one in case.records:
        producer.produce(one["topic"], encode(one["value"]), encode(one.get("key")), timestamp=one["timestamp"])
        assert producer.flush(PATIENCE_S) == 0


def written(case: Case, kafka: KafkaTopics, name: str, *, timestamps: bool) -> Outputs:
    """What is in the topics that are neither inputs nor the library's own."""
    inputs = {record["topic"] for record in case.records}
    outputs: Outputs = {}
    for topic in kafka.topics():
        internal = name in topic or topic.endswith("-repartition") or topic.startswith("__")
        if topic not in inputs and not internal:
            outputs[topic] = [row if timestamps else row[:2] for row in _rows(kafka, topic)]
    return {topic: rows for topic, rows in outputs.items() if rows}


def _rows(kafka: KafkaTopics, topic: str) -> list[Row]:
    """Key, value and timestamp of what is in a topic, in its order."""
    ends, deadline = kafka.ends(topic), time.monotonic() + PATIENCE_S
    assert list(ends) == [0], f"{topic} has more than one partition"
    settings = {
        "bootstrap.servers": kafka.address,
        "group.id": "reader",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    rows: list[Row] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while True:
            assert time.monotonic() < deadline, f"nothing more of {topic}"
            for message in consumer.consume(10_000, 0.05):
                if message.error() is None:
                    rows.append([text(message.key()), decode(message.value()), message.timestamp()[1]])
                elif (message.offset() or 0) >= ends[0]:  # the end of the partition, behind marks of transactions
                    return rows
    finally:
        consumer.close()
