"""The input of the word counts: lines at a steady rate, to all of them, in its own thread.

Overdue lines are written immediately. It retries until brokers are back, so everything it reports as written is
there in the end.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from types import TracebackType
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, Message, Producer
from counting import lines

if TYPE_CHECKING:
    from typing_extensions import Self  # typing has it from Python 3.11 only

PATIENCE_S = 600.0


class Feeder:
    """`with Feeder(bootstrap, topics, partitions, rate, seed) as feeder: ...`."""

    def __init__(self, bootstrap: str, topics: list[str], partitions: int, rate: float, seed: int) -> None:
        self.written: Counter[str] = Counter()
        """Errors of records that brokers never accepted."""
        self.failed: list[str] = []
        """Start writing."""
        self._topics, self._partitions, self._rate, self._seed = topics, partitions, rate, seed
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, name="feeder")
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": int(PATIENCE_S * 1000),
                "linger.ms": 5,
                "log_level": 0,
            }
        )

    def __enter__(self) -> Self:
        """Stop writing."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop; returns when all lines are written."""
        self._over.set()
        self._thread.join()

    def stop(self) -> None:
        """No more; returns when all of it is there."""
        self._over.set()
        self._thread.join()
        left = self._producer.flush(PATIENCE_S)
        if left:
            self.failed.append(f"{left} lines were not taken within {PATIENCE_S} s")

    def _write(self) -> None:
        began, number = time.monotonic(), 0
        while not self._over.is_set():
            (line,) = lines(self._seed * 1_000_003 + number, 1)
            self.written[line] += 1
            for topic in self._topics:
                self._producer.produce(
                    topic, line.encode(), partition=number % self._partitions, on_delivery=self._delivered
                )
            self._producer.poll(0)
            number += 1
            self._over.wait(max(0.0, began + number / self._rate - time.monotonic()))

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(f"{message.topic()}-{message.partition()}: {error}")
