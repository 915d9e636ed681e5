"""Reads the stores of a streaming twin from its checkpoint.

Takes a checkpoint, its topology, the name of a store; returns a DataFrame like `TwinResult.store`. The engine restores
the stores from the state of a part, task by task.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from stoatflow.spark.errors import TwinError
from stoatflow.spark.twin import checkpoint as checkpoints
from stoatflow.spark.twin import task
from stoatflow.spark.twin.parts import cut
from stoatflow.spark.twin.resumed_task import ResumedTask
from stoatflow.spark.twin.running import pairs_of
from stoatflow.spark.twin.stages import state_name
from stoatflow.spark.twin.task import Row, Work, batches_of
from stoatflow.spark.twin.task_state import TaskState

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from stoatflow.settings import Settings
    from stoatflow.topology import Topology


def read_store(
    spark: SparkSession,
    topology: Topology,
    checkpoint: str | Path,
    store: str,
    *,
    config: Settings | Mapping[str, object] | None = None,
) -> DataFrame:
    """Return the rows of a store after the last trigger: key, start and end of the window, value, timestamp.

    The query may run meanwhile.

    Raises:
        TwinError: the topology has no such store, or the checkpoint belongs to another one.

    """
    parts = cut(topology)
    folder = str(checkpoint)
    begun = checkpoints.read(spark, folder)
    if begun is None:
        raise TwinError(f"nothing has begun in {folder}: give the checkpoint of a streaming twin")
    checkpoints.compare(folder, begun, checkpoints.plan(parts, begun.partitions, begun.tasks, begun.shuffle))
    part = next((part for part in parts if store in part.stores), None)
    if part is None:
        names = sorted({name for part in parts for name in part.stores})
        raise TwinError(f"the topology keeps no store '{store}'; it keeps {', '.join(names) or 'none'}")
    work = Work(part.number, part.nodes, pairs_of(config), {}, (), False, (store,), False, None)
    cells = cells_of(spark, folder, part.number).repartition("task").sortWithinPartitions("task")
    return cells.mapInArrow(_restored(work), task.SPARK_SCHEMA).select("key", "start", "end", "value", "timestamp")


def cells_of(spark: SparkSession, folder: str, part: int) -> DataFrame:
    """Return the cells of all tasks of a part."""
    wanted = f'"{state_name(part)}"'
    operators = spark.read.format("state-metadata").load(folder).select("operatorId", "operatorProperties")
    found = next((row[0] for row in operators.distinct().collect() if wanted in row[1]), None)
    if found is None:
        raise TwinError(f"the checkpoint {folder} holds no state yet: let a trigger end first")
    rows = (
        spark.read.format("statestore")
        .option("path", folder)
        .option("operatorId", found)
        .option("stateVarName", state_name(part))
        .load()
    )
    return rows.selectExpr("key.group AS task", "user_map_key.number AS number", "user_map_value.data AS data")


class ReadCells:
    """Cells that were read from a checkpoint; read-only."""

    def __init__(self, cells: dict[int, bytes]) -> None:
        """Take the cells by number."""
        self.get = cells.get

    def put(self, *_: object) -> None:
        """Raise an error: the cells are read-only."""
        raise AssertionError("a checkpoint is only read")

    remove = put


def _restored(work: Work) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches_of(_rows(work, batches))

    return run


def _rows(work: Work, batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    resumed = ResumedTask(uuid.uuid4().hex, work)
    cells = (cell for batch in batches for cell in zip(*(column.to_pylist() for column in batch.columns), strict=True))
    for number, group in itertools.groupby(cells, key=lambda cell: cell[0]):
        kept = TaskState(ReadCells({at: data for _, at, data in group}), resumed.retentions)
        yield from resumed.store_rows(number, kept.rows())
