"""W7: a shop's clicks and orders, like a real application: 10 stores, 3 re-keyings, 5 results.

Takes a load, returns clicks, orders, users and products, and the five expected results. Defines the content of the
shop. Rows of tables are not counted as records; no record is too late for its window.

- orders get the region of their user (table `users`), and sales are summed per region and minute;
- orders by product get its category (table `products`), and revenue is summed per product;
- a user's total decides the tier; users and totals are summed per tier, and a user moves to higher tiers;
- clicks are counted per user and visit (session);
- an order that follows a click of its user within ten seconds is a conversion; those are counted per user.
"""

from __future__ import annotations

import json
import random
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from workloads.out_of_order import event_time
from workloads.reading import Cell, canonical, in_session, in_window, json_object, keyed, long, session, window
from workloads.sessions import sessions_of
from workloads.workload import Input, Load, Output, Row, Workload

USERS, PRODUCTS = 2000, 500
REGIONS = ("north", "east", "south", "west", "islands", "abroad")
CATEGORIES = ("books", "garden", "kitchen", "music", "toys")
WINDOW_MS = 60_000
VISIT_GAP_MS = 30_000
CONVERSION_MS = 10_000
# Totals from which a user is silver, or gold.
SILVER, GOLD = 1000, 12_500
# Every fourth event is an order.
ORDERS = 4


def user(number: int) -> str:
    """A key of `users`, of clicks and of orders."""
    return f"user-{number:05}"


def product(number: int) -> str:
    """A key of `products`."""
    return f"product-{number:04}"


def profile(number: int) -> dict[str, Any]:
    """The row of a user."""
    return {"name": f"Name of {number}", "region": REGIONS[number % len(REGIONS)]}


def article(number: int) -> dict[str, Any]:
    """The row of a product."""
    return {"title": f"Product {number}", "category": CATEGORIES[number % len(CATEGORIES)]}


def events(load: Load) -> Iterator[tuple[int, int, int, int | None]]:
    """The numbers of a user and a product, a time, and the amount of an order (`None` for a click)."""
    rng = random.Random(f"shop {load.seed}")
    for number in range(load.records):
        time = event_time(load, number, rng)
        amount = rng.randrange(1, 1000) if number % ORDERS == 0 else None
        yield rng.randrange(USERS), rng.randrange(PRODUCTS), time, amount


def clicks(load: Load) -> Iterator[Row]:
    """Keyed by user."""
    for who, what, time, amount in events(load):
        if amount is None:
            yield Row(user(who), _text({"product": product(what)}), timestamp_ms=time)


def orders(load: Load) -> Iterator[Row]:
    """Keyed by user."""
    for who, what, time, amount in events(load):
        if amount is not None:
            yield Row(user(who), _text({"product": product(what), "amount": amount}), timestamp_ms=time)


def users(load: Load) -> Iterator[Row]:
    """The rows of the table, in pseudo-random order, before all events."""
    yield from _table(load, "users", [(user(number), profile(number)) for number in range(USERS)])


def products(load: Load) -> Iterator[Row]:
    """The rows of the table, in pseudo-random order, before all events."""
    yield from _table(load, "products", [(product(number), article(number)) for number in range(PRODUCTS)])


def _table(load: Load, name: str, rows: list[tuple[str, dict[str, Any]]]) -> Iterator[Row]:
    random.Random(f"{name} {load.seed}").shuffle(rows)
    for key, row in rows:
        yield Row(key, _text(row), timestamp_ms=load.base_ms)


def _text(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def tier(spent: int) -> str:
    """Tier of a user who has spent this much."""
    return "gold" if spent >= GOLD else "silver" if spent >= SILVER else "bronze"


def wanted(load: Load) -> Mapping[str, Cell]:
    """All five results, computed in Python."""
    sales, revenue, spent = Counter[tuple[str, str]](), Counter[int](), Counter[int]()
    clicked, ordered = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for who, what, time, amount in events(load):
        if amount is None:
            clicked[who].append(time)
            continue
        ordered[who].append(time)
        minute = window(str(profile(who)["region"]), time - time % WINDOW_MS)
        sales[minute, "orders"] += 1
        sales[minute, "amount"] += amount
        revenue[what] += amount
        spent[who] += amount
    found: dict[str, Cell] = {}
    for minute in {minute for minute, _ in sales}:
        row = {"orders": sales[minute, "orders"], "amount": sales[minute, "amount"]}
        found[f"sales {minute}"] = canonical(row)
    for what, amount in revenue.items():
        found[f"revenue {product(what)}"] = canonical({"category": article(what)["category"], "amount": amount})
    for name in {tier(amount) for amount in spent.values()}:
        amounts = [amount for amount in spent.values() if tier(amount) == name]
        found[f"tiers {name}"] = canonical({"users": len(amounts), "amount": sum(amounts)})
    for who, times in clicked.items():
        for start, end, ones in sessions_of([(time, 1) for time in times], VISIT_GAP_MS):
            found[f"visits {session(user(who), start, end)}"] = len(ones)
    for who, times in clicked.items():
        if count := _conversions(sorted(times), ordered[who]):
            found[f"conversions {user(who)}"] = count
    return found


def _conversions(clicks: list[int], orders: list[int]) -> int:
    """Number of pairs of a click and an order."""
    return sum(bisect_right(clicks, time) - bisect_left(clicks, time - CONVERSION_MS) for time in orders)


WORKLOAD = Workload(
    name="w7",
    title="a shop: 10 stores, 3 re-keyings",
    inputs=(
        Input("clicks", clicks, lambda load: load.records - -(-load.records // ORDERS)),
        Input("orders", orders, lambda load: -(-load.records // ORDERS)),
        Input("users", users, lambda _: USERS),
        Input("products", products, lambda _: PRODUCTS),
    ),
    outputs=(
        Output("sales", keyed(in_window, json_object, "sales"), updates=True),
        Output("revenue", keyed(bytes.decode, json_object, "revenue"), updates=True),
        Output("tiers", keyed(bytes.decode, json_object, "tiers"), updates=True),
        Output("visits", keyed(in_session, long, "visits"), updates=True),
        Output("conversions", keyed(bytes.decode, long, "conversions"), updates=True),
    ),
    wanted=wanted,
    flavours=("native", "lambda", "arrow"),
)
