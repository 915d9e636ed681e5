"""A table: the last value of each key, and what can be done with it.

Adds nodes, gives new handles. Updates of a table carry deletions as null values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from stoatflow.expressions import Expression
from stoatflow.plan import Handle, nodes
from stoatflow.plan.functions import KEY_VALUE, function, user_line

if TYPE_CHECKING:
    from stoatflow.stream import KStream

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")


class KTable(Handle, Generic[K, V]):
    """A table: the last value of each key."""

    __slots__ = ()

    @property
    def queryable_store_name(self) -> str | None:
        """The name of its store, if it was given one."""
        kept = getattr(self._plan.snapshot()[self._at], "materialized", None)
        return kept.store if isinstance(kept, nodes.StoreSpec) else None

    @overload
    def to_stream(self, *, name: str | None = ...) -> KStream[K, V]: ...
    @overload
    def to_stream(self, key_fn: Expression, *, name: str | None = ...) -> KStream[Any, V]: ...
    @overload
    def to_stream(self, key_fn: Callable[[K, V], K2], *, name: str | None = ...) -> KStream[K2, V]: ...
    def to_stream(
        self, key_fn: Callable[..., Any] | Expression | None = None, *, name: str | None = None
    ) -> KStream[Any, Any]:
        """Give its updates; deletions are null values. `key_fn(key, value)` gives them another key."""
        # The stream's module needs this one for `count`, so it can't be imported above.
        from stoatflow.stream import KStream

        line = user_line()
        fn = None if key_fn is None else function(key_fn, KEY_VALUE, "to_stream", line)
        at = self._plan.add(nodes.ToStream(line=line, name=name, parent=self._at))
        if fn is not None:
            at = self._plan.add(nodes.SelectKey(line=line, parent=at, function=fn))
        return KStream(self._plan, at)
