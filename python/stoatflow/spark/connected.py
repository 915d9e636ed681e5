"""Properties of a session that differ for Spark Connect, which has no JVM in this process, and no SparkContext.

Takes a SparkSession of either kind, returns what the twin needs to know about it; raises `ConfigError` if something
needs the JVM. Never starts or stops a session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from stoatflow.errors import ConfigError
from stoatflow.spark.errors import TwinError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

BATCH = "run a batch: batch=True; or give a session that was made with master()"
FRAMES = "give DataFrames that the server has read: inputs=; or a session that was made with master()"


def is_connected(spark: SparkSession) -> bool:
    """Whether it is a session of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def need_classic(spark: SparkSession, what: str, next_step: str) -> None:
    """Raise `ConfigError` for a session of Spark Connect."""
    if is_connected(spark):
        raise ConfigError(
            f"{what} needs Spark's JVM, which a session of Spark Connect can't reach", next_step=next_step
        )


def application(spark: SparkSession) -> str:
    """Return an id that is unique to a session, so that its workers are told apart from those of another one."""
    if is_connected(spark):
        return str(cast("Any", spark).session_id)
    return spark.sparkContext.applicationId


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks run in parallel."""
    if not is_connected(spark):
        return spark.sparkContext.defaultParallelism
    from pyspark.sql import functions as f

    # Spark splits a range into as many partitions as it runs tasks.
    return spark.range(1_000).select(f.spark_partition_id()).distinct().count()


def keeps_order(spark: SparkSession) -> bool:
    """Whether a function over Arrow batches gets the rows of a partition in sorted order. On Sail it doesn't."""
    if not is_connected(spark):
        return True
    from pyspark.sql import functions as f

    rows = spark.range(0, 8, 1, 1).select((-f.col("id")).alias("number")).sortWithinPartitions("number")
    return [row[0] for row in rows.mapInArrow(_as_they_come, "number long").collect()] == list(range(-7, 1))


def _as_they_come(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    return batches


def computed(frame: DataFrame) -> DataFrame:
    """Compute a DataFrame now; return one that is not computed again."""
    kept = frame.persist()
    # Sail accepts `persist`, does nothing, and reports another storage level.
    if not is_connected(frame.sparkSession) or kept.storageLevel.useDisk:
        kept.count()
        return kept
    try:
        return frame.localCheckpoint()
    except Exception as error:
        if "checkpoint" not in str(error).partition("\n")[0].lower():
            raise
        raise TwinError(
            f"the server keeps no DataFrames, so each question would compute all parts anew: {error}. Give it a folder "
            "for them: on Sail SAIL_EXECUTION__CHECKPOINT__PATH=file:///some/folder, before it starts"
        ) from error


def name_jobs(spark: SparkSession, tag: str, description: str) -> None:
    """Tag the jobs that this thread will start, so that they can be cancelled."""
    if is_connected(spark):
        spark.addTag(tag)
    else:
        spark.sparkContext.setJobGroup(tag, description, interruptOnCancel=True)


def cancel_jobs(spark: SparkSession, tag: str) -> None:
    """Cancel the jobs with this tag."""
    if is_connected(spark):
        spark.interruptTag(tag)
    else:
        spark.sparkContext.cancelJobGroup(tag)
