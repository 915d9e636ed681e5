"""A topology that the engine begins, Spark's tasks continue, and the engine ends, in this process.

Gives: the output of all three, and the final contents of stores. Cells in a dict replace Spark's state, and a
driver's changelog topics those of a broker.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import twin_vectors
from twin_triggers import Cells, end_engines

from conformance import runner
from conformance.runner import Case
from stoatflow import Settings, Topology
from stoatflow._runtime import bridge
from stoatflow.spark.handover import rows, unsupported
from stoatflow.spark.handover.distribution import distributed, merged
from stoatflow.spark.twin import faithful, task
from stoatflow.spark.twin.parts import Part, cut
from stoatflow.spark.twin.resumed_task import ResumedTask, retentions
from stoatflow.spark.twin.running import pairs_of
from stoatflow.spark.twin.task_state import Change, TaskState, compacted, packed, unpacked

if TYPE_CHECKING:
    from stoatflow._runtime.bridge import Driver

Rows = twin_vectors.Rows


class Engine:
    """The application, which is stopped in the middle."""

    def __init__(self, case: Case, topology: Topology) -> None:
        pairs = pairs_of(runner.config(case))
        self.topology, self.case = topology, case
        self.driver: Driver = bridge.Driver(topology.plan, list(pairs), 1, 0)
        self.topics = {store: f"{dict(pairs)['application.id']}-{store}-changelog" for store in retentions(topology)}

    def run(self, inputs: list[dict[str, Any]]) -> Rows:
        made: Rows = []
        for one in inputs:
            headers = [(each["key"], each["value"]) for each in one["headers"]]
            self.driver.pipe(one["name"], 0, one["key"], one["value"], one["timestamp"], headers)
            number = itertools.count()
            for topic in self.case.data["outputs"]:
                for key, value, timestamp, output in self.driver.drain(topic):
                    place = b"\x01" + one["order"].to_bytes(8, "big") + next(number).to_bytes(4, "big")
                    made.append(
                        task.Row(
                            task.RECORD, topic, 0, None, key, value, timestamp, output or None, None, None, place
                        )
                    )  # fmt: skip
        return made

    def changelogs(self) -> dict[str, list[Change]]:
        return {
            store: [
                Change(store, key, value, at, packed(headers)) for key, value, at, headers in self.driver.drain(topic)
            ]
            for store, topic in self.topics.items()
        }

    def goes_on(self, before: dict[str, list[Change]], wanted: dict[str, list[Change]]) -> None:
        """Write the changelogs into its topics, and restore from them."""
        self.driver.hold()
        for store, how in retentions(self.topology).items():
            for key, value, at, headers in rows.to_write(before[store], wanted.get(store, []), {store: how}):
                self.driver.pipe(self.topics[store], 0, key, value, at, unpacked(headers))
        self.driver.crash()
        self.driver.restart(1)

    def stores(self, names: Any) -> Rows:
        found: Rows = []
        for name in names:
            for key, window, value, at in self.driver.store_rows(name):
                start, end = window or (None, None)
                found.append(task.Row(task.STORE, name, 0, None, key, value, at, None, start, end, None))
        return found


def run(case: Case, topology: Topology) -> Rows:
    """Run a vector: a third by the engine, a third by tasks, the rest by the engine."""
    faithful.check(topology, streaming=True)
    parts = cut(topology)
    inputs = twin_vectors.inputs(case)
    read = {one["name"]: 1 for one in inputs}
    unsupported.check(topology, parts, read, Settings({"application.id": "a"}, environ={}))
    first, second = len(inputs) // 3, 2 * len(inputs) // 3
    engine = Engine(case, topology)
    try:
        made = engine.run(inputs[:first])
        before = engine.changelogs()
        counts = dict.fromkeys(range(len(parts)), 1)
        found, wanted = on_spark(case, parts, counts, before, retentions(topology), range(first, second))
        engine.goes_on(before, wanted)
        made += found + engine.run(inputs[second:])
        return made + engine.stores(case.data["stores"])
    finally:
        engine.driver.close()
        end_engines()


def on_spark(
    case: Case,
    parts: list[Part],
    counts: dict[int, int],
    before: dict[str, list[Change]],
    how: Any,
    orders: range,
) -> tuple[Rows, dict[str, list[Change]]]:
    """Run a trigger with these records; return the output, and the contents of all stores after it."""
    cells = {part.number: Cells() for part in parts}
    for store, records in before.items():
        for number, _, some in distributed(parts, counts, store, compacted(records, how)):
            TaskState(cells[number], how).add(some, f"{store}")
    made: Rows = []
    for part in parts:
        tasks = ResumedTask("test", twin_vectors.work_of(part, case))
        taken = [(0, *record[1:]) for record in twin_vectors.records_of(part, case, made)]
        taken = sorted((r for r in taken if int.from_bytes(r[6][1:9], "big") in orders), key=lambda r: r[6])
        if taken:
            made += list(tasks.trigger(0, taken, TaskState(cells[part.number], tasks.retentions)))
    end_engines()
    return made, merged(parts, counts, lambda part: {0: TaskState(cells[part.number], how).rows()})
