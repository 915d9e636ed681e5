"""Waiting until an application has committed its input, and shows it."""

from __future__ import annotations

from collections.abc import Callable

from at_once import until
from stoatflow import EmbeddedBroker, State, StoatFlow

Make = Callable[..., StoatFlow]


def read(app: StoatFlow, broker: EmbeddedBroker, *topics: str) -> None:
    """Wait until all input of the topics (`in`) can be seen: offsets are committed before state is."""
    until(lambda: app.state in {State.ERROR, State.RUNNING})
    assert app.error is None
    ends = {(topic, part): end for topic in topics or ("in",) for part, end in broker.end_offsets(topic).items()}
    with app.snapshot(at_least=ends):
        pass
