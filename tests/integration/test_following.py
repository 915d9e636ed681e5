"""Following a store while its broker goes away and comes back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker.kafka_broker import KafkaBroker
from counting import by_hand, lines, make, until
from topics import KafkaTopics

from stoatflow import ChangesLostError, StoatFlow


@pytest.fixture
def own() -> Iterator[KafkaBroker]:
    with KafkaBroker() as running:
        yield running


def test_a_copy_stays_correct_over_a_restart_of_the_broker(own: KafkaBroker, name: str, tmp_path: Path) -> None:
    """Whether the engine waits or restarts: a copy equals the store, and no epoch arrives twice."""
    topics = KafkaTopics(own.bootstrap)
    for topic in (f"{name}-in", f"{name}-out"):
        topics.create(topic, 2)
    given, more = lines(1, 300), lines(2, 300)
    copy: dict[str, int] = {}
    epochs: list[int] = []

    def follow(app: StoatFlow) -> None:
        while True:
            copy.clear()
            epochs.clear()
            try:
                for batch in app.store("counts").follow():
                    copy.update(batch.rows)
                    epochs.extend([batch.epoch] if batch.complete else [])
            except ChangesLostError:
                app.wait_until("RUNNING")
            else:
                return

    with make(own.bootstrap, name, tmp_path / "state") as app:
        app.wait_until("RUNNING", timeout="90s")
        reader = threading.Thread(target=follow, args=[app])
        reader.start()
        topics.write(f"{name}-in", given)
        until(lambda: copy == by_hand(given), "the first part has come")
        own.stop()
        own.restart()
        own.wait_for_leaders(f"{name}-in", 2)
        topics.write(f"{name}-in", more)
        until(lambda: copy == by_hand(given + more), "the rest has come")
    reader.join()
    assert copy == by_hand(given + more)
    assert epochs == sorted(set(epochs))
