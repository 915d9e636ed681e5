"""A small shop for the twin and the audit: a re-keying, a table, a join, windows and a filter."""

from __future__ import annotations

import stoatflow as sf

ORDERS, USERS = "orders", "users"
SINKS = ("large", "per-region", "per-minute")


def build() -> sf.Topology:
    """Return the topology."""
    builder = sf.StreamsBuilder()
    users = builder.table(USERS, key=str, value=dict, store="users-table")
    orders = builder.stream(ORDERS, key=str, value=dict, name="orders-source")
    orders.filter(sf.value["amount"] >= 50).to("large", key=str, value=dict)
    with_region = orders.join(users, lambda order, user: {"amount": order["amount"], "region": user["region"]})
    by_region = with_region.group_by(lambda _, order: order["region"], grouped=sf.Grouped(key=str, value=dict))
    totals = by_region.aggregate(lambda: 0, lambda _, order, total: total + order["amount"], store=total_store())
    totals.to_stream().to("per-region", key=str, value=int)
    minutes = orders.group_by_key().windowed_by(sf.TimeWindows("1m", grace="10s")).count(store="minutes")
    minutes.to_stream().map(lambda window, count: (f"{window.key}@{window.window.start}", count)).to(
        "per-minute", key=str, value=int
    )
    return builder.build()


def total_store() -> sf.Materialized:
    """The store of totals."""
    return sf.Materialized("totals", key=str, value=int)


topology = build()

LOAD = {
    "seed": 5,
    "topics": {
        USERS: {
            "records": 40,
            "partitions": 3,
            "key": {"kind": "sequential", "count": 40, "prefix": "user-"},
            "fields": {"region": {"kind": "choice", "of": ["north", "east", "south", "west"]}},
            "time": {"start": 1_600_000_000_000},
        },
        ORDERS: {
            "records": 3000,
            "partitions": 3,
            "key": {"kind": "zipf", "count": 45, "skew": 0.5, "prefix": "user-"},
            "fields": {"amount": {"kind": "int", "high": 99}},
            "time": {"rate": 10, "late": {"share": 0.02, "by": "3m"}},
            "faults": {"duplicates": 0.01},
        },
    },
}
