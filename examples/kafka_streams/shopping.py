"""The cogroup, session and join examples of Kafka Streams' guide, around a shop.

Three streams are aggregated to one customer record (cogroup), clicks to sessions, payments are joined with their orders
(stream-stream join), and orders with the names of their products (foreign-key join). `python
examples/kafka_streams/shopping.py` runs it in the test driver.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver


def build() -> sf.Topology:
    """Four independent parts of one topology."""
    builder = sf.StreamsBuilder()
    cart, purchases, wishes = (builder.stream(topic, key=str, value=str) for topic in ("cart", "purchases", "wishes"))

    def keep(kind: str) -> Callable[[str, str, dict[str, Any]], dict[str, Any]]:
        return lambda customer, item, agg: {**agg, kind: [*agg.get(kind, []), item]}

    (
        cart.group_by_key()
        .cogroup(keep("cart"))
        .cogroup(purchases.group_by_key(), keep("bought"))
        .cogroup(wishes.group_by_key(), keep("wishes"))
        .aggregate(dict, store="customers", value=dict)
        .to_stream()
        .to("customers", key=str, value=dict)
    )

    (
        cart.group_by_key()
        .windowed_by(sf.SessionWindows("5m", grace="0s"))
        .count(store="sessions")
        .to_stream(lambda windowed, count: windowed.key)
        .filter(sf.value.is_not_null())
        .to("session-sizes", key=str, value=int)
    )

    orders = builder.stream("orders", key=str, value=dict)
    payments = builder.stream("payments", key=str, value=int)
    orders.join(
        payments,
        lambda order, paid: {**order, "paid": paid},
        sf.JoinWindows("1h", grace="10m"),
        joined=sf.StreamJoined(str, dict, int, name="paid-orders"),
    ).to("paid-orders", key=str, value=dict)

    products = builder.table("products", key=str, value=str, store="products")
    orders.to_table(store="orders").join(
        products,
        lambda order, product: f"{order['amount']} x {product}",
        foreign_key=lambda order: order["product"],
        store=sf.Materialized("named-orders", value=str),
        name="named-orders",
    ).to_stream().to("named-orders", key=str, value=str)
    return builder.build()


topology = build()


def main() -> None:
    """A short afternoon in the shop."""
    with TopologyTestDriver(topology) as driver:
        cart, bought, wishes = (driver.input(topic, str, str) for topic in ("cart", "purchases", "wishes"))
        cart.pipe("ann", "tea", timestamp=0)
        wishes.pipe("ann", "pot", timestamp=60_000)
        cart.pipe("ann", "cup", timestamp=120_000)
        bought.pipe("ann", "tea", timestamp=130_000)
        driver.input("products", str, str).pipe("p1", "tea", timestamp=0)
        orders = driver.input("orders", str, dict)
        orders.pipe("o1", {"product": "p1", "amount": 2}, timestamp=140_000)
        driver.input("payments", str, int).pipe("o1", 9, timestamp=200_000)
        driver.input("products", str, str).pipe("p1", "green tea", timestamp=210_000)
        print("customer:", driver.output("customers", str, dict).read_all()[-1].value)
        print("sessions:", [record.value for record in driver.output("session-sizes", str, int)])
        print("paid:", [record.value for record in driver.output("paid-orders", str, dict)])
        print("named:", [record.value for record in driver.output("named-orders", str, str)])


if __name__ == "__main__":
    main()
