"""The settings of one node of a secured test cluster: a broker and controller with all of `listeners.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from broker.broker_config import HOST, Ports, free_port_numbers, server_properties
from broker.certificates import Certificates
from broker.listeners import ADMIN, ALL_LISTENERS, BROKER, CONTROLLER, INTERNAL, Listener
from broker.token_server import AUDIENCE

_TOKENS = "org.apache.kafka.common.security.oauthbearer"


@dataclass(frozen=True)
class Node:
    """The ports and files of a node."""

    number: int
    ports: Mapping[str, int]
    folder: Path

    @property
    def log_file(self) -> Path:
        """The log of everything that the node printed, over all its restarts."""
        return self.folder / "broker.log"


@dataclass(frozen=True)
class Tokens:
    """What brokers verify tokens with."""

    key_set: Path
    issuer: str


def make_nodes(count: int, folder: Path) -> list[Node]:
    """Nodes numbered from 1, with ports of their own."""
    names = [listener.name for listener in ALL_LISTENERS]
    ports = free_port_numbers(count * len(names))
    return [
        Node(n + 1, dict(zip(names, ports[n * len(names) :], strict=False)), folder / f"node-{n + 1}")
        for n in range(count)
    ]


def keystore_settings(listener: Listener, keystore: Path) -> dict[str, str]:
    """Settings for the certificate that a listener presents."""
    return {
        f"listener.name.{listener.name.lower()}.ssl.keystore.type": "PEM",
        f"listener.name.{listener.name.lower()}.ssl.keystore.location": str(keystore),
    }


def node_properties(
    node: Node, nodes: list[Node], certificates: Certificates, tokens: Tokens, overrides: Mapping[str, str]
) -> dict[str, str]:
    """server.properties of a node, `overrides` last."""
    replicas, in_sync = str(min(3, len(nodes))), str(min(2, len(nodes)))
    places = {listener.name: f"{listener.name}://{HOST}:{node.ports[listener.name]}" for listener in ALL_LISTENERS}
    settings = {
        "node.id": str(node.number),
        "controller.quorum.voters": ",".join(f"{n.number}@{HOST}:{n.ports[CONTROLLER]}" for n in nodes),
        "listeners": ",".join(places.values()),
        "advertised.listeners": ",".join(place for name, place in places.items() if name != CONTROLLER),
        "listener.security.protocol.map": ",".join(f"{each.name}:{each.protocol}" for each in ALL_LISTENERS),
        "inter.broker.listener.name": INTERNAL,
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{BROKER};User:{ADMIN}",
        # The user of a client's certificate is its common name.
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.ca),
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        # A client that configures its rack reads from the replica there.
        "broker.rack": f"rack-{node.number}",
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        # Each listener has its own threads.
        "num.network.threads": "1",
        # By default a killed node is detected after 9 seconds, and a paused replica after 30.
        "replica.lag.time.max.ms": "5000",
        **_token_settings(tokens),
    }
    for listener in ALL_LISTENERS:
        settings |= listener.settings()
        if listener.certificate:
            settings |= keystore_settings(listener, getattr(certificates, listener.certificate))
    return server_properties(
        Ports(node.ports[INTERNAL], node.ports[CONTROLLER]), node.folder, {**settings, **overrides}
    )


def _token_settings(tokens: Tokens) -> dict[str, str]:
    prefix = "listener.name.sasl_ssl_oauthbearer"
    return {
        f"{prefix}.oauthbearer.sasl.server.callback.handler.class": f"{_TOKENS}.OAuthBearerValidatorCallbackHandler",
        # The default of Kafka 4.1.1 doesn't verify the signature: it would accept anybody's token.
        f"{prefix}.sasl.oauthbearer.jwt.validator.class": f"{_TOKENS}.BrokerJwtValidator",
        f"{prefix}.sasl.oauthbearer.jwks.endpoint.url": tokens.key_set.as_uri(),
        f"{prefix}.sasl.oauthbearer.expected.audience": AUDIENCE,
        f"{prefix}.sasl.oauthbearer.expected.issuer": tokens.issuer,
    }


def java_options(tokens: Tokens, heap_mb: int, others: Sequence[str] | None = None) -> list[str]:
    """Options of a small JVM that starts quickly, since several run side by side. `others` replace them."""
    small = (f"-Xmx{heap_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    return [
        *(small if others is None else others),
        # Kafka 4 reads a key set only from URLs that are explicitly allowed.
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={tokens.key_set.as_uri()}",
    ]
