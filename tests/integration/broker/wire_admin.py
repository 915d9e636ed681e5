"""Kafka's administrative requests that tests need: ACLs, quotas, settings of a broker, the version of transactions, and
who coordinates what.

Like wire.py: the standard library only, one connection per request, versions without compact encoding where there are.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from broker.wire import Login, WireError, ask, nullable_string

_DESCRIBE_ACLS, _CREATE_ACLS, _DELETE_ACLS, _INCREMENTAL_ALTER_CONFIGS, _ALTER_CLIENT_QUOTAS = 29, 30, 31, 44, 49
_FIND_COORDINATOR, _DESCRIBE_QUORUM, _UPDATE_FEATURES = 10, 55, 57
_UPGRADE, _SAFE_DOWNGRADE, _NEWEST_TRANSACTIONS = 1, 2, 2
_BROKER = 4
_SET = 0
_ALLOW = 3
_TIMEOUT_S = 30.0


class Resource(IntEnum):
    """What permission is given for."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Pattern(IntEnum):
    """How the name of a resource is meant."""

    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What is permitted."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class Coordinator(IntEnum):
    """Of what a node is one."""

    GROUP = 0
    TRANSACTIONS = 1


@dataclass(frozen=True)
class Acl:
    """A permission of a user from every host."""

    user: str
    resource: Resource
    name: str
    operation: Operation
    pattern: Pattern = Pattern.LITERAL

    def encoded(self) -> bytes:
        """As CreateAcls takes it, and as the other two take it as a filter."""
        return (
            struct.pack(">b", self.resource)
            + nullable_string(self.name)
            + struct.pack(">b", self.pattern)
            + nullable_string(f"User:{self.user}")
            + nullable_string("*")
            + struct.pack(">bb", self.operation, _ALLOW)
        )


def create_acls(host: str, port: int, login: Login, acls: list[Acl]) -> None:
    """Creates them; those that are there already stay."""
    body = struct.pack(">i", len(acls)) + b"".join(acl.encoded() for acl in acls)
    answer = ask(host, port, _CREATE_ACLS, 1, body, _TIMEOUT_S, login)
    answer.number("i")  # throttle time
    for _ in range(answer.number("i")):
        error, words = answer.number("h"), answer.string()
        if error != 0:
            raise WireError(f"Kafka refused to create an ACL (error {error}): {words}")


def delete_acls(host: str, port: int, login: Login, acls: list[Acl]) -> None:
    """Deletes exactly these."""
    body = struct.pack(">i", len(acls)) + b"".join(acl.encoded() for acl in acls)
    answer = ask(host, port, _DELETE_ACLS, 1, body, _TIMEOUT_S, login)
    answer.number("i")  # throttle time
    for _ in range(answer.number("i")):
        error, words = answer.number("h"), answer.string()
        if error != 0:
            raise WireError(f"Kafka refused to delete an ACL (error {error}): {words}")
        for _ in range(answer.number("i")):
            answer.number("h")
            answer.string()
            answer.number("b")
            answer.string()
            answer.number("b")
            answer.string()
            answer.string()
            answer.number("b")
            answer.number("b")


def has_acl(host: str, port: int, login: Login, acl: Acl) -> bool:
    """Whether this broker knows the permission: each learns of a change in its own time."""
    answer = ask(host, port, _DESCRIBE_ACLS, 1, acl.encoded(), _TIMEOUT_S, login)
    answer.number("i")  # throttle time
    error, words = answer.number("h"), answer.string()
    if error != 0:
        raise WireError(f"Kafka refused to describe ACLs (error {error}): {words}")
    return answer.number("i") > 0


def alter_broker(host: str, port: int, login: Login, node: int, settings: Mapping[str, str]) -> None:
    """Changes settings of a running broker."""
    _alter(host, port, login, _BROKER, str(node), settings)


def alter_topic(host: str, port: int, login: Login, topic: str, settings: Mapping[str, str]) -> None:
    """Changes settings of a topic."""
    _alter(host, port, login, Resource.TOPIC, topic, settings)


