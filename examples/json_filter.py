"""Pick and reshape JSON events with native expressions only: `python examples/json_filter.py`.

No Python function runs per record: the filter, the new key and the new value are evaluated in Rust. Runs on embedded
topics and fills them itself, or on a broker: `python examples/json_filter.py localhost:9092` (topics `orders` and
`large-orders` must exist; Ctrl-C commits and ends).
"""

from __future__ import annotations

import json
import sys

import stoatflow as sf

ORDERS = [
    {"id": 1, "user": {"name": "ann"}, "status": "paid", "amount": 250},
    {"id": 2, "user": {"name": "bob"}, "status": "paid", "amount": 20},
    {"id": 3, "user": {"name": "cyd"}, "status": "open", "amount": 900},
    {"id": 4, "user": {"name": "dee"}, "status": "paid"},
    {"id": 5, "user": {"name": "ann"}, "status": "paid", "amount": 1200},
]


def build() -> sf.Topology:
    """Paid orders above 100, keyed by user. An order without an amount is dropped: null is not above 100."""
    order = sf.value
    builder = sf.StreamsBuilder()
    (
        builder.stream("orders", value=dict)
        .filter((order["status"] == "paid") & (order["amount"] > 100))
        .select_key(order["user"]["name"])
        .map_values(
            sf.obj(
                id=order["id"],
                amount=order["amount"],
                size=sf.when(order["amount"] >= 1000).then("huge").otherwise("large"),
            )
        )
        .to("large-orders", key=str, value=dict)
    )
    return builder.build()


topology = build()


def on_embedded_topics() -> list[tuple[str, dict[str, object]]]:
    """Fill a topic in a temporary folder, run, and return what arrived."""
    with sf.EmbeddedBroker() as broker:
        broker.create_topic("orders")
        broker.create_topic("large-orders")
        for order in ORDERS:
            broker.produce("orders", None, json.dumps(order).encode())
        with sf.StoatFlow(topology, {"application.id": "json-filter-example"}, broker=broker) as app:
            app.wait_until(caught_up=True)
        return [
            ((record.key or b"").decode(), json.loads(record.value or b"null"))
            for record in broker.read("large-orders")
        ]


def main() -> None:
    """Run on embedded topics, or on the given broker."""
    if len(sys.argv) > 1:
        sf.StoatFlow(topology, {"application.id": "json-filter-example", "bootstrap.servers": sys.argv[1]}).run()
        return
    for user, order in on_embedded_topics():
        print(user, json.dumps(order))


if __name__ == "__main__":
    main()
