"""The expected output, computed from the input without the engine.

Takes `Inputs`; returns dictionaries and multisets per output. Only results that don't depend on the order between
partitions are computed here; for the others checks.py has invariants.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from chaos import application as app
from chaos.inputs import Given, Inputs

Window = tuple[str, int]
"""Key and start."""
Entry = tuple[str, int, str]
"""Key, time, text."""


def parsed(row: Given) -> Any:
    """The parsed JSON value."""
    return None if row.value is None else json.loads(row.value)


def words(inputs: Inputs) -> Counter[str]:
    """The number of occurrences of each word."""
    return Counter(word for row in inputs.of("lines") for word in (row.value or b"").decode().split())


def letters(inputs: Inputs) -> Counter[str]:
    """The lines that go to the dead letter topic, with their number of occurrences."""
    found: Counter[str] = Counter()
    for row in inputs.of("lines"):
        line = (row.value or b"").decode()
        found[line] += (line.split()[0] == app.BAD_LINE) + line.split().count(app.BAD_WORD)
    return +found


def ticks(inputs: Inputs) -> list[tuple[str, int, dict[str, Any]]]:
    """Key, time, value."""
    return [(row.key or "", row.timestamp, parsed(row)) for row in inputs.of("ticks")]


def sums(inputs: Inputs) -> dict[Window, int]:
    """The sum of every window, including open ones."""
    found: dict[Window, int] = defaultdict(int)
    for key, at, tick in ticks(inputs):
        found[key, at // app.WINDOW_MS * app.WINDOW_MS] += tick["v"]
    return dict(found)


def closed(inputs: Inputs) -> dict[Window, int]:
    """The count of every hopping window, including open ones."""
    found: dict[Window, int] = defaultdict(int)
    for key, at, _ in ticks(inputs):
        newest = at // app.ADVANCE_MS * app.ADVANCE_MS
        for start in range(newest, at - app.CLOSED_MS, -app.ADVANCE_MS):
            found[key, start] += 1
    return dict(found)


def ended(windows: dict[Window, int], size: int, now: int) -> dict[Window, int]:
    """The windows whose end (with grace) has passed."""
    return {window: value for window, value in windows.items() if window[1] + size <= now}


def sessions(inputs: Inputs) -> dict[tuple[str, int, int], int]:
    """The number of records of every session, by key, start and end."""
    found: dict[tuple[str, int, int], int] = {}
    times: dict[str, list[int]] = defaultdict(list)
    for key, at, _ in ticks(inputs):
        times[key].append(at)
    for key, all_times in times.items():
        start, last, count = all_times[0], all_times[0], 0
        for at in all_times:  # the times are sorted
            if at - last > app.GAP_MS:
                found[key, start, last] = count
                start, count = at, 0
            last, count = at, count + 1
        found[key, start, last] = count
    return found


def outer(left: Iterable[Entry], right: Iterable[Entry], reach: int, now: int) -> Counter[tuple[str, str]]:
    """An outer join of two streams without late records: pairs, and records that can't get a partner any more."""
    found: Counter[tuple[str, str]] = Counter()
    others: dict[str, list[Entry]] = defaultdict(list)
    for entry in right:
        others[entry[0]].append(entry)
    met: set[str] = set()
    for key, at, one in left:
        partners = [two for _, other_at, two in others[key] if abs(at - other_at) <= reach]
        found.update((key, f"{one}|{two}") for two in partners)
        met.update(partners)
        if not partners and at < now:
            found[key, f"{one}|None"] += 1
    for key, entries in others.items():
        found.update((key, f"None|{two}") for _, at, two in entries if two not in met and at < now)
    return found


def pairs(inputs: Inputs) -> Counter[tuple[str, str]]:
    """The outer join of left and right ticks."""
    sides: dict[str | None, list[Entry]] = {"l": [], "r": [], None: []}
    for key, at, tick in ticks(inputs):
        sides[tick["side"]].append((key, at, str(tick["id"])))
    return outer(sides["l"], sides["r"], app.PAIR_MS, inputs.end)


def texts(inputs: Inputs, topic: str) -> list[Entry]:
    """Key, time and text of a topic."""
    return [(row.key or "", row.timestamp, (row.value or b"").decode()) for row in inputs.of(topic)]


def meetings(inputs: Inputs) -> Counter[tuple[str, str]]:
    """The outer join of clicks and views."""
    return outer(texts(inputs, "clicks"), texts(inputs, "views"), app.MEET_MS, inputs.end)


def alone_once_more(inputs: Inputs) -> Counter[tuple[str, str]]:
    """Rows without a partner for clicks and views that have one: each may be there once."""
    may: set[tuple[str, str]] = set()
    for key, text in meetings(inputs):
        one, two = text.split("|")
        if "None" not in (one, two):
            may |= {(key, f"{one}|None"), (key, f"None|{two}")}
    return Counter(may)


def table(inputs: Inputs, topic: str) -> dict[str, Any]:
    """The last value of each key."""
    last = {row.key or "": row for row in inputs.of(topic)}
    return {
        key: row.value.decode() if topic == "products" else parsed(row)
        for key, row in last.items()
        if row.value is not None
    }


def cities(inputs: Inputs) -> tuple[Counter[str], Counter[str]]:
    """The number and the sum of people by city; a city that everybody left stays at 0."""
    people: Counter[str] = Counter({user["city"]: 0 for row in inputs.of("users") if (user := parsed(row))})
    amounts: Counter[str] = Counter(people)
    for user in table(inputs, "users").values():
        people[user["city"]] += 1
        amounts[user["city"]] += user["amount"]
    return people, amounts


def moves(inputs: Inputs) -> Counter[tuple[str, int]]:
    """Cities with arrivals (1), departures (-1) or unchanged users (0): each user's updates are in order."""
    found, home = Counter[tuple[str, int]](), dict[str, str]()
    for row in inputs.of("users"):
        user, before = parsed(row), home.pop(row.key or "", None)
        if user:
            home[row.key or ""] = user["city"]
        if user and user["city"] == before:
            found[user["city"], 0] += 1
            continue
        if before:
            found[before, -1] += 1
        if user:
            found[user["city"], 1] += 1
    return found


def named(inputs: Inputs) -> dict[str, str]:
    """Orders with the names of their products."""
    products = table(inputs, "products")
    return {
        key: f"{order['amount']}|{products.get(order['product'])}" for key, order in table(inputs, "orders").items()
    }


def visits(inputs: Inputs) -> dict[str, str]:
    """What clicks after all other records (after the end) must have seen: text to `text|version`."""
    users = table(inputs, "users")
    return {
        text: f"{text}|{users[key]['version'] if key in users else None}"
        for key, at, text in texts(inputs, "clicks")
        if at > inputs.end
    }