def _alter(host: str, port: int, login: Login, kind: int, name: str, settings: Mapping[str, str]) -> None:
    entries = b"".join(
        nullable_string(key) + struct.pack(">b", _SET) + nullable_string(value) for key, value in settings.items()
    )
    body = (
        struct.pack(">ib", 1, kind)
        + nullable_string(name)
        + struct.pack(">i", len(settings))
        + entries
        + struct.pack(">?", False)
    )
    answer = ask(host, port, _INCREMENTAL_ALTER_CONFIGS, 0, body, _TIMEOUT_S, login)
    answer.number("i")  # throttle time
    for _ in range(answer.number("i")):
        error, words = answer.number("h"), answer.string()
        if error != 0:
            raise WireError(f"Kafka refused to change settings of {name} (error {error}): {words}")
        answer.number("b")
        answer.string()


def alter_quotas(host: str, port: int, login: Login, client_id: str, quotas: Mapping[str, float | None]) -> None:
    """Sets quotas of a `client.id`, such as `producer_byte_rate`; None takes one away."""
    entity = struct.pack(">i", 1) + nullable_string("client-id") + nullable_string(client_id)
    changes = b"".join(
        nullable_string(key) + struct.pack(">d?", value or 0.0, value is None) for key, value in quotas.items()
    )
    body = struct.pack(">i", 1) + entity + struct.pack(">i", len(quotas)) + changes + struct.pack(">?", False)
    answer = ask(host, port, _ALTER_CLIENT_QUOTAS, 0, body, _TIMEOUT_S, login)
    answer.number("i")  # throttle time
    for _ in range(answer.number("i")):
        error, words = answer.number("h"), answer.string()
        if error != 0:
            raise WireError(f"Kafka refused to change quotas of {client_id} (error {error}): {words}")
        for _ in range(answer.number("i")):
            answer.string()
            answer.string()


def transaction_version(host: str, port: int, version: int) -> None:
    """Changes the version of transactions of a running cluster, as `kafka-features.sh` does (KIP-890)."""
    name, step = b"transaction.version", _UPGRADE if version == _NEWEST_TRANSACTIONS else _SAFE_DOWNGRADE
    # Compact: lengths are one more than they are, and tags follow.
    feature = bytes([len(name) + 1]) + name + struct.pack(">hb", version, step) + b"\0"
    body = b"\0" + struct.pack(">i", int(_TIMEOUT_S * 1000)) + b"\2" + feature + struct.pack(">?", False) + b"\0"
    answer = ask(host, port, _UPDATE_FEATURES, 1, body, _TIMEOUT_S)
    answer.number("b")  # tags of the header
    answer.number("i")  # throttle time
    error = answer.number("h")
    if error != 0:
        raise WireError(f"Kafka refused transaction.version {version} (error {error})")


def coordinator(host: str, port: int, login: Login, kind: Coordinator, of: str) -> int:
    """The node that coordinates a group or a transactional id; -1 while there is none."""
    answer = ask(host, port, _FIND_COORDINATOR, 1, nullable_string(of) + struct.pack(">b", kind), _TIMEOUT_S, login)
    answer.number("i")  # throttle time
    error = answer.number("h")
    answer.string()
    return answer.number("i") if error == 0 else -1


def controller(host: str, port: int, login: Login) -> int:
    """The node that leads the quorum of the controllers; -1 while there is none. Brokers pass the question on to it."""
    name = b"__cluster_metadata"
    # Compact: lengths are one more than they are, and tags follow.
    partitions = b"\2" + struct.pack(">i", 0) + b"\0"
    body = b"\0" + b"\2" + bytes([len(name) + 1]) + name + partitions + b"\0" + b"\0"
    answer = ask(host, port, _DESCRIBE_QUORUM, 0, body, _TIMEOUT_S, login)
    answer.number("b")  # tags of the header
    if answer.number("h") != 0 or answer.number("b") != 2:
        return -1
    for _ in range(answer.number("b") - 1):
        answer.number("b")  # the name
    answer.number("b")  # how many partitions
    answer.number("i")
    return answer.number("i") if answer.number("h") == 0 else -1
