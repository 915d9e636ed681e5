"""Starts a measured application and waits until it runs."""

from __future__ import annotations

import time

import stoatflow as sf

STEP_S = 0.005


def start(app: sf.StoatFlow) -> dict[str, float]:
    """Start it, and return when it entered each state until RUNNING, by the monotonic clock."""
    entered: dict[str, float] = {}
    app.add_state_listener(lambda new, _: entered.setdefault(str(new), time.monotonic()))
    app.start()
    while "RUNNING" not in entered:
        if app.wait(timeout=STEP_S):  # raises the error that the engine failed with
            raise RuntimeError("StoatFlow stopped by itself: see its log above")
    return entered
