"""What the next start does with each store.

Takes pairs of stores, returns outcomes. They describe what the engine does, not what it should do:
`tests/python/test_diff.py` verifies each sentence here with a run of the old topology and a run of the new one. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from stoatflow.durations import duration_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any

    from stoatflow.upgrade.pairs import Pair
    from stoatflow.upgrade.stores import StoreFacts


class Status(Enum):
    """What happens to a store, in one word."""

    KEPT = "kept"
    """It continues unchanged."""
    CHANGED = "changed"
    """It continues, with some properties changed."""
    REBUILT = "rebuilt"
    """The start is refused until the local state is removed; then the store is restored from its changelog."""
    REFUSED = "refused"
    """The start is refused, and the changelog does not help."""
    MISREAD = "misread"
    """It continues, but reads its rows with another meaning."""
    RENAMED = "renamed"
    """It starts empty under another name."""
    DROPPED = "dropped"
    """The new topology doesn't have it."""
    EMPTIED = "emptied"
    """It starts empty under the same name."""
    NEW = "new"
    """The old topology doesn't have it."""


_KIND = re.compile(r'"kind": "(\w+)"')
# On a broker, the format of a changelog's rows is stored; for embedded topics it isn't.
_ON_KAFKA = "on Kafka the start is refused (IncompatibleStateError); with embedded topics it is not, and"
_LOSES = {Status.REFUSED, Status.MISREAD, Status.RENAMED, Status.DROPPED, Status.EMPTIED}


@dataclass(frozen=True)
class Outcome:
    """What happens to a store."""

    pair: Pair
    status: Status
    changes: tuple[str, ...] = ()
    """Changed properties, as `what: before -> after`."""
    then: str = ""
    """What happens."""
    advice: str = ""
    """What to do about it."""

    @property
    def is_lost(self) -> bool:
        """Whether state of the old topology is no longer used, or is read with another meaning."""
        gone = _one(self.pair)
        if self.status is Status.DROPPED and (gone.copied_topic is not None or gone.is_made_of_its_table):
            return False
        return self.status in _LOSES

    @property
    def name(self) -> str:
        """The store's name in the new topology, or its old one."""
        return _one(self.pair).name


def outcome(pair: Pair, read_before: Collection[str] = ()) -> Outcome:
    """Return what happens to a store; `read_before` are the input topics of the old topology."""
    old, new = pair.old, pair.new
    if old is not None and new is None:
        return _dropped(pair, old)
    new = _one(pair)
    if pair.namesake is not None:
        return _taken(pair, new, pair.namesake)
    if old is None:
        return _new(pair, new, read_before)
    if old.name != new.name:
        return _renamed(pair, old, new)
    return _same_name(pair, old, new)


def _dropped(pair: Pair, old: StoreFacts) -> Outcome:
    if pair.successor is not None:
        return Outcome(pair, Status.DROPPED, then=f"its name, a generated one, belongs to {_maker(pair.successor)} now")
    if old.copied_topic is not None:
        return Outcome(pair, Status.DROPPED, then=f"not used any more; '{old.copied_topic}' has all of it")
    if old.is_made_of_its_table:
        return Outcome(pair, Status.DROPPED, then="not used any more: the rows that it was made of don't expire")
    return Outcome(
        pair,
        Status.DROPPED,
        then="not used any more; its rows stay where they are, for a topology that has it again",
    )


def _new(pair: Pair, new: StoreFacts, read_before: Collection[str]) -> Outcome:
    if new.copied_topic is not None:
        return Outcome(pair, Status.NEW, then=f"read from the whole of '{new.copied_topic}'")
    if new.is_made_of_its_table:
        return Outcome(pair, Status.NEW, then="made of the rows that expire, some with each commit")
    if new.topics and not set(new.topics) & set(read_before):
        return Outcome(pair, Status.NEW, then="begins empty, and its topics are new too")
    return Outcome(
        pair, Status.NEW, then="begins empty: of topics that were read before it sees what comes from now on"
    )


def _renamed(pair: Pair, old: StoreFacts, new: StoreFacts) -> Outcome:
    changes = (f"name: {old.name} -> {new.name}",)
    if new.copied_topic is not None and old.copied_topic == new.copied_topic:
        return Outcome(pair, Status.CHANGED, changes, f"read again from the whole of '{new.copied_topic}'")
    then = "begins empty, if it is the same store: its state is under the old name"
    if not old.is_named and not new.is_named:
        then = "begins empty: operators before it have come or gone, which changes a generated name"
    return Outcome(pair, Status.RENAMED, changes, then, _old_name(old))


def _taken(pair: Pair, new: StoreFacts, namesake: StoreFacts) -> Outcome:
    before = "" if pair.old is None else f" (its own state is under '{pair.old.name}')"
    changes = (f"maker: {_maker(namesake)} -> {_maker(new)}",)
    keep = _old_name(pair.old)
    if _differs(namesake, new):
        then = "the start is refused: this generated name belonged to another operator, of another format"
        return Outcome(pair, Status.REFUSED, changes, then + before, keep)
    then = "goes on with the rows of another operator, whose generated name it has got"
    return Outcome(pair, Status.MISREAD, changes, then + before, keep)


