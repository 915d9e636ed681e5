"""Loops without an engine, to compare with W1 and W2: the cost of consuming and producing with librdkafka alone.

Takes a filled input; writes the output topic, and prints one line of JSON. Keeps no state beyond its process.
Owns its consumer, its producer, its transactions.

- `bare` forwards four of five records as they are, chosen by offset, so that it writes as much as W1 does; one
  transaction per commit interval. `bare-plain` is the same with an idempotent producer and no transactions.
- `handwritten` does what W1 does, in transactions, with the standard library's json; and what W2 does, with a dict: its
  counts are wrong after a crash.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable

import own_figures
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

LEAST = 20
BATCH = 1000
PATIENCE_S = 30.0
# Let the producer choose the partition by key.
OF_KEY = -1

Step = Callable[[Message], "bytes | None"]


def forward(message: Message) -> bytes | None:
    """Four of five records, unchanged."""
    offset = message.offset()
    return message.value() if offset is not None and offset % 5 != 4 else None


def enrich(message: Message) -> bytes | None:
    """W1 by hand."""
    order = json.loads(message.value() or b"null")
    if order["amount"] < LEAST:
        return None
    order["user"] = order["user"].upper()
    return json.dumps(order, separators=(",", ":")).encode()


# For W1 only: what they do with a record. Word count has a loop of its own.
STEPS: dict[str, Step] = {"bare": forward, "bare-plain": forward, "handwritten": enrich}


class Loop:
    """Consume, process, produce, commit, until all partitions are read to their ends."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Connect."""
        self._step = STEPS[options.loop]
        self._sink = options.outputs
        self._interval = options.commit_interval_ms / 1000
        self._transactions = options.loop != "bare-plain" and options.guarantee == "exactly_once_v2"
        self._consumer = Consumer(
            {
                "bootstrap.servers": options.bootstrap,
                "group.id": options.application_id,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 3,
            }
        )
        named = {"transactional.id": options.application_id} if self._transactions else {}
        self._producer = Producer(
            {
                "bootstrap.servers": options.bootstrap,
                "enable.idempotence": True,
                "queue.buffering.max.messages": 500_000,
                "log_level": 3,
                **named,
            }
        )
        self._positions: dict[int, int] = {}

    def run(self, topic: str) -> int:
        """Return the number of records read."""
        partitions = self._consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        if self._transactions:
            self._producer.init_transactions(PATIENCE_S)
            self._producer.begin_transaction()
        consumed, ended, committed = 0, set[int](), time.monotonic()
        while len(ended) < len(partitions):
            for message in self._consumer.consume(BATCH, self._interval):
                if self._at_end(message):
                    ended.add(message.partition() or 0)
                else:
                    self._forward(message)
                    consumed += 1
            self._producer.poll(0)
            if time.monotonic() - committed >= self._interval:
                self._commit(topic)
                committed = time.monotonic()
                if self._transactions:
                    self._producer.begin_transaction()
        self._commit(topic)
        self._consumer.close()
        return consumed

    @staticmethod
    def _at_end(message: Message) -> bool:
        error = message.error()
        if error is None:
            return False
        if error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        return True

    def _forward(self, message: Message) -> None:
        partition, offset = message.partition() or 0, message.offset() or 0
        self._positions[partition] = offset + 1
        value = self._step(message)
        if value is not None:
            self._write(message.key(), value, partition)

    def _write(self, key: str | bytes | None, value: bytes, partition: int) -> None:
        try:
            self._producer.produce(self._sink, value=value, key=key, partition=partition)
        except BufferError:  # the queue is full: its records are sent first
            self._producer.flush(PATIENCE_S)
            self._producer.produce(self._sink, value=value, key=key, partition=partition)

    def _commit(self, topic: str) -> None:
        offsets = [TopicPartition(topic, partition, at) for partition, at in self._positions.items()]
        if self._transactions:
            if offsets:
                self._producer.send_offsets_to_transaction(
                    offsets, self._consumer.consumer_group_metadata(), PATIENCE_S
                )
            self._producer.commit_transaction(PATIENCE_S)
        else:
            if self._producer.flush(PATIENCE_S):
                raise RuntimeError("the broker did not take the records in time: look at its log")
            if offsets:
                self._consumer.commit(offsets=offsets, asynchronous=False)
        self._positions.clear()


class WordCount(Loop):
    """W2 by hand: every count is written, as 8 bytes, with its word as key."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Start with no counts."""
        super().__init__(options)
        self._counts = Counter[str]()

    def _forward(self, message: Message) -> None:
        self._positions[message.partition() or 0] = (message.offset() or 0) + 1
        for word in (message.value() or b"").decode().lower().split():
            self._counts[word] += 1
            self._write(word, struct.pack(">q", self._counts[word]), OF_KEY)


def guarantee(options: argparse.Namespace) -> str:
    """Return the guarantee after a crash."""
    if options.workload == "w2":
        return "none: counts are in memory only"
    transactions = options.loop != "bare-plain" and options.guarantee == "exactly_once_v2"
    return "exactly_once_v2" if transactions else "at_least_once"


def main() -> int:
    """Run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "workload", "application-id", "inputs", "outputs", "guarantee"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--loop", choices=list(STEPS), required=True)
    parser.add_argument("--commit-interval-ms", type=int, required=True)
    options = parser.parse_args()
    start = time.monotonic()
    loop = WordCount(options) if options.workload == "w2" else Loop(options)
    records = loop.run(options.inputs)
    own_figures.say(options.loop, records, start, time.monotonic() - start, guarantee(options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
