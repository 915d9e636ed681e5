"""Strategies for hypothesis: lists of records to pipe into a topology.

Takes strategies for keys and values; returns records with timestamps in order, or out of order within a limit. Needs
`hypothesis`.
"""

from __future__ import annotations

from typing import Any, TypeVar

from hypothesis import strategies as st

from stoatflow.durations import Duration, duration_ms
from stoatflow.testing.record import Record

K = TypeVar("K")
V = TypeVar("V")


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
