"""Value objects that say how the sides of a join are read, stored and named.

Takes serdes and names; frozen data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from stoatflow._dsl.java_names import JavaNames
from stoatflow.durations import Duration
from stoatflow.serdes import SerdeLike

K = TypeVar("K")
V = TypeVar("V")
VO = TypeVar("VO")


@dataclass(frozen=True)
class Joined(JavaNames, Generic[K, V, VO]):
    """For a stream-table join. `grace` (with a versioned table): how long records wait for late table records.

    >>> builder = sf.StreamsBuilder()
    >>> orders = builder.stream("orders", key=str, value=int)
    >>> users = builder.table("users", key=str, value=str, store="users")
    >>> orders.join(users, lambda order, user: user, joined=sf.Joined(name="named")).to("out", value=str)
    >>> "named" in builder.build().describe()
    True
    """

    key: SerdeLike[K] | None = None
    value: SerdeLike[V] | None = None
    other: SerdeLike[VO] | None = None
    name: str | None = None
    grace: Duration | None = None


@dataclass(frozen=True)
class StreamJoined(JavaNames, Generic[K, V, VO]):
    """For a stream-stream join. `store_name` is the base of its stores' names; the default is `name`.

    >>> builder = sf.StreamsBuilder()
    >>> left, right = (builder.stream(topic, key=str, value=int) for topic in ("left", "right"))
    >>> window, how = sf.JoinWindows("5m", grace="1m"), sf.StreamJoined(str, int, int, name="met")
    >>> left.join(right, lambda one, other: one + other, window, joined=how).to("out", value=int)
    >>> "met" in builder.build().describe()
    True
    """

    key: SerdeLike[K] | None = None
    value: SerdeLike[V] | None = None
    other: SerdeLike[VO] | None = None
    name: str | None = None
    store_name: str | None = None
    logging: bool = True


@dataclass(frozen=True, slots=True)
class TableJoined(JavaNames):
    """For a foreign-key join of two tables.

    >>> builder = sf.StreamsBuilder()
    >>> users, cities = (builder.table(topic, key=str, value=str, store=topic) for topic in ("users", "cities"))
    >>> homes = users.join(cities, sf.right, foreign_key=sf.value, value=str, table_joined=sf.TableJoined("homes"))
    >>> homes.to_stream().to("out")
    >>> "homes" in builder.build().describe()
    True
    """

    name: str | None = None
