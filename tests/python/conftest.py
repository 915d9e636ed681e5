"""Fixtures of several modules: an application on an embedded broker with the topic `in`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import stoatflow as sf
from committed import Make
from stoatflow import EmbeddedBroker, StoatFlow


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A broker whose topic has three partitions."""
    with EmbeddedBroker(tmp_path / "broker") as made:
        made.create_topic("in", 3)
        yield made


@pytest.fixture
def make(broker: EmbeddedBroker, tmp_path: Path) -> Make:
    """`make(topology, **settings)`: the application, not started."""

    def application(topology: sf.Topology, **settings: object) -> StoatFlow:
        given = {
            "application.id": "app",
            "state.dir": str(tmp_path / "state"),
            "lanes.count": 4,
            "ensure.explicit.naming": False,
            **settings,
        }
        return StoatFlow(topology, sf.Settings(given, environ={}), broker=broker)

    return application
