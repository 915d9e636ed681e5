"""Builds the topology of a vector with the public DSL, runs it in the test driver, and compares.

Takes the JSON files beside it (their format: README.md), returns cases and differences.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.functions import NATIVE, PYTHON
from stoatflow import (
    Branched,
    Buffer,
    CountWindows,
    EmitStrategy,
    Expression,
    GlobalKTable,
    Grouped,
    Joined,
    JoinWindows,
    KTable,
    Materialized,
    Serde,
    Serdes,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    ValueTransformer,
    Windowed,
)
from stoatflow.testing import TopologyTestDriver
from stoatflow.testing.topics import header_text

HERE = Path(__file__).parent
_SERDES: dict[str, Callable[[], Serde[Any]]] = {"string": Serdes.string, "long": Serdes.int64, "json": Serdes.json}

_WINDOWS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "tumbling": lambda w: TimeWindows(ms(w["size_ms"]), grace=ms(w["grace_ms"])),
    "count": lambda w: CountWindows(w["records"]),
    "hopping": lambda w: TimeWindows(ms(w["size_ms"]), advance=ms(w["advance_ms"]), grace=ms(w["grace_ms"])),
    "sliding": lambda w: SlidingWindows(ms(w["difference_ms"]), grace=ms(w["grace_ms"])),
    "session": lambda w: SessionWindows(ms(w["gap_ms"]), grace=ms(w["grace_ms"])),
}
_STORES: dict[str, Callable[[dict[str, Any], dict[str, Any]], Any]] = {
    "kv": lambda s, serdes: Stores.persistent_key_value(s["store"], **serdes),
    "timestamped_kv": lambda s, serdes: Stores.persistent_timestamped_key_value(s["store"], **serdes),
    "window": lambda s, serdes: Stores.persistent_window(
        s["store"], retention=ms(s["retention_ms"]), size=ms(s["window_size_ms"]), **serdes
    ),
    "session": lambda s, serdes: Stores.persistent_session(s["store"], retention=ms(s["retention_ms"]), **serdes),
    "versioned": lambda s, serdes: Stores.persistent_versioned(
        s["store"], history_retention=ms(s["versioned_history_ms"]), **serdes
    ),
}
EMIT_INTERVALS = (
    "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__",
    "__emit.interval.ms.kstreams.windowed.aggregation__",
)


class Transformer(ValueTransformer[Any, Any, Any]):
    """A function as a transformer of values."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn = fn

    def transform(self, key: Any, value: Any) -> Any:
        return self._fn(key, value)


def ms(count: int) -> str:
    """Return a duration as a user writes it."""
    return f"{count}ms"


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
    def place(self) -> str:
        """`aggregate/word_count`: area and topology."""
        return f"{self.data['area']}/{self.topology_name}"

    def steps(self, op: str | None = None) -> list[dict[str, Any]]:
        """Its topology's steps."""
        return [step for step in self.data["topology"] if op in (None, step["op"])]


def cases() -> list[Case]:
    """All vectors."""
    paths = sorted((HERE / "vectors").glob("*.json"))
    return [Case(path, json.loads(path.read_text("utf-8"))) for path in paths]


def serde(spec: str | dict[str, Any]) -> Serde[Any]:
    """Return the serde that a vector names."""
    if isinstance(spec, str):
        return _SERDES[spec]()
    if "time_windowed" in spec:
        return Serdes.time_windowed(serde(spec["time_windowed"]), ms(spec["size_ms"]))
    return Serdes.session_windowed(serde(spec["session_windowed"]))


