"""Formats a comparison as text. Pure."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from stoatflow.upgrade.comparison import Comparison, without
from stoatflow.upgrade.outcomes import Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stoatflow.upgrade.outcomes import Outcome

_WIDTH = 100
_MARKS = {Status.KEPT: "=", Status.CHANGED: "~", Status.REBUILT: "~", Status.NEW: "+", Status.DROPPED: "-"}


def text(comparison: Comparison) -> str:
    """Return the report."""
    return "\n".join(_lines(comparison))


def _lines(comparison: Comparison) -> Iterator[str]:
    old, new = comparison.old, comparison.new
    for change in comparison.settings:
        mark = "!" if change.is_lost else "~"
        yield f"{mark} {change.name}: {change.old or 'not set'} -> {change.new or 'not set'}"
        yield from _wrapped(change.then)
    yield "stores" if comparison.stores else "stores: none"
    for each in comparison.stores:
        yield from _store(each)
    added, removed = without(new.inputs, old.inputs), without(old.inputs, new.inputs)
    if added or removed:
        yield "input topics"
    yield from (f"  + {topic}: {new.begins[topic]}" for topic in added)
    yield from (f"  - {topic}: not read any more; its committed offsets stay" for topic in removed)
    yield from _listed("output topics", without(new.outputs, old.outputs), without(old.outputs, new.outputs))
    topics = without(new.changelogs, old.changelogs), without(old.changelogs, new.changelogs)
    yield from _listed("changelog topics (those that are gone stay on the broker until somebody deletes them)", *topics)
    if new.generated:
        yield "generated names: a start refuses them unless ensure.explicit.naming=false; give each store a name"
        yield from (f"  {name}" for name in new.generated)
    yield ""
    refused = [each.name for each in comparison.stores if each.status in (Status.REFUSED, Status.REBUILT)]
    if refused:
        yield f"the next start is refused, because of {', '.join(refused)}"
    if comparison.unrestorable:
        yield f"if the local state is removed, {', '.join(comparison.unrestorable)} is lost: it has no changelog"
    yield _sum(comparison)


def _store(each: Outcome) -> Iterator[str]:
    yield f"  {_MARKS.get(each.status, '!')} {each.name}  {each.status.value}"
    for part in each.changes:
        yield from _wrapped(part)
    if each.then:
        yield from _wrapped(each.then)
    if each.advice:
        yield from _wrapped(f"Next: {each.advice}")


def _wrapped(sentence: str) -> list[str]:
    # Names and paths are not broken, so that they can be copied.
    return textwrap.wrap(
        sentence,
        _WIDTH,
        initial_indent="      ",
        subsequent_indent="        ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _listed(title: str, added: list[str], removed: list[str]) -> Iterator[str]:
    if added or removed:
        yield title
        yield from (f"  + {name}" for name in added)
        yield from (f"  - {name}" for name in removed)


def _sum(comparison: Comparison) -> str:
    if not comparison.is_lost:
        return "nothing of the state is lost"
    lost = [each.name for each in comparison.stores if each.is_lost]
    if any(change.is_lost for change in comparison.settings):
        return "LOST: all state, with the application.id"
    return f"LOST: {', '.join(lost)}"
