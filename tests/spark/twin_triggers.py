"""A topology in triggers, as the streaming twin runs it, in this process: cells in a dict for Spark's state.

Gives: the output of all triggers, and the final contents of stores. Engines end in the middle, as with a restart.
"""

from __future__ import annotations

import itertools

import twin_vectors

from conformance.runner import Case
from stoatflow import Topology
from stoatflow.spark.twin import faithful, resumed_task
from stoatflow.spark.twin.parts import cut
from stoatflow.spark.twin.resumed_task import ResumedTask
from stoatflow.spark.twin.task_state import TaskState

SIZE = 3
"""Number of records per trigger."""
EVERY = 2
"""The engines end after every n-th trigger."""


class Cells:
    """Implements Spark's MapState."""

    def __init__(self) -> None:
        self.data: dict[int, bytes] = {}
        self.get = self.data.get

    def put(self, number: int, data: bytes) -> None:
        self.data[number] = data

    def remove(self, number: int) -> None:
        del self.data[number]


def end_engines() -> None:
    """Do what the end of the worker processes does."""
    for place in list(resumed_task._ENGINES):
        resumed_task._end(place)
    resumed_task._TOPOLOGIES.clear()


def run(case: Case, topology: Topology) -> twin_vectors.Rows:
    """Run a vector trigger by trigger."""
    faithful.check(topology, streaming=True)
    parts = [(part, ResumedTask("test", twin_vectors.work_of(part, case))) for part in cut(topology)]
    cells: dict[tuple[int, int], Cells] = {}
    rows: twin_vectors.Rows = []
    for number, first in enumerate(range(0, len(twin_vectors.inputs(case)), SIZE)):
        made: twin_vectors.Rows = []
        for part, tasks in parts:
            records = [r for r in twin_vectors.records_of(part, case, made) if first <= _order(r[6]) < first + SIZE]
            for task, group in itertools.groupby(records, key=lambda record: record[0]):
                kept = TaskState(cells.setdefault((part.number, task), Cells()), tasks.retentions)
                made += list(tasks.trigger(task, group, kept))
        rows += made
        if number % EVERY == EVERY - 1:
            end_engines()
    end_engines()
    for (number, task), cell in cells.items():
        tasks = parts[number][1]
        rows += list(tasks.store_rows(task, TaskState(cell, tasks.retentions).rows()))
    return rows


def _order(place: bytes) -> int:
    return int.from_bytes(place[1:9], "big")
