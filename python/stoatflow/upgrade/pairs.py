"""Matches the stores of a new topology with those of the old one.

Names given by the user are matched. A generated name depends on the number of operators before it, so it may belong to
another operator in the new topology: such stores are matched by the operators that write them. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from stoatflow.upgrade.stores import StoreFacts


@dataclass(frozen=True)
class Pair:
    """A store before and after; one of both may be missing."""

    old: StoreFacts | None
    new: StoreFacts | None
    namesake: StoreFacts | None = None
    """The old store whose name, and so whose state, the new store takes over."""
    successor: StoreFacts | None = None
    """For an old store that is gone: the new store that took over its name."""


def paired(old: list[StoreFacts], new: list[StoreFacts]) -> list[Pair]:
    """Return the pairs: stores of the new topology in order, then those that it no longer has."""
    by_name = {store.name: store for store in old}
    found = {store.name: by_name[store.name] for store in new if store.is_named and store.name in by_name}
    for key, needs_generated in _KEYS:
        free = [store for store in old if store.name not in {each.name for each in found.values()}]
        open_ = [store for store in new if store.name not in found]
        found |= _matched(free, open_, key, needs_generated=needs_generated)
    taken = {store.name for store in found.values()}
    pairs = []
    for store in new:
        before, holder = found.get(store.name), by_name.get(store.name)
        pairs.append(Pair(before, store, None if holder is before else holder))
    names = {store.name: store for store in new}
    return pairs + [Pair(store, None, successor=names.get(store.name)) for store in old if store.name not in taken]


def _matched(
    old: list[StoreFacts], new: list[StoreFacts], key: Callable[[StoreFacts], Hashable], *, needs_generated: bool
) -> dict[str, StoreFacts]:
    """Pair stores with equal keys in order; those with equal names first."""
    groups: dict[Hashable, list[StoreFacts]] = defaultdict(list)
    for store in old:
        groups[key(store)].append(store)
    found: dict[str, StoreFacts] = {}
    for same_name in (True, False):
        for store in new:
            if store.name in found:
                continue
            for before in groups[key(store)]:
                if same_name and before.name != store.name:
                    continue
                if needs_generated and (before.is_named or store.is_named):
                    continue
                found[store.name] = before
                groups[key(store)].remove(before)
                break
    return found


def _operators(store: StoreFacts) -> tuple[str, ...]:
    return tuple(step.split(" ", 1)[0] for step in store.path)


# The most reliable key first. The last one is too weak for a store that the user has named.
_KEYS: list[tuple[Callable[[StoreFacts], Hashable], bool]] = [
    (lambda store: (store.maker, store.topics, store.path), False),
    (lambda store: (store.maker, store.topics, _operators(store)), False),
    (lambda store: (store.maker, store.topics), True),
]
