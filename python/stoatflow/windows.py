"""Windows: how records of a key are grouped by time, and when windows emit results.

Takes durations (`timedelta` or text), returns frozen data. Grace is always required: how long after its end a window
still accepts late records. The engine computes the windows.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from typing import ParamSpec, TypeVar

from stoatflow._dsl.java_names import JavaNames
from stoatflow.durations import Duration, Timestamp, duration_ms, timestamp_ms
from stoatflow.errors import TopologyError
from stoatflow.plan.functions import user_line
from stoatflow.plan.specs import JoinWindowSpec, WindowSpec

P = ParamSpec("P")
R = TypeVar("R")

NO_GRACE = timedelta(0)


def span_ms(duration: Duration, what: str, *, least: int | None = 0) -> int:
    """Return the milliseconds of an argument; raise `TopologyError` that names it and the user's line.

    `least=None`: negative values are allowed too.
    """
    try:
        ms = duration_ms(duration, signed=least is None)
    except (TypeError, ValueError) as cause:
        raise TopologyError(
            f"{user_line()} {what}: {cause}", next_step='write a timedelta or text such as "5m"'
        ) from None
    if least is not None and ms < least:
        raise TopologyError(
            f"{user_line()} {what} is {ms} ms, but must be at least {least} ms", next_step="give a longer duration"
        )
    return ms


def says_grace(make: Callable[P, R]) -> Callable[P, R]:
    """Raise `TopologyError` if `grace=` is missing: Python's own error names neither line nor fix."""

    @wraps(make)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if "grace" not in kwargs:
            what = make.__qualname__.removesuffix(".__init__")
            raise TopologyError(
                f"{user_line()} {what}: grace= is missing: how long after its end a window still takes late records",
                next_step='add grace="1m", or grace="0s" to drop what is late',
            )
        return make(*args, **kwargs)

    return checked


class Windows(JavaNames):
    """Argument of `windowed_by`; one of the classes below."""

    __slots__ = ("_idle_ms", "_spec")

    def __init__(self, spec: WindowSpec, close_when_idle: Duration | None = None) -> None:
        """Created by its subclasses."""
        self._spec = spec
        what = f"{type(self).__name__}(close_when_idle=)"
        self._idle_ms = None if close_when_idle is None else span_ms(close_when_idle, what, least=1)

    @property
    def spec(self) -> WindowSpec:
        """The windows as plan data."""
        return self._spec

    @property
    def grace_ms(self) -> int:
        """How long after its end a window accepts late records.

        >>> sf.TimeWindows("1m", grace="5s").grace_ms
        5000
        """
        return self._spec.grace_ms or 0

    @property
    def close_when_idle_ms(self) -> int | None:
        """Time without records after which windows close by the wall clock; `None`: they don't.

        >>> sf.TimeWindows("1m", grace="0s", close_when_idle="30s").close_when_idle_ms
        30000
        """
        return self._idle_ms

    def __repr__(self) -> str:
        """Show kind and durations."""
        spec = self._spec
        parts = [f"{name}={getattr(spec, name)}" for name in spec.__slots__ if getattr(spec, name) is not None]
        parts += [f"close_when_idle_ms={self._idle_ms}"] if self._idle_ms is not None else []
        return f"<{type(self).__name__} {' '.join(parts)}>"

    def __eq__(self, other: object) -> bool:
        """Whether the durations are equal."""
        return isinstance(other, Windows) and repr(self) == repr(other)

    def __hash__(self) -> int:
        """As `__eq__`."""
        return hash(repr(self))


