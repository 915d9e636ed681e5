"""Strategies for hypothesis: records to pipe into a topology, and topologies around a step of yours.

Takes strategies for keys and values; returns records with timestamps in order, or out of order within a limit. Takes
steps (functions from a stream to a stream), returns topologies in which they occur among random operators. Needs
`hypothesis`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from hypothesis import note
from hypothesis import strategies as st

from stoatflow.builder import StreamsBuilder
from stoatflow.durations import Duration, duration_ms
from stoatflow.joined import Joined
from stoatflow.materialized import Materialized
from stoatflow.serdes import SerdeLike
from stoatflow.stream import KStream
from stoatflow.testing.record import Record
from stoatflow.topology import Topology
from stoatflow.windows import TimeWindows

K = TypeVar("K")
V = TypeVar("V")
Step: TypeAlias = "Callable[[KStream[Any, Any]], KStream[Any, Any]]"
"""A part of a topology that leaves the types of keys and values as they are."""


@st.composite
def records(
    draw: st.DrawFn,
    keys: st.SearchStrategy[K],
    values: st.SearchStrategy[V],
    *,
    min_size: int = 0,
    max_size: int = 50,
    start: int = 0,
    gap: Duration = "1m",
    late: Duration = "0s",
    tombstones: bool = False,
) -> list[Record[K, V]]:
    """Draw records whose timestamps rise from `start` by at most `gap`, and are up to `late` behind that.

    With `tombstones` some values are None. Pass the list to `driver.input(...).pipe_all(...)`.
    """
    longest, latest = duration_ms(gap), duration_ms(late)
    some: st.SearchStrategy[Any] = st.one_of(st.none(), values) if tombstones else values
    count = draw(st.integers(min_size, max_size))
    made: list[Record[K, V]] = []
    now = start
    for _ in range(count):
        now += draw(st.integers(0, longest))
        at = max(start, now - draw(st.integers(0, latest)))
        made.append(Record(draw(keys), draw(some), at))
    return made


@st.composite
def topologies(
    draw: st.DrawFn,
    *steps: Step,
    source: str = "in",
    sink: str = "out",
    key: SerdeLike[Any] = str,
    value: SerdeLike[Any] = str,
    rekey: Callable[[Any, Any], Any] | None = None,
    max_operators: int = 5,
) -> Topology:
    """Draw topologies from the topic `source` to `sink`, in which each of `steps` occurs once, in this order.

    Around and between them are up to `max_operators` operators that accept any type: filters, branches, merges,
    aggregations, windows, tables, joins with a table of the same stream; and, with `rekey` (a function of key and
    value), changes of the key. A `repartition` follows where a key may have changed, so that all records of a key are
    in one lane. If a test fails, hypothesis shows the topology as `describe()` does.
    """
    around = _Around(key, value, rekey)
    names: list[str | None] = list(draw(st.lists(st.sampled_from(around.names), max_size=max_operators)))
    for at in sorted(
        draw(st.lists(st.integers(0, len(names)), min_size=len(steps), max_size=len(steps))), reverse=True
    ):
        names.insert(at, None)
    own = iter(steps)
    builder = StreamsBuilder()
    stream: KStream[Any, Any] = builder.stream(source, key=key, value=value)
    for name in names:
        stream = next(own)(stream) if name is None else around.add(name, stream)
    stream.to(sink, key=key, value=value)
    topology = builder.build()
    note(topology.describe())
    return topology


class _Around:
    """Operators that leave keys and values as they are, or nearly so."""

    def __init__(self, key: SerdeLike[Any], value: SerdeLike[Any], rekey: Callable[[Any, Any], Any] | None) -> None:
        self._key, self._value, self._rekey = key, value, rekey
        self._count = 0

    @property
    def names(self) -> Sequence[str]:
        some = ["filter", "branch", "merge", "repartition", "latest", "window", "table", "join"]
        return some if self._rekey is None else [*some, "rekeyed"]

    def add(self, name: str, stream: KStream[Any, Any]) -> KStream[Any, Any]:
        self._count += 1
        made: KStream[Any, Any] = getattr(self, f"_{name}")(stream)
        return made

    def _kept(self, what: str) -> Materialized:
        return Materialized(f"{what}-{self._count}", self._key, self._value)

    @staticmethod
    def _filter(stream: KStream[Any, Any]) -> KStream[Any, Any]:
        return stream.filter(_has_value)

    @staticmethod
    def _branch(stream: KStream[Any, Any]) -> KStream[Any, Any]:
        return stream.filter(_is_even).merge(stream.filter_not(_is_even))

    @staticmethod
    def _merge(stream: KStream[Any, Any]) -> KStream[Any, Any]:
        return stream.merge(stream.filter(_is_even))

    def _repartition(self, stream: KStream[Any, Any]) -> KStream[Any, Any]:
        return stream.repartition(key=self._key, value=self._value)

    def _latest(self, stream: KStream[Any, Any]) -> KStream[Any, Any]:
        grouped = stream.group_by_key(key=self._key, value=self._value)
        return grouped.reduce(_second, store=self._kept("latest")).to_stream()

    def _window(self, stream: KStream[Any, Any]) -> KStream[Any, Any]:
        windows = stream.group_by_key(key=self._key, value=self._value).windowed_by(TimeWindows("1m", grace="1m"))
        table: Any = windows.reduce(_second, store=self._kept("window"))
        made: KStream[Any, Any] = table.to_stream(_key_of)
        return self._repartition(made)

    def _table(self, stream: KStream[Any, Any]) -> KStream[Any, Any]:
        return stream.to_table(store=self._kept("table")).to_stream()

    def _join(self, stream: KStream[Any, Any]) -> KStream[Any, Any]:
        table = stream.to_table(store=self._kept("joined"))
        return stream.left_join(table, _first, joined=Joined(self._key, self._value, self._value))

    def _rekeyed(self, stream: KStream[Any, Any]) -> KStream[Any, Any]:
        if self._rekey is None:
            raise ValueError("there is no function for keys")
        return self._repartition(stream.select_key(self._rekey))


def _has_value(_: Any, value: Any) -> bool:
    return value is not None


def _is_even(key: Any, value: Any) -> bool:
    return (len(repr(key)) + len(repr(value))) % 2 == 0


def _key_of(window: Any, _: Any) -> Any:
    return window.key


def _first(one: Any, _: Any) -> Any:
    return one


def _second(_: Any, other: Any) -> Any:
    return other
