"""Checks what can't be handed over between the engine and Spark, with the reasons.

Takes a topology, its parts on Spark, the number of partitions of its topics, the application's settings. Raises one
error with everything that is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stoatflow.errors import TopologyError
from stoatflow.plan import nodes
from stoatflow.settings import Settings
from stoatflow.spark.twin.parts import Part, topics_of
from stoatflow.spark.twin.schedules import schedules
from stoatflow.topology import Topology

_BEHIND = {"key_value": 0, "timestamped_key_value": 0, "versioned": 0, "window": 12, "session": 16}
"""Kinds of stores whose row keys contain the record's key: number of bytes after it, such as times and a sequence
number.
"""
_BEHIND_SUPPRESSED = {"time_windowed": 8, "session_windowed": 16}
_GENERATED = re.compile(r"\d{10}")
_NAME = "its name is a number, which is another one in a part of the topology: name"


def check(topology: Topology, parts: Sequence[Part], partitions: Mapping[str, int], settings: Settings) -> None:
    """Raise `TopologyError` that lists everything that can't be handed over."""
    refused = [
        *_settings(topology, settings),
        *_topics(topology, parts, partitions),
        *_stores(topology, parts),
        *_processors(topology),
        *(_several(topology, parts) if max(partitions.values(), default=1) > 1 else ()),
    ]
    if refused:
        listed = "\n".join(f"  - {problem}" for problem in dict.fromkeys(refused))
        raise TopologyError(
            f"this topology can't be handed over between the engine and Spark:\n{listed}",
            next_step="change what is listed; or let the other side read its input from the beginning, under another "
            "application.id and into topics of its own",
        )


def stores_of(topology: Topology) -> dict[str, dict[str, Any]]:
    """Return the stores of a topology's plan, by name."""
    return {store["name"]: store for store in json.loads(topology.plan.physical_json)["stores"]}


def behind_keys(topology: Topology) -> dict[str, int | None]:
    """Return, for each store, how many bytes follow a record's key in its rows; `None` if they don't contain it."""
    plan = json.loads(topology.plan.physical_json)
    found = {store["id"]: _BEHIND.get(store["kind"]["type"]) for store in plan["stores"]}
    for op in (node["op"] for node in plan["nodes"]):
        if op["op"] == "suppress":
            windowed = [size for name, size in _BEHIND_SUPPRESSED.items() if name in op["key"]]
            found[op["store"]] = windowed[0] if windowed else 0
    return {store["name"]: found[store["id"]] for store in plan["stores"]}


def clocks_of(topology: Topology) -> frozenset[str]:
    """Return the names of the stream times that a topology keeps."""
    return frozenset(clock["name"] for clock in json.loads(topology.plan.physical_json)["clocks"])


def _settings(topology: Topology, settings: Settings) -> Iterator[str]:
    optimized = str(settings.get("topology.optimization", "none") or "none").lower()
    if optimized == "all" or "reuse.ktable.source.topics" in optimized:
        for name, store in stores_of(topology).items():
            if store["source_changelog"] is not None:
                yield f"store {name}: topology.optimization keeps no changelog for it, which rows are read from"


def _topics(topology: Topology, parts: Sequence[Part], partitions: Mapping[str, int]) -> Iterator[str]:
    written = {node.topic for node in topology.nodes if isinstance(node, nodes.To) and node.topic is not None}
    for topic in sorted({topic for node in topology.nodes for topic in topics_of(node)} & written):
        yield f"topic {topic} is both written and read: Spark reads nothing of it, so what stands there would be lost"
    counts = {partitions[topic] for part in parts for topic in part.after if topic in partitions}
    timed = [part for part in parts if part.timed]
    if timed and len(counts) > 1:
        shown = ", ".join(f"{topic} {count}" for topic, count in sorted(partitions.items()))
        yield (
            f"{', '.join(timed[0].timed)}: goes by the time of each partition, and topics have different numbers of "
            f"them ({shown}), so that the tasks of both sides are not the same"
        )


def _stores(topology: Topology, parts: Sequence[Part]) -> Iterator[str]:
    whole, clocks = stores_of(topology), clocks_of(topology)
    found: set[str] = set()
    for part in parts:
        own = Topology(part.nodes)
        for name, store in stores_of(own).items():
            found.add(name)
            if store["kind"]["type"] == "timers":
                yield f"store {name} (timers): they fire by the engine's clocks, and are not carried over"
            elif store["named"] and not _same(store, whole.get(name)):
                yield f"store {name}: its rows are others here than there: say its serdes where it is made"
        for clock in sorted(clocks_of(own)):
            if clock not in clocks or (len(parts) > 1 and _GENERATED.search(clock)):
                yield f"stream time {clock}: {_NAME} the operator"
    for name, store in whole.items():
        # With a single part the numbers are the same.
        if not store["named"] and len(parts) > 1:
            yield f"store {name}: {_NAME} it"
        elif name not in found:
            yield f"store {name}: the twin doesn't keep it"


def _same(one: Mapping[str, Any], other: Mapping[str, Any] | None) -> bool:
    return other is not None and all(one[what] == other[what] for what in ("kind", "key", "value", "logged"))


def _processors(topology: Topology) -> Iterator[str]:
    for node in topology.nodes:
        made = getattr(node, "processor", None)
        if isinstance(made, nodes.ProcessorRef) and schedules(made.supplier):
            yield f"{made.display}: what it has scheduled is called by the engine's clocks, and is not carried over"


def _several(topology: Topology, parts: Sequence[Part]) -> Iterator[str]:
    """Yield what can't be split among several tasks."""
    for node in topology.nodes:
        if getattr(node, "stores", ()):
            yield (
                f"{node.line} {node.op} with stores: a row of its store doesn't say which task it belongs to; with "
                "one partition there is only one"
            )
        if isinstance(node, nodes.EmitStrategyNode) and node.strategy == "on_window_close":
            yield (
                f"{node.line} emit_strategy on_window_close: which windows still wait is noted by partition on one "
                "side and not on the other; with one partition there is nothing to note"
            )
        if isinstance(node, nodes.Deduplicate) and node.function is not None:
            yield f"{node.line} deduplicate by a function: rows have what it returns as their key, not the record's key"
    for part in parts:
        if part.how == "one":
            continue
        for name, behind in behind_keys(Topology(part.nodes)).items():
            if behind is None:
                yield (
                    f"store {name}: its rows stand by time, and don't say which task they belong to; with one "
                    "partition there is only one"
                )
