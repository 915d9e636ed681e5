"""Checked by mypy and pyright, never run: what is inferred through native aggregations and joiners."""

from typing import Any

from typing_extensions import assert_type

import stoatflow as sf
from stoatflow import Windowed

builder = sf.StreamsBuilder()
orders = builder.stream("orders", key=str, value=int)
users = builder.table("users", key=str, value=float, store="users")
grouped = orders.group_by_key()
windowed = grouped.windowed_by(sf.TimeWindows("1m", grace="0s"))
sessions = grouped.windowed_by(sf.SessionWindows("1m", grace="0s"))

assert_type(grouped.aggregate(sf.count(), store="a"), sf.KTable[str, int])
assert_type(grouped.aggregate(sf.avg(sf.value), store="b"), sf.KTable[str, float])
assert_type(windowed.aggregate(sf.collect(sf.value, limit=3)), sf.KTable[Windowed[str], list[Any]])
assert_type(sessions.aggregate(sf.agg(n=sf.count())), sf.KTable[Windowed[str], dict[str, Any]])
assert_type(grouped.reduce(sf.old + sf.new), sf.KTable[str, int])
assert_type(grouped.cogroup(sf.agg(n=sf.count())).aggregate(store="c"), sf.KTable[str, Any])
pairs = users.group_by(lambda k, v: (v, k))
assert_type(pairs.aggregate(sf.count(), store="d"), sf.KTable[float, int])
assert_type(orders.join(users, sf.obj(a=sf.left, b=sf.right)), sf.KStream[str, Any])
assert_type(users.outer_join(users, sf.left), sf.KTable[str, Any])
