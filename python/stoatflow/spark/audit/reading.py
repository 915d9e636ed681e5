"""Topics as DataFrames, committed records only, for the twin and for reconciliations.

Takes the address of a broker and names of topics. Returns DataFrames with the columns of the twin's input, and the
number of partitions of each topic. Ensures that nothing is missing at the beginning, or hidden at the end by an open
transaction.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stoatflow.spark import embedded
from stoatflow.spark.errors import TopicError
from stoatflow.spark.kafka import KafkaTopics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Readable:
    """Topics of one broker."""

    def __init__(
        self, frames: Mapping[str, DataFrame], partitions: Mapping[str, int], kafka: KafkaTopics | None
    ) -> None:
        """Created by `topics`."""
        self.frames = dict(frames)
        self.partitions = dict(partitions)
        self.kafka = kafka

    def only(self, names: Sequence[str]) -> dict[str, DataFrame]:
        """Return the DataFrames of these topics."""
        return {name: self.frames[name] for name in names}


@contextmanager
def topics(
    spark: SparkSession,
    bootstrap: str,
    inputs: Sequence[str],
    outputs: Sequence[str] = (),
    *,
    wait: float = 30.0,
    client: Mapping[str, str] | None = None,
    removed: bool = False,
) -> Iterator[Readable]:
    """Read topics to their ends. Output topics are read first, so their ends are never behind those of the inputs.

    An input whose first records were removed is refused, unless `removed` is set (for a table, the last record of each
    key in a compacted topic is enough). DataFrames of an embedded broker can only be used inside the `with`.
    """
    names = list(dict.fromkeys((*outputs, *inputs)))
    path = embedded.path_of(bootstrap)
    if path is None:
        kafka = KafkaTopics(spark, bootstrap, client)
        frames, partitions = {}, {}
        for name in names:
            begins = kafka.begins(name)
            if name in inputs and not removed:
                whole(name, begins)
            partitions[name] = len(begins)
            frames[name] = kafka.read_committed(name, wait, headers=True)
        yield Readable(frames, partitions, kafka)
        return
    if not path.is_dir():
        raise TopicError(f"there is no embedded broker at {path}: check the path after `embedded:`")
    with tempfile.TemporaryDirectory(prefix="stoatflow-topics-") as folder:
        with embedded.open_broker(path) as broker:
            files = embedded.dump(broker, names, Path(folder))
            partitions = {name: len(broker.end_offsets(name)) for name in names}
        yield Readable({name: embedded.read_dump(spark, files[name]) for name in names}, partitions, None)


def whole(name: str, begins: Mapping[int, int]) -> None:
    """Raise `TopicError` if retention has removed the beginning of a topic."""
    gone = {partition: offset for partition, offset in begins.items() if offset > 0}
    if gone:
        partition, offset = next(iter(gone.items()))
        raise TopicError(
            f"topic {name}, partition {partition} begins at offset {offset}: retention has removed what was before, so "
            "what the application has made of it can't be computed again. Read the input from a copy that has all of "
            "it (files, a mirror); or, if nothing depends on what is gone, say so: removed=True (--removed)"
        )
