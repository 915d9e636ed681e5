"""One Spark session for all tests of this folder: starting one takes longer than all of them.

Gives: the session, a word count done by hand, and a stand-in for the embedded broker.
Never: connects to a real broker; tests/integration does.
"""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import stoatflow
from stoatflow.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Tests import what stands beside them, as the workers do.
sys.path.insert(0, str(Path(__file__).parent))

Update = tuple[int, int, str | None, int | None]
"""Partition, offset, key, value."""

Stored = tuple[int, int, bytes | None, bytes | None, int]
"""Partition, offset, key, value, timestamp."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let PySpark leave its sockets to the garbage collector, as it does after every `collect`."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Return the shared session."""
    # Workers import the functions of tests from the tests' own modules.
    here = Path(__file__).parent
    os.environ["PYTHONPATH"] = os.pathsep.join([str(here), str(here.parent)])
    session = local_session(conf={"spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "false"})
    yield session
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        session.stop()
        gc.collect()


@pytest.fixture
def word_count() -> Callable[[Iterable[str | None]], list[Update]]:
    """Return a correct word count, done by hand."""
    return counted


def counted(lines: Iterable[str | None], partitions: int = 2) -> list[Update]:
    """Return every update in offset order; a word always has the same partition."""
    counts: Counter[str] = Counter()
    ends = [0] * partitions
    updates: list[Update] = []
    for line in lines:
        for word in (line or "").lower().split():
            counts[word] += 1
            partition = sum(word.encode()) % partitions
            updates.append((partition, ends[partition], word, counts[word]))
            ends[partition] += 1
    return updates


class StandInBroker:
    """The embedded broker's contract with Spark, in memory; topics outlive the handle, as they do on disk."""

    disks: dict[str, dict[str, list[list[Stored]]]]
    opened: set[str]

    def __init__(self, path: str) -> None:
        """Reject a path that is open already, as RocksDB does."""
        if path in self.opened:
            raise stoatflow.StateLockedError(f"{path} is in use by another process")
        self.path = path
        self.topics = self.disks.setdefault(path, {})

    def __enter__(self) -> StandInBroker:
        """Hold the path."""
        self.opened.add(self.path)
        return self

    def __exit__(self, *_: object) -> None:
        """Release the path."""
        self.opened.remove(self.path)

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic unless it exists."""
        self.topics.setdefault(name, [[] for _ in range(partitions)])

    def produce_many(self, topic: str, records: Iterable[tuple[int | None, bytes | None, bytes | None, int]]) -> int:
        """Append records."""
        written = 0
        for partition, key, value, timestamp in records:
            log = self.topics[topic][partition or 0]
            log.append((partition or 0, len(log), key, value, timestamp))
            written += 1
        return written

    def read(self, topic: str) -> Iterator[Stored]:
        """Yield all records, partition by partition."""
        if topic not in self.topics:
            raise stoatflow.MissingTopicError(f"topic {topic} does not exist")
        for log in self.topics[topic]:
            yield from log

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Return the end offset of each partition."""
        return {partition: len(log) for partition, log in enumerate(self.topics[topic])}


@pytest.fixture
def broker_class(monkeypatch: pytest.MonkeyPatch) -> type[StandInBroker]:
    """Put a fresh stand-in where `stoatflow.EmbeddedBroker` is looked up."""
    fresh = type("FreshBroker", (StandInBroker,), {"disks": {}, "opened": set()})
    # Set in the dictionary, because reading the attribute would load the native module first.
    monkeypatch.setitem(vars(stoatflow), "EmbeddedBroker", fresh)
    return fresh
