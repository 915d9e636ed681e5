"""Builds the topology of a vector with the public DSL, runs it in the test driver, and compares.

Takes the JSON files beside it (their format: README.md), gives cases and differences. Says which
features a case needs that don't exist yet, so that nothing is left out silently.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.functions import NATIVE, PYTHON
from stoatflow import Expression, Grouped, Materialized, Serde, Serdes, StreamsBuilder, Topology
from stoatflow.testing import TopologyTestDriver
from stoatflow.testing.topics import header_text

HERE = Path(__file__).parent
_SERDES: dict[str, Callable[[], Serde[Any]]] = {"string": Serdes.string, "long": Serdes.int64, "json": Serdes.json}

# What each operator gives, for every kind of parent it exists for. The rest is "not yet".
_RESULTS: dict[str, dict[str | None, str]] = {
    "stream": {None: "stream"},
    "table": {None: "table"},
    **{
        op: {"stream": "stream"}
        for op in (
            "filter", "filter_not", "map", "map_values", "flat_map", "flat_map_values", "select_key", "peek", "merge",
        )
    },
    "group_by": {"stream": "grouped"},
    "group_by_key": {"stream": "grouped"},
    **{op: {"grouped": "table"} for op in ("count", "reduce", "aggregate")},
    "to_stream": {"table": "stream"},
    "to": {"stream": "end"},
}  # fmt: skip
_NO_FIELDS = {
    "timestamp_extractor": "timestamp extractor",
    "topic_fn": "topic chosen by a function",
    "versioned_history_ms": "versioned store",
    "retention_ms": "retention",
}


@dataclass(frozen=True)
class Case:
    """One vector."""

    path: Path
    data: dict[str, Any] = field(repr=False)

    @property
    def name(self) -> str:
        """`word_count/hand`."""
        return str(self.data["name"])

    @property
    def topology_name(self) -> str:
        """`word_count`."""
        return self.name.partition("/")[0]

    @property
    def missing(self) -> list[str]:
        """Features that it needs and that don't exist yet."""
        return sorted(set(_missing(self.data["topology"])))

    def steps(self, op: str | None = None) -> list[dict[str, Any]]:
        """Its topology's steps."""
        return [step for step in self.data["topology"] if op in (None, step["op"])]


def cases() -> list[Case]:
    """Give all vectors."""
    paths = sorted((HERE / "vectors").glob("*.json"))
    return [Case(path, json.loads(path.read_text("utf-8"))) for path in paths]


def _missing(steps: list[dict[str, Any]]) -> Iterator[str]:
    kinds: dict[str, str] = {}
    for step in steps:
        op, parent = step["op"], kinds.get(step.get("from", ""))
        if parent == "unknown":
            parent = None if op not in _RESULTS else next(iter(_RESULTS[op]))
        results = _RESULTS.get(op, {})
        if parent in results:
            kinds[step["id"]] = results[parent]
        else:
            kinds[step["id"]] = "unknown"
            known = f"{op} of a {parent}" if op in _RESULTS else op
            yield known
        yield from (_NO_FIELDS[name] for name in {**step, **step.get("materialized", {})} if name in _NO_FIELDS)
        for branch in [*step.get("branches", []), step.get("default", {})]:
            kinds[branch.get("id", "")] = "unknown"


def serde(name: str) -> Serde[Any]:
    """Give the serde that a vector names."""
    return _SERDES[name]()


def build(case: Case, *, native: bool = False) -> Topology:
    """Build its topology; with `native`, functions that an expression equals are that expression."""
    builder = StreamsBuilder()
    made: dict[str, Any] = {}
    for step in case.steps():
        made[step["id"]] = _Step(step, made, native).apply(builder)
    return builder.build()


