"""Suppression of a table's updates: how long they are held back, and in how much memory.

Takes durations and limits, returns frozen data for `KTable.suppress`. The buffer is state: it is written to a changelog
and restored, unless `logging=False`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from stoatflow._dsl.java_names import JavaNames
from stoatflow.durations import Duration
from stoatflow.errors import TopologyError
from stoatflow.plan.functions import given, user_line
from stoatflow.plan.specs import UntilSpec
from stoatflow.windows import span_ms

WhenFull: TypeAlias = Literal["emit_early", "shutdown"]


@dataclass(frozen=True, slots=True)
class Buffer:
    """Limits of a buffer: `Buffer()` has none; `Buffer(max_records=1000)` emits its oldest records early when full.

    >>> sf.Buffer(max_records=1000).emits_early(), sf.Buffer().emits_early()
    (True, False)
    """

    max_records: int | None = None
    max_bytes: int | None = None
    when_full: WhenFull | None = None
    logging: bool = True

    def __post_init__(self) -> None:
        """Check the limits."""
        for name in ("max_records", "max_bytes"):
            bound = getattr(self, name)
            if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int) or bound < 0):
                raise TopologyError(
                    f"{user_line()} Buffer: {name}={bound!r} is no number of {name[4:]}", next_step=f"write {name}=1000"
                )
        if self.when_full not in (None, "emit_early", "shutdown"):
            raise TopologyError(
                f"{user_line()} Buffer: when_full={self.when_full!r} is not known",
                next_step='write when_full="emit_early" or when_full="shutdown"',
            )

    @classmethod
    def unbounded(cls) -> Buffer:
        """Return a buffer without limits.

        >>> sf.Buffer.unbounded().max_records is None
        True
        """
        return cls()

    def emits_early(self) -> bool:
        """Whether it may emit results early.

        >>> sf.Buffer(max_records=10).emits_early()
        True
        >>> sf.Buffer(max_records=10, when_full="shutdown").emits_early()
        False
        """
        bounded = self.max_records is not None or self.max_bytes is not None
        return bounded and self.when_full in (None, "emit_early")


@dataclass(frozen=True, slots=True)
class Suppressed(JavaNames):
    """When suppressed updates are emitted; created by the methods below.

    >>> limited = sf.Suppressed.until_time_limit("10s", sf.Buffer(max_records=1000))
    >>> limited.buffer.max_records
    1000
    """

    until: UntilSpec
    buffer: Buffer
    name: str | None = None

    @classmethod
    def until_window_closes(cls, buffer: Buffer | None = None, *, name: str | None = None) -> Suppressed:
        """Emit one final result per window. The buffer must not emit results early.

        >>> sf.Suppressed.until_window_closes(name="final").name
        'final'
        """
        bounds = given(buffer, Buffer, Buffer(), "until_window_closes", user_line())
        if bounds.emits_early():
            raise TopologyError(
                f"{user_line()} until_window_closes: a buffer that gives results early would not give final ones",
                next_step='write Buffer(..., when_full="shutdown"), or Buffer() without bounds',
            )
        return cls(UntilSpec("window_closes", grace_ms=-1), bounds, name)

    @classmethod
    def until_time_limit(cls, limit: Duration, buffer: Buffer | None = None, *, name: str | None = None) -> Suppressed:
        """Emit the newest update of a key once `limit` of event time has passed since its first suppressed update.

        >>> limited = sf.Suppressed.until_time_limit("10s", sf.Buffer(max_records=1000))
        >>> limited.buffer.max_records
        1000
        """
        limit_ms = span_ms(limit, "until_time_limit(limit)")
        bounds = given(buffer, Buffer, Buffer(), "until_time_limit", user_line())
        return cls(UntilSpec("time_limit", limit_ms=limit_ms), bounds, name)

    @classmethod
    def until_barrier(cls, *, name: str | None = None) -> Suppressed:
        """Emit one result per key and commit: all results of a commit are consistent. Not in Kafka Streams.

        >>> builder = sf.StreamsBuilder()
        >>> table = builder.table("n", key=str, value=int, store="n")
        >>> table.suppress(sf.Suppressed.until_barrier(name="per-commit")).to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver, driver.epoch():
        ...     driver.input("n", str, int).pipe_all([("a", 1), ("a", 2)])
        [to_stream]: a, 2
        """
        return cls(UntilSpec("barrier"), Buffer(), name)
