"""An application with a total for each customer in a store, as Avro or Protobuf, in its own process.

`python totals.py ADDRESS NAME STATE FORMAT IDS LANES HOLD`: reads orders from `NAME-in`, adds each to the total of
its customer and writes every total to `NAME-out`. IDS are those of a registry for key, order and total: `3,4,5`;
all three have Confluent's framing, in the changelog too. Prints `RUNNING` when it runs. After HOLD calls, if that
isn't 0, the next one prints `HELD` and never ends, so that there is all the time to kill it during its work.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import shopping

import stoatflow as sf

LATEST = 5
Add = Callable[[Any, Any], dict[str, Any]]


def serdes(kind: str, ids: tuple[int, ...]) -> tuple[sf.Serde[Any], ...]:
    """For key, order and total."""
    if kind == "avro":
        schemas = (shopping.AVRO_CUSTOMER, shopping.AVRO_ORDER, shopping.AVRO_TOTAL)
        return tuple(sf.Serdes.avro(s, framing="confluent", schema_id=i) for s, i in zip(schemas, ids, strict=True))
    names = ("shop.Key", "shop.Order", "shop.Total")
    return tuple(
        sf.Serdes.protobuf(shopping.PROTOBUF, n, framing="confluent", schema_id=i)
        for n, i in zip(names, ids, strict=True)
    )


def added(order: Any, total: Any) -> dict[str, Any]:
    """The change of a total by an order, whatever the format."""
    level = order["level"]
    return {
        "orders": total["orders"] + 1,
        "last": order["items"][0],
        "levels": {**total["levels"], level: total["levels"].get(level, 0) + 1},
        "latest": [*total["latest"], order["id"]][-LATEST:],
    }


def avro_added(order: Any, total: Any) -> dict[str, Any]:
    """With decimals, which functions get as strings."""
    return {**added(order, total), "spent": Decimal(total["spent"]) + Decimal(order["total"])}


def protobuf_added(order: Any, total: Any) -> dict[str, Any]:
    """With cents."""
    return {**added(order, total), "cents": total["cents"] + sum(item["cents"] for item in order["items"])}


ADDED: dict[str, Add] = {"avro": avro_added, "protobuf": protobuf_added}
NOTHING: dict[str, dict[str, Any]] = {
    "avro": {"orders": 0, "spent": Decimal("0.00"), "last": None, "levels": {}, "latest": []},
    "protobuf": {"orders": 0, "cents": 0, "last": None, "levels": {}, "latest": []},
}


def topology(name: str, kind: str, ids: tuple[int, ...], hold: int) -> sf.Topology:
    """One store, whose every update is written."""
    key, order, total = serdes(kind, ids)
    add, calls = ADDED[kind], itertools.count(1)

    def held(_: Any, value: Any, so_far: Any) -> Any:
        if next(calls) > hold > 0:
            sys.stdout.write("HELD\n")  # in one write, because several lanes may be held
            sys.stdout.flush()
            time.sleep(3_600)
        return so_far | add(value, so_far)

    builder = sf.StreamsBuilder()
    orders = builder.stream(f"{name}-in", key=key, value=order).group_by_key()
    totals = orders.aggregate(lambda: NOTHING[kind], held, store=sf.Materialized("totals", key=key, value=total))
    totals.to_stream().to(f"{name}-out", key=key, value=total)
    return builder.build()


def main(address: str, name: str, state: str, kind: str, ids: str, lanes: str, hold: str) -> None:
    """Run until a signal."""
    config = {
        "application.id": name,
        "bootstrap.servers": address,
        "state.dir": state,
        "lanes.count": int(lanes),
        "statestore.cache.max.bytes": 0,
        # So few records in flight that most of those before the held call are committed.
        "in.flight.max.bytes": "64KiB",
        "commit.min.interval.ms": 1,
    }
    app = sf.StoatFlow(topology(name, kind, tuple(int(i) for i in ids.split(",")), int(hold)), config)
    app.add_state_listener(lambda new, old: print(new, flush=True))  # noqa: T201
    app.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