@dataclass(frozen=True)
class _Step:
    step: dict[str, Any]
    made: dict[str, Any]
    native: bool

    def fn(self, name: str) -> Callable[..., Any] | Expression:
        registered = self.step[name]
        if self.native and registered in NATIVE:
            return NATIVE[registered]
        return PYTHON[registered]

    def serdes(self) -> dict[str, Any]:
        return {"key": serde(self.step["key_serde"]), "value": serde(self.step["value_serde"])}

    def store(self) -> Materialized | None:
        kept = self.step.get("materialized")
        return kept and Materialized(kept.get("store"), serde(kept["key_serde"]), serde(kept["value_serde"]))

    def grouped(self) -> Grouped[Any, Any]:
        return Grouped(**self.serdes(), name=self.step.get("name"))

    def apply(self, builder: StreamsBuilder) -> Any:
        step, op, name = self.step, self.step["op"], self.step.get("name")
        parent = self.made.get(step.get("from", ""))
        sources: dict[str, Callable[[], Any]] = {
            "stream": lambda: builder.stream(step["topics"], name=name, **self.serdes()),
            "table": lambda: builder.table(step["topic"], store=self.store(), name=name, **self.serdes()),
        }
        if op in sources:
            return sources[op]()
        method = getattr(parent, op)
        calls: dict[str, Callable[[], Any]] = {
            "filter": lambda: method(self.fn("predicate"), name=name),
            "filter_not": lambda: method(self.fn("predicate"), name=name),
            # The vectors come from the "WithKey" forms; an expression sees the key anyway.
            "map_values": lambda: method(self.fn("fn"), with_key=True, name=name),
            "flat_map_values": lambda: method(self.fn("fn"), with_key=True, name=name),
            "merge": lambda: method(self.made[step["other"]], name=name),
            "group_by": lambda: method(self.fn("fn"), grouped=self.grouped()),
            "group_by_key": lambda: method(grouped=self.grouped()),
            "count": lambda: method(store=self.store(), name=name),
            "reduce": lambda: method(self.fn("reducer"), store=self.store(), name=name),
            "aggregate": lambda: method(self.fn("initializer"), self.fn("aggregator"), store=self.store(), name=name),
            "to_stream": lambda: method(*([self.fn("fn")] if "fn" in step else []), name=name),
            "to": lambda: method(step["topic"], name=name, **self.serdes()),
        }
        return calls.get(op, lambda: method(self.fn("fn"), name=name))()


@dataclass(frozen=True)
class Found:
    """What a run gave, in the form of a vector."""

    outputs: dict[str, list[dict[str, Any]]]
    stores: dict[str, list[list[Any]]]
    store_timestamps: dict[str, list[int]]


def run(case: Case, topology: Topology, *, lanes: int = 1, crash_after: int | None = None) -> Found:
    """Run its inputs; with `crash_after`, crash and recover after that many of them."""
    topics: dict[str, dict[str, str]] = case.data["topics"]
    outputs: dict[str, list[dict[str, Any]]] = {topic: [] for topic in case.data["outputs"]}
    with TopologyTestDriver(topology, {"application.id": "golden"}, lanes=lanes) as driver:
        inputs = {t: driver.input(t, serde(s["key"]), serde(s["value"])) for t, s in topics.items()}
        readers = {t: driver.output(t, serde(topics[t]["key"]), serde(topics[t]["value"])) for t in outputs}
        for i, event in enumerate(case.data["inputs"]):
            if i == crash_after:
                driver.crash()
                driver.restart()
            if "advance_wall_clock_ms" in event:
                driver.advance(event["advance_wall_clock_ms"])
            else:
                headers = [(name, value) for name, value in event.get("headers", [])]
                inputs[event["topic"]].pipe(event["key"], event["value"], timestamp=event["timestamp"], headers=headers)
            for topic, reader in readers.items():
                for record in reader:
                    made = {"key": record.key, "value": record.value, "timestamp": record.timestamp}
                    if record.headers:
                        made["headers"] = [list(header) for header in header_text(record.headers)]
                    outputs[topic].append(made | {"i": i})
        stores = {name: driver.store(name).entries() for name in case.data["stores"]}
    return Found(
        outputs,
        {name: [[entry.key, entry.value] for entry in entries] for name, entries in stores.items()},
        {name: [entry.timestamp for entry in entries] for name, entries in stores.items()},
    )


def lines(records: list[Any]) -> list[str]:
    """Give one text per record: JSON tells `1` from `true` and from `"1"`, Python's `==` does not always."""
    return [json.dumps(record, sort_keys=True, ensure_ascii=False) for record in records]


def same_per_key(records: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Give the records by key: what must not depend on the number of lanes."""
    by_key: dict[str, list[str]] = {}
    for record in records:
        by_key.setdefault(json.dumps(record["key"], sort_keys=True), []).extend(lines([record]))
    return by_key
