"""Timers: calls that a processor registers for a key and a time.

Has the value that `on_timer` gets, and the check that a processor with timers has an `on_timer`. The handle
(`TimerStore`) belongs to the engine: `context.state_store(name)` returns it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from stoatflow._runtime.bridge import TimerStore
from stoatflow.errors import TopologyError
from stoatflow.plan import nodes

if TYPE_CHECKING:
    from stoatflow.plan import Node

__all__ = ["TimeDomain", "Timer", "TimerStore", "check_on_timer"]

K = TypeVar("K")

TimeDomain: TypeAlias = Literal["event", "processing"]
"""The clock of a timer: event time, or the machine's clock."""


# A NamedTuple can't be generic before Python 3.11.
class _Timer(NamedTuple):
    store: str
    key: Any
    at: int
    domain: TimeDomain


class Timer(_Timer, Generic[K]):
    """A timer that fires: its store, its key, the time for which it was registered, its clock.

    >>> timer = sf.Timer("alarms", "ann", 60_000, "event")
    >>> timer.key, timer.at
    ('ann', 60000)
    """

    __slots__ = ()

    store: str
    key: K
    at: int
    domain: TimeDomain


def check_on_timer(plan: Sequence[Node]) -> None:
    """Raise `TopologyError` for a processor with timers that has no `on_timer`."""
    timed = {node.store for node in plan if isinstance(node, nodes.StateStore) and node.kind.type == "timers"}
    for node in plan:
        if not isinstance(node, nodes.Process | nodes.ProcessValues) or node.processor.on_timer:
            continue
        store = next((store for store in node.stores if store in timed), None)
        if store is not None:
            raise TopologyError(
                f"{node.line} {node.op}: {node.processor.display} has the timers '{store}', but no on_timer(timer)",
                next_step="write def on_timer(self, timer): it is called with a Timer when one is due",
            )
