"""Brokers with TLS, SASL and ACLs, as the chaos harness stops and starts them.

The application connects through its own listener; the harness writes and reads through the plain one. A fault hits one
node: with one node the whole cluster, with three the nodes in turn, each only when all are in sync.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from types import TracebackType

from broker.cluster import KafkaCluster
from topics import KafkaTopics


class SecuredBroker:
    """`with SecuredBroker("SASL_SSL_SCRAM", settings) as broker: Chaos(..., broker=broker, client=broker.client)`."""

    def __init__(self, listener: str, settings: Mapping[str, str], *, nodes: int = 1, version: str) -> None:
        """Doesn't start anything yet."""
        self._listener = listener
        self._cluster = KafkaCluster(nodes=nodes, settings=settings, version=version)
        self._faults = 0
        self._out = 0
        """The node that is out, or was the last one."""

    def __enter__(self) -> SecuredBroker:
        """Start all nodes."""
        self._cluster.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop all nodes, and remove their files."""
        self._cluster.__exit__(kind, error, trace)

    @property
    def bootstrap(self) -> str:
        """The addresses for the harness."""
        return self._cluster.bootstrap()

    @property
    def client(self) -> dict[str, str]:
        """The properties for the application."""
        return self._cluster.client(self._listener)

    def start(self) -> None:
        """Start the node that is out on its existing data."""
        self._cluster.start(self._out)

    def stop(self) -> None:
        """Stop a node cleanly."""
        self._cluster.end(self._next())

    def kill(self) -> None:
        """Kill a node."""
        self._cluster.kill(self._next())

    def send(self, number: signal.Signals) -> None:
        """Pause a node, or resume it."""
        if number == signal.SIGSTOP:
            self._cluster.pause(self._next())
        else:
            self._cluster.resume(self._out)

    def _next(self) -> int:
        """The node for the next fault, once no partition depends on it."""
        nodes = self._cluster.nodes
        if len(nodes) > 1:
            for topic in sorted(KafkaTopics(self.bootstrap).topics()):
                self._cluster.wait_until_in_sync(topic)
        self._out = nodes[self._faults % len(nodes)]
        self._faults += 1
        return self._out
