"""Reads the rows for a query over the admin port of a running application.

Takes a function that queries the port; returns rows as `reading` does. The port filters by key and time; other
conditions read the whole store, if that is allowed. Pages of one read are of one commit; if two reads see different
commits, an error is raised, to try again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any
from urllib.parse import quote

from stoatflow._runtime.columns import KEY, WINDOW_END, WINDOW_START, Row
from stoatflow.sql.bounds import Bound, keys, shown, times
from stoatflow.sql.engine import SqlResult, run
from stoatflow.sql.errors import ReadOnlyError, ScanRefusedError, SqlError
from stoatflow.sql.reading import StoreRead, Wanted
from stoatflow.sql.store_schema import StoreForm, StoreSchema

__all__ = ["TRIES", "MovedError", "run_over_http"]

_SAMPLE = 100
_PAGE = 10_000
TRIES = 20
Get = Callable[[str, dict[str, str]], dict[str, Any]]
"""Sends a request for a path with parameters."""


class MovedError(Exception):
    """The application committed between two reads."""


def run_over_http(get: Get, query: str, *, allow_scan: bool = False) -> SqlResult:
    """Run a SELECT; raise `MovedError` if the application commits between its reads in every attempt."""
    for _ in range(TRIES - 1):
        with suppress(MovedError):
            return _run_once(get, query, allow_scan)
    return _run_once(get, query, allow_scan)


def _run_once(get: Get, query: str, allow_scan: bool) -> SqlResult:
    try:
        return run(PortStores(get), query, allow_scan=allow_scan)
    except (ReadOnlyError, ScanRefusedError):
        raise
    except SqlError:
        # The rows that were read may lack a column. Reading samples leaves a cursor open, so it isn't done
        # in the first attempt.
        return run(PortStores(get, looks=True), query, allow_scan=allow_scan)


class PortStores:
    """Stores as of one commit."""

    def __init__(self, get: Get, *, looks: bool = False) -> None:
        """`get` queries the port. With `looks`, columns are also derived from a hundred sample rows."""
        self._get = get
        self._looks = looks
        self._epoch: int | None = None

    @property
    def epoch(self) -> int:
        """Number of the commit; 0 if nothing was read."""
        return self._epoch or 0

    @cached_property
    def forms(self) -> Mapping[str, StoreForm]:
        """Forms of the stores."""
        listed = self._get("/stores", {})["stores"]
        return {
            store["name"]: StoreForm(store["kind"].replace("-", "_"), store["key"]["serde"], store["value"]["serde"])
            for store in listed
            if store["readable"]
        }

    def known(self, store: str) -> StoreSchema:
        """Return what serdes define, and the first rows' columns if requested."""
        form = self.forms[store]
        looks = self._looks and form.kind == "key_value"
        page = self._get(_path(store), {"limit": str(_SAMPLE)}) if looks else {"entries": []}
        return StoreSchema(form, [_row(each) for each in page["entries"]])

    def read(self, store: str, wanted: Wanted) -> tuple[Iterator[list[Row]], Callable[[], StoreRead]]:
        """Read a store."""
        reading = _Reading(self, store, wanted)
        return reading.pages(), reading.how

    def walk(self, path: str, query: dict[str, str], limit: int | None) -> Iterator[list[Row]]:
        """Yield all pages of an answer, all of one commit."""
        left = limit
        page = self._get(path, {**query, "limit": str(min(_PAGE, left or _PAGE))})
        self._epoch = page["epoch"] if self._epoch is None else self._epoch
        if page["epoch"] != self._epoch:
            raise MovedError
        while True:
            rows = [_row(each) for each in page["entries"]]
            yield rows if left is None else rows[:left]
            left = None if left is None else left - len(rows)
            if page["cursor"] is None or (left is not None and left <= 0):
                return
            page = self._get(path, {"cursor": page["cursor"], "limit": str(_PAGE)})


class _Reading:
    """One read of a store."""

    def __init__(self, stores: PortStores, store: str, wanted: Wanted) -> None:
        self._stores = stores
        self._store = store
        self._wanted = wanted
        self._form = stores.forms[store]
        self._bounds = [each for each in wanted.bounds if _is_answered(each)]
        self._way, self._count = "scan", 0

    def how(self) -> StoreRead:
        return StoreRead(self._store, self._way, None, self._count, shown(self._bounds))

    def pages(self) -> Iterator[list[Row]]:
        # A limit counts rows that meet all conditions.
        limit = self._wanted.limit if len(self._bounds) == len(self._wanted.bounds) else None
        for query in self._queries(limit):
            for page in self._stores.walk(_path(self._store), query, limit):
                self._count += len(page)
                yield page

    def _queries(self, limit: int | None) -> list[dict[str, str]]:
        if self._form.kind == "versioned":
            raise SqlError(
                f"the versioned store '{self._store}' isn't read over the admin port by SQL",
                next_step="use stoatflow query URL STORE KEY, or app.sql in the application",
            )
        named, span = keys(self._bounds)
        if (times(self._bounds, WINDOW_START).high or 0) < 0:
            return []  # no window starts before 1970
        time = {name: str(at) for name, at in self._times().items()}
        if named is not None:
            self._way = "keys"
            return [{"from": str(key), "to": str(key), **time} for key in named]
        if span != (None, None) or time or (limit is not None and self._form.kind == "key_value"):
            self._way = "windows" if time else "key_range"
        elif not self._wanted.allow_scan:
            raise ScanRefusedError(
                f"the query would read the whole store '{self._store}': over the admin port stores are read by key and "
                "time",
                next_step=f"give {KEY} = ..., or {WINDOW_START} >= ... of windows, or allow the scan; app.sql in the "
                "application uses indexes",
            )
        ends = {"from": span.low, "to": span.high}
        return [{**{name: end for name, end in ends.items() if end is not None}, **time}]

    def _times(self) -> dict[str, int]:
        if self._form.kind not in {"window", "session"}:
            return {}
        start, end = times(self._bounds, WINDOW_START), times(self._bounds, WINDOW_END)
        low = [at for at in (start.low, end.low if self._form.kind == "session" else None) if at is not None]
        found = {"from_time": max(0, *low) if low else None, "to_time": start.high}
        return {name: at for name, at in found.items() if at is not None}


def _is_answered(bound: Bound) -> bool:
    return bound.column.path[0] in {KEY, WINDOW_START, WINDOW_END} and len(bound.column.path) == 1


def _path(store: str) -> str:
    return f"/stores/{quote(store, safe='')}"


def _row(entry: Mapping[str, Any]) -> Row:
    window = (entry["start"], entry["end"]) if "start" in entry else None
    return Row(entry["key"], entry["value"], entry["timestamp"], window)
