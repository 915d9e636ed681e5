"""The few words of Kafka's protocol that the harness needs, with the standard library only.

Takes: a host and a port.
Gives: ApiVersions (does it answer?), Metadata (who leads what?), CreateTopics, Fetch (whose batches are these? Clients
don't say).
Owns: one socket per call; no connection outlives a question.
Never: produces, or reads records: real clients do that in the tests. Starting a JVM for each question would cost
seconds, and a Python client would be a dependency of the demo.

Only versions without compact ("flexible") encoding are used: they are the simple ones, and Kafka 4 still has them.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass

_FETCH, _METADATA, SASL_HANDSHAKE, _API_VERSIONS, _CREATE_TOPICS, SASL_AUTHENTICATE = 1, 3, 17, 18, 19, 36
_FETCH_BYTES = 8 << 20
_CLIENT_ID = "stoatflow-harness"
UNKNOWN_TOPIC, TOPIC_ALREADY_EXISTS = 3, 36


class WireError(OSError):
    """The broker did not respond, or not as expected."""


@dataclass(frozen=True)
class TopicInfo:
    """Metadata of one topic: its error code, and by partition its leader (-1: none yet) and its ISR."""

    error: int
    leaders: Mapping[int, int]
    in_sync: Mapping[int, tuple[int, ...]]


@dataclass(frozen=True)
class ClusterInfo:
    """Metadata of the cluster: brokers as `host:port` by id, and its topics."""

    brokers: Mapping[int, str]
    topics: Mapping[str, TopicInfo]


@dataclass(frozen=True)
class Login:
    """User and password for SASL/PLAIN, over a connection without TLS."""

    user: str
    password: str


def compact_string(text: str) -> bytes:
    """A string in the flexible encoding, with its length plus one."""
    raw = text.encode()
    return bytes([len(raw) + 1]) + raw


def nullable_string(text: str | None) -> bytes:
    """A string in the protocol's encoding."""
    if text is None:
        return struct.pack(">h", -1)
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


