"""W4: small JSON joined with a table of 100,000 keys; one of twenty has no match and is dropped.

Takes a load, returns both inputs and the expected output. All rows of the table are older than the orders, and an
engine with a backlog has to read them first. The table's rows are not counted as records: short and full runs have the
same table, so it is part of the start-up.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

from workloads.reading import Cell, canonical, object_by_id
from workloads.workload import Input, Load, Output, Row, Workload

CITIES = ("Amsterdam", "Bergen", "Cork", "Dublin", "Essen", "Florence", "Ghent", "Helsinki")
STRANGERS = 20


def _user(number: int) -> str:
    return f"user-{number:07}"


def profile(number: int) -> dict[str, Any]:
    """The row of a user."""
    return {"name": f"Name of {number}", "city": CITIES[number % len(CITIES)], "since": 1990 + number % 36}


def profiles(load: Load) -> Iterator[Row]:
    """The rows of the table, in pseudo-random order, before all orders."""
    numbers = list(range(load.table_keys))
    random.Random(f"profiles {load.seed}").shuffle(numbers)
    for number in numbers:
        yield Row(_user(number), _text(profile(number)), timestamp_ms=load.base_ms)


def orders(load: Load) -> Iterator[tuple[int, dict[str, Any]]]:
    """The number of a user, and an order of that user."""
    rng = random.Random(f"orders of users {load.seed}")
    for number in range(load.records):
        user = rng.randrange(load.table_keys)
        if number % STRANGERS == 0:
            user += load.table_keys
        yield user, {"id": number, "user": _user(user), "amount": rng.randrange(1000)}


def rows(load: Load) -> Iterator[Row]:
    """Keyed by user, like the table."""
    for at, (_, order) in enumerate(orders(load)):
        yield Row(order["user"], _text(order), timestamp_ms=load.base_ms + 1000 + at)


def _text(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def wanted(load: Load) -> Mapping[str, Cell]:
    """Orders of known users with name and city, by id."""
    found: dict[str, Cell] = {}
    for user, order in orders(load):
        if user < load.table_keys:
            row = profile(user)
            found[str(order["id"])] = canonical({**order, "name": row["name"], "city": row["city"]})
    return found


WORKLOAD = Workload(
    name="w4",
    title="stream joined to a table",
    inputs=(
        Input("orders", rows),
        Input("profiles", profiles, lambda load: load.table_keys),
    ),
    outputs=(Output("joined", object_by_id, updates=False),),
    wanted=wanted,
    flavours=("native", "lambda", "arrow"),
)
