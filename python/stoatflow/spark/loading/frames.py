"""A topic of a spec as a DataFrame: Spark splits the work, the records stay the same.

Takes a SparkSession and a spec, returns a DataFrame with the columns of `batches.SCHEMA`. The number of tasks and
partitions doesn't change a byte.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from stoatflow.spark.errors import SparkUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from stoatflow.spark.loading.spec import LoadSpec, TopicSpec

CHUNK = 50_000
"""Records per unit of work."""


def frame(spark: SparkSession, spec: LoadSpec, topic: TopicSpec, tasks: int | None = None) -> DataFrame:
    """Return the records of a topic; `tasks` is how Spark splits the work."""
    chunks = -(-topic.records // CHUNK)

    def make(chunk: int) -> Iterator[pa.RecordBatch]:
        from stoatflow.spark.loading.batches import batches

        return batches(spec, topic, chunk * CHUNK, min((chunk + 1) * CHUNK, topic.records))

    return _made(spark, chunks, max(1, min(chunks, tasks or chunks)), make)


def by_partition(
    spark: SparkSession, spec: LoadSpec, topic: TopicSpec, seen: Callable[[pa.RecordBatch], None]
) -> DataFrame:
    """Return the records of a topic, one task per partition, in order; `seen` gets each batch, in a worker.

    A task draws the keys of all records and generates those of its partition, so that no record is shuffled.
    """

    def make(partition: int) -> Iterator[pa.RecordBatch]:
        from stoatflow.spark.loading.batches import batches

        for batch in batches(spec, topic, 0, topic.records, partition=partition):
            seen(batch)
            yield batch

    return _made(spark, topic.partitions, topic.partitions, make)


def _made(spark: SparkSession, work: int, tasks: int, make: Callable[[int], Iterator[pa.RecordBatch]]) -> DataFrame:
    """Generate the batches of each unit of work."""
    require_arrow()
    from stoatflow.spark.loading.batches import SPARK_SCHEMA

    def run(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for numbers in given:
            for number in numbers.column(0).to_pylist():
                yield from make(number)

    return spark.range(0, work, 1, tasks).mapInArrow(run, SPARK_SCHEMA)


def require_arrow() -> None:
    """Raise an error that says which packages are missing for functions over Arrow batches."""
    missing = [module for module in ("numpy", "pandas", "pyarrow") if find_spec(module) is None]
    if missing:
        message = (
            f"PySpark needs {', '.join(missing)} to run functions over Arrow batches, and this Python has not got "
            "them. Install what the extra names: pip install 'stoatflow[spark]'"
        )
        raise SparkUnavailableError(message)
