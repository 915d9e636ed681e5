"""Avro and Protobuf on a real broker, with Confluent's own serializers before and after the application."""

from __future__ import annotations

import random
import shutil
import signal
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import confluent_clients
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import shopping
import totals
from confluent_clients import IN_HEADERS, Deserializer, Registry, Serializer
from confluent_kafka.serialization import MessageField
from counting import until, until_consumed
from processes import Process
from topics import KafkaTopics

import stoatflow as sf
from protobuf_messages import classes

HERE = Path(__file__).resolve().parent
SHOP, NEW_SHOP = classes(shopping.PROTOBUF), classes(shopping.PROTOBUF_NEW)


@pytest.fixture(scope="module")
def registry() -> Registry:
    """Ids and schemas."""
    return Registry()


def create(kafka: KafkaTopics, name: str, *topics: str, partitions: int = 1) -> None:
    for topic in topics:
        kafka.create(f"{name}-{topic}", partitions)


def run(
    kafka: KafkaTopics, name: str, state: Path, builder: sf.StreamsBuilder, last: str, records: int, **settings: object
) -> None:
    """Wait until all input is committed, and the last topic has this many records.

    Records behind a topic of the application itself may arrive later: they don't count as lag until they are read.
    """
    config = {
        "application.id": name,
        "bootstrap.servers": kafka.address,
        "state.dir": state,
        "lanes.count": 2,
        **settings,
    }
    with sf.StoatFlow(builder.build(), config) as app:
        until_consumed(app)
        until(lambda: kafka.count(f"{name}-{last}") >= records or app.wait(0.01), f"{last} is written")


