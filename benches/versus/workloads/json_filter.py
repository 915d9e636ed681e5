"""W1: JSON objects of 1 KB; the four of five with a large enough amount are kept, and their user is upper-cased.

Takes a load, returns its records and the expected output. Defines the format of an order. Independent of the engines.
"""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterator, Mapping
from typing import Any

from workloads.reading import Cell, Form, canonical, members, object_by_id
from workloads.workload import Input, Load, Output, Row, Workload

SIZE = 1024
USERS = 1000
# Amounts are 0 to 99: four of five are kept.
LEAST = 20


def orders(load: Load) -> Iterator[dict[str, Any]]:
    """The objects; the padding differs from one to the next and makes each 1 KB of text."""
    rng = random.Random(f"orders {load.seed}")
    letters = "".join(rng.choices(string.ascii_letters + string.digits, k=64 * 1024))
    for number in range(load.records):
        order = {
            "id": number,
            "user": f"user-{rng.randrange(USERS):05}",
            "amount": rng.randrange(100),
            "ts": load.base_ms + number,
            "pad": "",
        }
        size = SIZE - len(_text(order))
        start = rng.randrange(len(letters) - size)
        order["pad"] = letters[start : start + size]
        yield order


def _text(order: dict[str, Any]) -> bytes:
    return json.dumps(order, separators=(",", ":")).encode()


def rows(load: Load) -> Iterator[Row]:
    """Without keys; record n goes to partition n modulo the number of partitions."""
    for number, order in enumerate(orders(load)):
        yield Row(None, _text(order), partition=number % load.partitions)


def wanted(load: Load) -> Mapping[str, Cell]:
    """The orders that are kept, by id."""
    return {
        str(order["id"]): canonical({**order, "user": order["user"].upper()})
        for order in orders(load)
        if order["amount"] >= LEAST
    }


def wanted_of_bare_loop(load: Load) -> Mapping[str, Cell]:
    """The expected output of a loop that forwards four of five records unchanged, chosen by offset."""
    return {
        str(order["id"]): canonical(order)
        for number, order in enumerate(orders(load))
        if number // load.partitions % 5 != 4
    }


def read_from_pathway(_: bytes, value: bytes | None) -> tuple[str, Cell]:
    """Parse a row of Pathway, which adds a time and inserted or deleted, and can't name a member `id`."""
    order = members(value)
    if order.pop("diff", None) != 1 or "order" not in order:
        raise Form(f"not an order that came but {(value or b'')[-80:]!r}")
    order.pop("time", None)
    order["id"] = order.pop("order")
    return str(order["id"]), canonical(order)


WORKLOAD = Workload(
    name="w1",
    title="1 KB JSON, filter and enrich",
    inputs=(Input("orders", rows),),
    outputs=(Output("kept", object_by_id, updates=False, forms={"pathway": read_from_pathway}),),
    wanted=wanted,
    flavours=("native", "lambda", "arrow"),
    limits={"handwritten": wanted, "bare": wanted_of_bare_loop, "bare-plain": wanted_of_bare_loop},
)