def build(case: Case, *, native: bool = False) -> Topology:
    """Build its topology; with `native`, expressions replace equivalent functions."""
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
        return kept and Materialized(
            kept.get("store"),
            serde(kept["key_serde"]),
            serde(kept["value_serde"]),
            retention=ms(kept["retention_ms"]) if "retention_ms" in kept else None,
            history=ms(kept["versioned_history_ms"]) if "versioned_history_ms" in kept else None,
        )

    def grouped(self) -> Grouped[Any, Any]:
        return Grouped(**self.serdes(), name=self.step.get("name"))

    def supplier(self) -> Callable[[], Any]:
        # Imported here, because most vectors don't need the Processor API.
        from conformance.processors import PROCESSORS

        make, stores = PROCESSORS[self.step["processor"]], self.step.get("stores", ())
        return lambda: make(*stores)

    def timestamp(self) -> Callable[..., int] | None:
        name = self.step.get("timestamp_extractor")
        return None if name is None else PYTHON[name]

    def suppressed(self) -> Suppressed:
        step = self.step
        given = step.get("buffer", {})
        given = {name: given[name] for name in ("max_records", "max_bytes") if name in given}
        bounds = Buffer(**given, when_full="emit_early") if given else None
        if step["until"] == "window_closes":
            return Suppressed.until_window_closes(bounds)
        return Suppressed.until_time_limit(ms(step["time_limit_ms"]), bounds)

    def join(self, parent: Any) -> Any:
        step, name = self.step, self.step.get("name")
        other, method, joiner = self.made[step["other"]], getattr(parent, step["op"]), PYTHON[step["joiner"]]
        if isinstance(other, GlobalKTable):
            return method(other, self.fn("key_fn"), joiner, with_key=True, name=name)
        if isinstance(parent, KTable):
            foreign = {"foreign_key": self.fn("fk_fn"), "with_key": True} if "fk_fn" in step else {}
            # Joiners of tables get no key; the registry's functions for tables ignore it.
            return method(
                other, lambda left, right: joiner(None, left, right), store=self.store(), name=name, **foreign
            )
        serdes = [serde(step[side]) for side in ("key_serde", "value_serde", "other_value_serde")]
        if isinstance(other, KTable):
            grace = ms(step["grace_ms"]) if "grace_ms" in step else None
            return method(other, joiner, joined=Joined(*serdes, name=name, grace=grace), with_key=True)
        w = step["window"]
        window = JoinWindows(before=ms(w["before_ms"]), after=ms(w["after_ms"]), grace=ms(w["grace_ms"]))
        joined = StreamJoined(*serdes, name=name, store_name=step.get("store_name"))
        return method(other, joiner, window, joined=joined, with_key=True)

    def split(self, parent: Any) -> None:
        """Its branches are created under their own ids."""
        step = self.step
        split = parent.split(name=step.get("name"))
        for branch in step["branches"]:
            predicate = _Step(branch, self.made, self.native).fn("predicate")
            split = split.branch(predicate, Branched(branch.get("name"), consumer=self.keep(branch["id"])))
        if "default" in step:
            split.default_branch(Branched(step["default"].get("name"), consumer=self.keep(step["default"]["id"])))
        else:
            split.no_default_branch()

    def keep(self, branch: str) -> Callable[[Any], None]:
        return lambda stream: self.made.update({branch: stream})

    def apply(self, builder: StreamsBuilder) -> Any:
        step, op, name = self.step, self.step["op"], self.step.get("name")
        parent = self.made.get(step.get("from", ""))
        sources: dict[str, Callable[[], Any]] = {
            "stream": lambda: builder.stream(step["topics"], name=name, timestamp=self.timestamp(), **self.serdes()),
            "table": lambda: builder.table(step["topic"], store=self.store(), name=name, **self.serdes()),
            "global_table": lambda: builder.global_table(step["topic"], store=self.store(), name=name, **self.serdes()),
            "state_store": lambda: builder.add_state_store(_STORES[step["kind"]](step, self.serdes())),
            "split": lambda: self.split(parent),
            "join": lambda: self.join(parent),
            "left_join": lambda: self.join(parent),
            "outer_join": lambda: self.join(parent),
        }
        if op in sources:
            return sources[op]()
        method = getattr(parent, op)
        kept = {"store": self.store()} if "materialized" in step else {}
        calls: dict[str, Callable[[], Any]] = {
            "filter": lambda: method(self.fn("predicate"), name=name, **kept),
            "filter_not": lambda: method(self.fn("predicate"), name=name, **kept),
            # The vectors were recorded with the "WithKey" forms; an expression can read the key anyway.
            "map_values": lambda: method(self.fn("fn"), with_key=True, name=name, **kept),
            "flat_map_values": lambda: method(self.fn("fn"), with_key=True, name=name),
            "transform_values": lambda: method(lambda: Transformer(PYTHON[step["fn"]]), name=name),
            "merge": lambda: method(self.made[step["other"]], name=name),
            "repartition": lambda: method(name=name, **self.serdes()),
            "to_table": lambda: method(store=self.store(), name=name),
            "group_by": lambda: method(self.fn("fn"), grouped=self.grouped()),
            "group_by_key": lambda: method(grouped=self.grouped()),
            "windowed_by": lambda: method(_WINDOWS[step["window"]["type"]](step["window"])),
            "emit_strategy": lambda: method(EmitStrategy(step["strategy"])),
            "cogroup": lambda: method(*self.others(), self.fn("aggregator")),
            "count": lambda: method(store=self.store(), name=name),
            "reduce": lambda: method(*self.fns("reducer", "adder", "subtractor"), store=self.store(), name=name),
            "aggregate": lambda: method(
                *self.fns("initializer", "aggregator", "adder", "subtractor", "merger"), store=self.store(), name=name
            ),
            "suppress": lambda: method(self.suppressed(), name=name),
            "process": lambda: method(self.supplier(), stores=step.get("stores", ()), name=name),
            "process_values": lambda: method(self.supplier(), stores=step.get("stores", ()), name=name),
            "to_stream": lambda: method(*self.fns("fn"), name=name),
            "to": lambda: method(self.topic(), name=name, **self.serdes()),
        }
        return calls.get(op, lambda: method(self.fn("fn"), name=name))()

    def fns(self, *names: str) -> list[Any]:
        return [self.fn(name) for name in names if name in self.step]

    def others(self) -> list[Any]:
        return [self.made[self.step["other"]]] if "other" in self.step else []

    def topic(self) -> Any:
        return PYTHON[self.step["topic_fn"]] if "topic_fn" in self.step else self.step["topic"]


