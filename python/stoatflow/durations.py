"""Durations and timestamps as users write them.

Takes `timedelta` or text (`"5m"`, `"100ms"`), integer milliseconds or aware `datetime`; returns milliseconds. Bare
numbers as durations are refused where their unit would be ambiguous.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import TypeAlias

Duration: TypeAlias = timedelta | str
"""`timedelta(minutes=5)` or `"5m"`."""
Timestamp: TypeAlias = datetime | int
"""An aware `datetime`, or milliseconds since 1970."""

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_TEXT = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def duration_ms(duration: Duration, *, signed: bool = False) -> int:
    """Return milliseconds; raise `ValueError` or `TypeError` if invalid, or negative unless `signed`."""
    if isinstance(duration, timedelta):
        ms = duration // timedelta(milliseconds=1)
    elif isinstance(duration, str):
        match = _TEXT.fullmatch(duration)
        if match is None:
            raise ValueError(f'{duration!r} is no duration: write a number and ms, s, m, h or d, for example "5m"')
        ms = round(float(match[1]) * _UNITS[match[2]])
    else:
        raise TypeError(f'{duration!r} is no duration: write a timedelta or text such as "5m", "100ms"')
    if ms < 0 and not signed:
        raise ValueError(f"{duration!r} is negative")
    return ms


def timestamp_ms(timestamp: Timestamp) -> int:
    """Return milliseconds since 1970; raise `ValueError` for a `datetime` without a time zone."""
    if isinstance(timestamp, datetime):
        if timestamp.tzinfo is None:
            raise ValueError(f"{timestamp!r} has no time zone: write datetime(..., tzinfo=timezone.utc)")
        return (timestamp - _EPOCH) // timedelta(milliseconds=1)
    if isinstance(timestamp, bool) or not isinstance(timestamp, int):
        raise TypeError(f"{timestamp!r} is no timestamp: write milliseconds since 1970 or an aware datetime")
    return timestamp


def timeout_s(timeout: float | Duration | None) -> float | None:
    """Return seconds to wait; numbers are seconds here, as for every `timeout` in Python."""
    if timeout is None:
        return None
    if isinstance(timeout, int | float):
        return max(0.0, float(timeout))
    return duration_ms(timeout) / 1000


def duration_text(ms: int) -> str:
    """Return milliseconds in the largest unit that divides them, as a user would write them."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if ms and ms % size == 0:
            return f"{ms // size}{unit}"
    return f"{ms}ms"