def _old_name(old: StoreFacts | None) -> str:
    if old is None:
        return "name it, so that it begins empty"
    return f'to go on, name it as its state is named: "{old.name}"'


def _same_name(pair: Pair, old: StoreFacts, new: StoreFacts) -> Outcome:
    changes = tuple(_changes(old, new))
    # Otherwise the store has only its changelog, and nothing is checked.
    on_disk = not old.is_in_memory and not new.is_in_memory
    if new.copied_topic is not None or old.copied_topic is not None:
        return _global(pair, old, new, changes, on_disk=on_disk)
    if not on_disk and not (old.is_logged and new.is_logged):
        return _not_moved(pair, old, new, changes)
    if _serdes_differ(old, new):
        return _other_serdes(pair, changes, on_disk=on_disk)
    if old.layout != new.layout:
        return _other_kind(pair, old, new, changes, on_disk=on_disk)
    if on_disk and old.segment_ms != new.segment_ms:
        return _other_segments(pair, old, new, changes)
    return _goes_on(pair, old, new, changes)


def _not_moved(pair: Pair, old: StoreFacts, new: StoreFacts, changes: tuple[str, ...]) -> Outcome:
    if old.is_in_memory and not old.is_logged:
        return Outcome(pair, Status.KEPT, changes, "begins empty, as at each start before")
    if new.is_logged:
        return _turned_on(pair, changes, "begins empty")
    then = "begins empty: disk and memory have nothing in common but a changelog, and one of the two has none"
    return Outcome(pair, Status.EMPTIED, changes, then, "leave it where it is, with the changelog that it has")


def _turned_on(pair: Pair, changes: tuple[str, ...], then: str) -> Outcome:
    return Outcome(
        pair,
        Status.REFUSED,
        changes,
        f"{_ON_KAFKA} it {then}: the changelog lacks what the store did while it was off",
        "leave the changelog off, or give the store another name: it begins empty then",
    )


def _global(pair: Pair, old: StoreFacts, new: StoreFacts, changes: tuple[str, ...], *, on_disk: bool) -> Outcome:
    if on_disk and _differs(old, new):
        return Outcome(
            pair,
            Status.REBUILT,
            changes,
            "the start is refused: the local state has another format",
            "call it by another name: it is read again from the whole of its topic",
        )
    return Outcome(pair, Status.CHANGED if changes else Status.KEPT, changes)


def _other_serdes(pair: Pair, changes: tuple[str, ...], *, on_disk: bool) -> Outcome:
    advice = "go back to the serdes that wrote it, or give the store another name: it begins empty then"
    then = "the start is refused (IncompatibleStateError)"
    if not on_disk:
        then = f"{_ON_KAFKA} the rows of the changelog are read with serdes that did not write them"
    return Outcome(pair, Status.REFUSED, changes, then, advice)


def _other_kind(pair: Pair, old: StoreFacts, new: StoreFacts, changes: tuple[str, ...], *, on_disk: bool) -> Outcome:
    if {old.layout, new.layout} == {"key-value", "versioned"} and old.is_logged and new.is_logged:
        if on_disk:
            return _rebuilt(pair, changes)
        return Outcome(pair, Status.CHANGED, changes, "restored from the changelog")
    then = "the start is refused (IncompatibleStateError); its changelog can't be read as the new kind"
    if not on_disk:
        then = f"{_ON_KAFKA} the rows of the changelog are read as another kind"
    advice = "give the store another name: it begins empty then"
    return Outcome(pair, Status.REFUSED, changes, then, advice)


def _other_segments(pair: Pair, old: StoreFacts, new: StoreFacts, changes: tuple[str, ...]) -> Outcome:
    if not (old.is_logged and new.is_logged):
        return Outcome(
            pair,
            Status.REFUSED,
            changes,
            "the start is refused (IncompatibleStateError), and there is no changelog to restore it from",
            "go back to the old retention, or give the store another name: it begins empty then",
        )
    if _windows_differ(old, new):
        return Outcome(
            pair,
            Status.REFUSED,
            changes,
            "the start is refused (IncompatibleStateError); restored, its windows would get the new size",
            "give the store another name: it begins empty then",
        )
    return _rebuilt(pair, changes)


def _rebuilt(pair: Pair, changes: tuple[str, ...]) -> Outcome:
    return Outcome(
        pair,
        Status.REBUILT,
        changes,
        "the start is refused (IncompatibleStateError) until the local state is removed; then it is restored from the "
        "changelog",
        "StoatFlow.clean_up() before the start, or state.damaged=rebuild for this one",
    )


