"""What an engine left in its output topic, as a `read_committed` reader sees it.

Takes: an output topic of string keys and long values. Gives: the last value of each key, and a hash of that table
that does not depend on the order of keys or partitions.
Owns: its consumer. Never: stops before the end of every partition; calls a key's value "last" when the key stands in
two partitions.
"""

from __future__ import annotations

import hashlib
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, TopicPartition


class TableError(RuntimeError):
    """The output topic does not hold a table."""


@dataclass(frozen=True)
class FinalTable:
    """The last value of each key, and the number of records it took to say so."""

    counts: Mapping[str, int]
    records: int

    @property
    def hash(self) -> str:
        """Order-independent: the sum of the hashes of all rows."""
        return table_hash(self.counts)


def table_hash(counts: Mapping[str, int]) -> str:
    """Sum modulo 2^128 of a hash of each (key, value)."""
    total = 0
    for key, value in counts.items():
        row = struct.pack(">iq", len(key), value) + key.encode()
        total += int.from_bytes(hashlib.blake2b(row, digest_size=16).digest(), "big")
    return f"{total % (1 << 128):032x}"


def differences(found: Mapping[str, int], wanted: Mapping[str, int], examples: int = 5) -> list[str]:
    """What is missing, extra or wrong, in words; empty if the tables are equal."""
    missing = sorted(wanted.keys() - found.keys())
    extra = sorted(found.keys() - wanted.keys())
    wrong = sorted(key for key in wanted.keys() & found.keys() if wanted[key] != found[key])
    said = [
        f"{len(missing)} missing, for example {missing[:examples]}" if missing else "",
        f"{len(extra)} extra, for example {extra[:examples]}" if extra else "",
        f"{len(wrong)} wrong, for example {[(k, found[k], wanted[k]) for k in wrong[:examples]]} (found, wanted)"
        if wrong
        else "",
    ]
    return [text for text in said if text]


def read_final_table(bootstrap: str, topic: str, partitions: int, timeout: float = 120.0) -> FinalTable:
    """Reads the topic from its beginning to its end."""
    _refuse_open_transactions(bootstrap, topic, partitions)
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
        return _drain(consumer, topic, partitions, time.monotonic() + timeout)
    finally:
        consumer.close()


def _drain(consumer: Consumer, topic: str, partitions: int, deadline: float) -> FinalTable:
    counts: dict[str, int] = {}
    home: dict[str, int] = {}
    records, ended = 0, set[int]()
    while len(ended) < partitions:
        if time.monotonic() > deadline:
            raise TableError(f"{topic}: no end of {partitions - len(ended)} partitions in time")
        for message in consumer.consume(5000, 1.0):
            partition, error = message.partition(), message.error()
            if partition is None:
                raise TableError(f"{topic}: {error}")
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise TableError(f"{topic}, partition {partition}: {error}")
                ended.add(partition)
                continue
            raw_key, raw_value = message.key(), message.value()
            if not isinstance(raw_key, bytes) or not isinstance(raw_value, bytes) or len(raw_value) != 8:
                raise TableError(
                    f"{topic}, partition {partition}, offset {message.offset()}: not a string key and a long"
                )
            key = raw_key.decode()
            if home.setdefault(key, partition) != partition:
                raise TableError(
                    f"{topic}: key {key!r} stands in partitions {home[key]} and {partition}, so it has no last value"
                )
            (counts[key],) = struct.unpack(">q", raw_value)
            records += 1
    return FinalTable(counts, records)


def _refuse_open_transactions(bootstrap: str, topic: str, partitions: int) -> None:
    """A reader of committed records stops in silence before an open transaction: that end would not be the end."""

    def ends(isolation: str) -> list[int]:
        reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "final-table", "isolation.level": isolation})
        try:
            return [reader.get_watermark_offsets(TopicPartition(topic, n), timeout=10.0)[1] for n in range(partitions)]
        finally:
            reader.close()

    stable, high = ends("read_committed"), ends("read_uncommitted")
    if stable != high:
        raise TableError(f"{topic}: a transaction is still open: committed up to {stable}, written up to {high}")
