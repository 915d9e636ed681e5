"""JSON text whose functions get objects of a Python type: a dataclass, a TypedDict, a msgspec Struct, a pydantic model.

Takes a type, asks the library that knows it. The engine keeps the text beside the object: expressions, indexes and
sinks read it without Python.
"""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from stoatflow.errors import TopologyError
from stoatflow.serdes.base import Serde

T = TypeVar("T")


class Codec(NamedTuple):
    """How a type is written and read."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    is_one: Callable[[object], bool]


class TypedJsonSerde(Serde[T]):
    """`Serdes.json(type)`."""

    def __init__(self, type_: type[T], *, validate: bool) -> None:
        """Look for the library at once; raise `TopologyError` if it isn't there."""
        self._type = type_
        self.validate = validate
        self._codec = codec(type_)

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"json({self._type.__name__})"

    def serialize(self, value: T) -> bytes:
        """Give the text of an object."""
        if not self._codec.is_one(value):
            raise TypeError(f"{type(value).__name__} is not {self._type.__name__}")
        return self._codec.encode(value)

    def deserialize(self, data: bytes) -> T:
        """Give the object of a text."""
        found: T = self._codec.decode(data)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """Make it again where it is unpickled: codecs belong to their process."""
        return _made, (self._type, self.validate)


def _made(type_: type[T], validate: bool) -> TypedJsonSerde[T]:
    return TypedJsonSerde(type_, validate=validate)


def is_typed(kind: object) -> bool:
    """Return whether objects of this type have fields that are known."""
    return isinstance(kind, type) and (
        dataclasses.is_dataclass(kind)
        or typing.is_typeddict(kind)
        or _is_of("msgspec", "Struct", kind)
        or _is_of("pydantic", "BaseModel", kind)
    )


def codec(kind: type) -> Codec:
    """Return how a type is written and read; raise `TopologyError` if nothing here knows it."""
    if _is_of("pydantic", "BaseModel", kind):
        model: Any = kind
        return Codec(
            lambda value: value.model_dump_json(by_alias=True).encode(),
            model.model_validate_json,
            lambda value: isinstance(value, kind),
        )
    if not is_typed(kind):
        raise TopologyError(
            f"Serdes.json({getattr(kind, '__name__', kind)!s}): the type has no fields that are known",
            next_step="give a dataclass, a TypedDict, a msgspec.Struct or a pydantic model",
        )
    try:
        import msgspec
    except ImportError as error:
        raise TopologyError(
            f"Serdes.json({kind.__name__}) reads and writes the type with msgspec, which is not installed",
            next_step="pip install 'stoatflow[typed]'",
        ) from error
    # A TypedDict is made of plain dicts.
    plain = dict if typing.is_typeddict(kind) else kind
    encoder = msgspec.json.Encoder()
    return Codec(encoder.encode, msgspec.json.Decoder(kind).decode, lambda value: isinstance(value, plain))


def text_of(value: object) -> bytes | None:
    """Return the JSON text of an object whose type is known to a library here, or `None`.

    For objects that a function returned and nobody has a serde for, such as what an expression reads next.
    """
    if not is_typed(type(value)):
        return None
    return codec(type(value)).encode(value)


def _is_of(module: str, base: str, kind: type) -> bool:
    # A type can only be of a library that is loaded.
    loaded = sys.modules.get(module)
    found = getattr(loaded, base, None)
    return isinstance(found, type) and issubclass(kind, found)
