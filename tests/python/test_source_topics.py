"""Tables that are restored from their source topics (`topology.optimization`)."""

from __future__ import annotations

from pathlib import Path

import pytest

import stoatflow as sf
from committed import read
from http_calls import ask
from stoatflow import EmbeddedBroker, StoatFlow

PARTITIONS = 3
LINES = [
    (0, b"ann", b'{"n": 1}', 10),
    (1, b"bob", b'{"n": 2, "n": 3}', 20),
    (2, b"cyd", b'{"n": 4}', 30),
    (1, b"dan", b'{"n": ', 40),
    (0, None, b'{"n": 5}', 50),
    (2, b"cyd", None, 60),
    (0, b"ann", b' {"n" : 6} ', 5),
]
"""With a duplicate member, invalid JSON, no key, a deleted row, and a timestamp that goes back."""
HELD = {"ann": (6, 5), "bob": (3, 20)}


class Upper(sf.Serde[str]):
    """A serde that doesn't write what it has read."""

    def serialize(self, value: str) -> bytes:
        return value.upper().encode()

    def deserialize(self, data: bytes) -> str:
        return data.decode()


def topology() -> sf.Topology:
    builder = sf.StreamsBuilder()
    table = builder.table("in", key=str, value=dict, store="kept", on_error=sf.log_and_continue())
    table.group_by(lambda key, value: ("all", value), key=str, value=dict).aggregate(
        sf.sum(sf.value["n"]), store="total"
    )
    table.to_stream().map_values(lambda value: None if value is None else value["n"]).to("out", value=sf.Serdes.json())
    return builder.build()


def application(broker: EmbeddedBroker, state: Path, optimization: str = "all", **more: object) -> StoatFlow:
    settings = {"application.id": "app", "state.dir": str(state), "topology.optimization": optimization}
    return StoatFlow(topology(), sf.Settings(settings | more, environ={}), broker=broker)


def held(app: StoatFlow) -> dict[str, tuple[int, int]]:
    rows = app.to_arrow("kept").to_pylist()
    return {row["_key"]: (row["n"], round(row["_timestamp"].timestamp() * 1000)) for row in rows}


@pytest.fixture
def broker(tmp_path: Path) -> EmbeddedBroker:
    with EmbeddedBroker(tmp_path / "broker") as opened:
        for topic in ("in", "out"):
            opened.create_topic(topic, PARTITIONS)
        opened.produce_many("in", LINES)
        yield opened


def count(broker: EmbeddedBroker, topic: str) -> int:
    return sum(broker.end_offsets(topic).values())


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_a_table_is_restored_from_its_source_topic(
    tmp_path: Path, broker: EmbeddedBroker, lanes: int, guarantee: str
) -> None:
    settings = {"lanes.count": lanes, "processing.guarantee": guarantee}
    with application(broker, tmp_path / "first", **settings) as app:
        read(app, broker)
        assert held(app) == HELD
    assert not [topic for topic in broker.topics() if topic.startswith("app-kept")]
    with application(broker, tmp_path / "second", **settings) as app:
        read(app, broker)
        assert held(app) == HELD
        (kept,) = (store for store in ask(app.admin_url, "/topology").json()["stores"] if store["name"] == "kept")
        assert kept["changelog"] == "in"


def test_unread_records_are_input_and_not_restored(tmp_path: Path, broker: EmbeddedBroker) -> None:
    """An update that arrived meanwhile is forwarded, once, and retracts the old row."""
    with application(broker, tmp_path / "first") as app:
        read(app, broker)
    before = count(broker, "out")
    broker.produce_many("in", [(0, b"ann", b'{"n": 7}', 70), (1, b"eve", b'{"n": 8}', 80)])
    for folder in ("second", "first"):
        with application(broker, tmp_path / folder) as app:
            read(app, broker)
            assert held(app) == HELD | {"ann": (7, 70), "eve": (8, 80)}
            assert app.store("total").get("all") == 7 + 3 + 8
    assert count(broker, "out") == before + 2


def test_a_table_may_give_up_its_changelog(tmp_path: Path, broker: EmbeddedBroker) -> None:
    """Offsets of one topic are meaningless in the other: the local rows are restored again."""
    with application(broker, tmp_path / "state", "none") as app:
        read(app, broker)
        assert "app-kept-changelog" in broker.topics()
    broker.produce_many("in", [(0, b"ann", b'{"n": 7}', 70)])
    with application(broker, tmp_path / "state") as app:
        read(app, broker)
        assert held(app) == HELD | {"ann": (7, 70)}
    with application(broker, tmp_path / "other") as app:
        read(app, broker)
        assert held(app) == HELD | {"ann": (7, 70)}


@pytest.mark.parametrize(
    "how",
    [
        {"timestamp": sf.value["n"]},
        {"key": Upper()},
    ],
    ids=["times of its own", "a serde of the user's"],
)
def test_a_table_whose_rows_are_not_its_records_keeps_a_changelog(
    tmp_path: Path, broker: EmbeddedBroker, how: dict[str, object]
) -> None:
    builder = sf.StreamsBuilder()
    kept: dict[str, object] = {"key": str, "value": dict, "store": "kept", "on_error": sf.log_and_continue()}
    builder.table("in", **(kept | how))
    settings = {"application.id": "app", "state.dir": str(tmp_path), "topology.optimization": "all"}
    with StoatFlow(builder.build(), sf.Settings(settings, environ={}), broker=broker) as app:
        read(app, broker)
        assert "app-kept-changelog" in broker.topics()


@pytest.mark.parametrize("wrong", ["reuse", "all,none", "reuse.ktable.source.topics;all"])
def test_a_wrong_name_is_refused(tmp_path: Path, broker: EmbeddedBroker, wrong: str) -> None:
    with pytest.raises(sf.ConfigError, match=r"topology\.optimization.*takes all, none, or a list of reuse\.ktable"):
        application(broker, tmp_path / "state", wrong)
