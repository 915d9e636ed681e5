"""The final content of an engine's output topic, as a `read_committed` consumer sees it.

Takes an output topic, and the workload's record reader. Returns the last value of each row that is not deleted, and a
hash of that table that does not depend on the order of rows or partitions. A stream is read as the table of its records
by their ids: a second record of an id is an error. Owns its consumer. Reads every partition to its end; a row in two
partitions is an error.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from workloads.reading import Cell, Form, Reader, long_by_text


class TableError(RuntimeError):
    """The output topic does not contain a table."""


@dataclass(frozen=True)
class FinalTable:
    """The last value of each row, and the number of records read."""

    rows: Mapping[str, Cell]
    records: int

    @property
    def hash(self) -> str:
        """Order-independent: the sum of the hashes of all rows."""
        return table_hash(self.rows)


def table_hash(rows: Mapping[str, Cell]) -> str:
    """Sum modulo 2^128 of a hash of each (key, value)."""
    total = 0
    for pair in rows.items():
        row = json.dumps(pair).encode()
        total += int.from_bytes(hashlib.blake2b(row, digest_size=16).digest(), "big")
    return f"{total % (1 << 128):032x}"


def differences(found: Mapping[str, Cell], wanted: Mapping[str, Cell], examples: int = 5) -> list[str]:
    """Missing, extra and wrong rows as text; empty if the tables are equal."""
    missing = sorted(wanted.keys() - found.keys())
    extra = sorted(found.keys() - wanted.keys())
    wrong = sorted(key for key in wanted.keys() & found.keys() if wanted[key] != found[key])
    output = [
        f"{len(missing)} missing, for example {missing[:examples]}" if missing else "",
        f"{len(extra)} extra, for example {extra[:examples]}" if extra else "",
        f"{len(wrong)} wrong, for example {[(k, found[k], wanted[k]) for k in wrong[:examples]]} (found, wanted)"
        if wrong
        else "",
    ]
    return [text for text in output if text]


def read_final_table(
    bootstrap: str,
    topic: str,
    partitions: int,
    read: Reader = long_by_text,
    *,
    updates: bool = True,
    timeout: float = 120.0,
    patience: float = 30.0,
) -> FinalTable:
    """Read the topic from its beginning to its end; without `updates` a row may occur only once.

    A transaction that is still open after `patience` seconds is an error.
    """
    _refuse_open_transactions(bootstrap, topic, partitions, patience)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"final-table-{topic}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        return _drain(consumer, _Rows(topic, read, updates), partitions, time.monotonic() + timeout)
    finally:
        consumer.close()


class _Rows:
    """The rows read so far."""

    def __init__(self, topic: str, read: Reader, updates: bool) -> None:
        self.topic = topic
        self.values: dict[str, Cell] = {}
        self.records = 0
        self._read = read
        self._updates = updates
        self._home: dict[str, int] = {}

    def add(self, message: Message, partition: int) -> None:
        """Add a record."""
        try:
            output = self._read(message.key() or b"", message.value())
        except Form as error:
            raise TableError(f"{self.topic}, partition {partition}, offset {message.offset()}: {error}") from error
        self.records += 1
        if output is None:
            return
        row, value = output
        if not self._updates and row in self.values:
            raise TableError(f"{self.topic}: {row!r} came twice, the second time in partition {partition}")
        if self._home.setdefault(row, partition) != partition:
            raise TableError(
                f"{self.topic}: key {row!r} stands in partitions {self._home[row]} and {partition}, "
                "so it has no last value"
            )
        if value is None:
            self.values.pop(row, None)
        else:
            self.values[row] = value


def _drain(consumer: Consumer, rows: _Rows, partitions: int, deadline: float) -> FinalTable:
    ended = set[int]()
    while len(ended) < partitions:
        if time.monotonic() > deadline:
            raise TableError(f"{rows.topic}: no end of {partitions - len(ended)} partitions in time")
        for message in consumer.consume(5000, 1.0):
            partition, error = message.partition(), message.error()
            if partition is None:
                raise TableError(f"{rows.topic}: {error}")
            if error is None:
                rows.add(message, partition)
                continue
            if error.code() != KafkaError._PARTITION_EOF:
                raise TableError(f"{rows.topic}, partition {partition}: {error}")
            ended.add(partition)
    return FinalTable(rows.values, rows.records)


def _refuse_open_transactions(bootstrap: str, topic: str, partitions: int, patience: float) -> None:
    """Raise if a transaction is open: a `read_committed` consumer silently stops before it, at a false end.

    The broker writes transaction markers after it has acknowledged the commit to the producer, so wait for them.
    """

    def ends(isolation: str) -> list[int]:
        reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "final-table", "isolation.level": isolation})
        try:
            return [reader.get_watermark_offsets(TopicPartition(topic, n), timeout=10.0)[1] for n in range(partitions)]
        finally:
            reader.close()

    deadline = time.monotonic() + patience
    while (stable := ends("read_committed")) != (high := ends("read_uncommitted")):
        if time.monotonic() < deadline:
            time.sleep(0.1)
            continue
        raise TableError(f"{topic}: a transaction is still open: committed up to {stable}, written up to {high}")
