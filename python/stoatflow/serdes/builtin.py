"""The built-in serdes, equal byte for byte to the engine's own.

Converts values to bytes in Kafka's encodings, and back. Refuses a value of the wrong type instead of converting it, as
the engine does.
"""

from __future__ import annotations

import builtins
import json
import struct
import typing
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from stoatflow._dsl.java_names import JavaNames
from stoatflow.durations import Duration
from stoatflow.errors import SerdeError, TopologyError
from stoatflow.serdes.base import Serde

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping
    from uuid import UUID

    from stoatflow.registry import SchemaRegistry
    from stoatflow.serdes.avro import AvroSchema, AvroSerde
    from stoatflow.serdes.json_schema import JsonSchema, JsonSchemaSerde
    from stoatflow.serdes.protobuf import ProtobufSchema, ProtobufSerde
    from stoatflow.serdes.resolve import SerdeLike
    from stoatflow.windowed import Windowed

T = TypeVar("T")


class BuiltinSerde(Serde[T]):
    """A serde that the engine knows by name and runs in Rust."""

    def __init__(self, name: str) -> None:
        """Created by `Serdes`."""
        self._name = name

    @property
    def name(self) -> str:
        """Name of the serde in the plan."""
        return self._name

    def serialize(self, value: T) -> bytes:
        """Serialize a value."""
        try:
            return _serialize(self._name, value)
        except (struct.error, TypeError, ValueError) as cause:
            raise SerdeError(
                f"the serde '{self._name}' can't write {value!r} (a {type(value).__name__}): {cause}",
                next_step="give a value of the serde's type, or choose the serde that fits",
            ) from cause

    def deserialize(self, data: bytes) -> T:
        """Deserialize bytes."""
        try:
            result: T = _deserialize(self._name, data)
        except (struct.error, ValueError) as cause:
            raise SerdeError(
                f"the serde '{self._name}' can't read {data!r}: {cause}",
                next_step="read the topic with the serde it was written with",
            ) from cause
        return result


_FORMATS = {"int32": ">i", "int64": ">q", "double": ">d"}
_TYPES: dict[str, tuple[type, ...]] = {
    "bytes": (bytes,),
    "string": (str,),
    "int32": (int,),
    "int64": (int,),
    "double": (float, int),
}


def _serialize(name: str, value: Any) -> bytes:
    if name == "json":
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
        return text.encode()
    wanted = _TYPES[name]
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise TypeError(f"it takes {' or '.join(t.__name__ for t in wanted)}")
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    return struct.pack(_FORMATS[name], value)


