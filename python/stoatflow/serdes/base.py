"""The contract of a serde. A leaf: the engine calls custom ones through it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

T = TypeVar("T")


class Serde(ABC, Generic[T]):
    """How values of one type are written. Subclass it for a format of your own.

    Null never reaches it: a null key or value stays null. Equal values must give equal bytes if
    the serde is used for keys, because the bytes choose the lane and the place in the store.

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
        """Its name in messages.

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
        """Return the bytes of a value.

        >>> sf.Serdes.json().serialize({"customer": "ann", "total": 30})
        b'{"customer":"ann","total":30}'
        """

    @abstractmethod
    def deserialize(self, data: bytes) -> T:
        """Return the value of the bytes.

        >>> sf.Serdes.json().deserialize(b'{"customer":"ann","total":30}')
        {'customer': 'ann', 'total': 30}
        """

    def __repr__(self) -> str:
        """Show its name."""
        return f"<Serde {self.name}>"
