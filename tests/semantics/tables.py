"""Tables: what a table is to its child operators, source tables, `filter` and `map_values`.

A table forwards `Change`s. It sends old values only if a child requested it (`enable_old`), and that changes the
output of filters; the request also gives a source table a store where it had none.
"""

from __future__ import annotations

from typing import Any

from semantics.nodes import Function, Node
from semantics.stores import IS_LATEST, NOT_PUT, KeyValueStore, VersionedStore
from semantics.values import Change, Record, Stamped, value_of

TableStore = KeyValueStore | VersionedStore


class Table(Node):
    """What child operators may request from a table."""

    # How long after a window's end its result may still change (windowed tables only).
    open_ms: int | None = None
    # Out-of-order updates of versioned tables are marked, and joins and aggregations skip them.
    versioned = False

    def enable_old(self, force: bool) -> bool:
        """Send old values from now on; return whether it can."""
        raise NotImplementedError

    def get(self, key: Any) -> Stamped | None:
        """The current value of a key."""
        raise NotImplementedError

    def get_as_of(self, key: Any, timestamp: int) -> Stamped | None:
        """The value of a key in a versioned table at a time."""
        raise NotImplementedError

    def need_values(self) -> None:
        """A join will call `get`."""
        raise NotImplementedError


class StoredTable(Table):
    """A table that may have a store: the common parts of writing to one."""

    def __init__(self, store: TableStore | None) -> None:
        super().__init__()
        self.store = store
        self.send_old = False
        self.versioned = isinstance(store, VersionedStore)

    def get_as_of(self, key: Any, timestamp: int) -> Stamped | None:
        assert isinstance(self.store, VersionedStore)
        found = self.store.get_version(key, timestamp)
        return None if found is None else Stamped(found.value, found.valid_from)

    def write(self, record: Record, new: Any, old: Any) -> None:
        """Write to the store, then forward, unless a versioned store found it too old."""
        assert self.store is not None
        code = self.store.put(record.key, new, record.timestamp)
        if code != NOT_PUT:
            change = Change(new, old if self.send_old else None, code == IS_LATEST)
            self.forward(record.but(value=change))


class SourceTable(StoredTable):
    """`table(...)`, `to_table()`, a global table, and the end of a foreign-key join.

    Null keys are dropped, null values delete. Out-of-order updates are applied like any other,
    except in a versioned table. An update that changes nothing is forwarded too.
    """

    def process(self, record: Record) -> None:
        if record.key is None:
            return
        if self.store is None:
            self.forward(record.but(value=Change(record.value)))
        else:
            self.write(record, record.value, value_of(self.store.get(record.key)))

    def need_values(self) -> None:
        if self.store is None:
            self.store = KeyValueStore()

    def enable_old(self, force: bool) -> bool:
        if self.store is None and not force:
            return False
        self.need_values()
        self.send_old = True
        return True

    def get(self, key: Any) -> Stamped | None:
        assert self.store is not None
        return self.store.get(key)


class DerivedTable(StoredTable):
    """`filter`, `filter_not`, `map_values`: with its own store, or a view of its parent."""

    def __init__(self, parent: Table, store: TableStore | None) -> None:
        super().__init__(store)
        self.parent = parent
        self.open_ms = parent.open_ms
        if store is None:
            self.versioned = parent.versioned

    def compute(self, key: Any, value: Any) -> Any:
        """The result for a value; null stays null without a call."""
        raise NotImplementedError

    def old_value(self, record: Record) -> Any:
        if not self.send_old:
            return None
        if self.store is not None:
            return value_of(self.store.get(record.key))
        return self.compute(record.key, record.value.old)

    def process(self, record: Record) -> None:
        new, old = self.compute(record.key, record.value.new), self.old_value(record)
        if self.is_idle(new, old):
            return
        if self.store is None:
            self.forward(record.but(value=Change(new, old, record.value.latest)))
        else:
            self.write(record, new, old)

    def is_idle(self, new: Any, old: Any) -> bool:
        return False

    def need_values(self) -> None:
        if self.store is None:
            self.parent.need_values()

    def enable_old(self, force: bool) -> bool:
        if self.store is not None or self.parent.enable_old(force):
            self.send_old = True
        return self.send_old

    def get(self, key: Any) -> Stamped | None:
        return self.store.get(key) if self.store is not None else self.computed(key, self.parent.get(key))

    def get_as_of(self, key: Any, timestamp: int) -> Stamped | None:
        # A view of a versioned table can read the past like its parent.
        if self.store is not None:
            return super().get_as_of(key, timestamp)
        return self.computed(key, self.parent.get_as_of(key, timestamp))

    def computed(self, key: Any, found: Stamped | None) -> Stamped | None:
        value = None if found is None else self.compute(key, found.value)
        return None if found is None or value is None else Stamped(value, found.timestamp)


class FilteredTable(DerivedTable):
    """`filter` and `filter_not` of a table.

    A value that doesn't match becomes a tombstone. It is only left out if the filter knows that there was nothing
    before: its parent sends old values (all with a store do), or a child requested them.
    """

    def __init__(self, parent: Table, predicate: Function, matching: bool, store: TableStore | None) -> None:
        super().__init__(parent, store)
        self.predicate = predicate
        self.matching = matching
        # It requests old values itself, but never a store: a source table without one has none to send.
        # Then not even a filter with its own store knows the old value.
        self.send_old = parent.enable_old(force=False)

    def compute(self, key: Any, value: Any) -> Any:
        kept = value is not None and bool(self.predicate(key, value)) is self.matching
        return value if kept else None

    def is_idle(self, new: Any, old: Any) -> bool:
        # Over a versioned table it never knows: the old value of an out-of-order update is not what was
        # valid then.
        return self.send_old and not self.parent.versioned and new is None and old is None


class MappedTable(DerivedTable):
    """`map_values` of a table: null is forwarded but not mapped."""

    def __init__(self, parent: Table, fn: Function, store: TableStore | None) -> None:
        super().__init__(parent, store)
        self.fn = fn

    def compute(self, key: Any, value: Any) -> Any:
        return None if value is None else self.fn(key, value)


def to_stream(record: Record) -> list[Record]:
    """`to_stream`: the new values, including out-of-order updates of versioned tables."""
    return [record.but(value=record.value.new)]
