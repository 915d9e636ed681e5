"""A stream joined with itself keeps one store, if `topology.optimization` says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stoatflow as sf
from stoatflow import EmbeddedBroker, KStream, StoatFlow, StreamsBuilder, Topology

WINDOW = sf.JoinWindows("10s", grace="1m")
TEXTS = sf.StreamJoined(key=str, value=str, other=str)


def pair(left: str | None, right: str | None) -> str:
    return f"{left}/{right}"


def topology(kind: str = "join") -> Topology:
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("in", key=str, value=str)
    if kind == "new key":
        stream = stream.select_key(lambda k, v: v[:1])
    other = stream.map_values(str.upper) if kind == "other values" else stream
    join = getattr(stream, kind if kind.endswith("join") else "join")
    joined = sf.StreamJoined(key=str, value=str, other=bytes) if kind == "other serdes" else TEXTS
    join(other, pair, WINDOW, name="pairs", joined=joined).to("out", key=str, value=str)
    return builder.build()


def stores(built: Topology, optimization: str) -> list[str]:
    settings = sf.Settings({"topology.optimization": optimization}, environ={})
    found = json.loads(built.for_settings(settings).plan.physical_json)["stores"]
    return [store["name"] for store in found]


BOTH = ["pairs-this-join-store", "pairs-other-join-store"]


@pytest.mark.parametrize(
    ("optimization", "expected"),
    [
        ("all", BOTH[:1]),
        ("single.store.self.join", BOTH[:1]),
        ("merge.repartition.topics, single.store.self.join", BOTH[:1]),
        ("reuse.ktable.source.topics", BOTH),
        ("none", BOTH),
    ],
)
def test_the_setting_decides(optimization: str, expected: list[str]) -> None:
    assert stores(topology(), optimization) == expected


def test_the_builder_takes_it_too() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.join(stream, pair, WINDOW, name="pairs", joined=TEXTS).to("out", key=str, value=str)
    built = builder.build({"topology.optimization": "all"})
    # Once on, it stays on: the settings of the application only add to it.
    assert stores(built, "none") == BOTH[:1]


@pytest.mark.parametrize("kind", ["left_join", "outer_join", "new key", "other values", "other serdes"])
def test_other_joins_keep_their_stores(kind: str) -> None:
    assert stores(topology(kind), "all") == stores(topology(kind), "none")
    assert len(stores(topology(kind), "all")) >= len(BOTH)


@pytest.mark.parametrize("lanes", [1, 4])
def test_what_is_restored_is_joined(tmp_path: Path, broker: EmbeddedBroker, lanes: int) -> None:
    """Records of all lives meet each other, and themselves once."""
    for topic in ("in", "out"):
        broker.create_topic(topic, 2)
    for life in range(3):
        broker.produce_many("in", [(p, f"k{p}".encode(), f"v{life}".encode(), 1_000 + life) for p in (0, 1)])
        settings = {
            "application.id": "app", "state.dir": str(tmp_path / str(life)), "lanes.count": lanes,
            "topology.optimization": "single.store.self.join",
        }  # fmt: skip
        with StoatFlow(topology(), sf.Settings(settings, environ={}), broker=broker) as app:
            app.wait_until(caught_up=True)
    assert [topic for topic in broker.topics() if topic.endswith("-store-changelog")] == [f"app-{BOTH[0]}-changelog"]
    found: dict[bytes | None, list[bytes | None]] = {}
    for record in broker.read("out"):
        found.setdefault(record.key, []).append(record.value)
    expected = [b"v0/v0", b"v1/v0", b"v0/v1", b"v1/v1", b"v2/v0", b"v2/v1", b"v0/v2", b"v1/v2", b"v2/v2"]
    assert found == {b"k0": expected, b"k1": expected}


def test_with_embedded_topics_going_back_is_not_refused(tmp_path: Path, broker: EmbeddedBroker) -> None:
    """docs/guide/restoring.md says so: the store of the right side begins empty, so rows are missing."""
    for topic in ("in", "out"):
        broker.create_topic(topic, 1)
    for optimization in ("single.store.self.join", "none"):
        broker.produce_many("in", [(0, b"k", optimization[:1].encode(), 1_000)])
        settings = {"application.id": "app", "state.dir": str(tmp_path), "topology.optimization": optimization}
        with StoatFlow(topology(), sf.Settings(settings, environ={}), broker=broker) as app:
            app.wait_until(caught_up=True)
    assert [record.value for record in broker.read("out")] == [b"s/s", b"s/n", b"n/n"]
