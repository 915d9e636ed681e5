"""The base class of serdes. Imports nothing of the package: the engine calls custom serdes through it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

T = TypeVar("T")


class Serde(ABC, Generic[T]):
    """Converts values of one type to bytes and back. Subclass it for your own format.

    It is never called with null: a null key or value stays null. For keys, equal values must have equal bytes, because
    the bytes decide the lane and the position in the store.

    >>> class Point(sf.Serde[tuple[int, int]]):
    ...     def serialize(self, value):
    ...         return "{},{}".format(*value).encode()
    ...     def deserialize(self, data):
    ...         x, y = data.decode().split(",")
    ...         return int(x), int(y)
    >>> Point().deserialize(Point().serialize((3, 4)))
    (3, 4)
    """

    @property
    def name(self) -> str:
        """Name of the serde in messages.

        >>> class Hex(sf.Serde[bytes]):
        ...     def serialize(self, value):
        ...         return value.hex().encode()
        ...     def deserialize(self, data):
        ...         return bytes.fromhex(data.decode())
        >>> Hex().name
        'Hex'
        """
        return type(self).__name__

    @abstractmethod
    def serialize(self, value: T) -> bytes:
        """Serialize a value.

        >>> sf.Serdes.json().serialize({"customer": "ann", "total": 30})
        b'{"customer":"ann","total":30}'
        """

    @abstractmethod
    def deserialize(self, data: bytes) -> T:
        """Deserialize bytes.

        >>> sf.Serdes.json().deserialize(b'{"customer":"ann","total":30}')
        {'customer': 'ann', 'total': 30}
        """

    def __repr__(self) -> str:
        """Show the name."""
        return f"<Serde {self.name}>"
