"""A real broker for the originals that need one. The ports need none, so nothing is imported before it is asked for."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# What starts a broker and reads topics is beside the tests that need one; it is no package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

if TYPE_CHECKING:
    from topics import KafkaTopics

# Whoever ends the tests has their broker and workers ended too, as with Ctrl-C.
signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaTopics]:
    """Topics of a real broker."""
    from ports.originals import broker

    with broker() as topics:
        yield topics
