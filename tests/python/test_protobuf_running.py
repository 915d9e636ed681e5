"""Topologies with Protobuf: expressions and functions, stores, keys, handlers, checks at build time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from protobuf_messages import SHOP, User, user
from stoatflow import EmbeddedBroker, State, StoatFlow
from stoatflow.doctor.examination import examine
from stoatflow.testing import TopologyTestDriver

PROTO = sf.Serdes.protobuf(User)
NAMED = sf.Serdes.protobuf(SHOP, "shop.Named")
MESSAGES = sf.Serdes.protobuf(User, decode="message")
JSON = sf.Serdes.json()


def users(*given: dict[str, Any], lanes: int = 1, value: Any = PROTO, out: Any = None) -> Callable[..., list[Any]]:
    """The results of a shape for these users."""

    def run(shape: Callable[[sf.KStream[Any, Any]], sf.KStream[Any, Any]], **handlers: Any) -> list[Any]:
        builder = sf.StreamsBuilder()
        shape(builder.stream("in", key=str, value=value)).to("out", value=out)
        with TopologyTestDriver(builder.build(), lanes=lanes, **handlers) as driver:
            source = driver.input("in", key=str, value=PROTO)
            for at, one in enumerate(given):
                source.pipe(f"k{at}", one)
            return driver.output("out", key=str, value=out).read_values_to_list()

    return run


ANN = user(
    7, "ann", mail="a@b", tags=["x", "y"], scores={"a": 1.5, "b": -2.0}, photo=b"\x00\xff", boss=user(1, "bob"),
    cash=0, points=0, at={"seconds": 1_709_209_815, "nanos": 5}, large=2**64 - 1, others={"-3": user(2, "cyd")},
)  # fmt: skip
BOB = user(1, "bob", level="HIGH")


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        (sf.value["id"] + 1, [8, 2]),
        (sf.value["name"].str.upper(), ["ANN", "BOB"]),
        (sf.coalesce(sf.value["mail"], "none"), ["a@b", "none"]),
        (sf.value["tags"][0], ["x", None]),
        (sf.value["tags"][-1], ["y", None]),
        (sf.value["tags"].len(), [2, 0]),
        (sf.value["scores"]["b"], [-2.0, None]),
        (sf.value["level"] == "HIGH", [False, True]),
        (sf.value["photo"].len(), [2, 0]),
        (sf.value["boss"]["name"], ["bob", None]),
        (sf.value["boss"].is_null(), [False, True]),
        (sf.value["boss"]["boss"]["boss"]["name"], [None, None]),
        (sf.value["cash"], [0, None]),
        (sf.value["card"], [None, None]),
        (sf.value["points"], [0, None]),
        ((sf.value["at"]["seconds"] * 1000).dt.year(), [2024, None]),
        (sf.value["large"], [2**64 - 1, 0]),
        (sf.value["others"]["-3"]["name"], ["cyd", None]),
        (sf.value["tags"].list.join("+"), ["x+y", ""]),
        (sf.value.len(), [15, 15]),
        (sf.obj(n=sf.value["name"], t=sf.value["tags"]), [{"n": "ann", "t": ["x", "y"]}, {"n": "bob", "t": []}]),
        (sf.value["scores"], [{"a": 1.5, "b": -2.0}, {}]),
    ],
)
def test_expressions_read_fields(expression: Any, wanted: list[Any]) -> None:
    # A null value would be a tombstone, so it is put into an object.
    run = users(ANN, BOB, out=JSON)
    assert run(lambda s: s.map_values(sf.obj(x=expression))) == [{"x": one} for one in wanted]


def test_types_flow_from_the_message() -> None:
    """Without a serde for the sink: the message type determines how a field is written."""
    builder = sf.StreamsBuilder()
    source = builder.stream("in", key=str, value=PROTO)
    source.map_values(sf.value["name"]).to("names")
    source.map_values(sf.value["id"]).to("ids")
    source.map_values(sf.value["photo"]).to("photos")
    source.flat_map_values(sf.value["tags"]).to("tags")
    source.group_by(sf.value["level"].cast("str")).count(store="levels").to_stream().to("levels")
    source.filter(sf.value["id"] > 5).to("same")
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.input("in", key=str, value=PROTO)
        topic.pipe("k", ANN)
        assert driver.output("names", str, str).read_value() == "ann"
        assert driver.output("ids", str, int).read_value() == 7
        assert driver.output("photos", str, bytes).read_value() == b"\x00\xff"
        assert driver.output("tags", str, str).read_values_to_list() == ["x", "y"]
        assert driver.output("same", str, PROTO).read_value() == ANN
        topic.pipe("k", user(1, "", level=7))  # from a newer version of the message
        assert driver.output("levels", str, int).read_key_values_to_list() == [("LOW", 1), ("7", 1)]


def test_unread_fields_pass_through_unchanged() -> None:
    # An unknown field, a field that is written twice, and an order that our own writer wouldn't choose.
    odd = b"\xf8\x3f\x07\x12\x03ann\x08\x05\x08\x07"
    builder = sf.StreamsBuilder()
    source = builder.stream("in", key=str, value=PROTO)
    source.filter(sf.value["id"] == 7).peek(lambda k, v: v["name"]).to("out")
    source.filter(lambda k, v: v["id"] == 7).to("filtered")
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", key=str, value=bytes).pipe("k", odd)
        assert driver.output("out").read_value() == odd
        assert driver.output("filtered").read_value() == odd


def test_functions_get_members() -> None:
    run = users(ANN, out=PROTO)
    assert run(lambda s: s.map_values(lambda v: v | {"tags": ("z",), "boss": None})) == [
        {**ANN, "tags": ["z"], "boss": None}
    ]
    assert run(lambda s: s.map_values(lambda v: {**v, "boss": v["boss"] | {"name": "eve"}})) == [
        {**ANN, "boss": user(1, "eve")}
    ]
    assert users(ANN, BOB, out=PROTO)(lambda s: s.filter(lambda k, v: v["id"] > 5)) == [ANN]


def test_functions_get_views() -> None:
    seen = []

    def look(value: Any) -> Any:
        seen.append((type(value), type(value["tags"]), type(value["scores"]), value == ANN, list(value)[:3]))
        return {"id": 1, "boss": value["boss"], "tags": value["tags"], "photo": value["photo"], "level": "HIGH"}

    out = users(ANN, out=PROTO)(lambda s: s.map_values(look))
    assert out == [user(1, "", boss=ANN["boss"], tags=ANN["tags"], photo=ANN["photo"], level="HIGH")]
    assert seen == [(sf.JsonObject, sf.JsonArray, sf.JsonObject, True, ["id", "name", "mail"])]
    view = PROTO.view(PROTO.serialize(ANN))
    assert (view["large"], view["points"], view["at"]["nanos"]) == (2**64 - 1, 0, 5)
    assert sf.to_python(view) == ANN
    with pytest.raises(KeyError):
        view["nmae"]
    (made,) = users(ANN, out=JSON)(lambda s: s.map_values(lambda v: v | {"id": 1}))
    assert (made["id"], made["photo"], made["boss"]["photo"], made["name"]) == (1, "\x00\u00ff", "", "ann")


def test_unchanged_messages_are_copied() -> None:
    # The unknown fields 1023 here and in `boss`.
    odd = b"\xf8\x3f\x07\x12\x03ann\x08\x05\x42\x03\xf8\x3f\x07\x50\x01"
    builder = sf.StreamsBuilder()
    source = builder.stream("in", key=str, value=PROTO)
    source.map_values(lambda v: v).to("same", value=PROTO)
    source.map_values(lambda v: v | {"id": v["id"] + 1}).to("more", value=PROTO)
    source.map_values(lambda v: v | {"card": "x", "name": None}).to("card", value=PROTO)
    source.map_values(lambda v: {"boss": v["boss"]}).to("boss", value=PROTO)
    source.map_values(lambda v: v | {"large": 2**63, "boss": None}).to("large", value=PROTO)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", key=str, value=bytes).pipe("k", odd)
        assert driver.output("same").read_value() == odd
        assert driver.output("more").read_value() == b"\x08\x06" + odd.replace(b"\x08\x05", b"")
        assert driver.output("card").read_value() == b"\x4a\x01x\xf8\x3f\x07\x08\x05\x42\x03\xf8\x3f\x07"
        large = driver.output("large").read_value()
        assert large.startswith(b"\x68\x80")
        assert PROTO.deserialize(large)["large"] == 2**63
        assert driver.output("boss").read_value() == b"\x42\x03\xf8\x3f\x07"


def test_the_doctor_proposes_expressions() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=PROTO).filter(lambda k, v: v["id"] > 5).to("out")
    builder.stream("other", key=str, value=MESSAGES).filter(lambda k, v: v.id > 5).to("out")
    found = [(finding.kind, finding.next_step) for finding in examine(builder.build())]
    assert found == [("expression", "write sf.value['id'] > 5")]


def test_dicts_may_be_changed() -> None:
    def change(value: dict[str, Any]) -> dict[str, Any]:
        assert type(value) is dict
        value["name"] += "!"
        value["boss"] = None
        return value

    dicts = sf.Serdes.protobuf(User, decode="dict")
    assert users(ANN, value=dicts, out=dicts)(lambda s: s.map_values(change)) == [{**ANN, "name": "ann!", "boss": None}]


@pytest.mark.parametrize("lanes", [1, 3])
def test_functions_get_messages_of_the_class(lanes: int) -> None:
    def change(message: Any) -> Any:
        assert isinstance(message, User)
        message.name += "!"
        message.boss.name = "eve"
        return message

    changed = {**ANN, "name": "ann!", "boss": user(1, "eve")}
    assert users(ANN, value=MESSAGES, out=PROTO, lanes=lanes)(lambda s: s.map_values(change)) == [changed]
    # Changes by one function are not visible to others.
    run = users(ANN, value=MESSAGES, out=PROTO)
    assert run(lambda s: s.peek(lambda k, v: change(v) and None).filter(lambda k, v: v.name == "ann")) == [ANN]
    # Expressions read the same records.
    assert users(ANN, BOB, value=MESSAGES, out=str)(lambda s: s.map_values(sf.value["name"])) == ["ann", "bob"]
    made = users(ANN, out=PROTO)(lambda s: s.map_values(lambda v: User(id=v["id"], tags=v["tags"])))
    assert made == [user(7, "", tags=["x", "y"])]


def test_a_message_of_another_class_is_refused() -> None:
    run = users(ANN, value=MESSAGES, out=NAMED)
    with pytest.raises(sf.SerdeError, match=r"one of the type shop.User.*topic in, partition 0, offset 0"):
        run(lambda s: s.map_values(lambda v: v))


def test_messages_are_kept_in_stores_and_joined() -> None:
    def add(old: Any, new: Any) -> Any:
        old.id += new.id
        return old

    builder = sf.StreamsBuilder()
    source = builder.stream("in", key=str, value=MESSAGES)
    source.group_by_key().reduce(add, store=sf.Materialized("sums", value=MESSAGES)).to_stream().to("sums")
    table = builder.table("table", key=str, value=MESSAGES, store="table")
    source.join(table, lambda left, right: User(id=left.id, name=right.name)).to("joined", value=MESSAGES)
    with TopologyTestDriver(builder.build(), lanes=2) as driver:
        driver.input("table", str, MESSAGES).pipe("k", User(name="table"))
        topic = driver.input("in", str, MESSAGES)
        topic.pipe("k", User(id=7))
        topic.pipe("k", User(id=3))
        assert driver.output("sums", str, MESSAGES).read_values_to_list() == [User(id=7), User(id=10)]
        assert driver.output("joined", str, PROTO).read_values_to_list() == [user(7, "table"), user(3, "table")]
        assert driver.store("sums").get("k") == User(id=10)
        driver.crash()
        driver.restart(lanes=3)  # from the changelogs
        topic = driver.input("in", str, MESSAGES)
        topic.pipe("k", User(id=1))
        assert driver.store("sums").get("k") == User(id=11)


def test_keys_are_messages() -> None:
    key = sf.Serdes.protobuf('syntax = "proto3"; message Key { int32 a = 1; string b = 2; }')
    builder = sf.StreamsBuilder()
    source = builder.stream("in", key=key, value=int)
    source.group_by_key().count(store="counts").to_stream().to("counts")
    source.select_key(sf.key["b"]).to("by-b")
    source.group_by_key().windowed_by(sf.TimeWindows("1m", grace="0s")).count(store="w").to_stream().to("windows")
    with TopologyTestDriver(builder.build(), lanes=2) as driver:
        topic = driver.input("in", key, int)
        for a in (1, 2, 1):
            topic.pipe({"a": a, "b": "x"}, 5)
        counted = driver.output("counts", key, int).read_key_values_to_list()
        assert sorted((k["a"], n) for k, n in counted) == [(1, 1), (1, 2), (2, 1)]
        assert driver.output("by-b", str, int).read_key_values_to_list() == [("x", 5)] * 3
        assert driver.store("counts").get({"a": 1, "b": "x"}) == 2
        windows = sf.Serdes.time_windowed(key, "1m")
        (*_, (window, count)) = driver.output("windows", windows, int).read_key_values_to_list()
        assert (window.key, count) in [({"a": 1, "b": "x"}, 2), ({"a": 2, "b": "x"}, 1)]


def test_tables_and_aggregates_are_kept_as_protobuf() -> None:
    builder = sf.StreamsBuilder()
    source = builder.stream("in", key=str, value=PROTO)
    latest = source.group_by(sf.value["level"], key=str).reduce(
        lambda old, new: new | {"id": old["id"] + new["id"]}, store=sf.Materialized("latest", value=PROTO)
    )
    latest.to_stream().to("latest")
    source.group_by_key().aggregate(
        lambda: {"id": 0, "name": ""},
        lambda k, v, total: {"id": total["id"] + v["id"], "name": v["name"]},
        store=sf.Materialized("totals", value=PROTO),
    ).to_stream().to("totals")
    source.group_by_key().aggregate(sf.sum(sf.value["id"]), store="sums").to_stream().to("sums", value=int)
    with TopologyTestDriver(builder.build(), lanes=2) as driver:
        topic = driver.input("in", str, PROTO)
        topic.pipe("k", ANN)
        topic.pipe("k", user(3, "cyd"))
        assert driver.output("latest", str, PROTO).read_values_to_list() == [ANN, user(10, "cyd")]
        assert driver.output("totals", str, PROTO).read_values_to_list() == [user(7, "ann"), user(10, "cyd")]
        assert driver.output("sums", str, int).read_values_to_list() == [7, 10]
        assert driver.store("latest").get("LOW") == user(10, "cyd")
        driver.crash()
        driver.restart(lanes=3)  # from the changelogs
        assert driver.store("latest").get("LOW") == user(10, "cyd")
        driver.input("in", str, PROTO).pipe("k", user(1, "dan"))
        assert driver.store("totals").get("k") == user(11, "dan")


def test_state_of_another_message_is_refused(tmp_path: Path) -> None:
    def run(schema: str) -> None:
        serde = sf.Serdes.protobuf(schema)
        builder = sf.StreamsBuilder()
        builder.stream("in", key=str, value=serde).group_by_key().reduce(
            lambda old, new: new, store=sf.Materialized("kept", value=serde)
        )
        state = str(tmp_path / "state")
        config = sf.Settings({"application.id": "app", "state.dir": state, "commit.interval.ms": 20}, environ={})
        with StoatFlow(builder.build(), config, broker=broker) as app:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and app.error is None:
                if app.state is State.RUNNING and list(broker.read("app-kept-changelog")):
                    break
                time.sleep(0.02)
        assert app.error is None

    first = 'syntax = "proto3"; message M { int32 a = 1; }'
    broker = EmbeddedBroker(str(tmp_path / "broker"))
    for topic in ("in", "app-kept-changelog"):
        broker.create_topic(topic, 1)
    broker.produce("in", b"k", b"\x08\x05", timestamp=1)
    run(first)
    run(first.replace("int32 a", "int32 renamed"))
    with pytest.raises(sf.StoatFlowError, match=r"the store 'kept' on disk has the format .*protobuf\(M, "):
        run(first.replace("int32 a", "string a"))


def test_processors_get_and_keep_messages() -> None:
    class Keep(sf.Processor[str, Any, str, str]):
        def init(self, context: Any) -> None:
            self.context = context
            self.store = context.state_store("seen")

        def process(self, record: Any) -> None:
            before = self.store.get(record.key)
            self.store.put(record.key, record.value)
            record.value.name += "?"
            self.context.forward(record.replace(value=before.name if before else "nobody"))

    builder = sf.StreamsBuilder()
    builder.add_state_store(sf.Stores.key_value("seen", key=str, value=MESSAGES))
    builder.stream("in", key=str, value=MESSAGES).process(Keep, stores=["seen"]).to("out", key=str, value=str)
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.input("in", str, PROTO)
        topic.pipe("k", ANN)
        topic.pipe("k", BOB)
        assert driver.output("out", str, str).read_values_to_list() == ["nobody", "ann"]
        assert driver.store("seen").get("k").name == "bob"


def test_confluent_framing_in_a_topology() -> None:
    framed = sf.Serdes.protobuf(User, framing="confluent", schema_id=7, schema_ids=[3])
    builder = sf.StreamsBuilder()
    source = builder.stream("in", key=str, value=framed)
    source.filter(sf.value["id"] > 0).to("same")
    source.to("plain", value=PROTO)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, framed).pipe("k", ANN)
        assert driver.output("same").read_value() == framed.serialize(ANN)
        assert driver.output("plain").read_value() == PROTO.serialize(ANN)
        driver.input("in", str, bytes).pipe("k", b"\x00\x00\x00\x00\x03\x00" + PROTO.serialize(ANN))
        # Values read with another id are written with ours.
        assert driver.output("same").read_value() == framed.serialize(ANN)


def test_a_malformed_record_is_found_at_its_source() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=PROTO).filter(sf.value["id"] > 0).to("out")
    result = r"no value of the Protobuf message 'shop.User'.*topic in, partition 0, offset 0"
    with TopologyTestDriver(builder.build()) as driver, pytest.raises(sf.SerdeError, match=result):
        driver.input("in", key=str, value=bytes).pipe("k", b"\x12\x01\xff")
    with TopologyTestDriver(builder.build(), on_deserialization_error=sf.DLQ("bad")) as driver:
        topic = driver.input("in", key=str, value=bytes)
        topic.pipe("k", b"\x12\x01\xff")
        topic.pipe("k", PROTO.serialize(ANN))
        assert driver.output("out", str, PROTO).read_values_to_list() == [ANN]
        (letter,) = driver.output("bad").read_all()
        assert letter.value == b"\x12\x01\xff"


def test_values_that_a_sink_cannot_serialize_go_to_its_handler() -> None:
    builder = sf.StreamsBuilder()
    source = builder.stream("in", key=str, value=str)
    source.map_values(lambda text: {"id": len(text), "name": text} if text else {"id": "?"}).to("out", value=PROTO)
    topology = builder.build()
    refused = pytest.raises(sf.SerdeError, match=r"at id: int64 is wanted.*topic in, partition 0, offset 0")
    with TopologyTestDriver(topology) as driver, refused:
        driver.input("in", str, str).pipe("k", "")
    with TopologyTestDriver(topology, on_production_error=sf.log_and_continue()) as driver:
        topic = driver.input("in", str, str)
        for text in ("ann", "", "bob"):
            topic.pipe("k", text)
        assert [one["name"] for one in driver.output("out", str, PROTO).read_values_to_list()] == ["ann", "bob"]


def test_missing_fields_are_found_at_build() -> None:
    builder = sf.StreamsBuilder()
    source = builder.stream("in", key=str, value=PROTO)
    source.filter(sf.value["nmae"] == "ann").to("a")
    source.map_values(sf.value["boss"]["lvel"]).to("b", value=str)
    source.filter(sf.value["name"] > 5).to("c")
    source.map_values(sf.value["id"].str.upper()).to("d", value=str)
    source.filter(sf.value["id"]["x"] == 1).to("e")
    with pytest.raises(sf.TopologyError) as raised:
        builder.build()
    message = str(raised.value)
    line = r"test_protobuf_running.py:\d+"
    for wanted in (
        r"sf.value\[\"nmae\"\]: the Protobuf message 'shop.User' has no field 'nmae', did you mean 'name'\?",
        r"has no field 'lvel', did you mean 'level'\?",
        r"str and int have no order",
        r".str takes str, but this is int",
        r"a value of type int has no member 'x'",
    ):
        assert re.search(f"{line}.*{wanted}", message), (wanted, message)


def test_values_that_never_fit_a_sink_are_found_at_build() -> None:
    builder = sf.StreamsBuilder()
    source = builder.stream("in", key=str, value=PROTO)
    source.map_values(sf.obj(nam=sf.value["name"])).to("a", value=NAMED)
    source.map_values(sf.obj(name=sf.value["id"])).filter(sf.key == "x").to("b", value=NAMED)
    source.map_values(sf.obj(name="x", picture=sf.value["tags"])).to("c", value=NAMED)
    source.map_values(sf.value["id"]).to("d", value=NAMED)
    source.map_values(sf.obj(level="MID")).to("e", value=PROTO)
    builder.stream("texts", key=str, value=str).to("f", value=NAMED)
    with pytest.raises(sf.TopologyError) as raised:
        builder.build()
    message = str(raised.value)
    for wanted in (
        "the Protobuf message 'shop.Named' has no field 'nam', did you mean 'name'?",
        "it gives int, but the Protobuf string takes str",
        "it gives list, but the Protobuf bytes takes str or bytes",
        "it gives int, but the Protobuf shop.Named takes object",
        "the Protobuf enum has no 'MID'",
        "its values are str, but the Protobuf message (shop.Named) takes object",
    ):
        assert wanted in message, (wanted, message)


def test_windows_and_joins_keep_protobuf() -> None:
    builder = sf.StreamsBuilder()
    left = builder.stream("in", key=str, value=PROTO)
    right = builder.stream("right", key=str, value=PROTO)
    window = sf.JoinWindows("10s", grace="0s")
    left.join(right, lambda a, b: a | {"name": a["name"] + b["name"]}, window, name="one").to("joined", value=PROTO)
    left.join(right, sf.obj(a=sf.left["name"], b=sf.right["tags"][0]), window, name="two").to("native", value=JSON)
    left.group_by_key().windowed_by(sf.TimeWindows("1m", grace="0s")).reduce(
        lambda old, new: new | {"id": old["id"] + new["id"]}, store=sf.Materialized("sums", value=PROTO)
    ).suppress(sf.Suppressed.until_window_closes(name="closed")).to_stream().select_key(lambda k, v: k.key).to(
        "sums", key=str, value=PROTO
    )
    with TopologyTestDriver(builder.build(), lanes=2) as driver:
        topic, other = driver.input("in", str, PROTO), driver.input("right", str, PROTO)
        topic.pipe("k", ANN, timestamp=1000)
        other.pipe("k", user(9, "-x", tags=["t"]), timestamp=2000)
        topic.pipe("k", user(3, "cyd"), timestamp=3000)
        topic.pipe("k", BOB, timestamp=200_000)
        joined = driver.output("joined", str, PROTO).read_values_to_list()
        assert joined == [{**ANN, "name": "ann-x"}, user(3, "cyd-x")]
        native = driver.output("native", str, JSON).read_values_to_list()
        assert native == [{"a": "ann", "b": "t"}, {"a": "cyd", "b": "t"}]
        assert driver.output("sums", str, PROTO).read_values_to_list() == [user(10, "cyd")]


def test_async_functions_and_batches_of_columns_get_them_too() -> None:
    async def shout(value: Any) -> Any:
        return value | {"name": value["name"].upper()}

    assert users(ANN, BOB, out=PROTO)(lambda s: s.map_values(shout, name="shout")) == [
        {**ANN, "name": "ANN"},
        {**BOB, "name": "BOB"},
    ]

    async def rename(message: Any) -> Any:
        message.name = "eve"
        return message

    run = users(BOB, value=MESSAGES, out=PROTO)
    assert run(lambda s: s.map_values(rename, name="rename")) == [{**BOB, "name": "eve"}]
