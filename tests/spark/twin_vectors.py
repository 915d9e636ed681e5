"""The recorded vectors of Kafka Streams on the batch twin: how they run there, and how results are compared.

Gives: parts run in this process or on Spark, and differences.
Never: compares with anything but the vector.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from conformance import recovery, runner
from conformance.runner import Case
from stoatflow import Topology, Windowed
from stoatflow.serdes.planned import planned
from stoatflow.spark.twin import faithful, task
from stoatflow.spark.twin.parts import KEYS, Part, cut
from stoatflow.spark.twin.running import pairs_of
from stoatflow.windowed import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = list[task.Row]
TASKS = 3


def inputs(case: Case) -> list[dict[str, Any]]:
    """Return the records of a vector as bytes, numbered in the order in which they were piped."""
    serdes = {t: (runner.serde(s["key"]), runner.serde(s["value"])) for t, s in case.data["topics"].items()}
    found = []
    for order, event in enumerate(event for event in case.data["inputs"] if "topic" in event):
        key, value = serdes[event["topic"]]
        found.append(
            {
                "name": event["topic"],
                "key": None if event["key"] is None else key.serialize(event["key"]),
                "value": None if event["value"] is None else value.serialize(event["value"]),
                "timestamp": event["timestamp"],
                "headers": [
                    {"key": name, "value": None if text is None else text.encode()}
                    for name, text in event.get("headers", [])
                ],
                "order": order,
            }
        )
    return found


def has_clock(case: Case) -> bool:
    """Whether the machine's clock advances in it; a batch has no equivalent."""
    return any("advance_wall_clock_ms" in event for event in case.data["inputs"])


def run_here(case: Case, topology: Topology) -> Rows:
    """Run the parts in this process, with Python's sort instead of Spark's."""
    faithful.check(topology)
    made: Rows = []
    for part in cut(topology):
        made += list(task.outputs(work_of(part, case), iter(records_of(part, case, made))))
    return made


def work_of(part: Part, case: Case) -> task.Work:
    """Return a worker's description of a part."""
    return task.Work(
        part.number,
        part.nodes,
        pairs_of(runner.config(case)),
        part.keep_null,
        part.sinks,
        part.dynamic,
        part.stores,
        part.batched,
        None,
    )


def records_of(part: Part, case: Case, made: Rows) -> list[tuple[Any, ...]]:
    """Return the records of a part: inputs, and the results of earlier parts."""

    def of(key: bytes | None) -> int:
        return task.murmur2(key or b"") % TASKS if part.how == KEYS else 0

    rows = [
        (
            of(r["key"]),
            r["name"],
            r["key"],
            r["value"],
            r["timestamp"],
            r["headers"],
            b"\x01" + r["order"].to_bytes(8, "big"),
            False,
        )
        for r in inputs(case)
    ]
    found = [row for row in rows if row[1] in part.topics]
    for row in rows:
        if row[1] in part.globals:
            found += [(at, *row[1:6], b"\0" + row[6], False) for at in range(TASKS if part.how == KEYS else 1)]
    for hop in made:
        if hop.kind == task.HOP and hop.name in part.hops_in:
            headers = [{"key": name, "value": value} for name, value in hop.headers or ()]
            found.append((of(hop.key), hop.name, hop.key, hop.value, hop.timestamp, headers, hop.place, False))
    return sorted(found, key=lambda row: (row[0], row[6]))


def run_on_spark(spark: SparkSession, case: Case, topology: Topology) -> Rows:
    """Run the vector as a user would."""
    from stoatflow.spark.twin.running import run_batch

    with run_batch(topology, frames(spark, case, topology), config=runner.config(case), tasks=TASKS) as result:
        return [_row(row.asDict(recursive=True)) for made in result._made for row in made.collect()]


def _row(row: dict[str, Any]) -> task.Row:
    row["headers"] = [(h["key"], h["value"] and bytes(h["value"])) for h in row["headers"] or ()] or None
    for name in ("key", "value", "place"):
        row[name] = None if row[name] is None else bytes(row[name])
    return task.Row(**row)


def frames(spark: SparkSession, case: Case, topology: Topology) -> dict[str, DataFrame]:
    """Return the inputs as DataFrames."""
    read = {topic for part in cut(topology) for topic in (*part.topics, *part.globals)}
    schema = "key binary, value binary, timestamp long, headers array<struct<key: string, value: binary>>, order long"
    rows = inputs(case)
    return {
        topic: spark.createDataFrame(
            [
                (r["key"], r["value"], r["timestamp"], [(h["key"], h["value"]) for h in r["headers"]], r["order"])
                for r in rows
                if r["name"] == topic
            ],
            schema,
        )
        for topic in read
    }


def differences(case: Case, topology: Topology, rows: Rows) -> Iterator[str]:
    """The differences from the recording: records by key in order, and final stores."""
    topics = case.data["topics"]
    found: dict[str, list[dict[str, Any]]] = {topic: [] for topic in case.data["outputs"]}
    for row in sorted((row for row in rows if row.kind == task.RECORD), key=lambda row: row.place or b""):
        key, value = (runner.serde(topics[row.name][side]) for side in ("key", "value"))
        record = runner.windowed(None if row.key is None else key.deserialize(row.key))
        record |= {"value": None if row.value is None else value.deserialize(row.value), "timestamp": row.timestamp}
        if row.headers:
            record["headers"] = [[name, None if data is None else data.decode()] for name, data in row.headers]
        found.setdefault(row.name, []).append(record)
    for topic, records in case.data["outputs"].items():
        wanted = runner.same_per_key(recovery.without_input(records))
        got = runner.same_per_key(found[topic])
        if "unordered_per_input" in case.data.get("flags", []):
            wanted, got = ({key: sorted(each) for key, each in side.items()} for side in (wanted, got))
        if wanted != got:
            yield f"records of {topic}"
    yield from _stores(case, topology, rows)


def _stores(case: Case, topology: Topology, rows: Rows) -> Iterator[str]:
    plan = {store["name"]: store for store in json.loads(topology.plan.physical_json)["stores"]}
    for name, entries in case.data["stores"].items():
        key, value = (planned(plan[name][side], topology.custom_serde) for side in ("key", "value"))
        kept = [row for row in rows if row.kind == task.STORE and row.name == name]
        kept.sort(key=lambda row: (row.key, row.start or 0, row.end or 0))
        got = []
        for row in kept:
            window = None if row.start is None else Window(row.start, row.end)
            inner = key.deserialize(row.key)
            shown = runner.windowed(inner if window is None else Windowed(inner, window))
            got.append([*shown.values(), value.deserialize(row.value)])
        if runner.lines(got) != runner.lines(entries):
            yield f"store {name}"
        stamps = case.data["store_timestamps"].get(name)
        if stamps is not None and [row.timestamp for row in kept] != stamps:
            yield f"timestamps of {name}"


def compare_case(case: Case, run: Callable[[Case, Topology], Rows]) -> list[str]:
    """Return the differences of a vector."""
    topology = runner.build(case)
    return list(differences(case, topology, run(case, topology)))


def by_topology(cases: list[Case]) -> Iterator[tuple[str, list[Case]]]:
    """Group vectors by their topology."""
    for place, found in itertools.groupby(sorted(cases, key=lambda case: case.place), key=lambda case: case.place):
        yield place, list(found)
