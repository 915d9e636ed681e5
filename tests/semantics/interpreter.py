"""Runs a topology in the vectors' step format over a list of inputs, written to be obviously right.

Takes the JSON of a vector (or one made up by a test): topology, inputs, config. Returns outputs per topic in order,
and final stores, in the vectors' form. `build.py` turns steps into the graph; this module feeds it and records the
results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from semantics.build import Builder
from semantics.nodes import World
from semantics.stores import KeyValueStore, SessionStore, VersionedStore, WindowStore
from semantics.values import Record, Windowed

Json = dict[str, Any]


@dataclass
class Result:
    """The results."""

    outputs: dict[str, list[Json]]
    stores: dict[str, list[list[Any]]]
    store_timestamps: dict[str, list[int]]
    built: Builder

    def versioned_lookup(self, store: str, key: Any, as_of: int) -> Json | None:
        """The version of a versioned store at a time."""
        kept = self.built.stores[store]
        assert isinstance(kept, VersionedStore)
        found = kept.get_version(key, as_of)
        # The end of a version is not reported: stores for users always leave it out.
        return found and {"value": found.value, "valid_from": found.valid_from, "valid_to": None}


def interpret(
    topology: list[Json],
    inputs: list[Json],
    config: Json | None = None,
    *,
    order: str = "earliest",
    punctuate_after: str = "records",
    one_task: bool = True,
) -> Result:
    """Run it.

    `order` is how to choose among internal topics: earliest, first, last (by name), made (in the topology's order),
    or as the first; with keys and keys_back, waiting records of a topic are taken in key order. `one_task`: as in
    Kafka Streams' test driver, the whole topology has one stream time.
    """
    interval = (config or {}).get("emit_interval_ms", 0)
    world = World(emit_interval_ms=interval, order=order, punctuate_after=punctuate_after, one_task=one_task)
    built = Builder(world)
    for step in topology:
        built.add(step)
    for i, event in enumerate(inputs):
        world.event = i
        if "advance_wall_clock_ms" in event:
            world.advance(event["advance_wall_clock_ms"])
        else:
            headers = tuple((name, value) for name, value in event.get("headers", []))
            world.pipe(event["topic"], Record(event["key"], event["value"], event["timestamp"], headers))
    outputs = {topic: [shown(i, record) for i, record in records] for topic, records in world.outputs.items()}
    found = {name: entries(store) for name, store in built.stores.items()}
    return Result(
        outputs,
        {name: [entry for entry, _ in kept] for name, kept in found.items()},
        {name: [at for _, at in kept] for name, kept in found.items() if keeps_times(built.stores[name])},
        built,
    )


def shown(i: int, record: Record) -> Json:
    """An output in the vectors' form."""
    made: Json = {"key": record.key, "value": record.value, "timestamp": record.timestamp, "i": i}
    if isinstance(record.key, Windowed):
        window = record.key.window
        made |= {"key": record.key.key, "window": {"start": window.start, "end": window.end}}
    if record.headers:
        made["headers"] = [list(header) for header in record.headers]
    return made


def keeps_times(store: Any) -> bool:
    """Whether the vectors list its timestamps."""
    return isinstance(store, VersionedStore) or getattr(store, "stamped", False)


def entries(store: Any) -> list[tuple[list[Any], int]]:
    """A store's contents in the vectors' form, with timestamps."""
    if isinstance(store, KeyValueStore | VersionedStore):
        return [([key, kept.value], kept.timestamp) for key, kept in store.items()]
    if isinstance(store, WindowStore):
        return [(windowed(key, kept.value), kept.timestamp) for key, kept in store.items()]
    assert isinstance(store, SessionStore)
    return [(windowed(key, value), -1) for key, value in store.items()]


def windowed(key: Windowed, value: Any) -> list[Any]:
    return [key.key, {"start": key.window.start, "end": key.window.end}, value]
