"""What Spark's workers run of a streaming query: sources, parts without state, parts with state.

Takes batches of Arrow, or data frames of pandas in a stateful processor; returns `Routed` rows. `routing` decides where
a record goes, `task_state` what is stored.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stoatflow.spark.twin.handed_over import STATE
from stoatflow.spark.twin.resumed_task import ResumedTask
from stoatflow.spark.twin.routing import Routed, Routes
from stoatflow.spark.twin.task import Work
from stoatflow.spark.twin.task_state import Change, TaskState, packed, read_chunk, unpacked

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle

SOURCE = ("name", "partition", "offset", "key", "value", "timestamp", "headers", "order")
_ROWS = 2_000
"""Rows per batch."""

Batches = Iterable["pa.RecordBatch"]


@dataclass(frozen=True)
class Step:
    """A part, as a worker needs it."""

    run: str
    """Id of the query's run."""
    work: Work
    routes: Routes
    groups: tuple[int, ...] = ()
    """By task: the number by which Spark groups its records."""


def state_name(part: int) -> str:
    """Return the name of a part's state."""
    return f"part_{part}"


def sources(routes: Routes) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return the function that gives records of sources their places and routes."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        yield from _batches(_placed(routes, batches))

    return run


def _placed(routes: Routes, batches: Batches) -> Iterator[Routed]:
    # The order of an application: of the first records of all partitions, the oldest is next. Spark reads
    # each partition of Kafka in order.
    highest: dict[tuple[str, int], int] = {}
    for batch in batches:
        rows = zip(*(batch.column(name).to_pylist() for name in SOURCE), strict=True)
        for name, partition, offset, key, value, timestamp, headers, order in rows:
            at = (name, partition)
            first = order
            if order is None:
                first = highest[at] = max(highest.get(at, timestamp), timestamp)
            pairs = [(header["key"], header["value"]) for header in headers or ()]
            yield from routes.of_source(name, partition, offset, first, (key, value, timestamp, packed(pairs)))


def stateless(step: Step) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return the function that runs a part without state."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        resumed = ResumedTask(step.run, step.work)
        for batch in batches:
            rows = [Routed(*row) for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]
            mine = [row for row in rows if row.part == step.work.number]
            made = resumed.stateless(map(_record, mine)) if mine else iter(())
            routed = itertools.chain.from_iterable(map(step.routes.of_part, made))
            yield from _batches(itertools.chain((row for row in rows if row.part != step.work.number), routed))

    return run


class Stateful:
    """A `StatefulProcessor` of Spark: the tasks of a part with state.

    A group is a task; groups below zero hold records for later parts.
    """

    def __init__(self, step: Step) -> None:
        """Keep the part; Spark pickles this object."""
        self._step = step

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Get the handle of the state."""
        self._state = handle.getMapState(state_name(self._step.work.number), "number long", "data binary")

    def handleInputRows(  # noqa: N802  # Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: ARG002, N803  # Spark's name; there are no timers
    ) -> Iterator[pd.DataFrame]:
        """Run a task over its records of a trigger, in order."""
        (group,) = key
        if group < 0:
            for frame in rows:
                yield frame[list(Routed._fields)]
            return
        found = [Routed(*row) for frame in rows for row in _tuples(frame)]
        found.sort(key=lambda row: row.place)
        resumed = ResumedTask(self._step.run, self._step.work)
        kept = TaskState(_Cells(self._state), resumed.retentions)
        if handed := list(_handed_over(found)):
            kept.add(handed, uuid.uuid4().hex)
        records = [row for row in found if row.name != STATE]
        if not records:
            return
        made = resumed.trigger(records[0].task, map(_record, records), kept)
        yield from _frames(itertools.chain.from_iterable(map(self._step.routes.of_part, made)))

    def close(self) -> None:
        """Nothing to close."""


class _Cells:
    def __init__(self, state: MapState) -> None:
        self._state = state

    def get(self, number: int) -> bytes | None:
        found = self._state.getValue((number,)) if self._state.containsKey((number,)) else None
        return None if found is None else bytes(found[0])

    def put(self, number: int, data: bytes) -> None:
        self._state.updateValue((number,), (data,))

    def remove(self, number: int) -> None:
        self._state.removeKey((number,))


def _handed_over(rows: list[Routed]) -> Iterator[Change]:
    """Yield the initial state of a task, if the checkpoint was handed over from an application."""
    for row in rows:
        if row.name == STATE and row.value is not None:
            yield from read_chunk(row.value)


def _record(row: Routed) -> tuple[Any, ...]:
    """Return a record as `Task` takes it."""
    headers = [{"key": name, "value": value} for name, value in unpacked(row.headers)]
    return row.task, row.name, row.key, row.value, row.timestamp, headers, row.place, row.hashed


def _tuples(frame: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    columns = [frame[name].tolist() for name in Routed._fields]
    return zip(*columns, strict=True)


def _frames(rows: Iterator[Routed]) -> Iterator[pd.DataFrame]:
    import pandas as pd

    while found := list(itertools.islice(rows, _ROWS)):
        columns = zip(*found, strict=True)
        # As objects, so that missing values stay None.
        binary = {"name", "key", "value", "headers", "place"}
        yield pd.DataFrame(
            {
                name: pd.Series(column, dtype=object if name in binary else None)
                for name, column in zip(Routed._fields, columns, strict=True)
            }
        )


def _batches(rows: Iterator[Routed]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    types = [
        pa.int32(), pa.int32(), pa.string(), pa.binary(), pa.binary(), pa.int64(), pa.binary(), pa.binary(),
        pa.bool_(),
    ]  # fmt: skip
    schema = pa.schema(list(zip(Routed._fields, types, strict=True)))
    while found := list(itertools.islice(rows, _ROWS)):
        columns = [pa.array(column, kind) for column, kind in zip(zip(*found, strict=True), types, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
