"""Runs a topology in the vectors' step format over a list of inputs: the semantics, obviously.

Takes the JSON of a vector (or one made up by a test): topology, inputs, config. Gives outputs per topic
in order, and final stores, in the vectors' form. `build.py` turns steps into the graph; this module
feeds it and writes down what came of it.
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
    """What came out."""

    outputs: dict[str, list[Json]]
    stores: dict[str, list[list[Any]]]
    store_timestamps: dict[str, list[int]]
    built: Builder

    def versioned_lookup(self, store: str, key: Any, as_of: int) -> Json | None:
        """What a versioned store says held at a time."""
        kept = self.built.stores[store]
        assert isinstance(kept, VersionedStore)
        found = kept.get_version(key, as_of)
        # Until when it was valid is not told: the store that users get leaves it out, always.
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

    `order` is how to choose among internal topics: earliest, first, last (by name), made (as the topology made them),
    or as the first; with keys and keys_back, what waits in a topic is taken in the keys' order. `one_task`: as in Kafka
    Streams' test driver, all of the topology has one time.
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
    """Do the vectors list times for it?"""
    return isinstance(store, VersionedStore) or getattr(store, "stamped", False)


def entries(store: Any) -> list[tuple[list[Any], int]]:
    """A store's content in the vectors' form, with times."""
    if isinstance(store, KeyValueStore | VersionedStore):
        return [([key, kept.value], kept.timestamp) for key, kept in store.items()]
    if isinstance(store, WindowStore):
        return [(windowed(key, kept.value), kept.timestamp) for key, kept in store.items()]
    assert isinstance(store, SessionStore)
    return [(windowed(key, value), -1) for key, value in store.items()]


def windowed(key: Windowed, value: Any) -> list[Any]:
    return [key.key, {"start": key.window.start, "end": key.window.end}, value]
