"""Series of points: in each, one quantity grows, with a job that shows its cost.

Takes an x; returns a point: a topology, its input, and the initial content of its stores. Owns the jobs; measures
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import stoatflow as sf

Row = tuple[int | None, bytes | None, bytes | None, int]
PARTITIONS = 4
LANES = 4
# A step coprime to any round number of keys: all keys occur equally often, in pseudo-random order.
STRIDE = 1_299_709
USERS = 1_000
TABLE_ROWS = 20_000
SIZES = (100, 300, 1_000, 3_000, 10_000)
# Limit of a point: more would be a test of the disk.
MOST_BYTES = 300_000_000


def order(number: int, size: int, user: int) -> bytes:
    """A JSON object of at least 100 bytes."""
    start = b'{"id":%d,"amount":%d,"user":"user-%d","k1":"a%d","k2":"b%d","k3":"c%d","k4":"d%d","pad":"' % (
        number, number % 97, user, number % 997, number % 499, number % 251, number % 127,
    )  # fmt: skip
    return start + b"x" * (size - len(start) - 2) + b'"}'


def orders(count: int, *, size: int = 300, users: int = USERS) -> Iterator[Row]:
    """Orders of users, a millisecond apart."""
    for number in range(count):
        user = number * STRIDE % users
        yield None, b"user-%d" % user, order(number, size, user), number + 1


def native(builder: sf.StreamsBuilder) -> None:
    """Filter, enrich, sum per user: all native."""
    stream = builder.stream("in", key=str, value=dict).filter(sf.value["amount"] >= 20)
    small = stream.map_values(sf.obj(user=sf.value["user"], amount=sf.value["amount"]))
    sums = small.group_by_key(key=str, value=dict).aggregate(sf.sum(sf.value["amount"]), store="sums")
    sums.to_stream().to("out", key=str)


def functions(builder: sf.StreamsBuilder) -> None:
    """Filter, enrich, sum per user: three functions."""
    stream = builder.stream("in", key=str, value=dict).filter(lambda _, order: order["amount"] >= 20)
    small = stream.map_values(lambda order: {"user": order["user"], "amount": order["amount"]})
    grouped = small.group_by_key(key=str, value=dict)
    sums = grouped.aggregate(lambda: 0, lambda _, order, total: total + order["amount"], store="sums", value=int)
    sums.to_stream().to("out", key=str, value=int)


def count(builder: sf.StreamsBuilder) -> None:
    """Count per key."""
    builder.stream("in", key=str, value=bytes).group_by_key().count(store="counts").to_stream().to(
        "out", key=str, value=int
    )


def join(builder: sf.StreamsBuilder) -> None:
    """Join each order with a row of a table."""
    users = builder.table("rows", key=str, value=dict, store="rows")
    stream = builder.stream("in", key=str, value=dict)
    stream.join(users, sf.obj(id=sf.left["id"], name=sf.right["name"])).to("out", key=str, value=dict)


def enrich(builder: sf.StreamsBuilder) -> None:
    """Filter and enrich, without a store."""
    stream = builder.stream("in", key=str, value=dict).filter(sf.value["amount"] >= 20)
    stream.map_values(sf.obj(user=sf.value["user"], amount=sf.value["amount"])).to("out", key=str, value=dict)


def stores(number: int) -> Callable[[sf.StreamsBuilder], None]:
    """Add this many counts of one stream, each with its own store."""

    def build(builder: sf.StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=bytes)
        for at in range(number):
            stream.group_by_key().count(store=f"counts-{at}")

    return build


def rekeyings(number: int) -> Callable[[sf.StreamsBuilder], None]:
    """Add this many re-keyings."""

    def build(builder: sf.StreamsBuilder) -> None:
        stream: sf.KStream[Any, Any] = builder.stream("in", key=str, value=dict)
        for at in range(1, number + 1):
            stream = stream.select_key(sf.value[f"k{at}"]).repartition(key=str, value=dict, name=f"by-k{at}")
        stream.to("out", key=str, value=dict)

    return build


@dataclass(frozen=True)
class Point:
    """One run. `before` is processed first, by an application that ends again: it fills the stores."""

    build: Callable[[sf.StreamsBuilder], None]
    input: Iterator[Row]
    before: tuple[tuple[str, Iterator[Row]], ...] = ()
    lanes: int = LANES
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Series:
    """A growing quantity, and its points."""

    title: str
    xs: tuple[int, ...]
    point: Callable[[int, int, int], Point]
    """Called with x, the wanted number of records, and the lanes."""
    records: Callable[[int, int], int] = lambda _, wanted: wanted
    """Number of records of a point."""


def _keys(x: int, records: int, lanes: int) -> Point:
    rows = ((None, b"user-%d" % (n * STRIDE % x), b"x", n + 1) for n in range(records))
    once = ((None, b"user-%d" % n, b"x", 0) for n in range(x))
    return Point(count, rows, (("in", once),), lanes)


def _state(x: int, records: int, lanes: int) -> Point:
    row = b'{"name":"somebody","pad":"' + b"x" * (x - 28) + b'"}'
    rows = ((None, b"user-%d" % n, row, 0) for n in range(TABLE_ROWS))
    # Smaller than the largest table: rows that don't fit in memory are read from files.
    few = {"state.memory.max.bytes": 32 * 2**20}
    return Point(join, orders(records, users=TABLE_ROWS), (("rows", rows),), lanes, few)


def _size(x: int, records: int, lanes: int) -> Point:
    return Point(enrich, orders(records, size=x), (), lanes)


SERIES: dict[str, Series] = {
    "lanes": Series("lanes, native", (1, 2, 4, 8), lambda x, n, _: Point(native, orders(n), (), x)),
    "lanes-functions": Series(
        "lanes, three Python functions", (1, 2, 4, 8), lambda x, n, _: Point(functions, orders(n), (), x)
    ),
    "keys": Series("keys of a count", (1_000, 10_000, 100_000, 1_000_000), _keys),
    "state": Series(f"bytes of a row of a table of {TABLE_ROWS:,}, in 32 MiB", SIZES, _state),
    "record-size": Series("bytes of a record", SIZES, _size, lambda x, wanted: min(wanted, MOST_BYTES // x)),
    "stores": Series("stores", (1, 2, 5, 10), lambda x, n, lanes: Point(stores(x), orders(n), (), lanes)),
    "re-keyings": Series("re-keyings", (1, 2, 3, 4), lambda x, n, lanes: Point(rekeyings(x), orders(n), (), lanes)),
}
