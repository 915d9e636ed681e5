"""A stream split into branches: each record goes to the first branch whose predicate holds.

Adds nodes, returns the branches by name as Kafka Streams names them: the split's name (or nothing) as prefix, then the
branch's name or its position (`"p-1"`, `"p-late"`, default `"p-0"`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from stoatflow._dsl.java_names import JavaNames
from stoatflow.errors import TopologyError
from stoatflow.expressions import Expression
from stoatflow.plan import Handle, PlanBuilder, nodes
from stoatflow.plan.functions import KEY_VALUE, function, given, user_line

if TYPE_CHECKING:
    from stoatflow.stream import KStream

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class Branched(JavaNames, Generic[K, V]):
    """Name of a branch, and what is done with it.

    `function` returns the stream for the result map; with `consumer` the branch is not in the map.

    >>> builder = sf.StreamsBuilder()
    >>> numbers = builder.stream("n", key=str, value=int)
    >>> large = sf.Branched("large", consumer=lambda stream: stream.print())
    >>> others = numbers.split().branch(sf.value > 9, large).no_default_branch()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", str, int).pipe_all([("a", 5), ("b", 10)])
    [large]: b, 10
    """

    name: str | None = None
    function: Callable[[KStream[K, V]], KStream[Any, Any] | None] | None = None
    consumer: Callable[[KStream[K, V]], object] | None = None


class BranchedKStream(Handle, Generic[K, V]):
    """A split to which branches are added; `default_branch` or `no_default_branch` ends it.

    >>> numbers = sf.StreamsBuilder().stream("n", key=str, value=int)
    >>> sorted(numbers.split().branch(sf.value > 9, "large").default_branch("rest"))
    ['large', 'rest']
    """

    __slots__ = ("_count", "_ended", "_found", "_prefix")

    def __init__(self, plan: PlanBuilder, at: int, name: str | None) -> None:
        """Created by `KStream.split`."""
        super().__init__(plan, at)
        self._prefix = name or ""
        self._found: dict[str, KStream[Any, Any]] = {}
        self._count = 0
        self._ended = False

    def branch(
        self, predicate: Callable[[K, V], object] | Expression, branched: Branched[K, V] | str | None = None
    ) -> BranchedKStream[K, V]:
        """Add a branch for records that match `predicate(key, value)` and no earlier branch.

        >>> builder = sf.StreamsBuilder()
        >>> split = builder.stream("n", key=str, value=int).split(name="n-")
        >>> branches = split.branch(sf.value > 9, "large").branch(sf.value > 1, "small").no_default_branch()
        >>> sorted(branches)
        ['n-large', 'n-small']
        """
        line = user_line()
        self._add(line, function(predicate, KEY_VALUE, "branch", line), branched)
        return self

    def default_branch(self, branched: Branched[K, V] | str | None = None) -> dict[str, KStream[K, V]]:
        """Add a branch for records that match no other; return all branches by name.

        >>> builder = sf.StreamsBuilder()
        >>> split = builder.stream("n", key=str, value=int).split(name="n-")
        >>> branches = split.branch(sf.value > 9, "large").default_branch("rest")
        >>> sorted(branches)
        ['n-large', 'n-rest']
        """
        self._add(user_line(), None, branched)
        self._ended = True
        return _Branches(self._found)

    def no_default_branch(self) -> dict[str, KStream[K, V]]:
        """Drop records that match no branch; return all branches by name.

        >>> builder = sf.StreamsBuilder()
        >>> split = builder.stream("n", key=str, value=int).split(name="n-")
        >>> branches = split.branch(sf.value > 9, "large").no_default_branch()
        >>> list(branches)
        ['n-large']
        """
        self._ended = True
        return _Branches(self._found)

    def _add(self, line: str, predicate: nodes.Function | None, branched: Branched[K, V] | str | None) -> None:
        from stoatflow.stream import KStream

        if self._ended:
            raise TopologyError(
                f"{line} branch: the split has ended with its default branch",
                next_step="add all branches before default_branch() or no_default_branch()",
            )
        instead = 'pass a name, or Branched("late", ...)'
        named: Branched[K, V] | None = Branched(branched) if isinstance(branched, str) else branched
        how = given(named, Branched, Branched(), "branch", line, instead)
        if how.function is not None and how.consumer is not None:
            raise TopologyError(f"{line} branch: both function= and consumer= are given", next_step="give one of them")
        if predicate is not None:
            self._count += 1
        name = self._prefix + (how.name if how.name is not None else str(self._count if predicate is not None else 0))
        if name in self._found:
            raise TopologyError(f"{line} branch: there is a branch {name!r} already", next_step="give it another name")
        at = self._plan.add(nodes.Branch(line=line, name=how.name, parent=self._at, function=predicate))
        stream: KStream[Any, Any] = KStream(self._plan, at)
        if how.consumer is not None:
            how.consumer(stream)
            return
        if how.function is not None:
            made = how.function(stream)
            if made is None:
                return
            stream = made
        self._found[name] = stream


class _Branches(dict[str, Any]):
    """Branches by name; the error for an unknown name lists the known ones."""

    def __missing__(self, name: str) -> Any:
        raise KeyError(f"there is no branch {name!r}; there are: {', '.join(map(repr, self)) or 'none'}")
