"""Windowed keys: the keys of tables made by windowed aggregations.

Hashable values of a key and its window. Times are milliseconds since 1970; `start_time` and `end_time` are aware
datetimes.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K")

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Window(NamedTuple):
    """From `start` to `end`, in milliseconds. Time windows end exclusively, sessions with their last record.

    >>> window = sf.Window(0, 60_000)
    >>> window.overlap(sf.Window(30_000, 90_000))
    True
    >>> str(window.end_time)
    '1970-01-01 00:01:00+00:00'
    """

    start: int
    end: int

    @property
    def start_time(self) -> datetime:
        """The start, in UTC.

        >>> str(sf.Window(0, 60_000).start_time)
        '1970-01-01 00:00:00+00:00'
        """
        return _EPOCH + timedelta(milliseconds=self.start)

    @property
    def end_time(self) -> datetime:
        """The end, in UTC; raises `OverflowError` for a window without end.

        >>> str(sf.Window(0, 60_000).end_time)
        '1970-01-01 00:01:00+00:00'
        """
        return _EPOCH + timedelta(milliseconds=self.end)

    def overlap(self, other: Window) -> bool:
        """Whether two time windows overlap. Their ends are exclusive.

        >>> sf.Window(0, 60_000).overlap(sf.Window(60_000, 120_000))
        False
        """
        return self.start < other.end and other.start < self.end


# A NamedTuple can't be generic before Python 3.11.
class _Windowed(NamedTuple):
    key: object
    window: Window


class Windowed(_Windowed, Generic[K]):
    """A key within a window.

    >>> windowed = sf.Windowed("ann", sf.Window(0, 60_000))
    >>> windowed.key, windowed.window.start
    ('ann', 0)
    """

    __slots__ = ()

    key: K
    window: Window
