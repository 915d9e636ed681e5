"""Checks that a topology's results don't depend on the number of lanes.

Takes a topology and its inputs, runs them in the test driver once for each number of lanes, all inputs in one epoch, so
that lanes work at the same time; raises `AssertionError` if a topic or a store differs. The order of records of
different keys is not compared: it is defined with one lane only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from stoatflow.durations import Timestamp
from stoatflow.settings import Settings
from stoatflow.testing.driver import TopologyTestDriver
from stoatflow.testing.record import Record
from stoatflow.testing.store import Entry
from stoatflow.topology import Topology

Input: TypeAlias = "tuple[str, Any, Any, Timestamp]"
_Raw: TypeAlias = "Record[bytes, bytes]"
_Rows: TypeAlias = "dict[str, list[str]]"

# Other stores hold pending state, in internal rows.
_SHOWN = {"key_value", "timestamped_key_value", "window", "session", "versioned"}


def any_lanes(
    topology: Topology,
    inputs: Iterable[Input],
    *,
    lanes: Iterable[int] = (1, 2, 4, 16, 64),
    config: Settings | Mapping[str, object] | None = None,
) -> dict[str, list[_Raw]]:
    """Run `inputs`, each `(topic, key, value, timestamp)`, with each number of lanes: all results must be the same.

    Keys and values are written with the serdes of the topology's sources. Returns the records of each output topic, as
    bytes.

    >>> from stoatflow.testing import any_lanes
    >>> builder = sf.StreamsBuilder()
    >>> builder.stream("orders", key=str, value=str).map_values(str.upper).to("shouted", value=str)
    >>> outputs = any_lanes(builder.build(), [("orders", "ann", "tea", 0)])
    >>> outputs["shouted"][0].value
    b'TEA'
    """
    given = list(inputs)
    first: tuple[int, dict[str, list[_Raw]], dict[str, _Rows]] | None = None
    for count in lanes:
        outputs, stores = _run(topology, given, count, config)
        if first is None:
            first = (count, outputs, stores)
            continue
        few, wanted, kept = first
        for topic in sorted(wanted.keys() | outputs.keys()):
            _same(f"topic '{topic}'", (few, _by_key(wanted.get(topic, []))), (count, _by_key(outputs.get(topic, []))))
        for store in kept:
            _same(f"store '{store}'", (few, kept[store]), (count, stores[store]))
    if first is None:
        raise ValueError("any_lanes was given no number of lanes. Next: write lanes=(1, 4)")
    return first[1]


def _run(
    topology: Topology, inputs: list[Input], lanes: int, config: Settings | Mapping[str, object] | None
) -> tuple[dict[str, list[_Raw]], dict[str, _Rows]]:
    plan = json.loads(topology.plan.physical_json)
    with TopologyTestDriver(topology, config, lanes=lanes) as driver:
        serdes = {topic: (source["key"], source["value"]) for source in plan["sources"] for topic in source["topics"]}
        topics = {topic: driver.input(topic, *(driver.serde(spec) for spec in pair)) for topic, pair in serdes.items()}
        with driver.epoch():
            for topic, key, value, timestamp in inputs:
                if topic not in topics:
                    known = ", ".join(sorted(topics))
                    raise ValueError(f"the topology reads no topic '{topic}'. Next: use one of: {known}")
                topics[topic].pipe(key, value, timestamp)
        outputs = {topic: driver.output(topic).read_all() for topic in driver.produced_topics}
        shown = (store["name"] for store in plan["stores"] if store["kind"]["type"] in _SHOWN)
        stores = {name: _rows(driver.store(name).entries()) for name in shown}
    return outputs, stores


def _by_key(records: list[_Raw]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for record in records:
        shown = f"{record.value!r} at {record.timestamp}" + (f" with {record.headers}" if record.headers else "")
        found.setdefault(repr(record.key), []).append(shown)
    return found


def _rows(entries: list[Entry]) -> _Rows:
    found: _Rows = {}
    for entry in entries:
        found.setdefault(repr(entry.key), []).append(f"{entry.value!r} at {entry.timestamp}")
    return found


def _same(where: str, wanted: tuple[int, dict[str, list[str]]], found: tuple[int, dict[str, list[str]]]) -> None:
    for key in sorted(wanted[1].keys() | found[1].keys()):
        one, other = wanted[1].get(key, []), found[1].get(key, [])
        if one != other:
            raise AssertionError(
                f"the {where} depends on the number of lanes, at key {key}:\n"
                f"  {wanted[0]} lanes: {one}\n  {found[0]} lanes: {other}\n"
                "Next: see docs/adr/0006 for what depends on it by design; anything else is a bug of StoatFlow"
            )
