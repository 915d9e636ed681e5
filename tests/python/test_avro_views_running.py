"""Where functions receive Avro views, and what becomes of views that they return."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import stoatflow as sf
from avro_schemas import USER, user
from stoatflow import JsonArray, JsonObject, Record, Stores
from stoatflow.doctor.examination import examine
from stoatflow.testing import TopologyTestDriver

AVRO, PLAIN = sf.Serdes.avro(USER), sf.Serdes.avro(USER, decode="dict")
SCORE = sf.Serdes.avro({"type": "record", "name": "Score", "fields": [{"name": "score", "type": "double"}]})
ANN = user(7, "ann", mail="a@b", tags=["x", "y"], scores={"a": 1.5, "b": -2.0}, photo=b"\x00\xff", boss=user(1, "bob"))
BOB = user(1, "bob")
# Two blocks of elements, where our own writer would write one: if they are kept, the bytes were copied.
TAGS = {"type": "record", "name": "T", "fields": [{"name": "tags", "type": {"type": "array", "items": "string"}}]}
ODD = b"\x02\x02x\x02\x02y\x00"


def run(make: Any, *values: Any, value: Any = AVRO, out: Any = AVRO) -> list[Any]:
    """The records in `out`."""
    builder = sf.StreamsBuilder()
    make(builder.stream("in", key=str, value=value)).to("out", key=str, value=out)
    with TopologyTestDriver(builder.build()) as driver:
        for one in values or (ANN,):
            driver.input("in", str, value).pipe("k", one)
        return driver.output("out", str, out).read_values_to_list()


def test_every_stateless_operator_gets_views() -> None:
    seen: list[tuple[str, type, type]] = []

    def note(of: str, result: Any = None) -> Any:
        def take(*arguments: Any) -> Any:
            value = arguments[-1]
            seen.append((of, type(value), type(value["tags"])))
            assert value == ANN
            return result(value) if result else True

        return take

    def every(stream: Any) -> Any:
        stream.foreach(note("foreach"))
        return (
            stream.filter(note("filter"))
            .filter_not(note("filter_not", lambda _: False))
            .peek(note("peek"))
            .map_values(note("map_values", lambda v: v))
            .flat_map_values(note("flat_map_values", lambda v: [v]))
            .map(note("map", lambda v: ("k", v)))
            .flat_map(note("flat_map", lambda v: [("k", v)]))
            .select_key(note("select_key", lambda v: v["name"]))
        )

    assert run(every) == [ANN]
    assert {of for of, _, _ in seen} == {
        "foreach", "filter", "filter_not", "peek", "map_values", "flat_map_values", "map", "flat_map", "select_key",
    }  # fmt: skip
    assert {(outer, inner) for _, outer, inner in seen} == {(JsonObject, JsonArray)}


def test_unchanged_values_are_written_unchanged() -> None:
    tags = sf.Serdes.avro(TAGS)
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=tags)
    for at, function in enumerate(
        (lambda v: v, lambda v: {"tags": v["tags"]}, lambda v: {} | v, lambda v: {**v}, lambda v: v | {})
    ):
        stream.map_values(function).to(f"out{at}", value=tags)
    stream.map_values(lambda v: v["tags"]).map_values(sf.value[1]).to("second", value=str)
    stream.map_values(lambda v: v | {"more": 1}).map_values(sf.value["tags"][1]).to("of_changed", value=str)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, bytes).pipe("k", ODD)
        assert [driver.output(f"out{at}").read_value() for at in range(5)] == [ODD] * 5
        assert driver.output("second", str, str).read_value() == "y"
        assert driver.output("of_changed", str, str).read_value() == "y"


def test_objects_of_expressions_are_views_too() -> None:
    seen: list[Any] = []

    def note(value: Any) -> Any:
        seen.extend([type(value), type(value["boss"]), value["picture"]])
        assert value == {"name": "ann", "picture": b"\x00\xff", "boss": ANN["boss"]}
        return {"id": 5, "name": value["name"], "photo": value["picture"], "boss": value["boss"]}

    made = sf.obj(name=sf.value["name"], picture=sf.value["photo"], boss=sf.value["boss"])
    assert run(lambda s: s.map_values(made).map_values(note)) == [user(5, "ann", photo=b"\x00\xff", boss=ANN["boss"])]
    assert seen == [JsonObject, JsonObject, b"\x00\xff"]


def test_aggregates_are_views_in_every_call() -> None:
    seen: list[type] = []

    def add(key: str, value: Any, total: Any) -> Any:
        seen.append(type(total))
        return {"id": total["id"] + value["id"], "name": value["name"], "boss": value["boss"]}

    def merge(key: str, value: Any, total: Any) -> Any:
        seen.append(type(total))
        return total | {"id": total["id"] + value["id"], "name": value["name"], "boss": value["boss"]}

    for step in (add, merge):
        builder = sf.StreamsBuilder()
        grouped = builder.stream("in", key=str, value=AVRO).group_by_key()
        grouped.aggregate(lambda: user(0, ""), step, store=sf.Materialized("s", value=AVRO)).to_stream().to("out")
        with TopologyTestDriver(builder.build()) as driver:
            source = driver.input("in", str, AVRO)
            with driver.epoch():
                source.pipe("k", BOB)
                source.pipe("k", ANN)
            source.pipe("k", ANN)
            driver.crash()
            driver.restart()
            source.pipe("k", ANN)
            assert driver.output("out", str, AVRO).read_all()[-1].value == user(22, "ann", boss=ANN["boss"])
            assert driver.store("s").get("k") == user(22, "ann", boss=ANN["boss"])
    assert set(seen) == {JsonObject}


def test_an_aggregate_changed_in_place_fails_at_the_first_record() -> None:
    def add(key: str, value: Any, total: Any) -> Any:
        total["id"] += value["id"]
        return total

    for serde in (AVRO, PLAIN):
        builder = sf.StreamsBuilder()
        builder.stream("in", key=str, value=AVRO).group_by_key().aggregate(
            lambda: user(0, ""), add, store=sf.Materialized("s", value=serde)
        )
        with TopologyTestDriver(builder.build()) as driver:
            source = driver.input("in", str, AVRO)
            if serde is AVRO:
                with pytest.raises(sf.ProcessingError, match='decode="dict"'):
                    source.pipe("k", ANN)
                continue
            source.pipe("k", ANN)
            source.pipe("k", ANN)
            assert driver.store("s").get("k") == user(14, "")


def test_equal_keys_have_equal_bytes() -> None:
    tags = sf.Serdes.avro(TAGS)
    inner = sf.Serdes.avro({"type": "array", "items": "string"})
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=tags)
    for name, function, key in (
        ("a", lambda k, v: v["tags"], inner),
        ("b", lambda k, v: {"tags": v["tags"][:]}, tags),
        ("c", lambda k, v: v | {}, tags),
    ):
        keyed = stream.select_key(function).group_by_key(key=key, value=tags)
        keyed.count(store=name).to_stream().to(name, key=key, value=int)
    with TopologyTestDriver(builder.build()) as driver:
        for data in (ODD, tags.serialize({"tags": ["x", "y"]})):
            driver.input("in", str, bytes).pipe("k", data)
        for name in "abc":
            counts = driver.output(name, bytes, int).read_all()
            assert [record.value for record in counts] == [1, 2], name
            assert len({record.key for record in counts}) == 1


def test_keys_of_views_and_dicts_join() -> None:
    key = {"type": "record", "name": "K", "fields": [{"name": "a", "type": "int"}]}
    lazy, plain = sf.Serdes.avro(key), sf.Serdes.avro(key, decode="dict")
    builder = sf.StreamsBuilder()
    table = builder.table("table", key=plain, value=str, store="t")
    builder.stream("in", key=lazy, value=str).join(table, lambda a, b: a + b).to("out", value=str)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("table", plain, str).pipe({"a": 1}, "y")
        driver.input("in", lazy, str).pipe({"a": 1}, "x")
        assert driver.output("out", lazy, str).read_key_values_to_list() == [({"a": 1}, "xy")]


def test_processors_and_their_stores() -> None:
    class Keeps(sf.ContextualProcessor[str, Any, str, Any]):
        @classmethod
        def stores(cls) -> list[Any]:
            return [Stores.persistent_key_value("kept", key=str, value=AVRO)]

        def init(self, context: Any) -> None:
            super().init(context)
            self.kept: Any = context.state_store("kept")

        def process(self, record: Record[str, Any]) -> None:
            assert type(record.value) is JsonObject
            before = self.kept.get("all", user(0, "nobody"))
            self.kept.put("all", before | {"id": before["id"] + 1, "boss": record.value})
            self.context.forward(record.replace(value=self.kept.get("all")))
            self.context.forward(record)

    assert run(lambda s: s.process(Keeps), ANN, BOB) == [
        user(1, "nobody", boss=ANN), ANN, user(2, "nobody", boss=BOB), BOB,
    ]  # fmt: skip


def test_joiners_handlers_and_serdes_of_the_user_get_views() -> None:
    seen: list[type] = []

    class Names(sf.Serde[Any]):
        def serialize(self, value: Any) -> bytes:
            seen.append(type(value))
            return str(value["name"]).encode()

        def deserialize(self, data: bytes) -> Any:
            return {"name": data.decode()}

    def join(left: Any, right: Any) -> Any:
        seen.extend([type(left), type(right)])
        return right | {"boss": left}

    def decide(context: Any, record: Any, error: Any) -> Any:
        seen.append(type(record.value))
        assert isinstance(error, KeyError)
        return sf.log_and_continue()

    builder = sf.StreamsBuilder()
    table = builder.table("table", key=str, value=AVRO, store="t")
    stream = builder.stream("in", key=str, value=AVRO)
    stream.join(table, join).to("joined", value=AVRO)
    stream.map_values(lambda v: v["nothing"], on_error=decide).to("none", value=str)
    stream.to("names", value=Names())
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("table", str, AVRO).pipe("k", BOB)
        driver.input("in", str, AVRO).pipe("k", ANN)
        assert driver.output("joined", str, AVRO).read_value() == {**BOB, "boss": ANN}
        assert driver.output("names", str, str).read_value() == "ann"
        assert driver.output("none").is_empty
    assert seen == [JsonObject] * 4


def test_async_functions() -> None:
    seen: list[type] = []

    async def twice(value: Any) -> Any:
        seen.append(type(value))
        return [value, value["boss"]]

    async def boss_of(key: str, value: Any) -> Any:
        return value["boss"]

    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=AVRO)
    stream.flat_map_values(twice, name="twice").to("both", value=AVRO)
    stream.select_key(boss_of, name="boss").to("keyed", key=AVRO, value=AVRO)
    with TopologyTestDriver(builder.build(), lanes=2) as driver:
        driver.input("in", str, AVRO).pipe("k", ANN)
        assert driver.output("both", str, AVRO).read_values_to_list() == [ANN, ANN["boss"]]
        assert driver.output("keyed", AVRO, AVRO).read_key_values_to_list() == [(ANN["boss"], ANN)]
    assert seen == [JsonObject]


def test_parked_calls_resume_with_views(tmp_path: Path) -> None:
    import asyncio

    seen: list[type] = []

    @sf.awaiting(park_after="20ms")
    async def slow(value: Any) -> Any:
        seen.append(type(value))
        await asyncio.sleep(0.3)
        return value | {"name": value["name"] + "!"}

    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=AVRO)
    stream.map_values(slow, name="slow").to("out", value=AVRO)
    with sf.EmbeddedBroker() as broker:
        for topic in ("in", "out"):
            broker.create_topic(topic, 1)
        broker.produce("in", b"k", AVRO.serialize(ANN))
        config = {"application.id": "parks", "state.dir": str(tmp_path), "commit.interval.ms": 20}
        with sf.StoatFlow(builder.build(), config, broker=broker) as app:
            import time

            until = time.monotonic() + 60
            while not (found := list(broker.read("out"))):
                assert time.monotonic() < until
                assert app.error is None
                time.sleep(0.02)
        assert [AVRO.deserialize(one.value or b"") for one in found] == [{**ANN, "name": "ann!"}]
    assert set(seen) == {JsonObject}


def test_offload_asks_parks_and_answers_with_avro() -> None:
    seen: list[tuple[type, type]] = []

    def join(value: Any, answer: Any) -> Any:
        seen.append((type(value), type(answer)))
        return value | {"scores": {"score": answer["score"]}}

    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=AVRO)
    stream.offload(
        "asked", "answered", request=lambda v: v["boss"], request_value=AVRO, joiner=join, response_value=SCORE,
        name="score",
    ).to("out", value=AVRO)  # fmt: skip
    with TopologyTestDriver(builder.build(), lanes=2) as driver:
        driver.input("in", str, AVRO).pipe("k", ANN)
        (parked,) = driver.parked("score")
        assert parked.value == ANN
        driver.crash()
        driver.restart(lanes=3)
        request = driver.output("asked", str, AVRO).read()
        assert request.value == ANN["boss"]
        driver.input("answered", str, SCORE).pipe("k", {"score": 0.5}, headers=request.headers)
        assert driver.output("out", str, AVRO).read_value() == {**ANN, "scores": {"score": 0.5}}
    assert seen == [(JsonObject, JsonObject)]


def test_arrow_batches_have_columns_of_fields() -> None:
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("boss", pa.struct([("name", pa.string())]))])
    seen: list[pa.RecordBatch] = []

    def shout(batch: pa.RecordBatch) -> pa.RecordBatch:
        names = pa.array([name.upper() for name in batch["name"].to_pylist()])
        return pa.record_batch({"id": batch["id"], "name": names})

    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=AVRO)
    stream.map_batches(shout, schema=schema).to("out", value=AVRO)
    stream.foreach_batch(seen.append, schema=schema)
    # JSON has no bytes, so only columns without them are written as JSON.
    stream.map_batches(lambda batch: batch.select(["scores", "level"])).to("all", value=sf.Serdes.json())
    with TopologyTestDriver(builder.build()) as driver:
        with driver.epoch():
            driver.input("in", str, AVRO).pipe("a", ANN)
            driver.input("in", str, AVRO).pipe("b", BOB)
        assert driver.output("out", str, AVRO).read_key_values_to_list() == [
            ("a", user(7, "ANN")),
            ("b", user(1, "BOB")),
        ]
        first = driver.output("all", str, dict).read_value()
        assert (first["scores"], first["level"]) == (ANN["scores"], "LOW")
    (batch,) = seen
    assert batch["boss"].to_pylist() == [{"name": "bob"}, None]
    assert batch["_key"].to_pylist() == ["a", "b"]


def test_arrow_columns_of_decimals_times_and_bytes_round_trip() -> None:
    kinds = {
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        "at": {"type": "long", "logicalType": "timestamp-millis"},
        "day": {"type": "int", "logicalType": "date"},
        "photo": "bytes",
    }
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    serde = sf.Serdes.avro({"type": "record", "name": "Sale", "fields": fields})

    def changed(batch: pa.RecordBatch) -> pa.RecordBatch:
        price = pc.multiply(pc.cast(batch["price"], pa.decimal128(9, 2)), pa.scalar(Decimal(2)))
        day = pc.cast(pc.cast(batch["day"], pa.int32()), pa.date32())
        photos = [photo + b"\xfe" for photo in batch["photo"].to_pylist()]
        at = pc.add(pc.cast(batch["at"], pa.timestamp("ms")), pa.scalar(1, pa.duration("ms")))
        return pa.record_batch(
            {
                "price": pc.cast(price, pa.string()),
                "at": pc.cast(at, pa.int64()),
                "day": pc.add(pc.cast(day, pa.int32()), 1),
                "photo": pa.array(photos, pa.binary()),
            }
        )

    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=serde).map_batches(changed).to("out", value=serde)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, serde).pipe("k", {"price": "-12.50", "at": 5, "day": 19_782, "photo": b"\x00\xff"})
        wanted = {"price": "-25.00", "at": 6, "day": 19_783, "photo": b"\x00\xff\xfe"}
        assert driver.output("out", str, serde).read_value() == wanted


def test_stores_of_avro_are_shown_as_arrow() -> None:
    builder = sf.StreamsBuilder()
    builder.table("in", key=str, value=AVRO, store="users")
    with TopologyTestDriver(builder.build()) as driver:
        for key, value in (("a", ANN), ("b", BOB)):
            driver.input("in", str, AVRO).pipe(key, value)
        table = driver.to_arrow("users")
        table.validate(full=True)
        assert table["name"].to_pylist() == ["ann", "bob"]
        assert table["tags"].to_pylist() == [["x", "y"], []]
        # A map is a struct with all names that occur.
        assert table["scores"].to_pylist() == [{"a": 1.5, "b": -2.0}, {"a": None, "b": None}]
        assert table["photo"].to_pylist() == [b"\x00\xff", b""]
        narrow = driver.to_arrow("users", schema=pa.schema([("id", pa.int32())]))
        assert narrow.select(["_key", "id"]).to_pylist() == [{"_key": "a", "id": 7}, {"_key": "b", "id": 1}]


def test_the_doctor_proposes_expressions_for_functions_of_avro() -> None:
    def change(value: Any) -> Any:
        value["id"] = 5
        return value

    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=AVRO)
    stream.filter(lambda k, v: v["id"] > 5).to("a")
    stream.map_values(lambda v: {"name": v["name"], "first": v["tags"][0]}).to("b", value=sf.Serdes.json())
    # The whole record would become JSON, so the function copies fields that it doesn't change.
    stream.map_values(lambda v: v | {"id": 8}).to("c", value=AVRO)
    stream.map_values(lambda v: {**v, **v["boss"]}).to("whole", value=AVRO)
    stream.map_values(lambda v: {**v["scores"], **v["boss"]}).to("parts", value=sf.Serdes.json())
    stream.map_values(change).to("d", value=AVRO)
    plain = builder.stream("plain", key=str, value=PLAIN)
    plain.map_values(change).to("e", value=AVRO)
    found = [(finding.kind, finding.next_step) for finding in examine(builder.build())]
    assert [kind for kind, _ in found] == ["expression", "expression", "expression", "changed view"]
    assert found[0][1] == "write sf.value['id'] > 5"
    assert found[1][1] == "write sf.obj(name=sf.value['name'], first=sf.value['tags'][0])"
    assert found[2][1] == "write sf.value['scores'].merge(sf.value['boss'])"
    assert 'decode="dict"' in found[3][1]