def _plain(value: object) -> object:
    from stoatflow.lazy import JsonArray, JsonObject, to_python  # of the engine, which imports serdes

    if isinstance(value, JsonObject | JsonArray):
        return to_python(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _deserialize(name: str, data: bytes) -> Any:
    if name == "json":
        return json.loads(data)
    if name == "bytes":
        return data
    if name == "string":
        return data.decode()
    return struct.unpack(_FORMATS[name], data)[0]


class Serdes(JavaNames):
    """The built-in serdes.

    >>> text = sf.Serdes.string()
    >>> text.deserialize(text.serialize("stoat"))
    'stoat'
    """

    @staticmethod
    def bytes() -> Serde[builtins.bytes]:
        """Bytes, unchanged.

        >>> serde = sf.Serdes.bytes()
        >>> serde.serialize(b"stoat")
        b'stoat'
        """
        return _BYTES

    @staticmethod
    def string() -> Serde[str]:
        """UTF-8 text.

        >>> serde = sf.Serdes.string()
        >>> serde.serialize("stoat")
        b'stoat'
        """
        return _STRING

    @staticmethod
    def int32() -> Serde[int]:
        """4 bytes, big-endian: Java's `Integer`.

        >>> serde = sf.Serdes.int32()
        >>> serde.serialize(7).hex()
        '00000007'
        """
        return _INT32

    @staticmethod
    def int64() -> Serde[int]:
        """8 bytes, big-endian: Java's `Long`. Used for the type `int`.

        >>> serde = sf.Serdes.int64()
        >>> serde.serialize(7).hex()
        '0000000000000007'
        """
        return _INT64

    @staticmethod
    def double() -> Serde[float]:
        """8 bytes, IEEE 754: Java's `Double`. Used for the type `float`.

        >>> serde = sf.Serdes.double()
        >>> serde.serialize(0.5).hex()
        '3fe0000000000000'
        """
        return _DOUBLE

    @staticmethod
    def uuid() -> Serde[UUID]:
        """A `uuid.UUID` as its text of 36 characters: Java's `UUID`. Used for the type `uuid.UUID`.

        >>> from uuid import UUID
        >>> serde = sf.Serdes.uuid()
        >>> serde.serialize(UUID("01890A5D-AC96-774B-BCCE-B302099A8057"))
        b'01890a5d-ac96-774b-bcce-b302099a8057'
        """
        from stoatflow.serdes.lists import UUIDS

        return UUIDS

    @typing.overload
    @staticmethod
    def list(inner: SerdeLike[T], *, nulls: Literal[False] = ...) -> Serde[builtins.list[T]]: ...

    @typing.overload
    @staticmethod
    def list(inner: SerdeLike[T], *, nulls: Literal[True]) -> Serde[builtins.list[T | None]]: ...

    @staticmethod
    def list(inner: SerdeLike[Any], *, nulls: bool = False) -> Serde[Any]:
        r"""Lists in the format of Kafka's `ListSerde`: Java's `Serdes.ListSerde(ArrayList.class, inner)`.

        As in Kafka, entries of a fixed size (int32, int64, double, uuid) are written one after another, all others
        behind their lengths; both are read. A null entry is an error unless `nulls=True`, which reads it as None.

        >>> serde = sf.Serdes.list(str)
        >>> serde.serialize(["to", "be"])
        b'\x01\x00\x00\x00\x02\x00\x00\x00\x02to\x00\x00\x00\x02be'
        >>> serde.deserialize(serde.serialize(["to", "be"]))
        ['to', 'be']
        """
        from stoatflow.serdes.lists import ListSerde
        from stoatflow.serdes.resolve import resolve

        return ListSerde(resolve(inner), nulls=nulls)

    @typing.overload
    @staticmethod
    def json(*, decode: Literal["lazy", "dict"] = ...) -> Serde[Any]: ...

    @typing.overload
    @staticmethod
    def json(type: type[T], *, validate: bool = ...) -> Serde[T]: ...

    @staticmethod
    def json(
        type: type[Any] | None = None,  # noqa: A002  # that is what it is
        *,
        decode: Literal["lazy", "dict"] = "lazy",
        validate: bool = True,
    ) -> Serde[Any]:
        """Compact JSON text. Used for the types `dict`, `list`, `JsonObject` and `JsonArray`.

        Functions get views that decode members when they are read (`JsonObject`, `JsonArray`). With `decode="dict"`
        they get plain dicts and lists, which they may modify; that takes several times as long.

        With a type they get objects of it: a dataclass, a TypedDict or a `msgspec.Struct`, read by msgspec
        (`pip install 'stoatflow[typed]'`), or a pydantic model. The type alone stands for it, too:
        `value=Order`. A record that doesn't fit the type is a bad one; `validate=False` finds that out only where a
        function first gets it, so what expressions drop before is never decoded.

        >>> serde = sf.Serdes.json(decode="dict")
        >>> serde.deserialize(serde.serialize({"n": 7}))
        {'n': 7}
        """
        if type is not None:
            from stoatflow.serdes.typed import TypedJsonSerde

            return TypedJsonSerde(type, validate=validate)
        if decode == "lazy":
            return _JSON
        if decode == "dict":
            return _PLAIN_JSON
        from stoatflow.plan.functions import user_line  # imported here: the plan uses serdes

        raise TopologyError(
            f"{user_line()} Serdes.json(decode={decode!r}): there are views and dicts",
            next_step='write decode="lazy" or decode="dict"',
        )

    @staticmethod
    def avro(
        schema: AvroSchema | None = None,
        *,
        framing: Literal["plain", "confluent"] = "plain",
        schema_id: int | None = None,
        writer_schemas: Mapping[int, AvroSchema] | None = None,
        decode: Literal["lazy", "dict"] = "lazy",
        registry: SchemaRegistry | None = None,
        subject: str | None = None,
    ) -> AvroSerde:
        """Avro with a schema: its JSON text, a dict of it, or the path of an .avsc file.

        Expressions read fields in place, and are checked against the schema; functions get views that decode members
        when they are read, as for JSON. With `decode="dict"` they get plain dicts and lists, which they may modify.
        With `framing="confluent"` records begin with a zero byte and the id of their schema: `schema_id` is written and
        read, other ids are read if `writer_schemas` has their schemas.

        A `registry` implies this framing: any id is read if this schema can read its schema, and the id of this schema
        is written, registered under the subject of the topic, or under `subject`. Without a schema, the latest one of
        the subject is used; it is requested at once.

        >>> schema = '{"type": "record", "name": "Order", "fields": [{"name": "n", "type": "int"}]}'
        >>> serde = sf.Serdes.avro(schema, decode="dict")
        >>> serde.deserialize(serde.serialize({"n": 7}))
        {'n': 7}
        """
        from stoatflow.serdes.avro import AvroSerde

        return AvroSerde(schema, framing, schema_id, writer_schemas, decode, registry, subject)

    @staticmethod
    def json_schema(
        schema: JsonSchema | None = None,
        *,
        validate: bool = True,
        framing: Literal["plain", "confluent"] = "plain",
        schema_id: int | None = None,
        schema_ids: Iterable[int] = (),
        decode: Literal["lazy", "dict"] = "lazy",
        registry: SchemaRegistry | None = None,
        subject: str | None = None,
    ) -> JsonSchemaSerde:
        """JSON that is valid for a JSON Schema: its text, a dict of it, or the path of a file.

        An invalid record is a deserialization error, and an invalid value isn't written; `validate=False` accepts any
        JSON. The engine validates in Rust: no package is needed. The default is draft 7 unless the schema names another
        one (`$schema`), and `format` is not checked, as in Confluent's serializers. Values are those of `Serdes.json`,
        with the same `decode`.

        With `framing="confluent"` records begin with a zero byte and the id of their schema: `schema_id` is written and
        read, those of `schema_ids` are read too. With a `registry` any id of a JSON Schema is read, and the id of this
        schema is written, registered under the subject of the topic, or under `subject`. Without a schema, the latest
        one of the subject is used; it is requested at once.

        >>> serde = sf.Serdes.json_schema({"type": "object", "required": ["n"]}, decode="dict")
        >>> serde.deserialize(serde.serialize({"n": 7}))
        {'n': 7}
        """
        from stoatflow.serdes.json_schema import JsonSchemaSerde

        return JsonSchemaSerde(
            schema, framing, schema_id, schema_ids, decode, registry, subject, validate=validate
        )  # fmt: skip

    @staticmethod
    def protobuf(
        schema: ProtobufSchema | None = None,
        message: str | None = None,
        *,
        include: Iterable[str | os.PathLike[str]] = (),
        framing: Literal["plain", "confluent"] = "plain",
        schema_id: int | None = None,
        schema_ids: Iterable[int] = (),
        decode: Literal["lazy", "dict", "message"] = "lazy",
        registry: SchemaRegistry | None = None,
        subject: str | None = None,
    ) -> ProtobufSerde:
        """Protobuf with a message type: a generated class, a .proto file, its text, or a serialized FileDescriptorSet.

        `message` is the full name of the message, if the schema has several. A .proto file imports from its own folder
        and from those of `include`. Expressions read fields in place, and are checked against the message. With
        `decode="message"` functions get messages of the generated class. With `framing="confluent"` records begin with
        a zero byte, the id of their schema, and the index of the message in it: `schema_id` is written and read, those
        of `schema_ids` are read too.

        A `registry` implies this framing: any id is read if its schema has this message, by its full name, at the
        record's message index, and the id of this message's file is written, registered under the subject of the topic,
        or under `subject`. Without a schema, the latest one of the subject is used; it is requested at once.

        >>> from pathlib import Path
        >>> _ = Path("order.proto").write_text('syntax = "proto3"; message Order { int32 n = 1; }')
        >>> serde = sf.Serdes.protobuf(Path("order.proto"), message="Order", decode="dict")
        >>> serde.deserialize(serde.serialize({"n": 7}))
        {'n': 7}
        """
        from stoatflow.serdes.protobuf import ProtobufSerde

        return ProtobufSerde(
            schema, message, include, framing, schema_id, schema_ids, decode, registry, subject
        )  # fmt: skip

    @staticmethod
    def encrypted(
        inner: SerdeLike[T],
        *,
        encrypt: Callable[[builtins.bytes], builtins.bytes],
        decrypt: Callable[[builtins.bytes], builtins.bytes],
        deterministic: bool = False,
    ) -> Serde[T]:
        """The bytes of another serde, encrypted by a function of yours: topics, changelogs and disks hold cipher text.

        Both functions take bytes and return bytes. If `decrypt` raises, the record can't be read, and the handler of
        its source decides; if one of them raises an `OSError` or a `BrokerUnavailableError`, the key service doesn't
        answer, and the application restarts from its last commit. Messages never show the value.

        For values: equal keys need equal bytes. A key needs a deterministic cipher such as AES-SIV, and
        `deterministic=True`.

        >>> from cryptography.fernet import Fernet
        >>> cipher = Fernet(Fernet.generate_key())
        >>> serde = sf.Serdes.encrypted(str, encrypt=cipher.encrypt, decrypt=cipher.decrypt)
        >>> b"stoat" in serde.serialize("stoat")
        False
        >>> serde.deserialize(serde.serialize("stoat"))
        'stoat'
        """
        from stoatflow.serdes.encrypted import EncryptedSerde
        from stoatflow.serdes.resolve import resolve

        return EncryptedSerde(resolve(inner), encrypt, decrypt, deterministic=deterministic)

    @staticmethod
    def time_windowed(inner: SerdeLike[T], size: Duration) -> Serde[Windowed[T]]:
        """Keys of time windows, like Kafka Streams' `TimeWindowedSerde`; the size is not in the bytes.

        >>> serde = sf.Serdes.time_windowed(str, "1m")
        >>> serde.deserialize(serde.serialize(sf.Windowed("ann", sf.Window(0, 60_000))))
        Windowed(key='ann', window=Window(start=0, end=60000))
        """
        from stoatflow.serdes.resolve import resolve
        from stoatflow.serdes.windowed import TimeWindowedSerde
        from stoatflow.windows import span_ms  # imported here: windows use plan nodes, which hold serdes

        return TimeWindowedSerde(resolve(inner), span_ms(size, "Serdes.time_windowed(size)", least=1))

    @staticmethod
    def session_windowed(inner: SerdeLike[T]) -> Serde[Windowed[T]]:
        """Keys of sessions, like Kafka Streams' `SessionWindowedSerde`.

        >>> serde = sf.Serdes.session_windowed(str)
        >>> serde.deserialize(serde.serialize(sf.Windowed("ann", sf.Window(5, 70))))
        Windowed(key='ann', window=Window(start=5, end=70))
        """
        from stoatflow.serdes.resolve import resolve
        from stoatflow.serdes.windowed import SessionWindowedSerde

        return SessionWindowedSerde(resolve(inner))


class PlainJsonSerde(Serde[Any]):
    """The bytes of the JSON serde; functions get dicts and lists, created anew for each call."""

    @property
    def name(self) -> str:
        """Name of the serde in messages."""
        return "json(decode=dict)"

    def serialize(self, value: Any) -> bytes:
        """Serialize a value."""
        return _JSON.serialize(value)

    def deserialize(self, data: bytes) -> Any:
        """Deserialize a text."""
        return _JSON.deserialize(data)


_BYTES: BuiltinSerde[bytes] = BuiltinSerde("bytes")
_STRING: BuiltinSerde[str] = BuiltinSerde("string")
_INT32: BuiltinSerde[int] = BuiltinSerde("int32")
_INT64: BuiltinSerde[int] = BuiltinSerde("int64")
_DOUBLE: BuiltinSerde[float] = BuiltinSerde("double")
_JSON: BuiltinSerde[Any] = BuiltinSerde("json")
_PLAIN_JSON = PlainJsonSerde()
_BY_NAME: dict[str, BuiltinSerde[Any]] = {s.name: s for s in (_BYTES, _STRING, _INT32, _INT64, _DOUBLE, _JSON)}


def builtin_by_name(name: str) -> BuiltinSerde[Any]:
    """Return a built-in serde by its name in the plan."""
    return _BY_NAME[name]
