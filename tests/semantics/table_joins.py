"""Joins of two tables by their keys, and of a stream with a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from semantics.nodes import Call, Function, Node
from semantics.tables import StoredTable, Table, TableStore
from semantics.values import Change, Record, Stamped


class JoinedTable(StoredTable):
    """`join`, `left_join`, `outer_join` of tables: with a store, or a view of both."""

    def __init__(self, left: Table, right: Table, kind: str, joiner: Function, store: TableStore | None) -> None:
        super().__init__(store)
        self.left, self.right = left, right
        self.joiner = joiner
        self.left_needed = kind != "outer_join"
        self.right_needed = kind == "join"
        for table in (left, right):
            table.need_values()
        # An outer side's deletion must be distinguished from no row at all, which requires its old value.
        if kind != "join":
            left.enable_old(force=True)
        if kind == "outer_join":
            right.enable_old(force=True)
        left.then(Call(self.from_left))
        right.then(Call(self.from_right))

    def join(self, key: Any, left: Any, right: Any) -> Any:
        """Return the result of two values, each of which may be missing."""
        if (left is None and (self.left_needed or right is None)) or (right is None and self.right_needed):
            return None
        return self.joiner(key, left, right)

    def from_left(self, record: Record) -> list[Record]:
        def join(mine: Any, theirs: Any) -> Any:
            return self.join(record.key, mine, theirs)

        return self.take(record, self.left, self.right, self.right_needed, join)

    def from_right(self, record: Record) -> list[Record]:
        def join(mine: Any, theirs: Any) -> Any:
            return self.join(record.key, theirs, mine)

        return self.take(record, self.right, self.left, self.left_needed, join)

    def take(
        self, record: Record, own: Table, other: Table, other_needed: bool, join: Callable[[Any, Any], Any]
    ) -> list[Record]:
        """An update of one side; without a required partner, nothing happens, not even a tombstone.

        With one, a deletion emits a tombstone each time, whether or not there was a result.
        """
        change: Change = record.value
        if record.key is None or (own.versioned and not change.latest):
            return []
        theirs = other.get(record.key)
        if theirs is None and (other_needed or (change.new is None and change.old is None)):
            return []
        their_value = None if theirs is None else theirs.value
        timestamp = record.timestamp if theirs is None else max(record.timestamp, theirs.timestamp)
        new = join(change.new, their_value)
        old = join(change.old, their_value) if self.send_old else None
        joined = record.but(value=Change(new, old, change.latest), timestamp=timestamp)
        self.process(joined)
        return []

    def process(self, record: Record) -> None:
        if self.store is None:
            self.forward(record)
        else:
            self.write(record, record.value.new, record.value.old)

    def enable_old(self, force: bool) -> bool:
        self.left.enable_old(force=True)
        self.right.enable_old(force=True)
        self.send_old = True
        return True

    def need_values(self) -> None:
        pass

    def get(self, key: Any) -> Stamped | None:
        if self.store is not None:
            return self.store.get(key)
        left, right = self.left.get(key), self.right.get(key)
        value = self.join(key, left and left.value, right and right.value)
        times = [side.timestamp for side in (left, right) if side is not None]
        return None if value is None else Stamped(value, max(times))


class StreamTableJoin(Node):
    """`join` and `left_join` of a stream with a table or a global table: only the stream's records cause results.

    A null value is dropped, and a null key unless the join is a left one. With a versioned table the stream's
    record meets the version that was valid at its time.
    """

    def __init__(self, table: Table, joiner: Function, *, outer: bool, key_fn: Function | None = None) -> None:
        super().__init__()
        table.need_values()
        self.table = table
        self.joiner = joiner
        self.outer = outer
        self.key_fn = key_fn

    def process(self, record: Record) -> None:
        if self.joinable(record):
            self.join(record)

    def joinable(self, record: Record) -> bool:
        return record.value is not None and (self.outer or self.table_key(record) is not None)

    def table_key(self, record: Record) -> Any:
        return record.key if self.key_fn is None else self.key_fn(record.key, record.value)

    def join(self, record: Record) -> None:
        key = self.table_key(record)
        found = None if key is None else self.lookup(key, record.timestamp)
        if found is not None or self.outer:
            self.forward(record.but(value=self.joiner(record.key, record.value, found)))

    def lookup(self, key: Any, timestamp: int) -> Any:
        found = self.table.get(key)
        return None if found is None else found.value
