"""Aggregations without windows: of grouped streams, and of grouped tables with adder and subtractor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from semantics.nodes import Function
from semantics.tables import StoredTable, Table, TableStore
from semantics.values import Change, Record, Stamped, same, value_of


class Aggregation(NamedTuple):
    """What to do with a value: `initializer()`, `add(key, value, agg)`, `subtract(key, value, agg)`."""

    initializer: Function
    add: Function
    subtract: Function | None = None


COUNT = Aggregation(lambda: 0, lambda k, v, agg: agg + 1, lambda k, v, agg: agg - 1)


def reducing(reducer: Function, subtractor: Function | None = None) -> Aggregation:
    """A reduce is an aggregation without an initializer: the first value is used as it is."""

    def add(key: Any, value: Any, agg: Any) -> Any:
        return value if agg is None else reducer(agg, value)

    return Aggregation(lambda: None, add, subtractor and (lambda k, v, agg: subtractor(agg, v)))


class AggregatedTable(StoredTable):
    """The common part of both kinds: always a store."""

    def __init__(self, aggregation: Aggregation, store: TableStore) -> None:
        super().__init__(store)
        self.aggregation = aggregation

    @property
    def kept(self) -> TableStore:
        assert self.store is not None
        return self.store

    def enable_old(self, force: bool) -> bool:
        self.send_old = True
        return True

    def need_values(self) -> None:
        pass

    def get(self, key: Any) -> Stamped | None:
        return self.kept.get(key)


class StreamAggregate(AggregatedTable):
    """`count`, `reduce`, `aggregate` of a grouped stream.

    Records with a null key or value are skipped. The result's timestamp is the highest of all values in it; an
    aggregate that became null starts anew, with the timestamp of the next record.
    """

    def process(self, record: Record) -> None:
        if record.key is None or record.value is None:
            return
        kept = self.kept.get(record.key)
        if kept is None:
            old, timestamp = self.aggregation.initializer(), record.timestamp
        else:
            old, timestamp = kept.value, max(kept.timestamp, record.timestamp)
        new = self.aggregation.add(record.key, record.value, old)
        self.write(record.but(timestamp=timestamp), new, old)


class TableAggregate(AggregatedTable):
    """`count`, `reduce`, `aggregate` of a grouped table: subtract the old value, add the new one.

    The subtractor is called only if there is an aggregate. A null aggregate starts anew with the initializer and
    without a timestamp: deleting forgets it.
    """

    def process(self, record: Record) -> None:
        change: Change = record.value
        kept = self.kept.get(record.key)
        timestamp = record.timestamp if kept is None else max(kept.timestamp, record.timestamp)
        old = new = value_of(kept)
        if change.old is not None and old is not None:
            assert self.aggregation.subtract is not None
            new = self.aggregation.subtract(record.key, change.old, old)
        if change.new is not None:
            start = self.aggregation.initializer() if new is None else new
            new = self.aggregation.add(record.key, change.new, start)
        self.write(record.but(timestamp=timestamp), new, old)


def regroup(table: Table, fn: Function) -> Callable[[Record], list[Record]]:
    """`group_by` of a table: each update goes to the old value's group and to the new one's.

    If both are the same group, it is one record, and so one result. Null keys and values are dropped.
    """
    table.enable_old(force=True)

    def pair(key: Any, value: Any) -> tuple[Any, Any] | None:
        if value is None:
            return None
        mapped = fn(key, value)
        return None if mapped[0] is None or mapped[1] is None else mapped

    def regrouped(record: Record) -> list[Record]:
        change: Change = record.value
        if table.versioned and not change.latest:
            return []
        new, old = pair(record.key, change.new), pair(record.key, change.old)
        if new and old and same(new[0], old[0]):
            return [record.but(key=new[0], value=Change(new[1], old[1]))]
        out = [record.but(key=old[0], value=Change(None, old[1]))] if old else []
        return out + ([record.but(key=new[0], value=Change(new[1]))] if new else [])

    return regrouped
