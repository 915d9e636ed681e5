"""Protobuf with a given message type, in the engine's encoding.

Takes a generated class, a .proto file or its text, or descriptors; returns the serde. The engine compiles and does the
work: this class passes bytes to it for the test driver and users of the embedded broker, and creates messages of the
generated class where functions want them. Never imports the package `protobuf`. Uses a schema registry if one is given.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from stoatflow.errors import SerdeError, TopologyError
from stoatflow.serdes.base import Serde
from stoatflow.serdes.framing import check_framing, check_registry, checked_id
from stoatflow.serdes.proto_files import TEXT, ProtobufSchemas, imported, proto_files
from stoatflow.serdes.registered import RegisteredSerde, Schemas

if TYPE_CHECKING:
    from stoatflow._runtime.bridge import ProtobufFormat
    from stoatflow.registry import RegisteredSchema, SchemaRegistry

ProtobufSchema: TypeAlias = "type[Any] | str | os.PathLike[str] | bytes"
"""A generated class, the text of a .proto file, the path of one, or a serialized FileDescriptorSet."""

_WRAPPERS = frozenset(
    f"google.protobuf.{of}Value"
    for of in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
"""Wrapper types: their values are the wrapped ones."""

Decode: TypeAlias = Literal["lazy", "dict", "message"]


class ProtobufSerde(Serde[Any], RegisteredSerde):
    """Created by `Serdes.protobuf`."""

    def __init__(
        self,
        schema: ProtobufSchema | None,
        message: str | None = None,
        include: Iterable[str | os.PathLike[str]] = (),
        framing: Literal["plain", "confluent"] = "plain",
        schema_id: int | None = None,
        schema_ids: Iterable[int] = (),
        decode: Decode = "lazy",
        registry: SchemaRegistry | None = None,
        subject: str | None = None,
    ) -> None:
        """Read the schema."""
        from stoatflow.plan.functions import user_line  # imported here: the plan uses serdes

        place = f"{user_line()} Serdes.protobuf(...)"
        self.schema_ids: list[int] = [checked_id(number, place) for number in schema_ids]
        given = check_registry(place, registry, subject, schema, schema_id=schema_id, schema_ids=self.schema_ids)
        if given is None:
            check_framing(place, "Protobuf", framing, schema_id, schema_ids=self.schema_ids or None)
        self.schema_id = schema_id
        self.decode: Decode = _decoding(decode, schema, place)
        self._class: Any = schema if isinstance(schema, type) else None
        folders = [os.fspath(folder) for folder in include]
        pinned: RegisteredSchema | None = None
        try:
            if schema is None and given is not None and subject is not None:
                pinned = given.latest(subject)
                descriptors = _of_registered(given, pinned)
            else:
                descriptors, message = _descriptors(schema, message, folders, place)
            self._made: ProtobufFormat | None = _made(descriptors, message, schema_id, self.schema_ids)
        except TopologyError as wrong:
            located_message = wrong.message if wrong.message.startswith(place) else f"{place}: {wrong.message}"
            raise TopologyError(located_message, next_step=wrong.next_step) from None
        self.descriptors: bytes = self._made.descriptors
        self.message: str = self._made.message
        if given is not None:
            self._register(given, subject, pinned, schema)

    def _register(
        self,
        registry: SchemaRegistry,
        subject: str | None,
        pinned: RegisteredSchema | None,
        schema: object,
    ) -> None:
        """Store the registry, and what is registered there."""
        plain = _made(self.descriptors, self.message, None, ())
        own, files = proto_files(plain, _files_of_class(schema) if isinstance(schema, type) else {})
        if pinned is not None and own != TEXT:
            raise TopologyError(
                f"the subject '{subject}' has another file than the message '{self.message}', which it imports",
                next_step="name a message of that file, or the subject of the file that has the message",
            )
        number = None if pinned is None else pinned.id
        self.schemas: Schemas | None = ProtobufSchemas(
            plain.writes_as, own, files, registry, self.message, subject, number
        )
        self._made = None

    @property
    def _format(self) -> ProtobufFormat:
        if self._made is None:
            self._made = self._with_ids(_made(self.descriptors, self.message, self.schema_id, self.schema_ids))
        return self._made

    @property
    def name(self) -> str:
        """Name of the serde in messages."""
        return f"protobuf({self.message})"

    @property
    def calls_python(self) -> bool:
        """Whether the engine ever calls this object."""
        return self.decode == "message" or self.schemas is not None

    @property
    def has_members(self) -> bool:
        """Whether its values are always objects."""
        return self.message not in _WRAPPERS

    def serialize(self, value: Any) -> bytes:
        """Serialize a value."""
        return self._format.encode(value)

    def deserialize(self, data: bytes) -> Any:
        """Deserialize bytes: to a message of the class with `decode="message"`, otherwise to plain dicts."""
        if self.decode != "message":
            return self._format.decode(data)
        try:
            return self._class.FromString(self._format.body(data))
        except SerdeError:
            raise
        except Exception as cause:  # the package `protobuf` has its own exceptions, and isn't imported
            raise SerdeError(
                f"the bytes are no value of the Protobuf message '{self.message}': {cause}",
                next_step="read the topic with the message it was written with",
            ) from cause

    def view(self, data: bytes) -> Any:
        """Return what a function gets for these bytes; for tests of functions."""
        return self._format.view(data) if self.decode == "lazy" else self.deserialize(data)

    def to_plan(self, number: int | None = None) -> dict[str, object]:
        """Return the serde as plan data; `number` is its own among the custom serdes, if the engine calls Python."""
        spec: dict[str, object] = {
            "descriptors": base64.b64encode(self.descriptors).decode(),
            "message": self.message,
        }
        if self.schema_id is not None:
            spec["schema_id"] = self.schema_id
        if self.schema_ids:
            spec["schema_ids"] = self.schema_ids
        if self.schemas is not None:
            spec["registry"] = number
        if self.decode == "message":
            spec["decode"] = {"message": number}
        elif self.decode == "dict":
            spec["decode"] = self.decode
        return {"protobuf": spec}

    @classmethod
    def from_plan(cls, spec: Mapping[str, Any]) -> ProtobufSerde:
        """Create the serde from plan data."""
        framing: Literal["plain", "confluent"] = "plain" if spec.get("schema_id") is None else "confluent"
        return cls(
            base64.b64decode(spec["descriptors"]),
            spec["message"],
            framing=framing,
            schema_id=spec.get("schema_id"),
            schema_ids=spec.get("schema_ids", ()),
            decode=spec.get("decode", "lazy"),
        )

    def __getstate__(self) -> dict[str, Any]:
        """Support pickling: the engine's object is created again. Refused with a registry."""
        if self.schemas is not None:
            self.schemas.registry.__reduce__()
        return {**self.__dict__, "_made": None}


