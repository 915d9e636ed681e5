"""A broker with TLS, SASL and ACLs, as the harness of chaos stops and starts it.

The application comes through a listener of its own; the harness writes and reads through the plain one. One node: all
that is done to it is done to the whole cluster.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from types import TracebackType

from broker.cluster import KafkaCluster


class SecuredBroker:
    """`with SecuredBroker("SASL_SSL_SCRAM", settings) as broker: Chaos(..., broker=broker, client=broker.client)`."""

    def __init__(self, listener: str, settings: Mapping[str, str]) -> None:
        """Start nothing yet."""
        self._listener = listener
        self._cluster = KafkaCluster(nodes=1, settings=settings)

    def __enter__(self) -> SecuredBroker:
        """Start it."""
        self._cluster.__enter__()
        (self._node,) = self._cluster.nodes
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it, and remove its files."""
        self._cluster.__exit__(kind, error, trace)

    @property
    def bootstrap(self) -> str:
        """For the harness."""
        return self._cluster.bootstrap()

    @property
    def client(self) -> dict[str, str]:
        """For the application."""
        return self._cluster.client(self._listener)

    def start(self) -> None:
        """Start it, on the data that it has."""
        self._cluster.start(self._node)

    def stop(self) -> None:
        """End it in order."""
        self._cluster.end(self._node)

    def kill(self) -> None:
        """End it at once."""
        self._cluster.kill(self._node)

    def send(self, number: signal.Signals) -> None:
        """Pause it, or let it go on."""
        (self._cluster.pause if number == signal.SIGSTOP else self._cluster.resume)(self._node)
