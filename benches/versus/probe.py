"""Records sent at a fixed rate, and when what comes of them is there.

Takes: a workload, a rate, topics. Gives: for each record that must come out the time between the instant at which it
was to be sent and the instant at which a `read_committed` reader had it.
Owns: the sending process and the reader. Never: waits for an answer before it sends the next record, and never counts
from when a record could at last be sent: a pause of the engine, or of the sender, is in the figures (no coordinated
omission).
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

# From the word to the first record: the reader looks again in between.
_HEAD_START_NS = 50_000_000
_PATIENCE_S = 30.0


@dataclass(frozen=True)
class Stage:
    """So many records from `first` on, so many of them a second."""

    workload: str
    first: int
    count: int
    rate: float
    table_keys: int


@dataclass(frozen=True)
class Taken:
    """What came of a stage: milliseconds, in no order."""

    latencies_ms: list[float]
    sent: int
    expected: int
    missing: int
    repeated: int
    # How late the latest record was sent: the sender's own share of what it measures.
    sender_behind_ms: float


def send(bootstrap: str, topics: Sequence[str], stage: Stage, said: Connection) -> None:
    """A process of its own: sends each record at its instant, says when the first one was due and how late it got."""
    probes = PROBES[stage.workload].make(stage.first, stage.count, stage.table_keys)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 0,
            # A request per record would keep the broker busy with the sender alone: what becomes
            # due while one is under way goes with the next.
            "max.in.flight.requests.per.connection": 1,
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 500_000,
            "log_level": 3,
        }
    )
    for topic in topics:
        producer.list_topics(topic, timeout=_PATIENCE_S)  # connected before the clock starts
    began, gap = time.monotonic_ns() + _HEAD_START_NS, 1e9 / stage.rate
    said.send(began)
    behind = 0.0
    for number, (row, at) in enumerate(zip(probes.rows, probes.inputs, strict=True)):
        due = began + int(number * gap)
        while (ahead := due - time.monotonic_ns()) > 0:
            # poll() waits whole milliseconds: for what is left of one it would come back at once,
            # again and again.
            time.sleep(min(ahead / 1e9, 0.001))
        behind = max(behind, -ahead / 1e6)
        where = {} if row.partition is None else {"partition": row.partition}
        producer.produce(topics[at], key=row.key, value=row.value, **where)
        producer.poll(0)
    if producer.flush(_PATIENCE_S):
        raise RuntimeError("the broker did not take the records in time: look at its log")
    said.send(behind)


class Reader:
    """A reader of an output topic from its end on: what was there before is of no stage."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        """Connects."""
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
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnects."""
        self._consumer.close()

    def take(self, topics: Sequence[str], stage: Stage, patience_s: float) -> Taken:
        """Sends a stage and reads until all of it is there, or for so long after the last record was sent."""
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
        """When each answer was first seen, and how many came again."""
        number_of = PROBES[stage.workload].number_of
        seen: dict[int, int] = {}
        repeated, ended = 0, 0.0
        while len(seen) < len(wanted) or sender.is_alive():
            if not ended and not sender.is_alive():
                ended = time.monotonic()
            if ended and time.monotonic() - ended > patience_s:
                break
            # consume() with a timeout waits for all that it may bring, and would add that to every latency.
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
