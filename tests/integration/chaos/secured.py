"""A broker with TLS, SASL and ACLs, as the chaos harness stops and starts it.

The application connects through its own listener; the harness writes and reads through the plain one. There is one
node, so a fault of the broker is one of the whole cluster.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from types import TracebackType

from broker.cluster import KafkaCluster


class SecuredBroker:
    """`with SecuredBroker("SASL_SSL_SCRAM", settings) as broker: Chaos(..., broker=broker, client=broker.client)`."""

    def __init__(self, listener: str, settings: Mapping[str, str]) -> None:
        """Doesn't start anything yet."""
        self._listener = listener
        self._cluster = KafkaCluster(nodes=1, settings=settings)

    def __enter__(self) -> SecuredBroker:
        """Start the broker."""
        self._cluster.__enter__()
        (self._node,) = self._cluster.nodes
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the broker, and remove its files."""
        self._cluster.__exit__(kind, error, trace)

    @property
    def bootstrap(self) -> str:
        """The address for the harness."""
        return self._cluster.bootstrap()

    @property
    def client(self) -> dict[str, str]:
        """The properties for the application."""
        return self._cluster.client(self._listener)

    def start(self) -> None:
        """Start the broker on its existing data."""
        self._cluster.start(self._node)

    def stop(self) -> None:
        """Stop the broker cleanly."""
        self._cluster.end(self._node)

    def kill(self) -> None:
        """Kill the broker."""
        self._cluster.kill(self._node)

    def send(self, number: signal.Signals) -> None:
        """Pause the broker, or resume it."""
        (self._cluster.pause if number == signal.SIGSTOP else self._cluster.resume)(self._node)
