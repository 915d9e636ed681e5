"""Reads the rows for a query from the stores of one snapshot.

Takes a snapshot and bounds; returns rows, and how they were found. All reads are of one commit. Reading a whole store
is refused, unless it is allowed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from stoatflow._runtime.columns import KEY, WINDOW_END, WINDOW_START, Row, pages, row
from stoatflow.errors import ConfigError
from stoatflow.expressions.building import key as key_expression
from stoatflow.expressions.building import timestamp as timestamp_expression
from stoatflow.finding import query as finding
from stoatflow.sql.bounds import Bound, condition, keys, member, shown, times
from stoatflow.sql.errors import ScanRefusedError, SqlError
from stoatflow.sql.store_schema import StoreForm, StoreSchema

if TYPE_CHECKING:
    from stoatflow._runtime import bridge

__all__ = ["SnapshotStores", "StoreRead", "Stores", "Wanted"]

_SAMPLE = 100
_PAGE = 10_000
_LAST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class StoreRead:
    """How a query read a store.

    >>> builder = sf.StreamsBuilder()
    >>> users = builder.table("users", key=str, value=str, store="users")
    >>> with sf.EmbeddedBroker() as broker:
    ...     broker.create_topic("users")
    ...     broker.produce("users", "u1", "Ann")
    ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
    ...         app.wait_until(caught_up=True)
    ...         (read,) = app.sql("select value from users where _key = 'u1'").reads
    ...         print(read.store, read.way, read.rows_read)
    users keys 1
    """

    store: str
    way: str
    """`keys`, `key_range`, `index`, `windows` or `scan`."""
    index: str | None
    """Name of the index, if one was used."""
    rows_read: int
    """Number of rows read."""
    condition: str
    """Conditions that the store evaluated; empty for none."""

    def __str__(self) -> str:
        """Format it on one line."""
        by = f"index {self.index}" if self.index else self.way.replace("_", " ")
        return f"{self.store}: by {by}, {self.rows_read} rows read" + (f", {self.condition}" if self.condition else "")


class Wanted(NamedTuple):
    """What a place in a query needs from a store."""

    bounds: list[Bound]
    limit: int | None = None
    members: list[str] | None = None
    """The members of values that are needed; `None`: all."""
    allow_scan: bool = False


class Stores(Protocol):
    """Stores as of one commit."""

    @property
    def forms(self) -> Mapping[str, StoreForm]:
        """Forms of the stores."""

    @property
    def epoch(self) -> int:
        """Number of the commit."""

    def known(self, store: str) -> StoreSchema:
        """Return what is known about a store, from a few rows."""

    def read(self, store: str, wanted: Wanted) -> tuple[Iterator[list[Row]], Callable[[], StoreRead]]:
        """Return pages of rows, and a function that says, once they are read, how they were found."""


class SnapshotStores:
    """Stores of a snapshot of an application."""

    def __init__(self, snapshot: bridge.StateSnapshot, forms: Mapping[str, StoreForm]) -> None:
        """`forms`: those of the existing stores."""
        self._snapshot = snapshot
        self._forms = forms

    @property
    def forms(self) -> Mapping[str, StoreForm]:
        """Forms of the stores."""
        return self._forms

    @property
    def epoch(self) -> int:
        """Number of the commit."""
        return self._snapshot.epoch

    def known(self, store: str) -> StoreSchema:
        """Read the first rows, and one for each indexed member that they lack."""
        form = self.forms[store]
        if form.kind != "key_value":
            return StoreSchema(form, [])
        reader = self._snapshot.reader(store)
        rows = [row(*each) for each in _find(reader, None, _SAMPLE)[0]]
        seen = StoreSchema(form, rows)
        absent: list[tuple[str, ...]] = []
        for path in form.members:
            column = seen.column(path)
            if column is None or column.kind is None:
                more = _first_with(reader, path)
                rows += more or []
                absent += [path] if more == [] else []
        return StoreSchema(form, rows, absent)

    def read(self, store: str, wanted: Wanted) -> tuple[Iterator[list[Row]], Callable[[], StoreRead]]:
        """Read a store."""
        reader, form = self._snapshot.reader(store), self.forms[store]
        kinds: dict[str, type[_Reading]] = {
            "key_value": _KeyValues,
            "window": _Windows,
            "session": _Sessions,
            "versioned": _Versions,
        }
        reading = kinds[form.kind](store, reader, wanted)
        return reading.pages(), reading.how


def _find(reader: bridge.StateReader, where: Any, limit: int) -> Any:
    return reader.find(finding(where, None, limit, None, False)[0], None)


def _first_with(reader: bridge.StateReader, path: Sequence[str]) -> list[Row] | None:
    """Return one row that has a member, if an index can find it; `None` if unknown."""
    try:
        return [row(*each) for each in _find(reader, member(path).is_not_null(), 1)[0]]
    except ConfigError:
        return None


class _Reading(ABC):
    """One read of a store."""

    def __init__(self, store: str, reader: bridge.StateReader, wanted: Wanted) -> None:
        self._store = store
        self._reader = reader
        self._wanted = wanted
        self._way, self._count = "scan", 0
        self._index: str | None = None

    def how(self) -> StoreRead:
        return StoreRead(self._store, self._way, self._index, self._count, shown(self._wanted.bounds))

    @abstractmethod
    def pages(self) -> Iterator[list[Row]]:
        """Yield the rows, page by page."""

    def _paged(self, rows: Iterable[Row]) -> Iterator[list[Row]]:
        for page in pages(rows):
            self._count += len(page)
            yield page

    def _allow(self, next_step: str) -> None:
        if not self._wanted.allow_scan:
            raise ScanRefusedError(
                f"the query would read the whole store '{self._store}'", next_step=f"{next_step}, or allow the scan"
            )
        self._way = "scan"


class _KeyValues(_Reading):
    def pages(self) -> Iterator[list[Row]]:
        wanted = self._wanted
        where = condition(wanted.bounds)
        try:
            allowed = wanted.allow_scan or self._is_empty()
            limit = None if wanted.limit is None else max(wanted.limit, 1)
            self._reader.explain(finding(where, None, limit, None, allowed)[0])
        except ConfigError as error:
            raise ScanRefusedError(
                f"the query would read the whole store '{self._store}': {error.message}", next_step=error.next_step
            ) from None
        members = wanted.members
        select = None
        if members is not None:
            select = [key_expression, timestamp_expression, *(member([name]) for name in members)]
        left, cursor, unreadable = wanted.limit, None, 0
        while left is None or left > 0:
            asked = finding(where, None, min(_PAGE, left or _PAGE), select, True)[0]
            found, cursor, plan = self._reader.find(asked, cursor)
            self._way, self._index = plan[0], plan[1]
            self._count += plan[5]
            unreadable += plan[6]
            if members is None:
                yield [row(*each) for each in found]
            else:
                yield [row(key, dict(zip(members, rest, strict=True)), time) for _, (key, time, *rest), _ in found]
            left = None if left is None else left - len(found)
            if cursor is None:
                break
        if unreadable:
            raise SqlError(
                f"{unreadable} rows of the store '{self._store}' have no value that the condition can compare: "
                f"{shown(wanted.bounds) or 'their values have another form'}",
                next_step="look at these rows with app.store(...), or have DuckDB compare them: write the condition as "
                "an expression, such as (age + 0) > 30, and allow the scan",
            )

    def _is_empty(self) -> bool:
        return not _find(self._reader, None, 1)[0]


class _Windows(_Reading):
    def pages(self) -> Iterator[list[Row]]:
        return self._paged(self._rows())

    def _rows(self) -> Iterator[Row]:
        bounds = self._wanted.bounds
        named, span = keys(bounds)
        if named is None and span == (None, None) and not self._is_timed(bounds):
            self._allow(f"give {KEY} = ... or {WINDOW_START} >= ...")
        else:
            self._way = "windows" if named is None else "keys"
        for low, high in [span] if named is None else [(each, each) for each in named]:
            for windowed, value, time in self._between(low, high, bounds):
                yield Row(windowed.key, value, time, (windowed.window.start, windowed.window.end))

    def _is_timed(self, bounds: list[Bound]) -> bool:
        return times(bounds, WINDOW_START) != (None, None)

    def _between(self, low: Any, high: Any, bounds: list[Bound]) -> list[tuple[Any, Any, int]]:
        start = times(bounds, WINDOW_START)
        first, last = start.low or 0, _LAST if start.high is None else start.high
        return [] if last < first or last < 0 else self._reader.windows(low, high, max(first, 0), last, False)


class _Sessions(_Windows):
    def _is_timed(self, bounds: list[Bound]) -> bool:
        return super()._is_timed(bounds) or times(bounds, WINDOW_END).low is not None

    def _between(self, low: Any, high: Any, bounds: list[Bound]) -> list[tuple[Any, Any, int]]:
        start, end = times(bounds, WINDOW_START), times(bounds, WINDOW_END)
        # A session that starts then ends then or later.
        earliest = max(0, start.low or 0, end.low or 0)
        latest = _LAST if start.high is None else start.high
        return [] if latest < 0 else self._reader.sessions(low, high, earliest, latest, False)


class _Versions(_Reading):
    def pages(self) -> Iterator[list[Row]]:
        return self._paged(self._rows())

    def _rows(self) -> Iterator[Row]:
        named, _ = keys(self._wanted.bounds)
        if named is None:
            raise ScanRefusedError(
                f"the versioned store '{self._store}' is read by key", next_step=f"give {KEY} = ... or {KEY} IN (...)"
            )
        self._way = "keys"
        for key in named:
            version = self._reader.version(key, None)
            if version is not None:
                yield Row(key, version[0], version[1])