def _made(descriptors: bytes, message: str | None, schema_id: int | None, schema_ids: Iterable[int]) -> ProtobufFormat:
    from stoatflow._runtime.bridge import ProtobufFormat  # of the engine, which imports serdes

    return ProtobufFormat(descriptors, message, schema_id, list(schema_ids))


def _of_registered(registry: SchemaRegistry, found: RegisteredSchema) -> bytes:
    from stoatflow._runtime.bridge import ProtobufFormat  # of the engine, which imports serdes

    if found.type != "PROTOBUF":
        raise TopologyError(
            f"the schema id {found.id} is one of {found.type}, PROTOBUF is wanted",
            next_step="give the subject of a Protobuf schema, or use the serde of that format",
        )
    return ProtobufFormat.of_registered(found.schema, imported(registry, found))


def _decoding(decode: object, schema: object, place: str) -> Decode:
    if decode == "message":
        if not isinstance(schema, type):
            raise TopologyError(
                f'{place}: decode="message" makes messages of a class, and none is given',
                next_step='give the generated class: Serdes.protobuf(shop_pb2.Order, decode="message")',
            )
        return "message"
    if decode == "lazy":
        return "lazy"
    if decode == "dict":
        return "dict"
    raise TopologyError(
        f"{place}: decode={decode!r}: there are views, dicts and messages",
        next_step='write decode="lazy", decode="dict" or decode="message"',
    )


def _descriptors(
    schema: ProtobufSchema | None, message: str | None, include: list[str], place: str
) -> tuple[bytes, str | None]:
    from stoatflow._runtime.bridge import ProtobufFormat  # of the engine, which imports serdes

    if isinstance(schema, type):
        return _of_class(schema, message, include, place)
    if isinstance(schema, bytes):
        return schema, message
    if isinstance(schema, os.PathLike):
        path = Path(schema)
        if not path.is_file():
            raise TopologyError(
                f"{place}: there is no file {os.fspath(path)!r}", next_step="give the path of a .proto file"
            )
        # An import root that holds the file comes first: the file's name in imports is relative to it.
        return ProtobufFormat.of_file(os.fspath(path), [*include, os.fspath(path.parent)]), message
    if isinstance(schema, str):
        if schema.endswith(".proto"):
            raise TopologyError(
                f"{place}: {schema!r} is a name, not the text of a schema",
                next_step=f"write pathlib.Path({schema!r})",
            )
        return ProtobufFormat.of_text(schema, include), message
    raise TopologyError(f"{place} needs a schema, not {type(schema).__name__}", next_step=_WAYS)


_WAYS = "give a generated class, the path or the text of a .proto file, or the bytes of a FileDescriptorSet"


def _of_class(schema: type[Any], message: str | None, include: list[str], place: str) -> tuple[bytes, str]:
    descriptor = getattr(schema, "DESCRIPTOR", None)
    name, file = getattr(descriptor, "full_name", None), getattr(descriptor, "file", None)
    if not isinstance(name, str) or file is None:
        raise TopologyError(f"{place}: {schema.__qualname__} is no class of Protobuf messages", next_step=_WAYS)
    if message not in {None, name} or include:
        raise TopologyError(
            f"{place}: the class says that the message is {name}",
            next_step="leave message= and include= out, or give another class",
        )
    # A FileDescriptorSet is a message with only files, in its field 1.
    files = _files_of_class(schema).values()
    return b"".join(b"\x0a" + _varint(len(content)) + content for content in files), name


def _files_of_class(schema: Any) -> dict[str, bytes]:
    files: dict[str, bytes] = {}

    def collect(one: Any) -> None:
        if one.name not in files:
            for needed in one.dependencies:
                collect(needed)
            files[one.name] = one.serialized_pb

    collect(schema.DESCRIPTOR.file)
    return files


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
