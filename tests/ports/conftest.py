"""A real broker for the originals that need one. The ports need none, so its modules are imported only on demand."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# The modules that start a broker and read topics are next to the tests that need them; they are no package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

if TYPE_CHECKING:
    from topics import KafkaTopics

# SIGTERM stops the broker and the workers too, as Ctrl-C does.
signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaTopics]:
    """Topics of a real broker."""
    from ports.originals import broker

    with broker() as topics:
        yield topics