def summed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Columns of fields, including nested ones; lists of records are passed on unchanged."""
    customer, items = batch["customer"], batch["items"].to_pylist()
    firsts = [of[0]["sku"] if of else None for of in items]
    pieces = [sum(item["count"] for item in of) for of in items]
    return pa.record_batch(
        {
            "who": pc.utf8_upper(customer.field("name")),
            "by": pa.array(["batch"] * batch.num_rows),
            "level": batch["level"],
            "sku": pa.array(firsts, pa.string()),
            "pieces": pa.array(pieces, pa.int32()),
            "zip": pc.struct_field(customer.field("home"), "zip"),
            "items": batch["items"],
        }
    )


def columns(price: tuple[str, pa.DataType]) -> pa.Schema:
    """The columns that `summed` reads."""
    home = pa.struct([("zip", pa.int32())])
    item = pa.struct([("sku", pa.string()), ("count", pa.int32()), price])
    customer = pa.struct([("name", pa.string()), ("home", home)])
    return pa.schema([("customer", customer), ("level", pa.string()), ("items", pa.list_(item))])


def test_avro_between_confluents_serializers(kafka: KafkaTopics, registry: Registry, name: str, tmp_path: Path) -> None:
    create(kafka, name, "orders", "same", "expression", "noted", "dict", "summary", "batch")
    orders = f"{name}-orders"
    ids = {topic: registry.avro_id(f"{name}-{topic}", shopping.AVRO_ORDER) for topic in ("orders", "expression")}
    summary_id = registry.avro_id(f"{name}-summary", shopping.AVRO_SUMMARY)
    assert len({*ids.values(), summary_id}) == 3
    given = [
        shopping.avro_order(1),
        shopping.avro_order(2**40, contact=5_550_123, note="fragile", tags=[], scores={}, items=[]),
        shopping.avro_order(
            3, contact={"street": "Ödla", "zip": -1}, customer={"name": "", "home": None}, photo=b"",
            total=Decimal("-0.01"), level="LOW",
        ),
    ]  # fmt: skip
    came = confluent_clients.write(
        kafka, orders, [("k", one) for one in given], registry.writes_avro(shopping.AVRO_ORDER)
    )
    order = sf.Serdes.avro(shopping.AVRO_ORDER, framing="confluent", schema_id=ids["orders"])
    plain = sf.Serdes.avro(shopping.AVRO_ORDER, framing="confluent", schema_id=ids["orders"], decode="dict")
    elsewhere = sf.Serdes.avro(shopping.AVRO_ORDER, framing="confluent", schema_id=ids["expression"])
    summary = sf.Serdes.avro(shopping.AVRO_SUMMARY, framing="confluent", schema_id=summary_id)

    def noted(value: Any) -> Any:
        cheaper = [item | {"price": Decimal(item["price"]) / 2} for item in value["items"][:1]]
        return value | {"note": f"for {value['customer']['name']}", "items": [*cheaper, *value["items"][1:]]}

    def changed(value: dict[str, Any]) -> dict[str, Any]:
        value["scores"]["more"] = 1.0
        value["customer"]["home"] = {"street": "new", "zip": 1}
        return value

    builder = sf.StreamsBuilder()
    stream = builder.stream(orders, key=str, value=order)
    stream.to(f"{name}-same", value=order)
    stream.map_values(sf.value.with_fields(id=sf.value["id"] + 1, note=sf.value["total"])).to(
        f"{name}-expression", value=elsewhere
    )
    stream.map_values(noted).to(f"{name}-noted", value=order)
    stream.map_values(
        sf.obj(
            who=sf.value["customer"]["name"],
            level=sf.value["level"],
            sku=sf.value["items"][0]["sku"],
            pieces=sf.value["items"].len(),
            total=sf.value["total"],
            zip=sf.value["customer"]["home"]["zip"],
            best=sf.value["scores"]["speed"],
            items=sf.value["items"],
        )
    ).to(f"{name}-summary", value=summary)
    stream.map_batches(summed, schema=columns(("price", pa.string()))).to(f"{name}-batch", value=summary)
    # The engine's own output is read again, for a function that gets dicts it may change.
    builder.stream(f"{name}-same", key=str, value=plain).map_values(changed).to(f"{name}-dict", value=plain)
    run(kafka, name, tmp_path, builder, "dict", len(given))

    def values(topic: str) -> list[Any]:
        return [value for _, value in confluent_clients.read(kafka, f"{name}-{topic}", registry.reads_avro())]

    assert [row.value for row in kafka.read(f"{name}-same")] == came
    assert values("expression") == [{**one, "id": one["id"] + 1, "note": str(one["total"])} for one in given]
    assert values("noted") == [
        {
            **one,
            "note": f"for {one['customer']['name']}",
            "items": [
                *({**item, "price": item["price"] / 2} for item in one["items"][:1]),
                *one["items"][1:],
            ],
        }
        for one in given
    ]
    firsts = [one["items"][0]["sku"] if one["items"] else None for one in given]
    zips = [one["customer"]["home"] and one["customer"]["home"]["zip"] for one in given]
    assert values("summary") == [
        {
            "who": one["customer"]["name"], "by": "nobody", "level": one["level"], "sku": sku,
            "pieces": len(one["items"]), "total": one["total"], "zip": home, "best": one["scores"].get("speed"),
            "items": one["items"],
        }
        for one, sku, home in zip(given, firsts, zips, strict=True)
    ]  # fmt: skip
    assert values("batch") == [
        {
            "who": one["customer"]["name"].upper(), "by": "batch", "level": one["level"], "sku": sku,
            "pieces": sum(item["count"] for item in one["items"]), "total": None, "zip": home, "best": None,
            "items": one["items"],
        }
        for one, sku, home in zip(given, firsts, zips, strict=True)
    ]  # fmt: skip
    assert values("dict") == [
        {
            **one,
            "scores": {**one["scores"], "more": 1.0},
            "customer": {**one["customer"], "home": {"street": "new", "zip": 1}},
        }
        for one in given
    ]


def test_avro_of_an_older_producer(kafka: KafkaTopics, registry: Registry, name: str, tmp_path: Path) -> None:
    """The topic has records of both schemas: the application reads and writes the newer one."""
    create(kafka, name, "visits", "out", "changed", "dead")
    visits, own = f"{name}-visits", registry.avro_id(f"{name}-out", shopping.AVRO_VISIT)
    old = registry.avro_id(visits, shopping.AVRO_OLD_VISIT)
    given = {"id": 1, "customer": {"name": "ann"}, "rate": Decimal("-3.1416"), "paid": 0.5, "level": "LOW"}
    older = [
        {**given, "contact": "mail", "dropped": [{"a": b"x"}, {}]},
        {**given, "id": -(2**31), "contact": 2**31 - 1, "level": "TOP", "dropped": []},
    ]
    newer = {**given, "id": 2**40, "contact": None, "paid": None, "tags": [], "customer": {"name": "bob", "home": None}}
    confluent_clients.write(kafka, visits, [("k", one) for one in older], registry.writes_avro(shopping.AVRO_OLD_VISIT))
    confluent_clients.write(kafka, visits, [("k", newer)], registry.writes_avro(shopping.AVRO_VISIT))
    # Registered after the application has looked it up: an error handler gets undecodable records unchanged.
    later = {**shopping.AVRO_VISIT, "fields": shopping.AVRO_VISIT["fields"][:3]}
    strange = confluent_clients.write(
        kafka, visits, [("k", {**newer, "id": number}) for number in (8, 9)], registry.writes_avro(later)
    )
    # The same schema has another id for another topic: each known id is listed.
    known = {old: shopping.AVRO_OLD_VISIT, registry.avro_id(visits, shopping.AVRO_VISIT): shopping.AVRO_VISIT}
    assert own not in known
    visit = sf.Serdes.avro(shopping.AVRO_VISIT, framing="confluent", schema_id=own, writer_schemas=known)
    builder = sf.StreamsBuilder()
    stream = builder.stream(visits, key=str, value=visit)
    stream.to(f"{name}-out", value=visit)
    stream.map_values(lambda v: v | {"paid": 1.0}).to(f"{name}-changed", value=visit)
    run(kafka, name, tmp_path, builder, "changed", 3, **{"deserialization.exception.handler": f"dlq:{name}-dead"})
    wanted = [
        {**given, "contact": "mail", "customer": {"name": "ann", "home": None}, "tags": ["none"]},
        {
            **given, "id": -(2**31), "contact": 2**31 - 1, "customer": {"name": "ann", "home": None}, "tags": ["none"],
            "level": "HIGH",
        },
        newer,
    ]  # fmt: skip
    assert [value for _, value in confluent_clients.read(kafka, f"{name}-out", registry.reads_avro())] == wanted
    assert [row.value for row in kafka.read(f"{name}-dead")] == strange
    changed = [{**one, "paid": 1.0} for one in wanted]
    assert [value for _, value in confluent_clients.read(kafka, f"{name}-changed", registry.reads_avro())] == changed


def each(given: list[Any], change: Callable[[Any], None]) -> list[Any]:
    """Changed copies of messages."""
    copies = [type(one).FromString(one.SerializeToString()) for one in given]
    for one in copies:
        change(one)
    return copies


def numbered(one: Any) -> None:
    """Like the expression: its result is an object of the fields that the application knows."""
    one.id += 1
    one.note = one.tags[0] if one.tags else "none"
    one.ClearField("coupon")
    one.ClearField("before")


def priced(one: Any) -> None:
    """Like the function on views."""
    one.note, one.phone = "seen", 5
    for item in one.items[:1]:
        item.cents //= 2


def renamed(one: Any) -> None:
    """Like the function on messages, which is this one."""
    one.scores["more"] = 1.0
    one.customer.home.street = "new"


def summary_of(one: Any) -> Any:
    """The summary of an order, by the package `protobuf`."""
    made = SHOP["Summary"](who=one.customer.name, level=one.level, pieces=len(one.items))
    made.MergeFromString(b"".join(b"\x4a" + bytes([i.ByteSize()]) + i.SerializeToString() for i in one.items))
    for name, value in (
        ("sku", [i.sku for i in one.items][:1]),
        ("best", [one.scores[k] for k in one.scores if k == "speed"]),
    ):
        for found in value:
            setattr(made, name, found)
    if one.HasField("phone"):
        made.phone = one.phone
    if one.customer.HasField("home"):
        made.zip = one.customer.home.zip
    return made


def test_protobuf_between_confluents_serializers(
    kafka: KafkaTopics, registry: Registry, name: str, tmp_path: Path
) -> None:
    create(kafka, name, "orders", "same", "expression", "priced", "renamed", "summary", "batch", "items")
    of, newer = SHOP["Order"], NEW_SHOP["Order"]
    own, new = registry.protobuf_id(f"{name}-orders", of), registry.protobuf_id(f"{name}-orders", newer)
    summary_id = registry.protobuf_id(f"{name}-summary", SHOP["Summary"])
    item_id = registry.protobuf_id(f"{name}-items", of.Item)
    assert len({own, new, summary_id, item_id}) == 4
    # The last two: a oneof member that is set to its default, and one that is empty.
    given = [shopping.protobuf_order(of, 1), shopping.protobuf_order(of, 2**40, phone=7), of(phone=0), of()]
    given[3].address.SetInParent()
    came = confluent_clients.write(kafka, f"{name}-orders", [("k", one) for one in given], registry.writes_protobuf(of))
    assert came[0][:7] == b"\x00" + own.to_bytes(4, "big") + b"\x02\x04", "it isn't the first message of its file"
    # A newer producer: fields that the application doesn't know stay in the record.
    stranger = shopping.protobuf_order(newer, 4, coupon="half", before="MIDDLE")
    confluent_clients.write(kafka, f"{name}-orders", [("k", stranger)], registry.writes_protobuf(newer))
    given = [newer.FromString(one.SerializeToString()) for one in [*given, stranger]]

    framed: dict[str, Any] = {"framing": "confluent", "schema_id": own, "schema_ids": [new]}
    order = sf.Serdes.protobuf(shopping.PROTOBUF, "shop.Order", **framed)
    message = sf.Serdes.protobuf(of, decode="message", **framed)
    summary = sf.Serdes.protobuf(shopping.PROTOBUF, "shop.Summary", framing="confluent", schema_id=summary_id)
    item = sf.Serdes.protobuf(of.Item, framing="confluent", schema_id=item_id)

    def cheaper(value: Any) -> Any:
        items = [one | {"cents": one["cents"] // 2} for one in value["items"][:1]]
        return value | {"note": "seen", "phone": 5, "items": [*items, *value["items"][1:]]}

    def moved(value: Any) -> Any:
        renamed(value)
        return value

    builder = sf.StreamsBuilder()
    stream = builder.stream(f"{name}-orders", key=str, value=order)
    stream.to(f"{name}-same", value=order)
    stream.map_values(sf.value.with_fields(id=sf.value["id"] + 1, note=sf.coalesce(sf.value["tags"][0], "none"))).to(
        f"{name}-expression", value=order
    )
    stream.map_values(cheaper).to(f"{name}-priced", value=order)
    stream.flat_map_values(lambda v: v["items"]).to(f"{name}-items", value=item)
    stream.map_values(
        sf.obj(
            who=sf.value["customer"]["name"],
            level=sf.value["level"],
            sku=sf.value["items"][0]["sku"],
            pieces=sf.value["items"].len(),
            phone=sf.value["phone"],
            zip=sf.value["customer"]["home"]["zip"],
            best=sf.value["scores"]["speed"],
            items=sf.value["items"],
        )
    ).to(f"{name}-summary", value=summary)
    stream.map_batches(summed, schema=columns(("cents", pa.int64()))).to(f"{name}-batch", value=summary)
    # The engine's own output is read again, for a function that gets messages of the class.
    builder.stream(f"{name}-same", key=str, value=message).map_values(moved).to(f"{name}-renamed", value=message)
    run(kafka, name, tmp_path, builder, "renamed", len(given))

    def values(topic: str, kind: Any) -> list[Any]:
        return [value for _, value in confluent_clients.read(kafka, f"{name}-{topic}", registry.reads_protobuf(kind))]

    def as_batch(one: Any) -> None:
        one.who, one.by, one.pieces = one.who.upper(), "batch", sum(i.count for i in one.items)
        one.ClearField("phone")
        one.ClearField("best")

    assert [row.value for row in kafka.read(f"{name}-same")][:4] == came
    assert values("same", newer) == given
    assert values("expression", newer) == each(given, numbered)
    assert values("priced", newer) == each(given, priced)
    assert values("renamed", newer) == each(given, renamed)
    assert values("items", of.Item) == [of.Item.FromString(i.SerializeToString()) for one in given for i in one.items]
    summaries = [summary_of(one) for one in given]
    assert values("summary", SHOP["Summary"]) == summaries
    assert values("batch", SHOP["Summary"]) == each(summaries, as_batch)


def test_ids_in_headers(kafka: KafkaTopics, registry: Registry, name: str, tmp_path: Path) -> None:
    """The bytes are then plain, and the header is passed on with results of the same schema.

    A sink with another schema drops it, because Confluent's deserializers trust it before anything else.
    """
    outs = [f"{topic}-{out}" for topic in ("avro", "protobuf") for out in ("out", "framed", "plain")]
    create(kafka, name, "avro", "protobuf", *outs)
    of, summary_class = SHOP["Order"], SHOP["Summary"]
    one, other = shopping.avro_order(1), shopping.protobuf_order(of, 1)
    confluent_clients.write(
        kafka, f"{name}-avro", [("k", one)], registry.writes_avro(shopping.AVRO_ORDER, **IN_HEADERS)
    )
    confluent_clients.write(kafka, f"{name}-protobuf", [("k", other)], registry.writes_protobuf(of, **IN_HEADERS))
    avro_id = registry.avro_id(f"{name}-avro-framed", shopping.AVRO_SUMMARY)
    protobuf_id = registry.protobuf_id(f"{name}-protobuf-framed", summary_class)
    order, summary = sf.Serdes.avro(shopping.AVRO_ORDER), sf.Serdes.avro(shopping.AVRO_SUMMARY)
    message, short_message = (sf.Serdes.protobuf(shopping.PROTOBUF, f"shop.{kind}") for kind in ("Order", "Summary"))
    framed = {
        "avro": sf.Serdes.avro(shopping.AVRO_SUMMARY, framing="confluent", schema_id=avro_id),
        "protobuf": sf.Serdes.protobuf(summary_class, framing="confluent", schema_id=protobuf_id),
    }
    made = sf.obj(who=sf.value["customer"]["name"], level=sf.value["level"], pieces=sf.value["items"].len())
    builder = sf.StreamsBuilder()
    for topic, serde, short in (("avro", order, summary), ("protobuf", message, short_message)):
        stream = builder.stream(f"{name}-{topic}", key=str, value=serde)
        stream.map_values(lambda v: v | {"note": "seen"}).to(f"{name}-{topic}-out", value=serde)
        stream.map_values(made).to(f"{name}-{topic}-framed", value=framed[topic])
        stream.map_values(made).to(f"{name}-{topic}-plain", value=short)
    run(kafka, name, tmp_path, builder, "protobuf-plain", 1)

    def headers(topic: str) -> list[str]:
        (row,) = kafka.read(f"{name}-{topic}")
        return [header for header, _ in row.headers]

    in_headers = ["avro", "avro-out", "protobuf", "protobuf-out"]
    assert {topic: headers(topic) for topic in ["avro", "protobuf", *outs]} == {
        topic: [confluent_clients.HEADER_OF_VALUES] if topic in in_headers else []
        for topic in ["avro", "protobuf", *outs]
    }
    assert confluent_clients.read(kafka, f"{name}-avro-out", registry.reads_avro()) == [("k", {**one, "note": "seen"})]
    other.note = "seen"
    assert confluent_clients.read(kafka, f"{name}-protobuf-out", registry.reads_protobuf(of)) == [("k", other)]
    ((_, read),) = confluent_clients.read(kafka, f"{name}-avro-framed", registry.reads_avro())
    assert {key: read[key] for key in ("who", "level", "pieces")} == {
        "who": one["customer"]["name"], "level": one["level"], "pieces": len(one["items"]),
    }  # fmt: skip
    short = summary_class(who=other.customer.name, level=other.level, pieces=len(other.items))
    assert confluent_clients.read(kafka, f"{name}-protobuf-framed", registry.reads_protobuf(summary_class)) == [
        ("k", short)
    ]


class Bought(NamedTuple):
    """An order as the totals need it."""

    number: int
    customer: str
    level: str
    sku: str
    cents: int


class Total(NamedTuple):
    """The contents of a total, whatever the format."""

    orders: int
    cents: int
    last: str
    levels: dict[str, int]
    latest: list[int]


def bought(seed: int, count: int) -> list[Bought]:
    rng = random.Random(seed)
    return [
        Bought(
            number, f"c{rng.randrange(20)}", rng.choice(["LOW", "MIDDLE", "HIGH"]), f"sku-{rng.randrange(9)}",
            rng.randrange(-10_000, 10_000),
        )
        for number in range(count)
    ]  # fmt: skip


def by_hand(given: list[Bought]) -> dict[str, list[Total]]:
    """Every total of each customer, in order."""
    found: dict[str, list[Total]] = {}
    for one in given:
        so_far = found.setdefault(one.customer, [])
        before = so_far[-1] if so_far else Total(0, 0, "", {}, [])
        levels = {**before.levels, one.level: before.levels.get(one.level, 0) + 1}
        latest = [*before.latest, one.number][-totals.LATEST :]
        so_far.append(Total(before.orders + 1, before.cents + one.cents, one.sku, levels, latest))
    return found


# At most fifty orders fit the in-flight limit, 64 KiB.
PHOTO = bytes(range(256)) * 5


class Format:
    """How keys, orders and totals are written and read by Confluent's serializers."""

    ids: tuple[int, int, int]
    writers: tuple[Serializer, Serializer]
    """For orders, and for keys."""
    readers: tuple[Deserializer, Deserializer]
    """For totals, and for keys."""

    def key(self, customer: str) -> Any:
        raise NotImplementedError

    def order(self, one: Bought) -> Any:
        raise NotImplementedError

    def total(self, key: Any, value: Any) -> tuple[str, Total]:
        """The customer, and the total."""
        raise NotImplementedError


