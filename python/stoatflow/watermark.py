"""Watermark strategies: when the event time of a source's partitions is complete.

Takes how late records may be, returns frozen data for `watermark=` of a source. A watermark `w` means that records
before `w` are not expected any more. The engine computes it for each partition; the application's watermark is the
minimum over all active partitions, advances at commits and never goes back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from stoatflow.durations import Duration, duration_text
from stoatflow.errors import TopologyError
from stoatflow.plan.functions import callable_only, given, user_line
from stoatflow.plan.node_base import Udf, WatermarkSpec
from stoatflow.windows import span_ms

if TYPE_CHECKING:
    from stoatflow.consumed_record import ConsumedRecord

WatermarkFunction: TypeAlias = "Callable[[ConsumedRecord, int], int | None]"
"""A function `(record, current)` that returns the watermark from this record on, or `None` for no change."""


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
        """Timestamps of a partition never decrease: its watermark is the highest one.

        >>> sf.Watermark.monotonic()
        Watermark.monotonic()
        """
        return cls("monotonic")

    @classmethod
    def bounded(cls, delay: Duration) -> Watermark:
        """Records are late by at most `delay`: the watermark is the partition's highest timestamp minus `delay`.

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
        """The watermark is the result of `function(record, current)`; `None`, or less than `current`, changes nothing.

        `current` is the partition's watermark, -1 if it has none yet.

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
        """The source has no watermark, and doesn't hold others back.

        >>> sf.Watermark.none()
        Watermark.none()
        """
        return cls("none")

    def idle(self, after: Duration) -> Watermark:
        """A partition without records for this long (wall-clock time) doesn't hold others back until it has one again.

        >>> sf.Watermark.bounded("10s").idle("5m")
        Watermark.bounded("10s").idle("5m")
        """
        self._some("idle")
        return replace(self, _idle_ms=span_ms(after, "Watermark.idle(after)", least=1))

    def aligned(self, group: str, max_drift: Duration) -> Watermark:
        """Partitions that are more than `max_drift` ahead of the group's slowest partition wait for it.

        The group consists of all sources with this group name. A partition that is idle, or has had no record yet,
        isn't waited for.

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
        """Show the source text that creates it."""
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
        """Return the strategy as plan data."""
        strategy: object = self._strategy
        if self._function is not None:
            strategy = self._function
        elif self._strategy == "bounded":
            strategy = {"bounded": self._delay_ms}
        return WatermarkSpec(strategy, self._idle_ms, self._group, self._max_drift_ms)


def watermark_spec(watermark: Watermark | None, method: str, line: str) -> WatermarkSpec | None:
    """Return `watermark=` as plan data."""
    instead = 'write watermark=sf.Watermark.bounded("10s")'
    how = given(watermark, Watermark, None, f"{method}(watermark=)", line, instead)
    return None if how is None else how.spec
