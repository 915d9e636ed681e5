"""Checked by mypy and pyright, never run: what is inferred through windows, joins, grouped tables and splits."""

from typing import Any

from typing_extensions import assert_type

import stoatflow as sf
from stoatflow import Windowed

builder = sf.StreamsBuilder()
orders = builder.stream("orders", key=str, value=int)
names = builder.stream("names", key=str, value=str)
users = builder.table("users", key=str, value=float, store="users")
places = builder.global_table("places", key=int, value=bytes, store="places")
window = sf.JoinWindows("5m", grace="1m")

assert_type(orders.join(names, lambda n, s: (n, s), window), sf.KStream[str, tuple[int, str]])
assert_type(orders.join(names, lambda k, n, s: k, window, with_key=True), sf.KStream[str, str])
assert_type(orders.left_join(names, lambda n, s: s, window), sf.KStream[str, str | None])
assert_type(orders.outer_join(names, lambda n, s: n, window), sf.KStream[str, int | None])
assert_type(orders.join(users, lambda n, f: n + f), sf.KStream[str, float])
assert_type(orders.left_join(users, lambda n, f: f), sf.KStream[str, float | None])
assert_type(orders.join(places, lambda k, v: v, lambda n, b: b), sf.KStream[str, bytes])
assert_type(users.join(users, lambda a, b: a + b), sf.KTable[str, float])
assert_type(users.outer_join(users, lambda a, b: b or a), sf.KTable[str, float | None])
by_id = builder.table("ids", key=int, value=str, store="ids")
assert_type(users.join(by_id, lambda a, b: b, foreign_key=int), sf.KTable[str, str])

grouped = orders.group_by_key()
tumbling = grouped.windowed_by(sf.TimeWindows("1m", grace="0s"))
assert_type(tumbling, sf.TimeWindowedKStream[str, int])
assert_type(tumbling.emit_strategy(sf.EmitStrategy.on_window_close()), sf.TimeWindowedKStream[str, int])
assert_type(tumbling.count(), sf.KTable[Windowed[str], int])
assert_type(tumbling.reduce(max), sf.KTable[Windowed[str], int])
assert_type(tumbling.aggregate(lambda: 0.5, lambda k, v, agg: agg + v), sf.KTable[Windowed[str], float])
sessions = grouped.windowed_by(sf.SessionWindows("1m", grace="0s"))
assert_type(sessions, sf.SessionWindowedKStream[str, int])
assert_type(tumbling.count().suppress(sf.Suppressed.until_window_closes()), sf.KTable[Windowed[str], int])
assert_type(tumbling.count().to_stream(lambda k, v: k.key), sf.KStream[str, int])

by_size = users.group_by(lambda k, v: (int(v), k))
assert_type(by_size, sf.KGroupedTable[int, str])
assert_type(by_size.count(), sf.KTable[int, int])
assert_type(by_size.aggregate(lambda: 0, lambda k, v, agg: agg + 1, lambda k, v, agg: agg - 1), sf.KTable[int, int])
assert_type(users.map_values(int), sf.KTable[str, int])
assert_type(users.filter(lambda k, v: v > 1), sf.KTable[str, float])
assert_type(orders.to_table(store="t"), sf.KTable[str, int])
assert_type(orders.split().branch(sf.value > 1).default_branch(), dict[str, sf.KStream[str, int]])
assert_type(orders.split({"a": sf.value > 1}), dict[str, sf.KStream[str, int]])


def add(key: str, value: int, agg: float) -> float:
    return agg + value


def merge(key: str, one: float, two: float) -> float:
    return one + two


assert_type(sessions.aggregate(lambda: 0.0, add, merge), sf.KTable[Windowed[str], float])
assert_type(grouped.cogroup(add), sf.CogroupedKStream[str, float])
assert_type(orders.repartition(), sf.KStream[str, int])
assert_type(orders.deduplicate(within="1m"), sf.KStream[str, int])
assert_type(sf.Serdes.time_windowed(str, "1m"), sf.Serde[Windowed[str]])

nothing: Any = None

# Wrong calls.
orders.join(names, lambda n, s: n)  # type: ignore[call-overload]
orders.outer_join(users, lambda n, f: n)  # type: ignore[call-overload]
users.join(orders, lambda a, b: a)  # type: ignore[call-overload]
grouped.windowed_by("5m")  # type: ignore[call-overload]
sf.TimeWindows("1m")  # type: ignore[call-arg]
