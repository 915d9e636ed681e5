"""Responses of a broker that rejects a request, built without a broker.

Takes a request (its version, its correlation id and its body after the header) and one of Kafka's error codes;
returns the whole response. A request for several partitions is rejected for each of them. Never: sends anything.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum


class Api(IntEnum):
    """Kafka's API keys."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28


FLEXIBLE_SINCE = {
    Api.PRODUCE: 9,
    Api.FIND_COORDINATOR: 3,
    Api.INIT_PRODUCER_ID: 2,
    Api.ADD_PARTITIONS_TO_TXN: 3,
    Api.ADD_OFFSETS_TO_TXN: 3,
    Api.END_TXN: 3,
    Api.TXN_OFFSET_COMMIT: 3,
}
"""From these versions on, the encoding is flexible: lengths are varints plus one, and tags follow each structure."""


class _Body:
    """Reads a request's body in either of the two encodings."""

    def __init__(self, data: bytes, *, flexible: bool) -> None:
        self._data, self._at, self._flexible = data, 0, flexible

    def numbers(self, layout: str) -> tuple[int, ...]:
        """Numbers of fixed size."""
        found = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return found

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def count(self, short: str = ">i") -> int:
        """The length of an array or a string (`short` is its layout in older versions); -1 for null."""
        return self._varint() - 1 if self._flexible else self.numbers(short)[0]

    def text(self) -> bytes:
        """A string; a null one is read as empty."""
        return self._skip(self.count(">h"))

    def bytes(self) -> bytes:
        """Bytes, such as a record batch."""
        return self._skip(self.count())

    def _skip(self, size: int) -> bytes:
        found = self._data[self._at : self._at + max(0, size)]
        self._at += max(0, size)
        return found

    def tags(self) -> None:
        """The tagged fields after a structure."""
        if self._flexible:
            for _ in range(self._varint()):
                self._varint()
                self._skip(self._varint())


class _Answer:
    """Writes a response's body."""

    def __init__(self, *, flexible: bool) -> None:
        self._flexible = flexible
        self.data = bytearray()

    def numbers(self, layout: str, *values: int) -> _Answer:
        self.data += struct.pack(layout, *values)
        return self

    def count(self, number: int, short: str = ">i") -> _Answer:
        if not self._flexible:
            return self.numbers(short, number)
        number += 1
        while number >= 0x80:
            self.data.append(number & 0x7F | 0x80)
            number >>= 7
        self.data.append(number)
        return self

    def text(self, text: bytes) -> _Answer:
        self.count(len(text), ">h")
        self.data += text
        return self

    def tags(self) -> _Answer:
        if self._flexible:
            self.data.append(0)
        return self


Topics = list[tuple[bytes, list[int]]]


def _topics(body: _Body, partition: Callable[[_Body], int]) -> Topics:
    found: Topics = []
    for _ in range(body.count()):
        name = body.text()
        found.append((name, [partition(body) for _ in range(body.count())]))
        body.tags()
    return found


def _per_partition(answer: _Answer, topics: Topics, partition: Callable[[int], object]) -> None:
    answer.count(len(topics))
    for name, partitions in topics:
        answer.text(name).count(len(partitions))
        for number in partitions:
            partition(number)
            answer.tags()
        answer.tags()


def _produce(version: int, body: _Body, answer: _Answer, code: int) -> None:
    if version > 12:
        raise ValueError(f"version {version} of Produce has ids in place of names")

    def partition(body: _Body) -> int:
        (number,) = body.numbers(">i")
        body.bytes()
        body.tags()
        return number

    def refused(number: int) -> None:
        answer.numbers(">ihqq", number, code, -1, -1)
        if version >= 5:
            answer.numbers(">q", -1)
        if version >= 8:
            answer.count(0).count(-1, ">h")

    body.text()
    body.numbers(">hi")
    _per_partition(answer, _topics(body, partition), refused)
    answer.numbers(">i", 0)


def _txn_offset_commit(version: int, body: _Body, answer: _Answer, code: int) -> None:
    def partition(body: _Body) -> int:
        (number, _) = body.numbers(">iq")
        if version >= 2:
            body.numbers(">i")
        body.text()
        body.tags()
        return number

    body.text()
    body.text()
    body.numbers(">qh")
    if version >= 3:
        body.numbers(">i")
        body.text()
        body.text()
    answer.numbers(">i", 0)
    _per_partition(answer, _topics(body, partition), lambda number: answer.numbers(">ih", number, code))


def _add_partitions_to_txn(version: int, body: _Body, answer: _Answer, code: int) -> None:
    if version > 3:
        raise ValueError(f"version {version} of AddPartitionsToTxn is for brokers")
    body.text()
    body.numbers(">qh")
    topics = _topics(body, lambda body: body.numbers(">i")[0])
    answer.numbers(">i", 0)
    _per_partition(answer, topics, lambda number: answer.numbers(">ih", number, code))


def _add_offsets_to_txn(_version: int, _body: _Body, answer: _Answer, code: int) -> None:
    answer.numbers(">ih", 0, code)


def _find_coordinator(version: int, body: _Body, answer: _Answer, code: int) -> None:
    def nobody() -> None:
        answer.numbers(">i", -1).text(b"").numbers(">i", -1)

    if version < 4:
        if version >= 1:
            answer.numbers(">i", 0)
        answer.numbers(">h", code)
        if version >= 1:
            answer.count(-1, ">h")
        nobody()
        return
    body.numbers(">b")
    keys = [body.text() for _ in range(body.count())]
    answer.numbers(">i", 0).count(len(keys))
    for key in keys:
        answer.text(key)
        nobody()
        answer.numbers(">h", code).count(-1, ">h").tags()


def _init_producer_id(_version: int, _body: _Body, answer: _Answer, code: int) -> None:
    answer.numbers(">ihqh", 0, code, -1, -1)


def _end_txn(version: int, _body: _Body, answer: _Answer, code: int) -> None:
    answer.numbers(">ih", 0, code)
    if version >= 5:
        answer.numbers(">qh", -1, -1)


_MAKERS: dict[Api, Callable[[int, _Body, _Answer, int], None]] = {
    Api.PRODUCE: _produce,
    Api.FIND_COORDINATOR: _find_coordinator,
    Api.TXN_OFFSET_COMMIT: _txn_offset_commit,
    Api.ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
    Api.ADD_OFFSETS_TO_TXN: _add_offsets_to_txn,
    Api.INIT_PRODUCER_ID: _init_producer_id,
    Api.END_TXN: _end_txn,
}
REFUSABLE = frozenset(_MAKERS)
"""The APIs that `refusal` can build responses for."""


def refusal(frame: bytes, code: int) -> bytes:
    """The response to a request (a frame without its length)."""
    number, version, correlation = struct.unpack_from(">hhi", frame)
    api = Api(number)
    flexible = version >= FLEXIBLE_SINCE[api]
    # The client id stays in the old encoding; tagged fields of the header follow it.
    (size,) = struct.unpack_from(">h", frame, 8)
    body = _Body(frame[10 + max(0, size) :], flexible=flexible)
    body.tags()
    answer = _Answer(flexible=flexible)
    answer.numbers(">i", correlation).tags()
    _MAKERS[api](version, body, answer, code)
    return bytes(answer.tags().data)
