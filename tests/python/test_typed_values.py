"""Values that are objects of a type: dataclasses, TypedDicts, msgspec's Structs, pydantic's models."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
import pickle
import subprocess
import sys
import urllib.request
from typing import Any, TypedDict

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pydantic
import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@dataclasses.dataclass
class Item:
    name: str
    price: float = 1.0


@dataclasses.dataclass
class Order:
    customer: str
    total: int
    items: list[Item] = dataclasses.field(default_factory=list)
    size: Size = Size.SMALL
    at: dt.datetime | None = None


class OrderStruct(msgspec.Struct):
    customer: str
    total: int


class OrderDict(TypedDict):
    customer: str
    total: int


class OrderModel(pydantic.BaseModel):
    customer: str = pydantic.Field(alias="customerName")
    total: int


SIMPLE: list[tuple[Any, Any, bytes]] = [
    (Order, Order("ann", 30), b'{"customer":"ann","total":30,"items":[],"size":"s","at":null}'),
    (OrderStruct, OrderStruct("ann", 30), b'{"customer":"ann","total":30}'),
    (OrderDict, {"customer": "ann", "total": 30}, b'{"customer":"ann","total":30}'),
    (OrderModel, OrderModel(customerName="ann", total=30), b'{"customerName":"ann","total":30}'),
]
IDS = [kind.__name__ for kind, _, _ in SIMPLE]


def pairs(driver: TopologyTestDriver, topic: str, key: Any, value: Any) -> list[tuple[Any, Any]]:
    return [(record.key, record.value) for record in driver.output(topic, key, value).read_all()]


def values(driver: TopologyTestDriver, topic: str, value: Any) -> list[Any]:
    return [record.value for record in driver.output(topic, str, value).read_all()]


def total(order: Any) -> int:
    return int(order["total"] if isinstance(order, dict) else order.total)


@pytest.mark.parametrize(("kind", "value", "text"), SIMPLE, ids=IDS)
def test_a_value_is_read_and_written(kind: Any, value: Any, text: bytes) -> None:
    for serde in (
        sf.Serdes.json(kind),
        sf.Serdes.json(kind, validate=False),
        pickle.loads(pickle.dumps(sf.Serdes.json(kind))),  # noqa: S301  # our own
    ):
        assert serde.serialize(value) == text
        assert serde.deserialize(text) == value
    assert sf.Serdes.json(kind).name == f"json({kind.__name__})"


def test_nested_values_dates_and_enums() -> None:
    serde = sf.Serdes.json(Order)
    at = dt.datetime(2026, 11, 30, 4, 5, 6, tzinfo=dt.timezone.utc)
    order = Order("ann", 30, [Item("pen", 2.5), Item("ink")], Size.LARGE, at)
    assert serde.deserialize(serde.serialize(order)) == order
    assert json.loads(serde.serialize(order))["at"] == "2026-11-30T04:05:06Z"


@pytest.mark.parametrize(("kind", "value", "text"), SIMPLE, ids=IDS)
@pytest.mark.parametrize("lanes", [1, 4])
def test_a_type_is_accepted_as_its_serde(kind: Any, value: Any, text: bytes, lanes: int) -> None:
    seen: list[Any] = []

    def look(order: Any) -> Any:
        seen.append(order)
        return order

    builder = sf.StreamsBuilder()
    orders = builder.stream("orders", key=str, value=kind)
    orders.filter(sf.value["total"] > 10).map_values(look).to("large", key=str, value=kind)
    orders.map_values(total).to("totals", key=str, value=int)
    with TopologyTestDriver(builder.build(), lanes=lanes) as driver:
        source = driver.input("orders", str, bytes)
        source.pipe("a", text)
        source.pipe("b", text.replace(b"30", b"7"))
        assert pairs(driver, "large", str, bytes) == [("a", text)]
        assert pairs(driver, "totals", str, int) == [("a", 30), ("b", 7)]
    assert seen == [value]


def test_filtered_values_are_decoded_only_with_validation() -> None:
    decoded: list[str] = []

    @dataclasses.dataclass
    class Counted:
        n: int

        def __post_init__(self) -> None:
            decoded.append(str(self.n))

    for validate, expected in ((False, ["20"]), (True, ["5", "20"])):
        decoded.clear()
        builder = sf.StreamsBuilder()
        numbers = builder.stream("in", key=str, value=sf.Serdes.json(Counted, validate=validate))
        numbers.filter(sf.value["n"] > 10).map_values(lambda counted: counted.n).to("out", key=str, value=int)
        with TopologyTestDriver(builder.build()) as driver:
            for n in (5, 20):
                driver.input("in", str, bytes).pipe("a", b'{"n":%d}' % n)
            assert values(driver, "out", int) == [20]
        assert decoded == expected


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b'{"customer":"ann"}', "total"),
        (b'{"customer":"ann","total":"many"}', "total"),
        (b"{", "JSON"),
        (b"[]", "object"),
    ],
)
def test_a_record_that_does_not_fit_is_a_bad_one(bad: bytes, message: str) -> None:
    builder = sf.StreamsBuilder()
    orders = builder.stream("orders", key=str, value=OrderStruct)
    orders.map_values(total).to("totals", key=str, value=int)
    with TopologyTestDriver(builder.build(), {"deserialization.exception.handler": "log_and_continue"}) as driver:
        driver.input("orders", str, bytes).pipe("a", bad)
        driver.input("orders", str, bytes).pipe("a", b'{"customer":"ann","total":1}')
        assert values(driver, "totals", int) == [1]
    builder = sf.StreamsBuilder()
    builder.stream("orders", key=str, value=OrderStruct).map_values(total).to("totals", key=str, value=int)
    with TopologyTestDriver(builder.build()) as driver, pytest.raises(sf.SerdeError, match=message):
        driver.input("orders", str, bytes).pipe("a", bad)


def test_without_validation_the_function_that_gets_it_fails() -> None:
    builder = sf.StreamsBuilder()
    orders = builder.stream("orders", key=str, value=sf.Serdes.json(OrderStruct, validate=False))
    orders.map_values(total, name="totals").to("totals", key=str, value=int)
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(sf.StoatFlowError, match=r"json\(OrderStruct\) can't deserialize a value"),
    ):
        driver.input("orders", str, bytes).pipe("a", b'{"customer":"ann"}')


def test_a_changed_object_is_written_as_it_is_now_and_others_keep_theirs() -> None:
    builder = sf.StreamsBuilder()
    orders = builder.stream("orders", key=str, value=Order)

    def raised(order: Order) -> Order:
        order.total += 1
        return order

    orders.map_values(raised).to("raised", key=str, value=Order)
    orders.map_values(raised).to("again", key=str, value=Order)
    orders.to("same", key=str, value=Order)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("orders", str, Order).pipe("a", Order("ann", 30))
        totals = {name: driver.output(name, str, Order).read_value().total for name in ("raised", "again", "same")}
    assert totals == {"raised": 31, "again": 31, "same": 30}


def test_a_wrong_object_is_refused_by_name() -> None:
    builder = sf.StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str)
    lines.map_values(lambda line: {"customer": line}).to("orders", key=str, value=Order)
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(sf.StoatFlowError, match=r"json\(Order\) can't serialize a value: TypeError: dict is not Order"),
    ):
        driver.input("lines", str, str).pipe("a", "ann")


def test_results_of_expressions_must_fit_the_type() -> None:
    builder = sf.StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str)
    made = sf.obj(customer=sf.value, total=sf.when(sf.value == "ann").then(1).otherwise("none"))
    lines.map_values(made).to("orders", key=str, value=Order)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("lines", str, str).pipe("a", "ann")
        assert driver.output("orders", str, Order).read_value() == Order("ann", 1)
        with pytest.raises(sf.StoatFlowError, match="total"):
            driver.input("lines", str, str).pipe("a", "bob")


def test_expressions_read_what_functions_returned() -> None:
    builder = sf.StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str)
    orders = lines.map_values(lambda line: Order(line, len(line)))
    orders.filter(sf.value["total"] > 2).map_values(sf.value["customer"]).to("names", key=str, value=str)
    with TopologyTestDriver(builder.build()) as driver:
        for line in ("ann", "x"):
            driver.input("lines", str, str).pipe("a", line)
        assert values(driver, "names", str) == ["ann"]


@pytest.mark.parametrize("store", ["in_memory", "rocksdb"])
def test_tables_aggregations_joins_and_queries(store: str) -> None:
    builder = sf.StreamsBuilder()
    customers = builder.table("customers", key=str, value=OrderDict, store="customers")

    def add(_key: str, order: Order, so_far: Order) -> Order:
        return Order(order.customer, so_far.total + order.total)

    orders = builder.stream("orders", key=str, value=Order)
    sums = orders.group_by_key().aggregate(
        lambda: Order("", 0), add, store=sf.Materialized("sums", key=str, value=Order)
    )
    sums.to_stream().to("sums", key=str, value=Order)
    orders.join(customers, lambda order, customer: order.total * customer["total"]).to("joined", key=str, value=int)
    with TopologyTestDriver(builder.build(), {"default.dsl.store": store, "statestore.cache.max.bytes": 0}) as driver:
        driver.input("customers", str, OrderDict).pipe("a", {"customer": "ann", "total": 2})
        for n in (1, 2, 3):
            driver.input("orders", str, Order).pipe("a", Order("ann", n))
        assert [order.total for order in values(driver, "sums", Order)] == [1, 3, 6]
        assert values(driver, "joined", int) == [2, 4, 6]
        assert driver.get_key_value_store("sums").get("a") == Order("ann", 6)


def test_keys_of_a_type(tmp_path: Any) -> None:
    builder = sf.StreamsBuilder()
    keyed = builder.stream("in", key=OrderStruct, value=int)
    keyed.group_by_key().count(store="counts").to_stream().to("out", key=OrderStruct, value=int)
    with TopologyTestDriver(builder.build(), {"statestore.cache.max.bytes": 0}) as driver:
        for customer in ("ann", "bob", "ann"):
            driver.input("in", OrderStruct, int).pipe(OrderStruct(customer, 1), 1)
        found = pairs(driver, "out", OrderStruct, int)
    assert found == [(OrderStruct("ann", 1), 1), (OrderStruct("bob", 1), 1), (OrderStruct("ann", 1), 2)]


def test_indexes_http_and_sql_read_the_text() -> None:
    builder = sf.StreamsBuilder()
    indexed = sf.Materialized("orders", key=str, value=OrderStruct, indexes=[sf.Index("by_total", sf.value["total"])])
    builder.table("orders", key=str, value=OrderStruct, store=indexed)
    with sf.EmbeddedBroker() as broker:
        broker.create_topic("orders")
        for key, n in (("a", 1), ("b", 2), ("c", 3)):
            broker.produce("orders", key, json.dumps({"customer": key, "total": n}))
        with sf.StoatFlow(builder.build(), {"application.id": "typed"}, broker=broker) as app:
            app.wait_until(caught_up=True)
            store: Any = app.store("orders")
            found = store.find(sf.value["total"] >= 2, order_by=sf.value["total"])
            assert list(found) == [("b", OrderStruct("b", 2)), ("c", OrderStruct("c", 3))]
            assert store.get("a") == OrderStruct("a", 1)
            url = f"{str(app.admin_url).rstrip('/')}/stores/orders?where=total%20%3E%3D%203"
            with urllib.request.urlopen(url) as answer:  # noqa: S310  # loopback
                (row,) = json.load(answer)["entries"]
            assert (row["key"], row["value"]) == ("c", {"customer": "c", "total": 3})
            assert app.sql("select _key, total from orders where _key = 'c'").rows == [{"_key": "c", "total": 3}]


async def doubled(order: Order) -> Order:
    return dataclasses.replace(order, total=2 * order.total)


def test_async_functions_get_objects() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=Order).map_values(doubled, name="doubled").to("out", key=str, value=Order)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, Order).pipe("a", Order("ann", 3))
        assert driver.output("out", str, Order).read_value().total == 6


@pytest.mark.parametrize("replaced", [False, True])
def test_fields_are_the_columns_of_batches(replaced: bool) -> None:
    builder = sf.StreamsBuilder()
    orders = builder.stream("in", key=str, value=Order)
    if replaced:
        orders = orders.map_values(lambda order: Order(order.customer, order.total))

    def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"customer": batch["customer"], "total": pc.multiply(batch["total"], 2)})

    orders.map_batches(doubled).to("out", key=str, value=Order)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, Order).pipe_all([("a", Order("ann", 1)), ("b", Order("bob", 2))])
        assert values(driver, "out", Order) == [Order("ann", 2), Order("bob", 4)]


def test_a_type_without_a_serde_is_refused() -> None:
    class Plain:
        pass

    builder = sf.StreamsBuilder()
    with pytest.raises(sf.TopologyError, match="a TypedDict, a msgspec"):
        builder.stream("in", key=str, value=Plain)
    with pytest.raises(sf.TopologyError, match="no fields that are known"):
        sf.Serdes.json(Plain)


def test_without_msgspec_the_error_says_what_to_install() -> None:
    code = """
import sys
sys.modules["msgspec"] = None
import dataclasses, stoatflow as sf

@dataclasses.dataclass
class Order:
    n: int

try:
    sf.Serdes.json(Order)
except sf.TopologyError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'stoatflow[typed]'" in done.stdout
