"""An application in two versions on one disk, and operators with a store `c`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import stoatflow as sf
from stoatflow import EmbeddedBroker, Materialized, StoatFlow
from stoatflow.upgrade.comparison import Comparison, Side

Build = Callable[[sf.StreamsBuilder], object]
LATER = 10**15


def topology(build: Build) -> sf.Topology:
    builder = sf.StreamsBuilder()
    build(builder)
    return builder.build()


def compare(old: Build, new: Build) -> Comparison:
    return Comparison.of(Side.of(topology(old)), Side.of(topology(new)))


def statuses(old: Build, new: Build) -> dict[str, str]:
    return {each.name: each.status.value for each in compare(old, new).stores}


class Place:
    """An application's disk and its topics."""

    def __init__(self, folder: Path, broker: EmbeddedBroker) -> None:
        self.broker, self.state = broker, folder / "state"
        for topic in ("in", "in2", "in3", "out"):
            broker.create_topic(topic)
        for key, value, at in ((b"a", 1, 100_000), (b"a", 2, 101_000), (b"b", 3, 102_000)):
            self.write("in", key, value, at)
        self.write("in2", b"z", 9, 100_000)

    def write(self, topic: str, key: bytes, value: int, at: int = 102_500) -> None:
        self.broker.produce(topic, key, value.to_bytes(8, "big"), at)

    def application(self, made: sf.Topology, **settings: object) -> StoatFlow:
        given = {"application.id": "app", "state.dir": str(self.state), "ensure.explicit.naming": False, **settings}
        return StoatFlow(made, sf.Settings(given, environ={}), broker=self.broker)

    def life(self, build: Build, **settings: object) -> dict[str, Any]:
        """Run it until all is read; return the contents of its stores."""
        made = topology(build)
        with self.application(made, **settings) as app:
            while str(app.state) != "RUNNING" or app.lag():
                assert not app.wait(0.01)
            plan = json.loads(made.plan.physical_json)
            kinds = {store["name"]: store["kind"]["type"] for store in plan["stores"]}
            read = [topic for source in plan["sources"] if not source["global"] for topic in source["topics"]]
            ends = {(topic, 0): self.broker.end_offsets(topic)[0] for topic in read}
            return {name: rows(app, name, kind, ends) for name, kind in kinds.items() if kind != "time_ordered"}

    def upgraded(self, old: Build, new: Build, **settings: object) -> dict[str, Any]:
        """Run the old version, then the new one with one more record."""
        self.life(old)
        self.write("in", b"a", 5)
        return self.life(new, **settings)

    def restored(self, build: Build) -> dict[str, Any]:
        """Run it on another disk."""
        shutil.rmtree(self.state)
        return self.life(build)


def rows(app: StoatFlow, name: str, kind: str, ends: dict[tuple[str, int], int]) -> dict[Any, Any]:
    store: Any = app.store(name, at_least=ends)
    if kind == "versioned":
        return {key: store.get(key).value for key in ("a", "b")}
    if kind in ("window", "session"):
        found = store.all() if kind == "session" else store.fetch_all(0, LATER)
        return {(key.key, key.window.start, key.window.end): value for key, value in found}
    return dict(store.all())


def stream(builder: sf.StreamsBuilder, topic: str = "in", value: Any = int) -> sf.KStream[Any, Any]:
    return builder.stream(topic, key=str, value=value)


def count(**how: Any) -> Build:
    return lambda builder: stream(builder).group_by_key().count(store=Materialized("c", **how))


def counts_of(*topics: str) -> Build:
    """A count of each topic, in stores without explicit names."""
    return lambda builder: [stream(builder, topic).group_by_key().count() for topic in topics]


def windows(size: str, grace: str = "0ms", **how: Any) -> Build:
    def build(builder: sf.StreamsBuilder) -> object:
        windowed = stream(builder).group_by_key().windowed_by(sf.TimeWindows.of_size_and_grace(size, grace))
        return windowed.count(store=Materialized("c", **how))

    return build


def sessions(gap: str) -> Build:
    def build(builder: sf.StreamsBuilder) -> object:
        grouped = stream(builder).group_by_key()
        return grouped.windowed_by(sf.SessionWindows.of_inactivity_gap_with_no_grace(gap)).count(store="c")

    return build


def latest(value: Any, written: Callable[[int], Any] = lambda number: number, **how: Any) -> Build:
    """Keep the latest value of each key with a serde."""

    def build(builder: sf.StreamsBuilder) -> object:
        grouped = stream(builder).map_values(written).group_by_key(value=value)
        return grouped.reduce(lambda _, new: new, store=Materialized("c", value=value, **how))

    return build


def table(**how: Any) -> Build:
    return lambda builder: builder.table("in", key=str, value=int, store=Materialized("c", **how))


def aggregate(aggregation: Any) -> Build:
    return lambda builder: stream(builder).group_by_key().aggregate(aggregation, store="c")


def global_table(name: str, value: Any = int, topic: str = "in") -> Build:
    def build(builder: sf.StreamsBuilder) -> None:
        builder.global_table(topic, key=str, value=value, store=Materialized(name))
        stream(builder, "in2").to("out")

    return build


class Text(sf.Serde[int]):
    """A serde that the engine knows only by its name."""

    def serialize(self, value: int) -> bytes:
        return str(value).encode()

    def deserialize(self, data: bytes) -> int:
        return int(data)


class OtherText(Text):
    pass


class Counts(sf.ContextualProcessor[Any, Any, Any, Any]):
    def process(self, record: sf.Record[Any, Any]) -> None:
        store = self.context.state_store("c")
        store.put(record.key, (store.get(record.key) or 0) + 1)


def processor(kind: str = "persistent_key_value", **more: Any) -> Build:
    def build(builder: sf.StreamsBuilder) -> None:
        builder.add_state_store(getattr(sf.Stores, kind)("c", key=str, value=int, **more))
        stream(builder).process(Counts, stores=["c"])

    return build


def avro(*fields: str) -> Any:
    members = [{"name": name, "type": "long", "default": 0} for name in fields]
    return sf.Serdes.avro({"type": "record", "name": "Row", "fields": members})


def in_x(number: int) -> dict[str, int]:
    return {"x": number}


def held_back(value: Any, written: Callable[[int], Any] = lambda number: number) -> Build:
    """Updates that wait in a store for five minutes."""

    def build(builder: sf.StreamsBuilder) -> None:
        rows = stream(builder).map_values(written).to_table(store=Materialized(f"rows-{value.__name__}", value=value))
        rows.suppress(sf.Suppressed.until_time_limit("5m", name="c")).to_stream().to("out")

    return build