class Avro(Format):
    def __init__(self, registry: Registry, name: str) -> None:
        key, order, total = shopping.AVRO_CUSTOMER, shopping.AVRO_ORDER, shopping.AVRO_TOTAL
        self.ids = (
            registry.avro_id(f"{name}-in", key, MessageField.KEY),
            registry.avro_id(f"{name}-in", order),
            registry.avro_id(f"{name}-out", total),
        )
        self.writers = registry.writes_avro(order), registry.writes_avro(key)
        self.readers = registry.reads_avro(), registry.reads_avro()

    def key(self, customer: str) -> Any:
        return {"name": customer}

    def order(self, one: Bought) -> Any:
        cents = Decimal(one.cents).scaleb(-2)
        items = [{"sku": one.sku, "count": 1, "price": cents}]
        return shopping.avro_order(one.number, level=one.level, total=cents, items=items, photo=PHOTO)

    def total(self, key: Any, value: Any) -> tuple[str, Total]:
        cents = int(value["spent"].scaleb(2))
        return key["name"], Total(value["orders"], cents, value["last"]["sku"], value["levels"], value["latest"])


class Protobuf(Format):
    def __init__(self, registry: Registry, name: str) -> None:
        key, order, total = SHOP["Key"], SHOP["Order"], SHOP["Total"]
        self.ids = (
            registry.protobuf_id(f"{name}-in", key, MessageField.KEY),
            registry.protobuf_id(f"{name}-in", order),
            registry.protobuf_id(f"{name}-out", total),
        )
        self.writers = registry.writes_protobuf(order), registry.writes_protobuf(key)
        self.readers = registry.reads_protobuf(total), registry.reads_protobuf(key)

    def key(self, customer: str) -> Any:
        return SHOP["Key"](name=customer)

    def order(self, one: Bought) -> Any:
        order = SHOP["Order"](id=one.number, level=one.level, photo=PHOTO)
        order.items.add(sku=one.sku, count=1, cents=one.cents)
        return order

    def total(self, key: Any, value: Any) -> tuple[str, Total]:
        output = Total(value.orders, value.cents, value.last.sku, dict(value.levels), list(value.latest))
        return key.name, output


