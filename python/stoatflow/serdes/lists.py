"""Lists in the format of Kafka's `ListSerde`, and UUIDs as Kafka's `UUIDSerde` writes them.

Takes the serde of the entries; returns the serde of lists. As in Kafka, the serde of the entries decides which of two
strategies is written: entries of a fixed size without their lengths, all others with them. Either can be read.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, TypeVar
from uuid import UUID

from stoatflow.errors import SerdeError
from stoatflow.serdes.base import Serde
from stoatflow.serdes.builtin import BuiltinSerde

T = TypeVar("T")

_CONSTANT_SIZE, _VARIABLE_SIZE = 0, 1
_SIZES = {"int32": 4, "int64": 8, "double": 8}
_NULL = -1
_READ_WITH_ITS_OWN = "read the topic with the serde it was written with"


class UuidSerde(Serde[UUID]):
    """`Serdes.uuid()`: the text of a UUID, 36 characters."""

    @property
    def name(self) -> str:
        """Name of the serde in messages."""
        return "uuid"

    def serialize(self, value: UUID) -> bytes:
        """Serialize a UUID."""
        if not isinstance(value, UUID):
            raise SerdeError(
                f"the serde 'uuid' can't write {value!r} (a {type(value).__name__})",
                next_step="give a uuid.UUID, such as uuid.UUID(text)",
            )
        return str(value).encode()

    def deserialize(self, data: bytes) -> UUID:
        """Deserialize the text of a UUID, in lower or upper case."""
        # Python's UUID also reads texts in braces and without hyphens, which Java's doesn't.
        try:
            text = data.decode("ascii")
            found = UUID(text)
        except ValueError:
            raise self._unreadable(data) from None
        if str(found) != text.lower():
            raise self._unreadable(data)
        return found

    @staticmethod
    def _unreadable(data: bytes) -> SerdeError:
        return SerdeError(
            f"the serde 'uuid' can't read {data!r}: it is no text such as 01890a5d-ac96-774b-bcce-b302099a8057",
            next_step=_READ_WITH_ITS_OWN,
        )

    def __reduce__(self) -> str:
        """Pickle its name: every copy is the same object."""
        return "UUIDS"


UUIDS = UuidSerde()
"""The only one, so that a plan names it once."""


class ListSerde(Serde[Any]):
    """`Serdes.list(inner)`."""

    def __init__(self, inner: Serde[Any], *, nulls: bool) -> None:
        """Created by `Serdes.list`."""
        self.inner = inner
        self.nulls = nulls
        self._size = _size(inner)

    @property
    def name(self) -> str:
        """Name of the serde in messages."""
        return f"list({self.inner.name})"

    def serialize(self, value: Sequence[Any]) -> bytes:
        """Serialize a list: the strategy, the places of nulls or the lengths, and the entries."""
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            raise SerdeError(
                f"the serde '{self.name}' can't write {value!r} (a {type(value).__name__})", next_step="give a list"
            )
        entries = [None if each is None else self.inner.serialize(each) for each in value]
        nulls = [at for at, each in enumerate(entries) if each is None]
        if nulls:
            self._check_null(nulls[0], "write", value)
        if self._size is None:
            lengths = (_int(_NULL) if each is None else _int(len(each)) + each for each in entries)
            return bytes((_VARIABLE_SIZE,)) + _int(len(entries)) + b"".join(lengths)
        places = b"".join(map(_int, (len(nulls), *nulls)))
        written = b"".join(each for each in entries if each is not None)
        return bytes((_CONSTANT_SIZE,)) + places + _int(len(entries)) + written

    def deserialize(self, data: bytes) -> list[Any]:
        """Deserialize a list of either strategy."""
        try:
            return self._read(data)
        except (struct.error, IndexError):
            raise self._unreadable(data, "it ends too early") from None

    def _read(self, data: bytes) -> list[Any]:
        strategy, at = data[0], 1
        nulls: frozenset[int] = frozenset()
        if strategy not in {_CONSTANT_SIZE, _VARIABLE_SIZE}:
            raise self._unreadable(data, f"it begins with {strategy}, which is no strategy of Kafka's ListSerde")
        if strategy == _CONSTANT_SIZE:
            if self._size is None:
                raise self._unreadable(data, f"its entries have no lengths, and {self.inner.name} has no fixed size")
            (count,) = struct.unpack_from(">i", data, at)
            nulls = frozenset(struct.unpack_from(f">{max(count, 0)}i", data, at + 4))
            at += 4 + 4 * max(count, 0)
        (count,) = struct.unpack_from(">i", data, at)
        at += 4
        found: list[Any] = []
        for place in range(count):
            length = self._size
            if strategy == _VARIABLE_SIZE:
                (length,) = struct.unpack_from(">i", data, at)
                at += 4
            if length == _NULL or length is None or place in nulls:
                self._check_null(place, "read", data)
                found.append(None)
                # Kafka writes nothing in the place of a null.
                continue
            if length < 0 or at + length > len(data):
                raise self._unreadable(data, "it ends too early")
            found.append(self.inner.deserialize(data[at : at + length]))
            at += length
        if at != len(data):
            raise self._unreadable(data, f"{len(data) - at} bytes are left behind its last entry")
        return found

    def _check_null(self, place: int, verb: str, value: object) -> None:
        if not self.nulls:
            raise SerdeError(
                f"the serde '{self.name}' can't {verb} {value!r}: entry {place} is null",
                next_step="write Serdes.list(..., nulls=True), which reads null as None",
            )

    def _unreadable(self, data: bytes, why: str) -> SerdeError:
        return SerdeError(f"the serde '{self.name}' can't read {data!r}: {why}", next_step=_READ_WITH_ITS_OWN)


def _size(inner: Serde[Any]) -> int | None:
    """Return the size of all entries, if Kafka writes them without their lengths."""
    if isinstance(inner, UuidSerde):
        return 36
    return _SIZES.get(inner.name) if isinstance(inner, BuiltinSerde) else None


def _int(number: int) -> bytes:
    return struct.pack(">i", number)
