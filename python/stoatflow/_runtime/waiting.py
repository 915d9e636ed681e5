"""Waits until an application has reached a state, or has read its input.

Takes the application's engine; returns, or raises an error that says how far it is. Polls in short steps, so that
signals and other threads are handled.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stoatflow._runtime.bridge import Engine

_STEP_S = 0.02
_END_S = 10.0
"""How long the engine may take from its last state to its end, which has the error."""
_OVER = ("STOPPED", "ERROR")
_SHOWN = 5

Positions = dict[tuple[str, int], int]


def wait_until(
    engine: Engine, ended: Callable[[float], bool], state: str | None, timeout_s: float | None, *, caught_up: bool
) -> None:
    """Wait; `ended` waits for the end and raises the error that the application failed with."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    goal: Positions | None = None
    behind: list[str] = []
    wanted = state or ("RUNNING" if caught_up else None)
    while True:
        now = engine.state()
        if now in _OVER and now != wanted:
            ended(_END_S)
            raise RuntimeError(
                f"the application has ended ({now}) and was waited for. Next: make a new one and start it"
            )
        if wanted is None or now == wanted:
            if not caught_up:
                return
            rows = engine.positions()
            if goal is None:
                goal = {(topic, number): end for topic, number, _, end in rows}
            behind = [
                f"{topic}-{number} is at {at} of {goal[topic, number]}"
                for topic, number, at, _ in rows
                if at < goal.get((topic, number), 0)
            ]
            if not behind:
                return
        if deadline is not None and time.monotonic() >= deadline:
            raise TimeoutError(_late(timeout_s or 0.0, now, wanted, behind))
        if now not in _OVER:
            ended(_STEP_S)


def _late(timeout_s: float, now: str, wanted: str | None, behind: list[str]) -> str:
    if behind:
        more = f" and {len(behind) - _SHOWN} more" if len(behind) > _SHOWN else ""
        return (
            f"the application has not caught up within {timeout_s:g} s: {', '.join(behind[:_SHOWN])}{more}. "
            "Next: wait longer, or see on its admin port what holds it up"
        )
    return (
        f"the application is {now}, not {wanted}, after {timeout_s:g} s. "
        "Next: start it if it was not, wait longer, or see in its log what it waits for"
    )
