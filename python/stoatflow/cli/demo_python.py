"""The lines of the demo, made and checked in Python: for an installation without PySpark.

Takes a broker and two topics. Writes lines of random words, the same for the same seed; reads both topics back, counts
again, and compares. Knows nothing of the engine.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING

from stoatflow.spark.report import Example, Fault, Reconciliation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stoatflow.embedded import EmbeddedRecord
    from stoatflow.testing.kafka import KafkaBroker

_VOCABULARY = 10_000
_SHORTEST, _LONGEST = 8, 12
_PAGE = 10_000
_EXAMPLES = 3


def lines(count: int, seed: int) -> Iterator[str]:
    """Return lines of 8 to 12 words; word *n* is about *n* times rarer than the first, as in natural text."""
    dice = random.Random(seed)  # noqa: S311  # no secret
    words = [f"word{number:05}" for number in range(1, _VOCABULARY + 1)]
    weights = list(accumulate(1 / number for number in range(1, _VOCABULARY + 1)))
    for _ in range(count):
        yield " ".join(dice.choices(words, cum_weights=weights, k=dice.randint(_SHORTEST, _LONGEST)))


class PythonSide:
    """Loads the input of a demo, and checks its output."""

    name = "Python"

    def __init__(self, bootstrap: str, source: str, sink: str, partitions: int) -> None:
        """Connect in each call: embedded topics are open in one process at a time."""
        self._bootstrap, self._source, self._sink, self._partitions = bootstrap, source, sink, partitions

    def _broker(self) -> KafkaBroker:
        from stoatflow.testing.kafka import KafkaBroker

        return KafkaBroker(self._bootstrap)

    def load(self, count: int, seed: int) -> int:
        """Create both topics, write the lines; return how many arrived."""
        page: list[tuple[int | None, bytes | None, bytes | None, int]] = []
        arrived = 0
        with self._broker() as broker:
            for topic in (self._source, self._sink):
                broker.create_topic(topic, self._partitions)
            for number, line in enumerate(lines(count, seed), 1):
                page.append((number % self._partitions, None, line.encode(), number))
                if len(page) == _PAGE or number == count:
                    arrived += broker.produce_many(self._source, page)
                    page = []
        return arrived

    def reconcile(self) -> Reconciliation:
        """Count the words of the input, and compare with the output."""
        began = time.monotonic()
        wanted: Counter[str] = Counter()
        read = 0
        with self._broker() as broker:
            for record in broker.read(self._source):
                read += 1
                wanted.update((record.value or b"").decode().lower().split())
            found = _Found(wanted)
            for record in broker.read(self._sink):
                found.add(record)
        found.end()
        return Reconciliation(
            input_records=read,
            input_words=wanted.total(),
            expected_keys=len(wanted),
            output_records=found.records,
            output_keys=len(found.last),
            every_update=False,
            faults=dict(found.faults),
            examples=tuple(found.examples),
            seconds=time.monotonic() - began,
        )

    def close(self) -> None:
        """Do nothing: nothing is open."""


class _Found:
    """The output as it is read: the last count of each word, and what is wrong."""

    def __init__(self, wanted: Counter[str]) -> None:
        self._wanted = wanted
        self.records = 0
        self.last: dict[str, EmbeddedRecord] = {}
        self.faults: Counter[Fault] = Counter()
        self.examples: list[Example] = []

    def add(self, record: EmbeddedRecord) -> None:
        self.records += 1
        key, count = _key(record), _count(record)
        before = self.last.get(key)
        if count is None:
            self._note(Example(Fault.BAD_VALUE, key, None, None, record.partition, record.offset))
            return
        if before is not None:
            said = _count(before) or 0
            if before.partition != record.partition:
                self._note(Example(Fault.SPLIT_KEY, key, None, 2))
            elif count <= said:
                fault = Fault.REPEATED if count == said else Fault.WENT_BACK
                self._note(Example(fault, key, said, count, record.partition, record.offset))
        self.last[key] = record

    def end(self) -> None:
        for key, record in self.last.items():
            count, wanted = _count(record), self._wanted.get(key)
            if count != wanted:
                fault = Fault.EXTRA_WORD if wanted is None else Fault.WRONG_COUNT
                self._note(Example(fault, key, wanted, count, record.partition, record.offset))
        for key, wanted in self._wanted.items():
            if key not in self.last:
                self._note(Example(Fault.MISSING_WORD, key, wanted))

    def _note(self, example: Example) -> None:
        self.faults[example.fault] += 1
        if self.faults[example.fault] <= _EXAMPLES:
            self.examples.append(example)


def _key(record: EmbeddedRecord) -> str:
    return (record.key or b"").decode("utf-8", "replace")


def _count(record: EmbeddedRecord) -> int | None:
    return None if record.value is None or len(record.value) != 8 else int.from_bytes(record.value, "big", signed=True)
