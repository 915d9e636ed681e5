"""Reads the members of a TOML table, and notes every problem in them.

Takes a table and its path, returns checked members. Doesn't stop at the first problem.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Any

from stoatflow.durations import duration_ms, timestamp_ms

_MISSING: Any = object()


class Members:
    """A table whose members are taken one by one; `end` reports those that were not taken."""

    def __init__(self, given: object, path: str, problems: list[str]) -> None:
        """Keep the table; anything else is a problem."""
        self.path = path
        self._problems = problems
        self._known: list[str] = []
        self._given: dict[str, Any] = {}
        if isinstance(given, dict):
            self._given = dict(given)
        else:
            self.wrong(None, f"is a table of members, not {given!r}")

    def wrong(self, name: str | None, text: str) -> None:
        """Note a problem of a member, or of the whole table."""
        where = ".".join(part for part in (self.path, name) if part)
        self._problems.append(f"{where or 'the spec'} {text}")

    def has(self, name: str) -> bool:
        """Whether the member exists, and was not taken yet."""
        return name in self._given

    def take(self, name: str, default: Any = _MISSING) -> Any:
        """Return a member unchanged; without a default it is required."""
        self._known.append(name)
        found = self._given.pop(name, default)
        if found is _MISSING:
            self.wrong(name, "is missing")
            return None
        return found

    def whole(self, name: str, default: Any = _MISSING, least: int | None = None, most: int | None = None) -> int:
        """Return an integer."""
        found = self.take(name, default)
        if found is None:
            return least or 0
        if isinstance(found, bool) or not isinstance(found, int):
            self.wrong(name, f"is a whole number, not {found!r}")
            return least or 0
        self._within(name, found, least, most)
        return found

    def number(
        self, name: str, default: Any = _MISSING, least: float | None = None, most: float | None = None
    ) -> float:
        """Return a number."""
        found = self.take(name, default)
        if found is None:
            return 0.0
        if isinstance(found, bool) or not isinstance(found, int | float):
            self.wrong(name, f"is a number, not {found!r}")
            return 0.0
        self._within(name, found, least, most)
        return float(found)

    def share(self, name: str, default: Any = 0.0) -> float:
        """Return a share of the records: 0 to 1."""
        return self.number(name, default, 0.0, 1.0)

    def text(self, name: str, default: Any = _MISSING) -> str:
        """Return a text."""
        found = self.take(name, default)
        if found is None:
            return ""
        if not isinstance(found, str):
            self.wrong(name, f"is a text, not {found!r}")
            return ""
        return found

    def one_of(self, name: str, words: Sequence[str], default: Any = _MISSING) -> str:
        """Return one of these words."""
        found = self.take(name, default)
        if found is None or found in words:
            return found or words[0]
        close = difflib.get_close_matches(str(found), words, 1)
        hint = f"; is {close[0]!r} meant?" if close else ""
        self.wrong(name, f"is one of {', '.join(words)}, not {found!r}{hint}")
        return words[0]

    def duration(self, name: str, default: Any = _MISSING) -> int:
        """Return milliseconds of a duration such as "5m"."""
        found = self.take(name, default)
        if found is None or found is default:
            return int(found or 0)
        try:
            return duration_ms(found)
        except (TypeError, ValueError) as error:
            self.wrong(name, f"is a duration: {error}")
            return 0

    def time(self, name: str, default: int) -> int:
        """Return milliseconds since 1970 of a TOML date and time with an offset, or of an integer."""
        found = self.take(name, default)
        try:
            return timestamp_ms(found)
        except (TypeError, ValueError) as error:
            self.wrong(name, f"is a time: {error}")
            return default

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of at least one text."""
        found = self.take(name)
        if not isinstance(found, list) or not found or not all(isinstance(each, str) for each in found):
            if found is not None:
                self.wrong(name, f"is a list of texts, not {found!r}")
            return ("",)
        return tuple(found)

    def weights(self, name: str, count: int) -> tuple[float, ...] | None:
        """Return a list of `count` numbers of at least 0, or `None`."""
        found = self.take(name, None)
        if found is None:
            return None
        good = isinstance(found, list) and all(
            isinstance(each, int | float) and not isinstance(each, bool) and each >= 0 for each in found
        )
        if not good or len(found) != count or not sum(found) > 0:
            self.wrong(name, f"is a list of {count} numbers that are not negative, not {found!r}")
            return None
        return tuple(float(each) for each in found)

    def table(self, name: str, default: Any = _MISSING) -> Members:
        """Return a nested table."""
        found = self.take(name, default)
        return Members({} if found is None else found, f"{self.path}.{name}" if self.path else name, self._problems)

    def tables(self) -> Iterator[tuple[str, Members]]:
        """Take all remaining members as tables, by name."""
        for name in list(self._given):
            yield name, self.table(name)

    def end(self) -> None:
        """Report the members that were not taken."""
        for name in self._given:
            close = difflib.get_close_matches(name, self._known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(self._known))}"
            self.wrong(name, f"is unknown; {hint}")

    def _within(self, name: str, found: float, least: float | None, most: float | None) -> None:
        if least is not None and found < least:
            self.wrong(name, f"is at least {least}, not {found}")
        if most is not None and found > most:
            self.wrong(name, f"is at most {most}, not {found}")