class TimeWindows(Windows):
    """Windows of one size, aligned to 1970, from start (inclusive) to end (exclusive).

    `TimeWindows("5m", grace="30s")` are adjacent (tumbling); with `advance="1m"` they overlap (hopping). With
    `close_when_idle="1m"` time advances by the wall clock when no record has arrived for a minute.

    >>> builder = sf.StreamsBuilder()
    >>> grouped = builder.stream("n", key=str).group_by_key()
    >>> grouped.windowed_by(sf.TimeWindows("1m", grace="10s")).count(store="counts").to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     for second in (59, 60):
    ...         driver.input("n", str, bytes).pipe("a", b"", timestamp=second * 1000)
    [to_stream]: Windowed(key='a', window=Window(start=0, end=60000)), 1
    [to_stream]: Windowed(key='a', window=Window(start=60000, end=120000)), 1
    """

    __slots__ = ()

    @says_grace
    def __init__(
        self,
        size: Duration,
        *,
        advance: Duration | None = None,
        grace: Duration,
        close_when_idle: Duration | None = None,
    ) -> None:
        """Set size and grace, and for overlapping windows the distance of their starts."""
        size_ms = span_ms(size, "TimeWindows(size)", least=1)
        grace_ms = span_ms(grace, "TimeWindows(grace=)")
        if advance is None:
            super().__init__(WindowSpec("tumbling", size_ms=size_ms, grace_ms=grace_ms), close_when_idle)
            return
        advance_ms = span_ms(advance, "TimeWindows(advance=)", least=1)
        if advance_ms > size_ms:
            raise TopologyError(
                f"{user_line()} TimeWindows: the advance ({advance_ms} ms) is longer than the size ({size_ms} ms): "
                "records between two windows would be in none",
                next_step="give an advance that is at most the size",
            )
        spec = WindowSpec("hopping", size_ms=size_ms, advance_ms=advance_ms, grace_ms=grace_ms)
        super().__init__(spec, close_when_idle)

    @classmethod
    @says_grace
    def tumbling(cls, size: Duration, *, grace: Duration) -> TimeWindows:
        """Return adjacent windows.

        >>> sf.TimeWindows.tumbling("1m", grace="5s").size_ms
        60000
        """
        return cls(size, grace=grace)

    @classmethod
    @says_grace
    def hopping(cls, size: Duration, advance: Duration, *, grace: Duration) -> TimeWindows:
        """Return overlapping windows.

        >>> sf.TimeWindows.hopping("1m", "10s", grace="5s").size_ms
        60000
        """
        return cls(size, advance=advance, grace=grace)

    @classmethod
    def of_size_with_no_grace(cls, size: Duration) -> TimeWindows:
        """Like `ofSizeWithNoGrace`: late records are dropped as soon as the window has ended.

        >>> sf.TimeWindows.of_size_with_no_grace("1m").grace_ms
        0
        """
        return cls(size, grace=NO_GRACE)

    @classmethod
    def of_size_and_grace(cls, size: Duration, grace: Duration) -> TimeWindows:
        """Like `ofSizeAndGrace`.

        >>> sf.TimeWindows.of_size_and_grace("1m", "5s").grace_ms
        5000
        """
        return cls(size, grace=grace)

    def advance_by(self, advance: Duration) -> TimeWindows:
        """Like `advanceBy`: the same windows, overlapping.

        >>> sf.TimeWindows("1m", grace="0s").advance_by("10s") == sf.TimeWindows("1m", advance="10s", grace="0s")
        True
        """
        size, grace = timedelta(milliseconds=self.size_ms), timedelta(milliseconds=self.grace_ms)
        idle = None if self._idle_ms is None else timedelta(milliseconds=self._idle_ms)
        return type(self)(size, advance=advance, grace=grace, close_when_idle=idle)

    @property
    def size_ms(self) -> int:
        """Duration from start to end.

        >>> sf.TimeWindows("1m", grace="0s").size_ms
        60000
        """
        return self._spec.size_ms or 0


class SlidingWindows(Windows):
    """A window around each record: all records at most `difference` apart, both ends inclusive.

    >>> builder = sf.StreamsBuilder()
    >>> grouped = builder.stream("n", key=str).group_by_key()
    >>> grouped.windowed_by(sf.SlidingWindows("10s", grace="0s")).count(store="counts").to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     for second in (0, 10):
    ...         driver.input("n", str, bytes).pipe("a", b"", timestamp=second * 1000)
    [to_stream]: Windowed(key='a', window=Window(start=0, end=10000)), 1
    [to_stream]: Windowed(key='a', window=Window(start=0, end=10000)), 2
    [to_stream]: Windowed(key='a', window=Window(start=1, end=10001)), 1
    """

    __slots__ = ()

    @says_grace
    def __init__(self, difference: Duration, *, grace: Duration, close_when_idle: Duration | None = None) -> None:
        """Set the longest time between two records of a window, and the grace."""
        difference_ms = span_ms(difference, "SlidingWindows(difference)")
        grace_ms = span_ms(grace, "SlidingWindows(grace=)")
        super().__init__(WindowSpec("sliding", difference_ms=difference_ms, grace_ms=grace_ms), close_when_idle)

    @classmethod
    def of_time_difference_with_no_grace(cls, difference: Duration) -> SlidingWindows:
        """Like `ofTimeDifferenceWithNoGrace`.

        >>> sf.SlidingWindows.of_time_difference_with_no_grace("30s").grace_ms
        0
        """
        return cls(difference, grace=NO_GRACE)

    @classmethod
    def of_time_difference_and_grace(cls, difference: Duration, grace: Duration) -> SlidingWindows:
        """Like `ofTimeDifferenceAndGrace`.

        >>> sf.SlidingWindows.of_time_difference_and_grace("30s", "5s").grace_ms
        5000
        """
        return cls(difference, grace=grace)


