"""Moves records between Spark and the topics of an embedded broker (``embedded:PATH``), which one process may open.

Takes rows of a DataFrame to append, or the names of topics to read. Writes records to the broker, or files that Spark
can read in parallel. The broker keeps its topics in RocksDB, which allows one writer process: Spark's workers cannot
open it. So the driver streams rows into it, and dumps topics from it, while no application runs on that path. Never
holds a topic in memory: both directions go record by record.

Dumps are lines of text with keys and values in hexadecimal: plain Python writes them about as fast as the broker can be
read, Spark reads and splits them natively, all bytes are preserved, and no further package is needed (`pip install
pyspark` brings no pyarrow).
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from stoatflow.spark.errors import TopicError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence, Sized

    from pyspark.sql import Column, DataFrame, Row, SparkSession

SCHEME = "embedded:"

_BATCH = 20_000
_ABSENT = "-"  # Never valid hexadecimal, so it cannot be mistaken for a key or a value.


class Topics(Protocol):
    """The methods of an open `stoatflow.EmbeddedBroker` that are used here."""

    def create_topic(self, name: str, partitions: int = 1) -> object:
        """Create a topic; one that exists is left unchanged, or refused."""

    def produce_many(self, topic: str, records: list[tuple[int | None, bytes | None, bytes | None, int]]) -> int:
        """Append records (partition, key, value, timestamp in milliseconds); return how many."""

    def read(self, topic: str) -> Iterator[tuple[int, int, bytes | None, bytes | None, int]]:
        """Yield the committed records (partition, offset, key, value, timestamp), each partition in offset order."""

    def end_offsets(self, topic: str) -> Sized:
        """Return one past the last offset of every partition."""


def path_of(bootstrap: str) -> Path | None:
    """Return the folder in ``embedded:PATH``, or None for the address of a real broker."""
    if not bootstrap.startswith(SCHEME):
        return None
    path = bootstrap.removeprefix(SCHEME)
    if not path:
        message = (
            "`embedded:` without a path is a temporary broker inside one process: nobody else can see its topics. "
            "Name a folder: embedded:/some/folder"
        )
        raise ValueError(message)
    return Path(path)


@contextmanager
def open_broker(path: Path) -> Iterator[Topics]:
    """Open the embedded broker of a folder; StoatFlow itself is imported only here.

    Its errors are raised as `TopicError`.
    """
    from stoatflow import EmbeddedBroker, StoatFlowError

    try:
        broker = EmbeddedBroker(str(path))
    except (StoatFlowError, OSError) as error:
        message = f"{error} (One process at a time may open {path}: if an application runs on it, close that first.)"
        raise TopicError(message) from error
    try:
        with broker:
            yield broker
    except StoatFlowError as error:
        raise TopicError(str(error)) from error


def write(
    rows: DataFrame,
    broker: Topics,
    topic: str,
    partitions: int,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Append the columns partition, key, value, timestamp in the order of the rows; return how many were written."""
    need_partitions(broker, topic, partitions)
    selected = rows.select("partition", "key", "value", "timestamp")
    # Spark computes the next partition while the driver writes this one.
    records = map(_record, selected.toLocalIterator(prefetchPartitions=True))
    written = 0
    while batch := list(itertools.islice(records, _BATCH)):
        written += broker.produce_many(topic, batch)
        if progress is not None:
            progress(written)
    return written


def need_partitions(broker: Topics, topic: str, partitions: int) -> None:
    """Create a topic unless it exists; raise `TopicError` if it has fewer partitions."""
    broker.create_topic(topic, partitions=partitions)
    existing = len(broker.end_offsets(topic))
    if existing < partitions:
        message = (
            f"topic {topic} has {existing} partition(s), {partitions} are needed: ask for {existing}, or load into "
            "another topic"
        )
        raise TopicError(message)


def _record(row: Row) -> tuple[int | None, bytes | None, bytes | None, int]:
    partition, key, value, timestamp = row
    return (
        partition,
        None if key is None else key.encode(),
        None if value is None else value.encode(),
        timestamp,
    )


def dump(broker: Topics, topics: Sequence[str], folder: Path) -> dict[str, Path]:
    """Write the committed records of each topic into a file of its own; return the files by topic."""
    files = {}
    for number, topic in enumerate(dict.fromkeys(topics)):
        files[topic] = folder / f"topic-{number}.tsv"
        with files[topic].open("w", encoding="ascii", newline="\n") as file:
            file.writelines(map(_line, broker.read(topic)))
    return files


def _line(record: tuple[int, int, bytes | None, bytes | None, int]) -> str:
    partition, offset, key, value, timestamp = record
    key_hex = _ABSENT if key is None else key.hex()
    value_hex = _ABSENT if value is None else value.hex()
    # The leading letter keeps an empty value from becoming an empty field, which would be read as null.
    return f"{partition}\t{offset}\tx{key_hex}\tx{value_hex}\t{timestamp}\n"


def read_dump(spark: SparkSession, file: Path) -> DataFrame:
    """Return a dumped topic: partition, offset, key and value (binary), timestamp (milliseconds)."""
    from pyspark.sql import functions as f

    def bytes_of(name: str) -> Column:
        text = f.substring(name, 2, 2**31 - 2)
        return f.when(text != _ABSENT, f.unhex(text)).alias(name)

    raw = spark.read.csv(
        str(file),
        schema="partition int, offset long, key string, value string, timestamp long",
        sep="\t",
        quote="",
        mode="FAILFAST",
        maxCharsPerColumn=-1,
    )
    return raw.select("partition", "offset", bytes_of("key"), bytes_of("value"), "timestamp")
