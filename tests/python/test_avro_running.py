"""Topologies with Avro: expressions and functions, stores, keys, handlers, checks at build time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from avro_schemas import NAMED, USER, user
from stoatflow import EmbeddedBroker, State, StoatFlow
from stoatflow.testing import TopologyTestDriver

AVRO = sf.Serdes.avro(USER)


def users(*given: dict[str, Any], lanes: int = 1, value: Any = None, out: Any = None) -> Callable[..., list[Any]]:
    """The results of a shape for these users."""

    def run(shape: Callable[[sf.KStream[Any, Any]], sf.KStream[Any, Any]], **handlers: Any) -> list[Any]:
        builder = sf.StreamsBuilder()
        shape(builder.stream("in", key=str, value=value or AVRO)).to("out", value=out)
        with TopologyTestDriver(builder.build(), lanes=lanes, **handlers) as driver:
            source = driver.input("in", key=str, value=value or AVRO)
            for at, one in enumerate(given):
                source.pipe(f"k{at}", one)
            return driver.output("out", key=str, value=out).read_values_to_list()

    return run


ANN = user(7, "ann", mail="a@b", tags=["x", "y"], scores={"a": 1.5, "b": -2.0}, photo=b"\x00\xff", boss=user(1, "bob"))
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
        (sf.value["tags"].list.join("+"), ["x+y", ""]),
        (sf.value.len(), [8, 8]),
        (sf.obj(n=sf.value["name"], t=sf.value["tags"]), [{"n": "ann", "t": ["x", "y"]}, {"n": "bob", "t": []}]),
        (sf.value["scores"], [{"a": 1.5, "b": -2.0}, {}]),
    ],
)
def test_expressions_read_fields(expression: Any, wanted: list[Any]) -> None:
    # A null value would be a tombstone, so it is put into an object.
    run = users(ANN, BOB, out=sf.Serdes.json())
    assert run(lambda s: s.map_values(sf.obj(x=expression))) == [{"x": one} for one in wanted]


def test_types_flow_from_the_schema() -> None:
    """Without a serde for the sink: the schema determines how a field is written."""
    builder = sf.StreamsBuilder()
    source = builder.stream("in", key=str, value=AVRO)
    source.map_values(sf.value["name"]).to("names")
    source.map_values(sf.value["id"]).to("ids")
    source.map_values(sf.value["photo"]).to("photos")
    source.flat_map_values(sf.value["tags"]).to("tags")
    source.group_by(sf.value["level"]).count(store="levels").to_stream().to("levels")
    source.filter(sf.value["id"] > 5).to("same")
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", key=str, value=AVRO).pipe("k", ANN)
        assert driver.output("names", str, str).read_value() == "ann"
        assert driver.output("ids", str, int).read_value() == 7
        assert driver.output("photos", str, bytes).read_value() == b"\x00\xff"
        assert driver.output("tags", str, str).read_values_to_list() == ["x", "y"]
        assert driver.output("levels", str, int).read_key_values_to_list() == [("LOW", 1)]
        assert driver.output("same", str, AVRO).read_value() == ANN


def test_unread_fields_pass_through_unchanged() -> None:
    # Two blocks of elements, where our own writer would write one.
    odd = b"\x03\x04\x02\x04\x02\x06\x00"
    schema = {"type": "array", "items": "long"}
    longs, plain = sf.Serdes.avro(schema), sf.Serdes.avro(schema, decode="dict")
    builder = sf.StreamsBuilder()
    source = builder.stream("in", key=str, value=longs)
    source.filter(sf.value[2] == 3).peek(lambda k, v: v[0]).to("out")
    source.map_values(lambda v: v).to("again", value=longs)
    source = builder.stream("plain", key=str, value=plain)
    source.filter(sf.value[2] == 3).peek(lambda k, v: v.append(9)).to("out", value=plain)
    source.map_values(lambda v: v).to("again", value=longs)
    with TopologyTestDriver(builder.build()) as driver:
        for topic, again in (("in", odd), ("plain", longs.serialize([1, 2, 3]))):
            driver.input(topic, key=str, value=bytes).pipe("k", odd)
            assert driver.output("out").read_value() == odd
            assert driver.output("again").read_value() == again


def test_functions_get_plain_dicts_if_the_serde_declares_it() -> None:
    def change(value: dict[str, Any]) -> dict[str, Any]:
        assert type(value) is dict
        value["name"] += "!"
        value["boss"] = None
        return value

    plain = sf.Serdes.avro(USER, decode="dict")
    changed = [{**ANN, "name": "ann!", "boss": None}]
    assert users(ANN, value=plain, out=AVRO)(lambda s: s.map_values(change)) == changed
    assert users(ANN, value=plain, out=plain)(lambda s: s.map_values(change)) == changed
    assert users(ANN, value=plain, out=str)(lambda s: s.map_values(sf.value["boss"]["name"])) == ["bob"]
    assert users(ANN, out=AVRO)(lambda s: s.map_values(lambda v: v | {"tags": ("z",)})) == [{**ANN, "tags": ["z"]}]
    assert users(ANN, BOB, out=AVRO)(lambda s: s.filter(lambda k, v: v["id"] > 5)) == [ANN]


@pytest.mark.parametrize("lanes", [1, 3])
def test_objects_are_written_by_the_schema_of_the_sink(lanes: int) -> None:
    named = sf.Serdes.avro(NAMED)
    made = sf.obj(name=sf.value["name"], first_tag=sf.value["tags"][0], picture=sf.value["photo"])
    run = users(ANN, BOB, lanes=lanes, out=named)
    assert run(lambda s: s.map_values(made)) == [
        {"name": "ann", "first_tag": "x", "picture": b"\x00\xff"},
        {"name": "bob", "first_tag": None, "picture": b""},
    ]
    assert run(lambda s: s.map_values(sf.obj(name=sf.value["name"])))[0] == {
        "name": "ann", "first_tag": None, "picture": b"",
    }  # fmt: skip


def test_a_nested_record_is_copied_into_another_record() -> None:
    made = sf.obj(id=sf.value["id"], name="new", boss=sf.value["boss"], scores=sf.value["scores"])
    assert users(ANN, out=AVRO)(lambda s: s.map_values(made)) == [
        user(7, "new", boss=ANN["boss"], scores=ANN["scores"])
    ]
    changed = sf.value.with_fields(name="new")
    assert users(ANN, out=AVRO)(lambda s: s.map_values(changed)) == [{**ANN, "name": "new"}]
    merged = sf.value.merge(sf.obj(name="new", tags=sf.value["tags"]))
    assert users(ANN, out=AVRO)(lambda s: s.map_values(merged)) == [{**ANN, "name": "new"}]
    one = sf.obj(scores=sf.value["scores"]).merge(sf.value)
    assert users(ANN, out=AVRO)(lambda s: s.map_values(one)) == [ANN]


def test_json_becomes_avro() -> None:
    json = sf.Serdes.json()
    run = users({"id": 7, "name": "ann"}, value=json, out=AVRO)
    assert run(lambda s: s) == [user(7, "ann")]
    assert run(lambda s: s.map_values(sf.obj(id=sf.value["id"], name="x"))) == [user(7, "x")]


def test_equal_avro_keys_join() -> None:
    key = sf.Serdes.avro(
        {"type": "record", "name": "K", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}]}
    )
    builder = sf.StreamsBuilder()
    source = builder.stream("in", key=key, value=int)
    source.group_by_key().count(store="counts").to_stream().to("counts")
    windows = sf.Serdes.time_windowed(key, "1m")
    source.group_by_key().windowed_by(sf.TimeWindows("1m", grace="0s")).count(store="in-windows").to_stream().to(
        "windows"
    )
    source.select_key(sf.key["b"]).to("by-b")
    source.select_key(lambda k, v: {"a": v, "b": k["b"]}).group_by_key(key=key).count(store="again").to_stream().to(
        "again"
    )
    with TopologyTestDriver(builder.build(), lanes=3) as driver:
        topic = driver.input("in", key=key, value=int)
        for a in (1, 1, 2):
            topic.pipe({"a": a, "b": "x"}, 5)
        counted = driver.output("counts", key, int).read_key_values_to_list()
        assert sorted((k["a"], n) for k, n in counted) == [(1, 1), (1, 2), (2, 1)]
        assert driver.output("by-b", str, int).read_key_values_to_list() == [("x", 5)] * 3
        again = driver.output("again", key, int).read_key_values_to_list()
        assert again[-1] == ({"a": 5, "b": "x"}, 3)
        assert driver.store("counts").get({"a": 1, "b": "x"}) == 2
        (*_, (window, count)) = driver.output("windows", windows, int).read_key_values_to_list()
        assert (window.key, count) in [({"a": 1, "b": "x"}, 2), ({"a": 2, "b": "x"}, 1)]


def test_tables_and_aggregates_are_kept_as_avro() -> None:
    builder = sf.StreamsBuilder()
    source = builder.stream("in", key=str, value=AVRO)
    latest = source.group_by(sf.value["level"]).reduce(
        lambda old, new: new | {"id": old["id"] + new["id"]}, store=sf.Materialized("latest", value=AVRO)
    )
    latest.to_stream().to("latest")
    source.group_by_key().aggregate(
        lambda: {"id": 0, "name": ""},
        lambda k, v, total: {"id": total["id"] + v["id"], "name": v["name"]},
        store=sf.Materialized("totals", value=AVRO),
    ).to_stream().to("totals")
    source.group_by_key().aggregate(sf.sum(sf.value["id"]), store="sums").to_stream().to("sums", value=int)
    table = builder.table("table", key=str, value=AVRO, store="table")
    source.join(table, lambda left, right: right | {"name": left["name"]}).to("joined", value=AVRO)
    with TopologyTestDriver(builder.build(), lanes=2) as driver:
        driver.input("table", str, AVRO).pipe("k", user(100, "table"))
        topic = driver.input("in", str, AVRO)
        topic.pipe("k", ANN)
        topic.pipe("k", user(3, "cyd"))
        assert driver.output("latest", str, AVRO).read_values_to_list() == [ANN, user(10, "cyd")]
        assert driver.output("totals", str, AVRO).read_values_to_list() == [user(7, "ann"), user(10, "cyd")]
        assert driver.output("sums", str, int).read_values_to_list() == [7, 10]
        assert driver.output("joined", str, AVRO).read_values_to_list() == [user(100, "ann"), user(100, "cyd")]
        assert driver.store("totals").get("k") == user(10, "cyd")
        assert driver.store("latest").get("LOW") == user(10, "cyd")
        assert driver.store("table").get("k") == user(100, "table")
        driver.crash()
        driver.restart(lanes=3)  # from the changelogs
        assert driver.store("latest").get("LOW") == user(10, "cyd")
        driver.input("in", str, AVRO).pipe("k", user(1, "dan"))
        assert driver.store("totals").get("k") == user(11, "dan")


def test_state_of_another_schema_is_refused(tmp_path: Path) -> None:
    def run(schema: dict[str, Any]) -> None:
        builder = sf.StreamsBuilder()
        serde = sf.Serdes.avro(schema)
        builder.stream("in", key=str, value=AVRO).group_by_key().reduce(
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

    broker = EmbeddedBroker(str(tmp_path / "broker"))
    for topic in ("in", "app-kept-changelog"):
        broker.create_topic(topic, 1)
    broker.produce("in", b"k", AVRO.serialize(ANN), timestamp=1)
    run(USER)
    run({**USER, "doc": "whoever buys something"})
    with pytest.raises(sf.StoatFlowError, match=r"the store 'kept' on disk has the format .*avro\(shop.User, "):
        run({**USER, "fields": [*USER["fields"], {"name": "age", "type": "int", "default": 0}]})


def test_times_and_decimals_in_expressions() -> None:
    schema = {
        "type": "record",
        "name": "T",
        "fields": [
            {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "us", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        ],
    }
    ms = 1_709_209_815_123  # 2024-02-29
    run = users({"ms": ms, "us": ms * 1000, "price": "12.5"}, value=sf.Serdes.avro(schema), out=sf.Serdes.json())
    made = sf.obj(
        one=sf.value["ms"].dt.year(),
        two=(sf.value["us"] // 1000).dt.day(),
        price=sf.value["price"],
        more=sf.value["price"].cast("float") * 2,
    )
    assert run(lambda s: s.map_values(made)) == [{"one": 2024, "two": 29, "price": "12.50", "more": 25.0}]


def test_processors_get_and_keep_avro() -> None:
    class Keep(sf.Processor[str, Any, str, str]):
        def init(self, context: Any) -> None:
            self.context = context
            self.store = context.state_store("seen")

        def process(self, record: Any) -> None:
            before = self.store.get(record.key)
            self.store.put(record.key, record.value)
            if type(record.value) is dict:
                record.value["name"] += "?"
            self.context.forward(record.replace(value=(before or {}).get("name", "nobody")))

    for serde in (AVRO, sf.Serdes.avro(USER, decode="dict")):
        builder = sf.StreamsBuilder()
        builder.add_state_store(sf.Stores.key_value("seen", key=str, value=serde))
        builder.stream("in", key=str, value=serde).process(Keep, stores=["seen"]).to("out", key=str, value=str)
        with TopologyTestDriver(builder.build()) as driver:
            topic = driver.input("in", str, AVRO)
            topic.pipe("k", ANN)
            topic.pipe("k", BOB)
            assert driver.output("out", str, str).read_values_to_list() == ["nobody", "ann"]
            assert driver.store("seen").get("k") == BOB


def test_a_dict_changed_by_a_processor_is_forwarded_changed() -> None:
    class Change(sf.Processor[str, Any, str, Any]):
        def init(self, context: Any) -> None:
            self.context = context

        def process(self, record: Any) -> None:
            record.value["name"] += "?"
            self.context.forward(record)

    plain = sf.Serdes.avro(USER, decode="dict")
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=plain).process(Change).to("out", key=str, value=plain)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, plain).pipe("k", ANN)
        assert driver.output("out", str, plain).read_value() == {**ANN, "name": "ann?"}


def test_confluent_framing_in_a_topology() -> None:
    framed = sf.Serdes.avro(USER, framing="confluent", schema_id=7)
    builder = sf.StreamsBuilder()
    source = builder.stream("in", key=str, value=framed)
    source.filter(sf.value["id"] > 0).to("same")
    source.to("plain", value=AVRO)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, framed).pipe("k", ANN)
        assert driver.output("same").read_value() == framed.serialize(ANN)
        assert driver.output("plain").read_value() == AVRO.serialize(ANN)


def test_a_malformed_record_is_found_at_its_source() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=AVRO).filter(sf.value["id"] > 0).to("out")
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(sf.SerdeError, match=r"no value of the Avro schema 'shop.User'.*topic in, partition 0, offset 0"),
    ):
        driver.input("in", key=str, value=bytes).pipe("k", b"\xff\xff")
    with TopologyTestDriver(builder.build(), on_deserialization_error=sf.DLQ("bad")) as driver:
        topic = driver.input("in", key=str, value=bytes)
        topic.pipe("k", b"\xff\xff")
        topic.pipe("k", AVRO.serialize(ANN))
        assert driver.output("out", str, AVRO).read_values_to_list() == [ANN]
        (letter,) = driver.output("bad").read_all()
        assert letter.value == b"\xff\xff"


def test_values_that_a_sink_cannot_serialize_go_to_its_handler() -> None:
    builder = sf.StreamsBuilder()
    source = builder.stream("in", key=str, value=str)
    source.map_values(lambda text: {"id": len(text), "name": text} if text else {"id": "?"}).to("out", value=AVRO)
    topology = builder.build()
    refused = pytest.raises(sf.SerdeError, match=r"at id: long is wanted.*topic in, partition 0, offset 0")
    with TopologyTestDriver(topology) as driver, refused:
        driver.input("in", str, str).pipe("k", "")
    with TopologyTestDriver(topology, on_production_error=sf.log_and_continue()) as driver:
        topic = driver.input("in", str, str)
        for text in ("ann", "", "bob"):
            topic.pipe("k", text)
        assert [one["name"] for one in driver.output("out", str, AVRO).read_values_to_list()] == ["ann", "bob"]


def test_missing_fields_are_found_at_build() -> None:
    builder = sf.StreamsBuilder()
    source = builder.stream("in", key=str, value=AVRO)
    source.filter(sf.value["nmae"] == "ann").to("a")
    source.map_values(sf.value["boss"]["lvel"]).to("b", value=str)
    source.filter(sf.value["name"] > 5).to("c")
    source.map_values(sf.value["id"].str.upper()).to("d", value=str)
    source.filter(sf.value["id"]["x"] == 1).to("e")
    with pytest.raises(sf.TopologyError) as raised:
        builder.build()
    message = str(raised.value)
    line = r"test_avro_running.py:\d+"
    for wanted in (
        r"sf.value\[\"nmae\"\]: the Avro record 'shop.User' has no field 'nmae', did you mean 'name'\?",
        r"has no field 'lvel', did you mean 'level'\?",
        r"str and int have no order",
        r".str takes str, but this is int",
        r"a value of type int has no member 'x'",
    ):
        assert re.search(f"{line}.*{wanted}", message), (wanted, message)


def test_values_that_never_fit_a_sink_are_found_at_build() -> None:
    named = sf.Serdes.avro(NAMED)
    builder = sf.StreamsBuilder()
    source = builder.stream("in", key=str, value=AVRO)
    source.map_values(sf.obj(nam=sf.value["name"])).to("a", value=named)
    source.map_values(sf.obj(name=sf.value["id"])).filter(sf.key == "x").to("b", value=named)
    source.map_values(sf.obj(name="x", picture=sf.value["tags"])).to("c", value=named)
    source.map_values(sf.value["id"]).to("d", value=named)
    source.map_values(sf.obj(id=1, name="x", level="MID")).to("e", value=AVRO)
    builder.stream("texts", key=str, value=str).to("f", value=named)
    with pytest.raises(sf.TopologyError) as raised:
        builder.build()
    message = str(raised.value)
    for wanted in (
        "the Avro record 'Named' has no field 'nam', did you mean 'name'?",
        "the Avro record 'Named' needs the field 'name', which has no default",
        "it gives int, but the Avro string takes str",
        "it gives list, but the Avro bytes takes str or bytes",
        "it gives int, but the Avro Named takes object",
        "the Avro enum has no 'MID'",
        "its values are str, but the Avro schema (Named) takes object",
    ):
        assert wanted in message, (wanted, message)
    assert message.count("test_avro_running.py") >= 7


def test_values_that_may_fit_are_allowed() -> None:
    named = sf.Serdes.avro(NAMED)
    builder = sf.StreamsBuilder()
    json = builder.stream("in", key=str, value=sf.Serdes.json())
    json.map_values(sf.obj(name=sf.value["x"], picture=sf.value["y"])).to("a", value=named)
    json.map_values(sf.when(sf.value["x"] == 1).then(sf.obj(name="x")).otherwise(None)).to("b", value=named)
    json.map_values(lambda v: v).to("c", value=named)
    json.to("d", value=named)
    builder.build()


def test_windows_and_joins_keep_avro() -> None:
    builder = sf.StreamsBuilder()
    left = builder.stream("in", key=str, value=AVRO)
    right = builder.stream("right", key=str, value=AVRO)
    window = sf.JoinWindows("10s", grace="0s")
    left.join(right, lambda a, b: a | {"name": a["name"] + b["name"]}, window, name="one").to("joined", value=AVRO)
    left.join(right, sf.obj(a=sf.left["name"], b=sf.right["tags"][0]), window, name="two").to(
        "native", value=sf.Serdes.json()
    )
    left.group_by_key().windowed_by(sf.TimeWindows("1m", grace="0s")).reduce(
        lambda old, new: new | {"id": old["id"] + new["id"]}, store=sf.Materialized("sums", value=AVRO)
    ).suppress(sf.Suppressed.until_window_closes(name="closed")).to_stream().select_key(lambda k, v: k.key).to(
        "sums", key=str, value=AVRO
    )
    with TopologyTestDriver(builder.build(), lanes=2) as driver:
        topic, other = driver.input("in", str, AVRO), driver.input("right", str, AVRO)
        topic.pipe("k", ANN, timestamp=1000)
        other.pipe("k", user(9, "-x", tags=["t"]), timestamp=2000)
        topic.pipe("k", user(3, "cyd"), timestamp=3000)
        topic.pipe("k", BOB, timestamp=200_000)
        assert driver.output("joined", str, AVRO).read_values_to_list() == [{**ANN, "name": "ann-x"}, user(3, "cyd-x")]
        assert driver.output("native", str, sf.Serdes.json()).read_values_to_list() == [
            {"a": "ann", "b": "t"},
            {"a": "cyd", "b": "t"},
        ]
        assert driver.output("sums", str, AVRO).read_values_to_list() == [user(10, "cyd")]


def test_async_functions_get_views() -> None:
    async def shout(value: Any) -> Any:
        assert type(value) is sf.JsonObject
        return value | {"name": value["name"].upper()}

    assert users(ANN, BOB, out=AVRO)(lambda s: s.map_values(shout, name="shout")) == [
        {**ANN, "name": "ANN"},
        {**BOB, "name": "BOB"},
    ]


@pytest.mark.parametrize("cached", [True, False])
def test_a_json_store_takes_avro_values(cached: bool) -> None:
    seen = []

    def keep(old: Any, new: Any) -> Any:
        seen.append(old["a"])
        return old

    plain = sf.Serdes.avro({"type": "record", "name": "P", "fields": [{"name": "a", "type": "int"}]})
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=plain).group_by_key(value=sf.Serdes.json()).reduce(
        keep, store=sf.Materialized("kept", value=sf.Serdes.json(), caching=cached)
    )
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.input("in", str, plain)
        for number in (1, 2, 3):
            topic.pipe("k", {"a": number})
        with driver.epoch():
            for number in (4, 5):
                topic.pipe("k", {"a": number})
        assert driver.store("kept").get("k") == {"a": 1}
    assert seen == [1] * 4
