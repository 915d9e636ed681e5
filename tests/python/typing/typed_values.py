"""Checked by mypy and pyright, never run: a type that stands for a serde is the type of the values."""

from dataclasses import dataclass
from typing import Any, TypedDict
from uuid import UUID

from typing_extensions import assert_type

import stoatflow as sf
from stoatflow.testing import TestOutputTopic, TopologyTestDriver


@dataclass
class Order:
    """What comes in."""

    customer: str
    total: int


class Customer(TypedDict):
    """A row."""

    name: str


builder = sf.StreamsBuilder()
orders = builder.stream("orders", key=str, value=Order)
assert_type(orders, sf.KStream[str, Order])
assert_type(orders.map_values(lambda order: order.total), sf.KStream[str, int])
customers = builder.table("customers", key=str, value=Customer, store="customers")
assert_type(customers, sf.KTable[str, Customer])
assert_type(orders.join(customers, lambda order, row: (order.customer, row["name"])), sf.KStream[str, tuple[str, str]])
orders.to("copy", key=str, value=Order)
assert_type(sf.Serdes.uuid(), sf.Serde[UUID])
assert_type(sf.Serdes.list(str), sf.Serde[list[str]])
assert_type(sf.Serdes.list(sf.Serdes.list(UUID)), sf.Serde[list[list[UUID]]])
assert_type(sf.Serdes.list(int, nulls=True), sf.Serde[list[int | None]])
assert_type(sf.StreamsBuilder().stream("ids", key=UUID, value=sf.Serdes.list(str)), sf.KStream[UUID, list[str]])
assert_type(sf.Serdes.json(Order), sf.Serde[Order])
assert_type(sf.Serdes.json(Order, validate=False), sf.Serde[Order])
assert_type(sf.Serdes.json(), sf.Serde[Any])
assert_type(sf.Serdes.json(decode="dict"), sf.Serde[Any])


def driven(driver: TopologyTestDriver) -> None:
    """Topics of the test driver, too."""
    driver.input("orders", str, Order).pipe("a", Order("ann", 1))
    assert_type(driver.output("copy", str, Order), TestOutputTopic[str, Order])
    assert_type(driver.output("copy", str, Order).read_value(), Order | None)