def _goes_on(pair: Pair, old: StoreFacts, new: StoreFacts, changes: tuple[str, ...]) -> Outcome:
    if _windows_differ(old, new):
        return Outcome(
            pair,
            Status.REFUSED if old.is_logged and new.is_logged else Status.MISREAD,
            changes,
            f"{_ON_KAFKA if old.is_logged and new.is_logged else 'not refused:'} windows of before keep their start "
            "and get the new size, and new records don't go on in those that don't begin where they do",
            "give the store another name: it begins empty then",
        )
    if old.waiting != new.waiting:
        return Outcome(
            pair,
            Status.MISREAD,
            changes,
            "not refused: what waits in it is read with serdes that did not write it",
            "let nothing wait in it before the change, or give it another name",
        )
    if old.aggregations != new.aggregations:
        return Outcome(
            pair,
            Status.MISREAD,
            changes,
            "not refused at the start: goes on from what the old aggregation made; where the form is another one, the "
            "first record of an old key ends the application",
            "give the store another name: it begins empty then",
        )
    if new.is_logged and not old.is_logged:
        return _turned_on(pair, changes, "goes on from this disk, and can't be restored elsewhere")
    then = ""
    if old.is_logged != new.is_logged and not new.is_in_memory:
        then = "goes on from this disk; no changelog has all of it any more, so that it can't be restored elsewhere"
    elif old.is_in_memory != new.is_in_memory:
        then = "restored from the changelog"
    return Outcome(pair, Status.CHANGED if changes else Status.KEPT, changes, then)


def _changes(old: StoreFacts, new: StoreFacts) -> Iterator[str]:
    """Yield changed properties, each as `what: before -> after`."""
    yield from _change("key serde", old.key, new.key, alike=old.key.writes_as(new.key))
    yield from _change("value serde", old.value, new.value, alike=old.value.writes_as(new.value))
    yield from _change("kind", _kind(old), _kind(new))
    for name in ("size_ms", "retention_ms", "history_ms"):
        yield from _change(_spelt(name), _ms(old.kind.get(name)), _ms(new.kind.get(name)))
    for name in sorted({*old.times, *new.times} - {"size_ms", "retention_ms"}):
        yield from _change(_spelt(name), _ms(old.times.get(name)), _ms(new.times.get(name)))
    yield from _change("changelog", _on(old.is_logged), _on(new.is_logged))
    yield from _change("kept in", _place(old), _place(new))
    yield from _change("rocksdb", _rocksdb(old), _rocksdb(new))
    yield from _change("caching", _on(old.is_cached), _on(new.is_cached))
    yield from _change("indexes", len(old.indexes), len(new.indexes), alike=old.indexes == new.indexes)
    yield from _change("made by", _maker(old), _maker(new), alike=old.maker == new.maker)
    yield from _change("aggregation", *_aggregated(old, new), alike=old.aggregations == new.aggregations)
    yield from _change("waiting rows", *_both(old.waiting, new.waiting))
    yield from _change("fed by", ", ".join(old.topics), ", ".join(new.topics))


def _change(what: str, before: object, after: object, *, alike: bool | None = None) -> Iterator[str]:
    if not (before == after if alike is None else alike):
        yield f"{what}: {before} -> {after}"


def _aggregated(old: StoreFacts, new: StoreFacts) -> tuple[str, str]:
    """Return the native aggregations of both, as single words if these differ."""
    sides = [", ".join(each.aggregations) for each in (old, new)]
    kinds = [", ".join(_KIND.findall(side)) or "functions" for side in sides]
    before, after = kinds if kinds[0] != kinds[1] else sides
    return before, after


def _both(before: tuple[object, ...], after: tuple[object, ...]) -> tuple[str, str]:
    return " ".join(map(str, before)) or "none", " ".join(map(str, after)) or "none"


def _serdes_differ(old: StoreFacts, new: StoreFacts) -> bool:
    return not (old.key.writes_as(new.key) and old.value.writes_as(new.value))


def _differs(old: StoreFacts, new: StoreFacts) -> bool:
    """Whether a start would refuse the store on disk."""
    return _serdes_differ(old, new) or old.layout != new.layout or old.segment_ms != new.segment_ms


def _windows_differ(old: StoreFacts, new: StoreFacts) -> bool:
    # With several rows per key and time it is the store of a join, whose size doesn't matter.
    return not new.kind.get("duplicates") and old.kind.get("size_ms") != new.kind.get("size_ms")


def _one(pair: Pair) -> StoreFacts:
    store = pair.new or pair.old
    if store is None:
        raise AssertionError("a pair has a store")
    return store


def _maker(store: StoreFacts) -> str:
    return store.maker if store.line is None else f"{store.maker} at {store.line}"


def _kind(store: StoreFacts) -> str:
    return str(store.kind["type"]).replace("_", " ")


def _place(store: StoreFacts) -> str:
    return "memory" if store.is_in_memory else "disk"


def _rocksdb(store: StoreFacts) -> str:
    return ", ".join(f"{name}={option}" for name, option in store.rocksdb.items()) or "as the settings say"


def _on(flag: object) -> str:
    return "on" if flag else "off"


def _spelt(name: str) -> str:
    return name.removesuffix("_ms").replace("_", " ")


def _ms(content: Any) -> str:
    return duration_text(content) if isinstance(content, int) else "none" if content is None else str(content)
