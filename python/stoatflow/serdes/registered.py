"""Serdes whose schemas have ids in a registry.

Takes a registry and the schema of a serde; returns to the engine the schema of an id, and the id of the serde's own
schema where it is written. Decides the names of subjects. Never uses the network itself.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from stoatflow.errors import SerdeError, TopologyError

if TYPE_CHECKING:
    from typing_extensions import Self

    from stoatflow._runtime.bridge import AvroFormat, JsonSchemaFormat, ProtobufFormat
    from stoatflow.registry import RegisteredSchema, SchemaRegistry

F = TypeVar("F", "AvroFormat", "JsonSchemaFormat", "ProtobufFormat")


class RegisteredSerde:
    """A serde that may use a registry. Its engine object is `_made`, created again for each topic."""

    schemas: Schemas | None = None
    _made: Any = None
    _topic: tuple[str, bool] | None = None

    @property
    def calls_python(self) -> bool:
        """Whether the engine ever calls this object."""
        return self.schemas is not None

    def for_topic(self, topic: str, part: Literal["key", "value"] = "value") -> Self:
        """Return the same serde for values (or keys) of a topic: it writes the schema id of that topic's subject."""
        if self.schemas is None:
            return self
        bound = type(self).__new__(type(self))
        bound.__dict__.update(self.__dict__)
        bound._made, bound._topic = None, (topic, part == "key")
        return bound

    def _with_ids(self, plain: F) -> F:
        """Return the engine's object that uses the registry, if there is one."""
        topic, is_key = self._topic or (None, False)
        return plain if self.schemas is None else plain.registered(self.schemas, topic, is_key)


class Schemas(ABC):
    """The registry requests of one serde; the engine calls `schema` and `id` for those it hasn't cached."""

    def __init__(
        self,
        registry: SchemaRegistry,
        schema_type: str,
        schema: str,
        record: str | None,
        subject: str | None,
        pinned: int | None = None,
    ) -> None:
        """`pinned` is the id of a schema that came from the registry."""
        self.registry: SchemaRegistry = registry
        self.subject: str | None = subject
        self._type, self._schema, self._record, self._pinned = schema_type, schema, record, pinned

    def schema(self, schema_id: int) -> str:
        """Return the text of a schema, with everything that is needed to read its records."""
        return self._of_type(schema_id).schema

    def _of_type(self, schema_id: int) -> RegisteredSchema:
        found = self.registry.schema(schema_id)
        if found.type != self._type:
            raise SerdeError(
                f"the schema id {schema_id} is one of {found.type}, {self._type} is wanted",
                next_step="read the topic with the serde of that format",
            )
        return found

    def id(self, place: str, name: str | None, is_key: bool) -> int:  # called by the engine
        """Return the id of the own schema: in the topic `name`, any topic, or stores of the application `name`."""
        if self._pinned is not None:
            return self._pinned
        subject = self.subject or self._subject(place, name, is_key)
        if self.registry.use_latest:
            latest = self.registry.latest(subject)
            if latest.type != self._type or not self._is_same(latest):
                raise TopologyError(
                    f"the latest version ({latest.version}) of the subject '{subject}' is another schema than "
                    f"{self._title} is written with",
                    next_step="write with that one (leave the schema out and give subject=), or leave use_latest out",
                )
            return latest.id
        ask = self.registry.register if self.registry.auto_register else self.registry.lookup
        return ask(subject, self._schema, self._type, self._references())

    @abstractmethod
    def _is_same(self, latest: RegisteredSchema) -> bool:
        """Whether it is encoded as this schema is."""

    def _references(self) -> Sequence[tuple[str, str, int]]:
        return ()

    @property
    def _title(self) -> str:
        return "this one" if self._record is None else f"'{self._record}'"

    def _subject(self, place: str, name: str | None, is_key: bool) -> str:
        if place == "internal":
            # Not shared with others: one subject for all stores and topics of the application that hold
            # this type.
            record = self._record or f"{self._type.lower()}-{sha256(self._schema.encode()).hexdigest()[:8]}"
            return f"{name or 'stoatflow'}-{record}"
        if self.registry.subjects == "topic" and name is not None:
            return topic_subject(name, is_key)
        if self.registry.subjects != "topic" and self._record is None:
            raise TopologyError(
                "which subject has a JSON Schema without a title? Its name would be that of the record",
                next_step='give the schema a "title", or subject= to the serde',
            )
        if self.registry.subjects == "record":
            return str(self._record)
        if name is None:
            raise TopologyError(
                f"which subject has the schema of {self._title}? The topic isn't known before there is a record",
                next_step='give subject= to the serde, or use SchemaRegistry(..., subjects="record"); in a test, '
                "name the topic: serde.for_topic(topic)",
            )
        return f"{name}-{self._record}"


