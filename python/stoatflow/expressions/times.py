"""Methods of times: `sf.timestamp.dt`.

Takes an expression whose value is milliseconds since 1970, returns further expressions. `tz` is the name of a time
zone, UTC by default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoatflow.durations import duration_ms
from stoatflow.expressions.text import text

if TYPE_CHECKING:
    from stoatflow.durations import Duration
    from stoatflow.expressions.expression import Expression


class TimeMethods:
    """Methods of a time: `sf.timestamp.dt`."""

    __slots__ = ("_of",)

    def __init__(self, of: Expression) -> None:
        """Created by `Expression.dt`."""
        self._of = of

    def truncate(self, every: Duration, tz: str | None = None) -> Expression:
        """Round down to a multiple of this duration: `"1h"`, `"1d"` (midnight in `tz`)."""
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
        """Return the date as text: `2024-01-31`."""
        return self._of._call("dt_date", tz or "UTC")

    def iso(self, tz: str | None = None) -> Expression:
        """Return the time in ISO 8601: `2024-01-31T09:30:00.000Z`."""
        return self._of._call("dt_iso", tz or "UTC")

    def strftime(self, form: str, tz: str | None = None) -> Expression:
        """Format the time: `"%d.%m.%Y"`."""
        return self._of._call("dt_strftime", text("strftime", form), tz or "UTC")
