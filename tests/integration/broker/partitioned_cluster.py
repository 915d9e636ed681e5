"""A cluster in which one node can be cut off from the others, but not from clients.

All nodes reach each other's controllers through proxies. A node that is cut off doesn't learn of elections: it
still considers itself the leader of its partitions, and tells clients so, while the others have elected another
leader.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from broker import wire
from broker.broker_config import HOST
from broker.cluster import LOGIN, KafkaCluster
from broker.cluster_config import Node
from broker.fault_proxy import FaultProxy
from broker.listeners import CONTROLLER, INTERNAL

if TYPE_CHECKING:
    from typing_extensions import Self  # typing has it from Python 3.11 only


class PartitionedCluster(KafkaCluster):
    """`with PartitionedCluster() as cluster: cluster.cut_off(2)`."""

    def __init__(
        self, nodes: int = 3, *, version: str | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(nodes, version=version, settings=settings)
        self._proxies = {number: FaultProxy() for number in range(1, nodes + 1)}
        """By node: the proxy in front of its controller."""
        self._cut_off: set[int] = set()

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            for proxy in self._proxies.values():
                opened.enter_context(proxy)
            super().__enter__()
            self._opened = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._opened.close()

    def cut_off(self, node: int) -> None:
        """Cuts a node off; returns when the others have detected it and elected other leaders."""
        clients = frozenset({str(node), f"raft-client-{node}"})
        for number, proxy in self._proxies.items():
            whose = clients if number != node else frozenset()
            proxy.inject(None, "disconnect before", probability=1.0, clients=whose)
            proxy.cut()
        self._cut_off.add(node)
        self.wait_until_missed(node)

    def join(self) -> None:
        """Ends all partitions of the network."""
        for proxy in self._proxies.values():
            proxy.clear()
        self._cut_off.clear()

    def leader_reported_by(self, node: int, topic: str, partition: int = 0) -> int:
        """The leader of a partition according to this node."""
        reported = wire.metadata(HOST, self._node(node).ports[INTERNAL], [topic], login=LOGIN)
        return reported.topics[topic].leaders[partition]

    def _answering(self) -> list[Node]:
        return [node for node in super()._answering() if node.number not in self._cut_off]

    def _controller_addresses(self, node: Node) -> dict[str, str]:
        self._proxies[node.number].connect(node.ports[CONTROLLER])
        doors = {**node.ports, CONTROLLER: self._proxies[node.number].port}
        return {
            "controller.quorum.voters": ",".join(f"{n}@{HOST}:{proxy.port}" for n, proxy in self._proxies.items()),
            "advertised.listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in doors.items()),
        }
