"""Change data capture to a queryable view: Debezium's envelopes, a table with indexes, queries.

The table follows the rows of a database. `app.store` and the admin port find rows by key and by content, in one
committed state, without a second database. `python examples/jobs/customer_view.py` runs it on the embedded broker.
"""

from __future__ import annotations

import json
import tempfile
from typing import Any

import stoatflow as sf

CHANGES: list[tuple[str, dict[str, Any] | None]] = [
    ("c", {"id": 1, "name": "Ann", "city": "Oslo", "points": 120}),
    ("c", {"id": 2, "name": "Bob", "city": "Oslo", "points": 40}),
    ("c", {"id": 3, "name": "Cyd", "city": "Bergen", "points": 300}),
    ("u", {"id": 2, "name": "Bob", "city": "Bergen", "points": 55}),
    ("d", {"id": 3}),
]


def row(key: bytes, change: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """The row after the change; null if it was deleted."""
    return str(json.loads(key)["id"]), None if change["op"] == "d" else dict(change["after"])


def build() -> sf.Topology:
    """The change stream of a table `customers`, as Debezium writes it."""
    builder = sf.StreamsBuilder()
    changes = builder.stream("shop.public.customers", key=bytes, value=dict)
    rows = changes.map(row)
    customers = sf.Materialized(
        "customers",
        key=str,
        value=dict,
        indexes=[sf.Index("by_city_points", sf.value["city"], sf.value["points"])],
    )
    rows.to_table(store=customers)
    return builder.build()


topology = build()


def main() -> None:
    """Five changes, three queries."""
    with tempfile.TemporaryDirectory() as folder, sf.EmbeddedBroker(f"{folder}/broker") as broker:
        broker.create_topic("shop.public.customers", 2)
        for op, row in CHANGES:
            change = {"op": op, "after": None if op == "d" else row}
            key = {"id": (row or {})["id"]}
            broker.produce("shop.public.customers", json.dumps(key).encode(), json.dumps(change).encode())
        config = {"application.id": "customer-view", "state.dir": f"{folder}/state", "admin.listen": "off"}
        with sf.StoatFlow(topology, config, broker=broker) as app:
            app.wait_until(caught_up=True, timeout=60)
            customers = app.store("customers")
            print("2:", customers.get("2"))
            print("3:", customers.get("3"))
            rich = (sf.value["city"] == "Bergen") & (sf.value["points"] > 50)
            page = customers.find(rich, order_by=sf.desc(sf.value["points"]))
            print("Bergen:", [(key, row["name"], row["points"]) for key, row in page], "by", page.plan.way)


if __name__ == "__main__":
    main()
