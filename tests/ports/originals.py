"""Runs the program of another library, and returns its output.

Takes: a case; for Faust and Quix Streams the topics of a real broker. Returns: the library's version, and its
outputs. Owns: the library's process, and the topics, which are deleted at the end. Never: compares.
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
"""A Faust worker that has processed its input has finished after this time without output."""


@contextmanager
def broker() -> Iterator[KafkaTopics]:
    """Topics of a real broker."""
    settings = {
        # Topics are deleted after each program, and created again with the same names.
        "log.segment.delete.delay.ms": "1000",
        # The records are years old.
        "log.retention.ms": "-1",
    }
    with KafkaBroker(settings=settings) as running:
        yield KafkaTopics(running.bootstrap)
        # Its data is not needed any more.
        running.kill()


def run(case: Case, kafka: KafkaTopics | None) -> tuple[str, Outputs]:
    """Run the program to the end of its inputs."""
    if case.library == "bytewax":
        return _bytewax(case)
    assert kafka is not None
    with topics(case, kafka) as name:
        write(case, kafka)
        version = process(case, kafka, name)
        # A Faust worker sets the time of writing as the timestamp of its results, which differs in each run.
        return version, written(case, kafka, name, timestamps=case.library == "quix")


def process(case: Case, kafka: KafkaTopics, name: str) -> str:
    """Let it process its topics to the end, as the consumer group with this name; return the library's version."""
    with tempfile.TemporaryDirectory() as state:
        if case.library == "quix":
            return str(_said(_command(case, kafka.address, name, state))["version"])
        return _faust(case, kafka, name, Path(state))


def _command(case: Case, *arguments: str) -> list[str]:
    runner = FOLDER / "runners" / f"{case.library}_runner.py"
    return [str(interpreter(case.library)), str(runner), str(case.folder / "original.py"), *arguments]


def _said(command: list[str]) -> dict[str, object]:
    """Run a command, and parse the last line of its output."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=_RUN_S, check=False)
    assert ended.returncode == 0, f"{command}\n{ended.stdout}\n{ended.stderr}"
    output: dict[str, object] = json.loads(ended.stdout.splitlines()[-1])
    return output


def _bytewax(case: Case) -> tuple[str, Outputs]:
    output = _said(_command(case, str(case.folder / "inputs.json")))
    return str(output["version"]), output["outputs"]  # type: ignore[return-value]


def _faust(case: Case, kafka: KafkaTopics, name: str, data: Path) -> str:
    output = data / "said"
    command = _command(case, kafka.address, name, str(data))
    with output.open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as worker:
        try:
            _await_end(worker, kafka, name, output)
        finally:
            _end(worker)
    return str(json.loads(output.read_text("utf-8").splitlines()[0])["version"])


def _end(worker: subprocess.Popen[bytes]) -> None:
    """Gracefully if possible: some wait half a minute, a crashed one forever. Its output is already complete."""
    worker.terminate()
    try:
        worker.wait(5.0)
    except subprocess.TimeoutExpired:
        worker.kill()


def _await_end(worker: subprocess.Popen[bytes], kafka: KafkaTopics, name: str, message: Path) -> None:
    """Wait until the worker has committed all of its input, and writes nothing more."""
    deadline, before, since = time.monotonic() + _RUN_S, None, time.monotonic()
    while before is None or time.monotonic() - since < _QUIET_S:
        assert worker.poll() is None, f"the worker has ended:\n{message.read_text('utf-8')}"
        assert time.monotonic() < deadline, f"the worker doesn't come to an end:\n{message.read_text('utf-8')}"
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
    """Create the input and output topics (Faust doesn't create outputs); in the end all topics are deleted.

    Yields a name for the application.
    """
    for topic in {record["topic"] for record in case.records} | {*ours(case)}:
        kafka.create(topic)
    try:
        yield f"{case.program.replace('_', '-')}-{time.time_ns()}"
    finally:
        kafka.delete([topic for topic in kafka.topics() if not topic.startswith("__")])


def write(case: Case, kafka: KafkaTopics) -> None:
    """Write the case's inputs one by one, which also keeps the order between topics."""
    producer = Producer({"bootstrap.servers": kafka.address, "acks": "all", "log_level": 0})
    for one in case.records:
        producer.produce(one["topic"], encode(one["value"]), encode(one.get("key")), timestamp=one["timestamp"])
        assert producer.flush(PATIENCE_S) == 0


def written(case: Case, kafka: KafkaTopics, name: str, *, timestamps: bool) -> Outputs:
    """The records of the topics that are neither inputs nor internal topics of the library."""
    inputs = {record["topic"] for record in case.records}
    outputs: Outputs = {}
    for topic in kafka.topics():
        internal = name in topic or topic.endswith("-repartition") or topic.startswith("__")
        if topic not in inputs and not internal:
            outputs[topic] = [row if timestamps else row[:2] for row in _rows(kafka, topic)]
    return {topic: rows for topic, rows in outputs.items() if rows}


def _rows(kafka: KafkaTopics, topic: str) -> list[Row]:
    """Key, value and timestamp of a topic's records, in order."""
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
                elif (message.offset() or 0) >= ends[0]:  # the end of the partition, after transaction markers
                    return rows
    finally:
        consumer.close()