PARTITIONS = 4
RECORDS = 800
# Minimum number of calls of a life before it is killed: more than there are records in flight.
HOLD = 100


@pytest.mark.parametrize("kind", [Avro, Protobuf])
def test_a_store_is_exact_after_kills(
    kafka: KafkaTopics, registry: Registry, name: str, tmp_path: Path, kind: Callable[[Registry, str], Format]
) -> None:
    """Killed during its work, with and without local state."""
    create(kafka, name, "in", "out", partitions=PARTITIONS)
    form, given, rng = kind(registry, name), bought(1, RECORDS), random.Random(name)
    rows = [(form.key(one.customer), form.order(one)) for one in given]
    confluent_clients.write(kafka, f"{name}-in", rows, *form.writers)
    state, ids = tmp_path / "state", ",".join(map(str, form.ids))

    def start(lanes: int, hold: int = 0) -> Process:
        return Process([HERE / "totals.py", kafka.address, name, state, kind.__name__.lower(), ids, lanes, hold])

    def committed() -> int:
        offsets = kafka.committed(name, f"{name}-in", "read_uncommitted").values()
        return sum(offset for offset in offsets if offset > 0)

    lost = 0
    for number, lanes in enumerate((4, 2, 4)):
        before, hold = committed(), rng.randint(HOLD, 2 * HOLD)
        with start(lanes, hold) as running:
            running.until(lambda: "HELD" in running.lines, "a call is held")
            running.until(lambda before=before: committed() > before, "it has committed")  # type: ignore[misc]
            running.signal(signal.SIGKILL)
            assert running.wait() == -signal.SIGKILL, running.reported()
        lost += before + hold - committed()
        if number != 1:
            shutil.rmtree(state)
    with start(3) as running:
        running.until(lambda: "RUNNING" in running.lines, "it runs")
        running.until(lambda: committed() == RECORDS, "all is committed")
        running.signal(signal.SIGTERM)
        assert running.wait() == 0, running.reported()
    assert lost > 0, "no kill met work that was done and not committed"

    found: dict[str, list[Total]] = {}
    for row in confluent_clients.read(kafka, f"{name}-out", *form.readers):
        customer, total = form.total(*row)
        found.setdefault(customer, []).append(total)
    assert found == by_hand(given)
    changelog = confluent_clients.read(kafka, f"{name}-totals-changelog", *form.readers)
    last = dict(form.total(key, value) for key, value in changelog)
    assert last == {customer: every[-1] for customer, every in found.items()}
