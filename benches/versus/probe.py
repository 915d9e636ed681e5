"""Sends records at a fixed rate, and measures when their results arrive.

Takes a workload, a rate, topics. Returns, for each expected output record, the time between the instant at which its
input was due and the instant at which a `read_committed` consumer received it. Owns the sending process and the
consumer. Records are sent without waiting for earlier results, and latency counts from when a record was due: a pause
of the engine, or of the sender, is included (no coordinated omission).
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from workloads.probes import PROBES

# Time from the start signal to the first record: the consumer polls again in between.
_HEAD_START_NS = 50_000_000
_PATIENCE_S = 30.0


@dataclass(frozen=True)
class Stage:
    """`count` records from number `first` on, at a rate per second."""

    workload: str
    first: int
    count: int
    rate: float
    table_keys: int


@dataclass(frozen=True)
class Taken:
    """Results of a stage: milliseconds, unordered."""

    latencies_ms: list[float]
    sent: int
    expected: int
    missing: int
    repeated: int
    # Largest delay of sending: the sender's own share of the measured latency.
    sender_behind_ms: float


def send(bootstrap: str, topics: Sequence[str], stage: Stage, message: Connection) -> None:
    """Sender process: sends each record at its instant, reports when the first one was due and the largest delay."""
    probes = PROBES[stage.workload].make(stage.first, stage.count, stage.table_keys)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 0,
            # One request per record would keep the broker busy with the sender alone: records due during a
            # request are sent with the next one.
            "max.in.flight.requests.per.connection": 1,
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 500_000,
            "log_level": 3,
        }
    )
    for topic in topics:
        producer.list_topics(topic, timeout=_PATIENCE_S)  # connected before the clock starts
    began, gap = time.monotonic_ns() + _HEAD_START_NS, 1e9 / stage.rate
    message.send(began)
    behind = 0.0
    for number, (row, at) in enumerate(zip(probes.rows, probes.inputs, strict=True)):
        due = began + int(number * gap)
        while (ahead := due - time.monotonic_ns()) > 0:
            # poll() waits whole milliseconds: with less than one left it would return at once, again and
            # again.
            time.sleep(min(ahead / 1e9, 0.001))
        behind = max(behind, -ahead / 1e6)
        where = {} if row.partition is None else {"partition": row.partition}
        producer.produce(topics[at], key=row.key, value=row.value, **where)
        producer.poll(0)
    if producer.flush(_PATIENCE_S):
        raise RuntimeError("the broker did not take the records in time: look at its log")
    message.send(behind)


class Reader:
    """A consumer of an output topic from its end on: earlier records belong to no stage."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        """Connect."""
        self._bootstrap = bootstrap
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"probe-{topic}",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 20,
                "log_level": 3,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])

    def __enter__(self) -> Reader:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect."""
        self._consumer.close()

    def take(self, topics: Sequence[str], stage: Stage, patience_s: float) -> Taken:
        """Send a stage, and read until all results have arrived, or `patience_s` after the last record was sent."""
        here, there = multiprocessing.Pipe(duplex=False)
        given = (self._bootstrap, topics, stage, there)
        sender = multiprocessing.get_context("spawn").Process(target=send, args=given)
        sender.start()
        there.close()
        try:
            answers = PROBES[stage.workload].make(stage.first, stage.count, stage.table_keys).answers
            wanted = {answer: number for number, answer in enumerate(answers) if answer is not None}
            seen, repeated = self._read(stage, wanted, sender, patience_s)
            if sender.exitcode != 0:
                raise RuntimeError("the sender ended too early: see its message above")
            began, behind = int(here.recv()), float(here.recv())
        finally:
            sender.kill()
            sender.join()
        gap = 1e9 / stage.rate
        latencies = [(at - began - wanted[answer] * gap) / 1e6 for answer, at in seen.items()]
        return Taken(latencies, stage.count, len(wanted), len(wanted) - len(seen), repeated, behind)

    def _read(
        self,
        stage: Stage,
        wanted: Mapping[int, int],
        sender: multiprocessing.process.BaseProcess,
        patience_s: float,
    ) -> tuple[dict[int, int], int]:
        """Return when each result was first received, and the number of duplicates."""
        number_of = PROBES[stage.workload].number_of
        seen: dict[int, int] = {}
        repeated, ended = 0, 0.0
        while len(seen) < len(wanted) or sender.is_alive():
            if not ended and not sender.is_alive():
                ended = time.monotonic()
            if ended and time.monotonic() - ended > patience_s:
                break
            # consume() with a timeout waits for all requested records, which would add to every latency.
            first = self._consumer.poll(0.02)
            messages = [] if first is None else [first, *self._consumer.consume(1000, 0)]
            now = time.monotonic_ns()
            for message in messages:
                if (error := message.error()) is not None:
                    raise KafkaException(error)
                answer = number_of(message.key() or b"", message.value() or b"")
                if answer is None or answer not in wanted:
                    continue
                repeated += answer in seen
                seen.setdefault(answer, now)
        sender.join()
        return seen, repeated