class Reader:
    """Reads a response."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, code: str) -> int:
        try:
            (value,) = struct.unpack_from(f">{code}", self._data, self._at)
        except struct.error as short:
            raise WireError(f"answer cut short at byte {self._at}") from short
        self._at += struct.calcsize(f">{code}")
        return int(value)

    def string(self) -> str | None:
        length = self.number("h")
        if length < 0:
            return None
        self._at += length
        return self._data[self._at - length : self._at].decode()

    def varint(self) -> int:
        """A varint, whose last byte has no highest bit."""
        value, shift = 0, 0
        while True:
            part = self.number("B")
            value |= (part & 0x7F) << shift
            if part < 0x80:
                return value
            shift += 7

    def compact_string(self) -> str | None:
        """A string of the flexible encoding, with its length plus one."""
        length = self.varint() - 1
        if length < 0:
            return None
        self._at += length
        return self._data[self._at - length : self._at].decode()

    def skip(self, length: int) -> None:
        self._at += length

    def data(self) -> bytes:
        length = max(0, self.number("i"))
        self._at += length
        return self._data[self._at - length : self._at]

    def numbers(self) -> tuple[int, ...]:
        return tuple(self.number("i") for _ in range(self.number("i")))


def ask(
    host: str, port: int, key: int, version: int, body: bytes, timeout: float, login: Login | None = None
) -> Reader:
    """Sends one request over its own connection; returns the response after its header."""
    with socket.create_connection((host, port), timeout=timeout) as sock:
        sock.settimeout(timeout)
        if login is not None:
            _log_in(sock, login)
        return exchange(sock, key, version, body)


def exchange(sock: socket.socket, key: int, version: int, body: bytes) -> Reader:
    """Sends one request over an open connection."""
    head = struct.pack(">hhi", key, version, 1) + nullable_string(_CLIENT_ID)
    sock.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
    with sock.makefile("rb") as stream:
        size = stream.read(4)
        if len(size) < 4:
            raise WireError("the connection was closed without an answer")
        data = stream.read(struct.unpack(">i", size)[0])
    answer = Reader(data)
    if answer.number("i") != 1:
        raise WireError("the answer belongs to another question")
    return answer


def _log_in(sock: socket.socket, login: Login) -> None:
    answer = exchange(sock, SASL_HANDSHAKE, 1, nullable_string("PLAIN"))
    if (error := answer.number("h")) != 0:
        raise WireError(f"the broker doesn't take SASL/PLAIN there: error {error}")
    secret = f"\0{login.user}\0{login.password}".encode()
    answer = exchange(sock, SASL_AUTHENTICATE, 0, struct.pack(">i", len(secret)) + secret)
    if (error := answer.number("h")) != 0:
        raise WireError(f"the broker refused user {login.user}: error {error}, {answer.string()}")


def api_versions(host: str, port: int, timeout: float = 30.0) -> dict[int, tuple[int, int]]:
    """The APIs of the broker, with the lowest and highest version of each."""
    answer = ask(host, port, _API_VERSIONS, 0, b"", timeout)
    error = answer.number("h")
    if error != 0:
        raise WireError(f"ApiVersions answered with error {error}")
    return {answer.number("h"): (answer.number("h"), answer.number("h")) for _ in range(answer.number("i"))}


def metadata(
    host: str, port: int, topics: list[str] | None = None, timeout: float = 30.0, login: Login | None = None
) -> ClusterInfo:
    """The brokers and the named topics (None for all); the request never creates a topic."""
    names = struct.pack(">i", -1 if topics is None else len(topics)) + b"".join(
        nullable_string(t) for t in topics or []
    )
    answer = ask(host, port, _METADATA, 4, names + b"\0", timeout, login)
    answer.number("i")  # throttle time
    brokers: dict[int, str] = {}
    for _ in range(answer.number("i")):
        node, name, at = answer.number("i"), answer.string(), answer.number("i")
        answer.string()  # rack
        brokers[node] = f"{name}:{at}"
    answer.string()  # cluster id
    answer.number("i")  # controller
    found: dict[str, TopicInfo] = {}
    for _ in range(answer.number("i")):
        error, topic = answer.number("h"), answer.string()
        answer.number("b")  # internal?
        leaders: dict[int, int] = {}
        in_sync: dict[int, tuple[int, ...]] = {}
        for _ in range(answer.number("i")):
            answer.number("h")  # error of the partition: -1 as leader says the same
            partition = answer.number("i")
            leaders[partition] = answer.number("i")
            answer.numbers()  # replicas
            in_sync[partition] = answer.numbers()
        found[topic or ""] = TopicInfo(error, leaders, in_sync)
    return ClusterInfo(brokers, found)


def create_topic(
    host: str, port: int, name: str, partitions: int, configs: Mapping[str, str], timeout: float = 30.0,
    replicas: int = 1, login: Login | None = None,
) -> tuple[int, str]:  # fmt: skip
    """Creates a topic; returns the error code (0: created) and the broker's message."""
    settings = b"".join(nullable_string(key) + nullable_string(value) for key, value in configs.items())
    body = (
        struct.pack(">i", 1)
        + nullable_string(name)
        + struct.pack(">ihi", partitions, replicas, 0)
        + struct.pack(">i", len(configs))
        + settings
        + struct.pack(">i?", int(timeout * 1000), False)
    )
    answer = ask(host, port, _CREATE_TOPICS, 4, body, timeout, login)
    answer.number("i")  # throttle time
    if answer.number("i") != 1:
        raise WireError("CreateTopics did not answer for the topic")
    answer.string()
    return answer.number("h"), answer.string() or ""


def fetch(host: str, port: int, topic: str, partition: int, offset: int, timeout: float = 30.0) -> bytes:
    """Some record batches as the broker stores them, including those of open transactions.

    The first one may begin before the offset, the last one may be cut short. Empty at the end.
    """
    body = struct.pack(">iiiib", -1, 0, 1, _FETCH_BYTES, 0)
    body += struct.pack(">i", 1) + nullable_string(topic) + struct.pack(">iiqi", 1, partition, offset, _FETCH_BYTES)
    answer = ask(host, port, _FETCH, 4, body, timeout)
    answer.number("i")  # throttle time
    if answer.number("i") != 1 or answer.string() != topic or answer.number("i") != 1:
        raise WireError("Fetch did not answer for the partition")
    answer.number("i")  # partition
    error = answer.number("h")
    if error != 0:
        raise WireError(f"Fetch of {topic} from {offset} answered with error {error}")
    answer.number("q")  # high watermark
    answer.number("q")  # last stable offset
    for _ in range(answer.number("i")):  # aborted transactions
        answer.number("q")
        answer.number("q")
    return answer.data()