class SessionWindows(Windows):
    """Sessions: records of a key that follow each other within `gap` are in one session.

    >>> builder = sf.StreamsBuilder()
    >>> grouped = builder.stream("n", key=str).group_by_key()
    >>> grouped.windowed_by(sf.SessionWindows("30s", grace="0s")).count(store="counts").to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     for second in (1, 31, 90):
    ...         driver.input("n", str, bytes).pipe("a", b"", timestamp=second * 1000)
    [to_stream]: Windowed(key='a', window=Window(start=1000, end=1000)), 1
    [to_stream]: Windowed(key='a', window=Window(start=1000, end=1000)), None
    [to_stream]: Windowed(key='a', window=Window(start=1000, end=31000)), 2
    [to_stream]: Windowed(key='a', window=Window(start=90000, end=90000)), 1
    """

    __slots__ = ()

    @says_grace
    def __init__(self, gap: Duration, *, grace: Duration, close_when_idle: Duration | None = None) -> None:
        """Set the longest inactivity within a session, and the grace."""
        gap_ms = span_ms(gap, "SessionWindows(gap)", least=1)
        grace_ms = span_ms(grace, "SessionWindows(grace=)")
        super().__init__(WindowSpec("session", gap_ms=gap_ms, grace_ms=grace_ms), close_when_idle)

    @classmethod
    def of_inactivity_gap_with_no_grace(cls, gap: Duration) -> SessionWindows:
        """Like `ofInactivityGapWithNoGrace`.

        >>> sf.SessionWindows.of_inactivity_gap_with_no_grace("30s").grace_ms
        0
        """
        return cls(gap, grace=NO_GRACE)

    @classmethod
    def of_inactivity_gap_and_grace(cls, gap: Duration, grace: Duration) -> SessionWindows:
        """Like `ofInactivityGapAndGrace`.

        >>> sf.SessionWindows.of_inactivity_gap_and_grace("30s", "5s").grace_ms
        5000
        """
        return cls(gap, grace=grace)


class UnlimitedWindows(Windows):
    """One window per key from `start` on, never closed; records before it are dropped.

    >>> builder = sf.StreamsBuilder()
    >>> grouped = builder.stream("n", key=str).group_by_key()
    >>> grouped.windowed_by(sf.UnlimitedWindows()).count(store="counts").to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     for second in (1, 1000):
    ...         driver.input("n", str, bytes).pipe("a", b"", timestamp=second * 1000)
    [to_stream]: Windowed(key='a', window=Window(start=0, end=9223372036854775807)), 1
    [to_stream]: Windowed(key='a', window=Window(start=0, end=9223372036854775807)), 2
    """

    __slots__ = ()

    def __init__(self, start: Timestamp = 0) -> None:
        """Set where the window starts."""
        try:
            start_ms = timestamp_ms(start)
        except (TypeError, ValueError) as cause:
            raise TopologyError(
                f"{user_line()} UnlimitedWindows(start): {cause}", next_step="write milliseconds or an aware datetime"
            ) from None
        if start_ms < 0:
            raise TopologyError(
                f"{user_line()} UnlimitedWindows(start) is {start_ms}, before 1970", next_step="start at 0 or later"
            )
        super().__init__(WindowSpec("unlimited", start_ms=start_ms))

    @classmethod
    def of(cls) -> UnlimitedWindows:
        """Like `of`: from 1970 on.

        >>> sf.UnlimitedWindows.of() == sf.UnlimitedWindows()
        True
        """
        return cls()

    def start_on(self, start: Timestamp) -> UnlimitedWindows:
        """Like `startOn`.

        >>> sf.UnlimitedWindows.of().start_on(60_000) == sf.UnlimitedWindows(60_000)
        True
        """
        return type(self)(start)


class CountWindows(Windows):
    """A fixed number of records per window and key. Start and end count the key's records, from 0.

    Kafka Streams has no such windows; null values count as records.

    >>> builder = sf.StreamsBuilder()
    >>> grouped = builder.stream("n", key=str).group_by_key()
    >>> grouped.windowed_by(sf.CountWindows(2)).count(store="counts").to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     for second in (1, 2, 3):
    ...         driver.input("n", str, bytes).pipe("a", b"", timestamp=second * 1000)
    [to_stream]: Windowed(key='a', window=Window(start=0, end=2)), 1
    [to_stream]: Windowed(key='a', window=Window(start=0, end=2)), 2
    [to_stream]: Windowed(key='a', window=Window(start=2, end=4)), 1
    """

    __slots__ = ()

    def __init__(self, records: int) -> None:
        """Set the number of records of a window."""
        if isinstance(records, bool) or not isinstance(records, int) or records < 1:
            raise TopologyError(
                f"{user_line()} CountWindows needs a number of records, not {records!r}",
                next_step="write CountWindows(100)",
            )
        super().__init__(WindowSpec("count", records=records))


