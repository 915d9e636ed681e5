"""Other members of an application's group: consumers that join it, as Kafka Streams does."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import TracebackType

import pytest
from confluent_kafka import Consumer

PROTOCOLS: dict[str, dict[str, str | int]] = {
    # Long, so that a process that is held up stays a member. It leaves when it is closed.
    "classic": {"session.timeout.ms": 30_000},
    "consumer": {"group.protocol": "consumer"},
}


class Member:
    """Another consumer of the group; it reads, but commits nothing."""

    def __init__(self, address: str, name: str, protocol: Mapping[str, str | int], group: str | None = None) -> None:
        common = {"bootstrap.servers": address, "group.id": group or name, "enable.auto.commit": False, "log_level": 0}
        self._consumer = Consumer({**common, "client.id": f"{name}-other", **protocol})
        self._joined = threading.Event()
        self._consumer.subscribe([f"{name}-in"], on_assign=lambda *_: self._joined.set())
        self._leave = threading.Event()
        self._thread = threading.Thread(target=self._poll)

    def _poll(self) -> None:
        while not self._leave.is_set():
            self._consumer.poll(0.05)
        self._consumer.close()

    def __enter__(self) -> Member:
        self._thread.start()
        if not self._joined.wait(60):
            self.leave()
            pytest.fail("it doesn't become a member")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.leave()

    def leave(self) -> None:
        self._leave.set()
        self._thread.join(30)
