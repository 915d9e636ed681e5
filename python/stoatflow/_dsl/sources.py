"""Arguments of sources: topics, and how they are read.

Takes arguments of the builder's methods, checks them, returns the fields of their nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stoatflow.errors import TopologyError
from stoatflow.handlers import OnError
from stoatflow.late import LatePolicy
from stoatflow.materialized import Consumed, Reset, TimestampLike
from stoatflow.plan.functions import given
from stoatflow.plan.settings import UNSET_KEY, UNSET_VALUE
from stoatflow.serdes import SerdeLike
from stoatflow.watermark import Watermark

Topics = str | Sequence[str] | re.Pattern[str]


def topics_or_pattern(topics: Topics, line: str) -> tuple[tuple[str, ...], str | None]:
    """Return the names of topics, or the text of the pattern that topics must match."""
    if isinstance(topics, str):
        return (topics,), None
    if isinstance(topics, re.Pattern):
        return (), _pattern(topics, line)
    if isinstance(topics, bytes | Mapping) or not isinstance(topics, Iterable):
        raise TopologyError(
            f"{line} stream needs topics, not {topics!r}",
            next_step='name one ("orders"), several (["orders", "returns"]), or pass re.compile("orders-.*")',
        )
    return tuple(topics), None


def _pattern(pattern: re.Pattern[str], line: str) -> str:
    if not isinstance(pattern.pattern, str):
        raise TopologyError(
            f"{line} stream: the pattern {pattern.pattern!r} is one of bytes, but names of topics are text",
            next_step=f"write re.compile({pattern.pattern.decode('ascii', 'replace')!r})",
        )
    # The engine reads flags that stand in the pattern's text; other flags would be lost.
    if pattern.flags & ~re.compile(pattern.pattern).flags:
        raise TopologyError(
            f"{line} stream: the pattern {pattern.pattern!r} has flags, which the engine does not know",
            next_step="write them into the pattern, such as (?i)orders-.*",
        )
    return pattern.pattern


def how_consumed(
    consumed: Consumed[Any, Any] | None,
    key: SerdeLike[Any] | None,
    value: SerdeLike[Any] | None,
    name: str | None,
    reset: Reset | None,
    timestamp: TimestampLike | None,
    on_error: OnError | None,
    method: str,
    line: str,
    watermark: Watermark | None = None,
    late: LatePolicy | None = None,
) -> Consumed[Any, Any]:
    """Combine the arguments of `Consumed` and of the method; raise `TopologyError` if one is given in both."""
    how = given(consumed, Consumed, None, f"{method}(consumed=)", line)
    if how is not None:
        if (key, value, name, reset, timestamp, on_error, watermark, late) != (None,) * 8:
            raise TopologyError(
                f"{line} {method}: key=, value=, name=, reset=, timestamp=, on_error=, watermark= or late= is given "
                "beside consumed=",
                next_step="give them either to Consumed or to the method",
            )
        key, value, name, reset, timestamp = how.key, how.value, how.name, how.reset, how.timestamp
        on_error, watermark, late = how.on_error, how.watermark, how.late
    return Consumed(
        UNSET_KEY if key is None else key,
        UNSET_VALUE if value is None else value,
        name=name,
        reset=reset,
        timestamp=timestamp,
        on_error=on_error,
        watermark=watermark,
        late=late,
    )
