"""Kafka's administrative requests that tests need: ACLs, quotas, configs, features, coordinators.

Like wire.py: the standard library only, one connection per request, versions without flexible encoding if there are
any.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from broker.wire import Login, WireError, ask, compact_string, nullable_string

_DESCRIBE_ACLS, _CREATE_ACLS, _DELETE_ACLS, _INCREMENTAL_ALTER_CONFIGS, _ALTER_CLIENT_QUOTAS = 29, 30, 31, 44, 49
_FIND_COORDINATOR, _API_VERSIONS, _DESCRIBE_QUORUM, _UPDATE_FEATURES = 10, 18, 55, 57
_UPGRADE, _SAFE_DOWNGRADE, _NEWEST_TRANSACTIONS = 1, 2, 2
# Tags in the response to ApiVersions.
_SUPPORTED, _FINALIZED = 0, 2
_BROKER = 4
_SET = 0
_ALLOW = 3
_TIMEOUT_S = 30.0


class Resource(IntEnum):
    """The type of a resource of an ACL."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Pattern(IntEnum):
    """The pattern type of a resource name."""

    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """The operation of an ACL."""

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
    """The key type of FindCoordinator."""

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
        """The encoding for CreateAcls, and for the other two requests as a filter."""
        return (
            struct.pack(">b", self.resource)
            + nullable_string(self.name)
            + struct.pack(">b", self.pattern)
            + nullable_string(f"User:{self.user}")
            + nullable_string("*")
            + struct.pack(">bb", self.operation, _ALLOW)
        )


def create_acls(host: str, port: int, login: Login, acls: list[Acl]) -> None:
    """Creates ACLs; existing ones stay."""
    body = struct.pack(">i", len(acls)) + b"".join(acl.encoded() for acl in acls)
    answer = ask(host, port, _CREATE_ACLS, 1, body, _TIMEOUT_S, login)
    answer.number("i")  # throttle time
    for _ in range(answer.number("i")):
        error, words = answer.number("h"), answer.string()
        if error != 0:
            raise WireError(f"Kafka refused to create an ACL (error {error}): {words}")


def delete_acls(host: str, port: int, login: Login, acls: list[Acl]) -> None:
    """Deletes exactly these ACLs."""
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
    """Whether this broker knows the permission; each broker learns of a change asynchronously."""
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


@dataclass(frozen=True)
class Features:
    """Kafka's features with their levels (KIP-584), as one node reports them."""

    supported: Mapping[str, int]
    """The newest level that this node supports."""
    finalized: Mapping[str, int]
    """The finalized level of the cluster; without those that are 0."""


def features(host: str, port: int, login: Login | None = None) -> Features:
    """The features of a broker of 3.9 or newer; each broker learns of a change asynchronously."""
    body = b"\0" + compact_string("stoatflow-harness") + compact_string("1") + b"\0"
    answer = ask(host, port, _API_VERSIONS, 4, body, _TIMEOUT_S, login)
    error = answer.number("h")
    if error != 0:
        raise WireError(f"ApiVersions answered with error {error}")
    answer.skip((answer.varint() - 1) * struct.calcsize(">hhhx"))  # requests, each with no tags
    answer.number("i")  # throttle time
    levels: dict[int, dict[str, int]] = {_SUPPORTED: {}, _FINALIZED: {}}
    for _ in range(answer.varint()):
        tag, length = answer.varint(), answer.varint()
        if tag not in levels:
            answer.skip(length)
            continue
        for _ in range(answer.varint() - 1):
            name, numbers = answer.compact_string(), (answer.number("h"), answer.number("h"))
            answer.varint()  # its tags
            levels[tag][name or ""] = max(numbers)
    return Features(levels[_SUPPORTED], levels[_FINALIZED])


def update_features(
    host: str, port: int, levels: Mapping[str, int], login: Login | None = None, *, down: bool = False
) -> None:
    """Changes levels of a running cluster, as `kafka-features.sh` does."""
    step = _SAFE_DOWNGRADE if down else _UPGRADE
    # Tagged fields follow each part.
    updates = b"".join(compact_string(name) + struct.pack(">hbx", level, step) for name, level in levels.items())
    body = b"\0" + struct.pack(">iB", int(_TIMEOUT_S * 1000), len(levels) + 1) + updates + struct.pack(">?x", False)
    answer = ask(host, port, _UPDATE_FEATURES, 1, body, _TIMEOUT_S, login)
    answer.number("b")  # tags of the header
    answer.number("i")  # throttle time
    reported = [("the request", answer.number("h"), answer.compact_string())]
    for _ in range(answer.varint() - 1):
        reported.append((answer.compact_string() or "", answer.number("h"), answer.compact_string()))
        answer.varint()  # its tags
    refused = [f"{what} (error {error}): {words}" for what, error, words in reported if error != 0]
    if refused:
        raise WireError(f"Kafka refused the features {dict(levels)}: {'; '.join(refused)}")


def transaction_version(host: str, port: int, version: int) -> None:
    """Changes the version of transactions of a running cluster (KIP-890)."""
    update_features(host, port, {"transaction.version": version}, down=version < _NEWEST_TRANSACTIONS)


def coordinator(host: str, port: int, login: Login, kind: Coordinator, of: str) -> int:
    """The node that coordinates a group or a transactional id; -1 while there is none."""
    answer = ask(host, port, _FIND_COORDINATOR, 1, nullable_string(of) + struct.pack(">b", kind), _TIMEOUT_S, login)
    answer.number("i")  # throttle time
    error = answer.number("h")
    answer.string()
    return answer.number("i") if error == 0 else -1


def controller(host: str, port: int, login: Login) -> int:
    """The node that leads the controller quorum; -1 while there is none.

    Brokers forward the request to it.
    """
    name = b"__cluster_metadata"
    # Flexible encoding: lengths plus one, and tagged fields.
    partitions = b"\2" + struct.pack(">i", 0) + b"\0"
    body = b"\0" + b"\2" + bytes([len(name) + 1]) + name + partitions + b"\0" + b"\0"
    answer = ask(host, port, _DESCRIBE_QUORUM, 0, body, _TIMEOUT_S, login)
    answer.number("b")  # tags of the header
    if answer.number("h") != 0 or answer.number("b") != 2:
        return -1
    for _ in range(answer.number("b") - 1):
        answer.number("b")  # the name
    answer.number("b")  # number of partitions
    answer.number("i")
    return answer.number("i") if answer.number("h") == 0 else -1