@dataclass(frozen=True, slots=True)
class JoinWindows(JavaNames):
    """Which records of two streams are joined: `left - before <= right <= left + after`, both inclusive.

    `JoinWindows("5m", grace="1m")` is symmetric; `before=` and `after=` set each side. One of them may be negative:
    `JoinWindows(before="-1m", after="5m", grace="2m")` joins records that are one to five minutes later.

    >>> window = sf.JoinWindows(before="1m", after="5m", grace="2m")
    >>> window.before_ms, window.after_ms, window.grace_ms
    (60000, 300000, 120000)
    """

    before_ms: int
    after_ms: int
    grace_ms: int

    @says_grace
    def __init__(
        self,
        difference: Duration | None = None,
        *,
        before: Duration | None = None,
        after: Duration | None = None,
        grace: Duration,
    ) -> None:
        """Set a difference, or before and after, and the grace."""
        if difference is None and (before is None or after is None):
            raise TopologyError(
                f"{user_line()} JoinWindows: neither a difference nor both of before= and after= are given",
                next_step='write JoinWindows("5m", grace="1m") or JoinWindows(before="1m", after="5m", grace="1m")',
            )
        if difference is not None:
            span_ms(difference, "JoinWindows(difference)")
            if before is not None and after is not None:
                raise TopologyError(
                    f"{user_line()} JoinWindows: a difference is given beside before= and after=: it says nothing",
                    next_step="leave the difference out, or one of before= and after=",
                )
        sides = [
            span_ms(side, f"JoinWindows({name}=)", least=None)
            for side, name in (
                (before if before is not None else difference, "before"),
                (after if after is not None else difference, "after"),
            )
            if side is not None
        ]
        if sum(sides) < 0:
            raise TopologyError(
                f"{user_line()} JoinWindows: the window ends before it starts "
                f"(before is {sides[0]} ms, after is {sides[1]} ms)",
                next_step="give before= and after= whose sum is not negative",
            )
        object.__setattr__(self, "before_ms", sides[0])
        object.__setattr__(self, "after_ms", sides[1])
        object.__setattr__(self, "grace_ms", span_ms(grace, "JoinWindows(grace=)"))

    @classmethod
    def of_time_difference_with_no_grace(cls, difference: Duration) -> JoinWindows:
        """Like `ofTimeDifferenceWithNoGrace`.

        >>> sf.JoinWindows.of_time_difference_with_no_grace("5m").grace_ms
        0
        """
        return cls(difference, grace=NO_GRACE)

    @classmethod
    def of_time_difference_and_grace(cls, difference: Duration, grace: Duration) -> JoinWindows:
        """Like `ofTimeDifferenceAndGrace`.

        >>> sf.JoinWindows.of_time_difference_and_grace("5m", "1m").grace_ms
        60000
        """
        return cls(difference, grace=grace)

    def before(self, before: Duration) -> JoinWindows:
        """Like `before`: the same window with another lower bound.

        >>> window = sf.JoinWindows("5m", grace="1m").before("0s")
        >>> window.before_ms, window.after_ms
        (0, 300000)
        """
        return self._with(before, timedelta(milliseconds=self.after_ms))

    def after(self, after: Duration) -> JoinWindows:
        """Like `after`: the same window with another upper bound.

        >>> window = sf.JoinWindows("5m", grace="1m").after("0s")
        >>> window.before_ms, window.after_ms
        (300000, 0)
        """
        return self._with(timedelta(milliseconds=self.before_ms), after)

    def _with(self, before: Duration, after: Duration) -> JoinWindows:
        return JoinWindows(before=before, after=after, grace=timedelta(milliseconds=self.grace_ms))

    @property
    def spec(self) -> JoinWindowSpec:
        """The window as plan data."""
        return JoinWindowSpec(self.before_ms, self.after_ms, self.grace_ms)


class EmitStrategy(enum.Enum):
    """When a windowed aggregation emits results.

    >>> sf.EmitStrategy.on_window_close()
    <EmitStrategy.ON_WINDOW_CLOSE: 'on_window_close'>
    """

    ON_WINDOW_UPDATE = "on_window_update"
    ON_WINDOW_CLOSE = "on_window_close"

    @classmethod
    def on_window_update(cls) -> EmitStrategy:
        """After each record (the default).

        >>> sf.EmitStrategy.on_window_update().value
        'on_window_update'
        """
        return cls.ON_WINDOW_UPDATE

    @classmethod
    def on_window_close(cls) -> EmitStrategy:
        """Once per window, when its end plus grace has passed.

        >>> sf.EmitStrategy.on_window_close().value
        'on_window_close'
        """
        return cls.ON_WINDOW_CLOSE
