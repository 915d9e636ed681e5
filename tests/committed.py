"""Waiting until an application has committed its input and shows it, or holding it up before that."""

from __future__ import annotations

import threading
from collections.abc import Callable

from concurrency import until
from stoatflow import EmbeddedBroker, RestoreListener, State, StoatFlow, TopicPartition

Make = Callable[..., StoatFlow]


def read(app: StoatFlow, broker: EmbeddedBroker, *topics: str) -> None:
    """Wait until all input of the topics (`in`) is visible: offsets are committed before state is."""
    until(lambda: app.state in {State.ERROR, State.RUNNING})
    assert app.error is None
    ends = {(topic, part): end for topic in topics or ("in",) for part, end in broker.end_offsets(topic).items()}
    with app.snapshot(at_least=ends):
        pass


class HeldUp(RestoreListener):
    """Holds a restore up until `goes_on` is set."""

    def __init__(self) -> None:
        self.began, self.goes_on = threading.Event(), threading.Event()

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        self.began.set()
        self.goes_on.wait(600)
