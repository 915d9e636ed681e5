"""Writes a workload's input to its topics.

Takes rows, fills a topic. Owns its producer. Writes each row once, and stops if one is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from workloads.workload import Row


class FillingError(RuntimeError):
    """The input could not be written completely."""


def fill_topic(bootstrap: str, topic: str, rows: Iterable[Row]) -> None:
    """Write the rows in order; keys go to the partitions that Kafka's own clients choose for them."""
    refused: list[str] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,  # keeps the order and writes each row once
            "linger.ms": 50,
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 500_000,
            "log_level": 3,  # with a broker that has just started it retries its first request, with a warning
        }
    )
    for number, row in enumerate(rows):
        where = _where_and_when(row)
        while True:
            try:
                producer.produce(topic, key=row.key, value=row.value, on_delivery=delivered, **where)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(120)
    if left or refused:
        raise FillingError(
            f"{left} rows were not delivered, {len(refused)} refused ({refused[:1]}): look at the broker's log"
        )


def _where_and_when(row: Row) -> dict[str, Any]:
    given = {"partition": row.partition, "timestamp": row.timestamp_ms}
    return {name: value for name, value in given.items() if value is not None}
