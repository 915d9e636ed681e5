"""What is expected of the order of a source's records: when the event time of its partitions is complete.

Takes how late records may be, gives frozen data for `watermark=` of a source. A watermark `w` says that records
before `w` are not expected any more. The engine computes it for each partition; the application's is the least of
all active partitions, moves at commits and never goes back. Nothing here computes one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from stoatflow.durations import Duration, duration_text
from stoatflow.errors import TopologyError
from stoatflow.plan.functions import callable_only, given, user_line
from stoatflow.plan.nodes import Udf, WatermarkSpec
from stoatflow.windows import span_ms

if TYPE_CHECKING:
    from stoatflow.consumed_record import ConsumedRecord

WatermarkFunction: TypeAlias = "Callable[[ConsumedRecord, int], int | None]"
"""A function `(record, current)` that gives the watermark from this record on, or `None` for no change."""


@dataclass(frozen=True, slots=True, repr=False)
class Watermark:
    """When event time is complete: `Watermark.bounded("10s").idle("5m")`.

    >>> sf.Watermark.bounded("10s").idle("5m")
    Watermark.bounded("10s").idle("5m")
    """

    _strategy: str
    _delay_ms: int = 0
    _function: Udf | None = None
    _idle_ms: int | None = None
    _group: str | None = None
    _max_drift_ms: int = 0

    @classmethod
    def monotonic(cls) -> Watermark:
        """Timestamps of a partition never go back: its watermark is the highest one.

        >>> sf.Watermark.monotonic()
        Watermark.monotonic()
        """
        return cls("monotonic")

    @classmethod
    def bounded(cls, delay: Duration) -> Watermark:
        """Records are late by at most `delay`: the watermark is the partition's highest timestamp less that.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("n", watermark=sf.Watermark.bounded("10s")).to("out")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n").pipe(b"", timestamp=60_000)
        ...     print(driver.watermark)
        50000
        """
        return cls("bounded", span_ms(delay, "Watermark.bounded(delay)"))

    @classmethod
    def custom(cls, function: WatermarkFunction) -> Watermark:
        """The watermark is what `function(record, current)` gives; `None`, or less than `current`, changes nothing.

        `current` is that of the partition, -1 as long as it has none.

        >>> builder = sf.StreamsBuilder()
        >>> watermark = sf.Watermark.custom(lambda record, current: record.timestamp - 5_000)
        >>> builder.stream("n", watermark=watermark).to("out")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n").pipe(b"", timestamp=60_000)
        ...     print(driver.watermark)
        55000
        """
        made = callable_only(function, ("record", "current"), "Watermark.custom", user_line(), "pass a function")
        return cls("custom", _function=made)

    @classmethod
    def none(cls) -> Watermark:
        """The source says nothing about event time, and holds no other back.

        >>> sf.Watermark.none()
        Watermark.none()
        """
        return cls("none")

    def idle(self, after: Duration) -> Watermark:
        """A partition without records for so long (of wall time) holds no other back until it has one again.

        >>> sf.Watermark.bounded("10s").idle("5m")
        Watermark.bounded("10s").idle("5m")
        """
        self._some("idle")
        return replace(self, _idle_ms=span_ms(after, "Watermark.idle(after)", least=1))

    def aligned(self, group: str, max_drift: Duration) -> Watermark:
        """Partitions that are more than `max_drift` ahead of the group's last one wait for it.

        The group is all sources with this name. One that is idle, or has had no record yet, holds no other up.

        >>> sf.Watermark.bounded("10s").aligned("orders", "1m")
        Watermark.bounded("10s").aligned('orders', "1m")
        """
        self._some("aligned")
        if not isinstance(group, str) or not group:
            raise TopologyError(
                f"{user_line()} Watermark.aligned needs the name of a group, not {group!r}",
                next_step='write .aligned("orders", "1m"), with the same name for all sources of the group',
            )
        drift = span_ms(max_drift, "Watermark.aligned(max_drift)")
        return replace(self, _group=group, _max_drift_ms=drift)

    def _some(self, method: str) -> None:
        if self._strategy == "none":
            raise TopologyError(
                f"{user_line()} Watermark.none() has nothing that .{method}() could be about",
                next_step=f"leave .{method}() out, or begin with Watermark.bounded(...) or Watermark.monotonic()",
            )

    def __repr__(self) -> str:
        """As it was written."""
        of = {
            "bounded": f'"{duration_text(self._delay_ms)}"',
            "custom": self._function.display if self._function else "",
        }
        text = f"Watermark.{self._strategy}({of.get(self._strategy, '')})"
        if self._idle_ms is not None:
            text += f'.idle("{duration_text(self._idle_ms)}")'
        if self._group is not None:
            text += f'.aligned({self._group!r}, "{duration_text(self._max_drift_ms)}")'
        return text

    @property
    def spec(self) -> WatermarkSpec:
        """The plan's form."""
        strategy: object = self._strategy
        if self._function is not None:
            strategy = self._function
        elif self._strategy == "bounded":
            strategy = {"bounded": self._delay_ms}
        return WatermarkSpec(strategy, self._idle_ms, self._group, self._max_drift_ms)


def watermark_spec(watermark: Watermark | None, method: str, line: str) -> WatermarkSpec | None:
    """Return the plan's form of `watermark=`."""
    instead = 'write watermark=sf.Watermark.bounded("10s")'
    how = given(watermark, Watermark, None, f"{method}(watermark=)", line, instead)
    return None if how is None else how.spec