class AvroSchemas(Schemas):
    """Schemas of an Avro serde: reading needs the writer's schema, with all types in it."""

    def __init__(self, same: Callable[[str], bool], registry: SchemaRegistry, schema: str, *rest: Any) -> None:
        """`same`: whether another schema has the same encoding."""
        super().__init__(registry, "AVRO", schema, *rest)
        self._same = same

    def schema(self, schema_id: int) -> str:
        """Return the writer's schema."""
        return avro_text(self.registry, self._of_type(schema_id))

    def _is_same(self, latest: RegisteredSchema) -> bool:
        return self._same(avro_text(self.registry, latest))


def topic_subject(topic: str, is_key: bool) -> str:
    """Return the subject of a topic's keys or values."""
    return f"{topic}-{'key' if is_key else 'value'}"


_PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))


def avro_text(registry: SchemaRegistry, found: RegisteredSchema) -> str:
    """Return the text of an Avro schema, with referenced types inlined at their first use."""
    if not found.references:
        return found.schema
    types: dict[str, Any] = {}
    seen: set[tuple[str, int]] = set()

    def collect(schema: RegisteredSchema) -> None:
        for name, subject, version in schema.references:
            if (subject, version) not in seen:
                seen.add((subject, version))
                needed = registry.version(subject, version)
                _name_types(json.loads(needed.schema), name, types)
                collect(needed)

    collect(found)
    return json.dumps(_with_types(json.loads(found.schema), "", types, set()), ensure_ascii=False)


def _name_types(schema: Any, name: str, types: dict[str, Any]) -> None:
    for one in schema if isinstance(schema, list) else [schema]:
        if isinstance(one, Mapping) and "name" in one:
            types.setdefault(_full_name(one, ""), one)
    if not isinstance(schema, list):
        types.setdefault(name, schema)


def _full_name(schema: Mapping[str, Any], outer: str) -> str:
    name: str = schema["name"]
    namespace = schema.get("namespace", outer)
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _with_types(schema: Any, namespace: str, types: Mapping[str, Any], there: set[str]) -> Any:
    """Return the schema with each unknown name replaced by its type, once."""
    if isinstance(schema, str):
        return _with_type(schema, namespace, types, there)
    if isinstance(schema, list):
        return [_with_types(one, namespace, types, there) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    inner = {**schema}
    if "name" in schema:
        full = _full_name(schema, namespace)
        there.add(full)
        namespace = full.rpartition(".")[0]
    if schema.get("type") in {"record", "error"}:
        inner["fields"] = [
            {**field, "type": _with_types(field["type"], namespace, types, there)} for field in schema["fields"]
        ]
    for place in ("items", "values"):
        if place in schema:
            inner[place] = _with_types(schema[place], namespace, types, there)
    if isinstance(schema.get("type"), list | Mapping) or schema.get("type") in types:
        inner["type"] = _with_types(schema["type"], namespace, types, there)
    return inner


def _with_type(name: str, namespace: str, types: Mapping[str, Any], there: set[str]) -> Any:
    full = name if "." in name or not namespace else f"{namespace}.{name}"
    found = full if full in types else name
    if name in _PRIMITIVES or full in there or found in there or found not in types:
        return name
    needed = types[found]
    if isinstance(needed, Mapping) and "name" in needed and "." not in needed["name"]:
        needed = {**needed, "namespace": needed.get("namespace", "")}
    return _with_types(needed, "", types, there)
