"""What can be done with times: `sf.timestamp.dt`.

Takes an expression that gives milliseconds since 1970, gives further ones. `tz` is a time zone by name; without one it
is UTC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoatflow.durations import duration_ms
from stoatflow.expressions.text import text

if TYPE_CHECKING:
    from stoatflow.durations import Duration
    from stoatflow.expressions.expression import Expression


class TimeMethods:
    """What can be done with a time: `sf.timestamp.dt`."""

    __slots__ = ("_of",)

    def __init__(self, of: Expression) -> None:
        """Made by `Expression.dt`."""
        self._of = of

    def truncate(self, every: Duration, tz: str | None = None) -> Expression:
        """Return the start of the span of this length that it is in: `"1h"`, `"1d"` (midnight of `tz`)."""
        ms = duration_ms(every)
        if ms == 0:
            raise ValueError(f"truncate({every!r}): the span must not be empty")
        return self._of._call("dt_truncate", ms, tz or "UTC")

    def year(self, tz: str | None = None) -> Expression:
        """Return the year."""
        return self._of._call("dt_year", tz or "UTC")

    def month(self, tz: str | None = None) -> Expression:
        """Return the month, from 1."""
        return self._of._call("dt_month", tz or "UTC")

    def day(self, tz: str | None = None) -> Expression:
        """Return the day of the month, from 1."""
        return self._of._call("dt_day", tz or "UTC")

    def hour(self, tz: str | None = None) -> Expression:
        """Return the hour, from 0."""
        return self._of._call("dt_hour", tz or "UTC")

    def minute(self, tz: str | None = None) -> Expression:
        """Return the minute, from 0."""
        return self._of._call("dt_minute", tz or "UTC")

    def second(self, tz: str | None = None) -> Expression:
        """Return the second, from 0."""
        return self._of._call("dt_second", tz or "UTC")

    def millisecond(self, tz: str | None = None) -> Expression:
        """Return the millisecond, from 0."""
        return self._of._call("dt_millisecond", tz or "UTC")

    def weekday(self, tz: str | None = None) -> Expression:
        """Return the day of the week; Monday is 0, as in Python."""
        return self._of._call("dt_weekday", tz or "UTC")

    def date(self, tz: str | None = None) -> Expression:
        """Return the day as text: `2024-01-31`."""
        return self._of._call("dt_date", tz or "UTC")

    def iso(self, tz: str | None = None) -> Expression:
        """Return it in ISO 8601: `2024-01-31T09:30:00.000Z`."""
        return self._of._call("dt_iso", tz or "UTC")

    def strftime(self, form: str, tz: str | None = None) -> Expression:
        """Return it in a form: `"%d.%m.%Y"`."""
        return self._of._call("dt_strftime", text("strftime", form), tz or "UTC")