@dataclass(frozen=True)
class Found:
    """The results of a run, in the form of a vector."""

    outputs: dict[str, list[dict[str, Any]]]
    stores: dict[str, list[list[Any]]]
    store_timestamps: dict[str, list[int]]
    versioned_lookups: dict[str, list[list[Any]]]


def config(case: Case) -> dict[str, object]:
    """Return the settings that a vector was recorded with."""
    recorded = case.data["config"]
    return {
        "application.id": "golden",
        # Half of the recorded tables have no name, as Kafka Streams allows.
        "ensure.explicit.naming": False,
        "statestore.cache.max.bytes": recorded["cache_max_bytes"],
        **dict.fromkeys(EMIT_INTERVALS, recorded["emit_interval_ms"]),
        "topology.optimization": recorded.get("optimization", "none"),
    }


def windowed(key: Any) -> dict[str, Any]:
    """Return a record's key, and its window if it has one."""
    if isinstance(key, Windowed):
        return {"key": key.key, "window": {"start": key.window.start, "end": key.window.end}}
    return {"key": key}


def run(case: Case, topology: Topology, *, lanes: int = 1, crash_after: int | None = None) -> Found:
    """Run its inputs; with `crash_after`, crash and recover after that many of them."""
    topics: dict[str, dict[str, Any]] = case.data["topics"]
    outputs: dict[str, list[dict[str, Any]]] = {topic: [] for topic in case.data["outputs"]}
    with TopologyTestDriver(topology, config(case), lanes=lanes) as driver:
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
                    made = windowed(record.key) | {"value": record.value, "timestamp": record.timestamp}
                    if record.headers:
                        made["headers"] = [list(header) for header in header_text(record.headers)]
                    outputs[topic].append(made | {"i": i})
        return Found(outputs, *state(case, driver))


def state(case: Case, driver: TopologyTestDriver) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the final stores in the form of a vector: contents, timestamps, looked up versions."""
    entries = {name: driver.store(name).entries() for name in case.data["stores"]}
    lookups = {
        name: [[key, as_of, version(driver.store(name), key, as_of)] for key, as_of, _ in wanted]
        for name, wanted in case.data.get("versioned_lookups", {}).items()
    }
    return (
        {name: [[*windowed(e.key).values(), e.value] for e in found] for name, found in entries.items()},
        {name: [e.timestamp for e in entries[name]] for name in case.data["store_timestamps"]},
        lookups,
    )


def version(store: Any, key: Any, as_of: int) -> dict[str, Any] | None:
    """Return the version of a versioned store at a time."""
    found = store.get(key, as_of=as_of)
    return found and {"value": found.value, "valid_from": found.timestamp, "valid_to": found.valid_to}


def lines(records: list[Any]) -> list[str]:
    """One text per record: JSON distinguishes `1` from `true` and from `"1"`, Python's `==` does not always."""
    return [json.dumps(record, sort_keys=True, ensure_ascii=False) for record in records]


def same_per_key(records: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The records by key, which must not depend on the number of lanes."""
    by_key: dict[str, list[str]] = {}
    for record in records:
        by_key.setdefault(json.dumps([record["key"], record.get("window")], sort_keys=True), []).extend(lines([record]))
    return by_key
