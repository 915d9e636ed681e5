"""Rows of a store for pyarrow: as a table, or as a reader of batches.

Takes an engine and a store's name, returns pyarrow's objects. Holds no more than one batch of the store in memory,
unless a table is requested. pyarrow is imported at its first use.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from stoatflow.arrow import Caller, columns, load
from stoatflow.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stoatflow._runtime import bridge

_ROWS = 65_536


class HasStores(Protocol):
    """An engine, or that of a test driver."""

    def store_batches(self, name: str, schema: str | None, max_rows: int) -> bridge.StoreBatches:
        """Return the batches of a store."""


def table(engine: HasStores, store: str, schema: object) -> Any:
    """Return all rows at once."""
    pa = load(Caller("to_arrow", ConfigError))
    batches = _ask(pa, engine, store, schema, _ROWS, "to_arrow")
    return pa.Table.from_batches(_each(pa, batches), schema=pa.schema(batches))


def reader(engine: HasStores, store: str, schema: object, max_rows: int) -> Any:
    """Return the rows batch by batch."""
    pa = load(Caller("arrow_batches", ConfigError))
    if isinstance(max_rows, bool) or not isinstance(max_rows, int) or max_rows < 1:
        raise ConfigError(
            f"arrow_batches(max_rows=) needs a whole number from 1 on, not {max_rows!r}", next_step=f"write {_ROWS}"
        )
    batches = _ask(pa, engine, store, schema, max_rows, "arrow_batches")
    return pa.RecordBatchReader.from_batches(pa.schema(batches), _each(pa, batches))


def _ask(pa: Any, engine: HasStores, store: str, schema: object, max_rows: int, call: str) -> bridge.StoreBatches:
    named = columns(pa, schema, Caller(call, ConfigError))
    return engine.store_batches(store, None if named is None else json.dumps(named), max_rows)


def _each(pa: Any, batches: bridge.StoreBatches) -> Iterator[Any]:
    while (batch := batches.next()) is not None:
        yield pa.record_batch(batch)
