"""Avro with a given schema, in the engine's encoding.

Takes a schema (text, a dict, or the path of an .avsc file), or the registry's; returns the serde. The engine does the
work: this class passes bytes to it for the test driver and users of the embedded broker. Uses the network only for a
schema registry, if one is given.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from stoatflow.errors import TopologyError
from stoatflow.serdes.base import Serde
from stoatflow.serdes.framing import check_framing, check_registry, checked_id
from stoatflow.serdes.registered import AvroSchemas, RegisteredSerde, Schemas, avro_text

if TYPE_CHECKING:
    from stoatflow._runtime.bridge import AvroFormat
    from stoatflow.registry import RegisteredSchema, SchemaRegistry

AvroSchema: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any] | list[Any]"
"""The text of a schema, the result of `json.loads` of it, or the path of a file that holds it."""

_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


class AvroSerde(Serde[Any], RegisteredSerde):
    """Created by `Serdes.avro`."""

    def __init__(
        self,
        schema: AvroSchema | None,
        framing: Literal["plain", "confluent"] = "plain",
        schema_id: int | None = None,
        writer_schemas: Mapping[int, AvroSchema] | None = None,
        decode: Literal["lazy", "dict"] = "lazy",
        registry: SchemaRegistry | None = None,
        subject: str | None = None,
    ) -> None:
        """Read the schemas."""
        from stoatflow.plan.functions import user_line  # imported here: the plan uses serdes

        place = f"{user_line()} Serdes.avro(...)"
        given = check_registry(place, registry, subject, schema, schema_id=schema_id, writer_schemas=writer_schemas)
        if given is None:
            check_framing(place, "Avro", framing, schema_id, writer_schemas=writer_schemas)
        if decode not in {"lazy", "dict"}:
            raise TopologyError(
                f"{place}: decode={decode!r}: there are views and dicts",
                next_step='write decode="lazy" or decode="dict"',
            )
        self.decode = decode
        pinned: RegisteredSchema | None = None
        if schema is None and given is not None and subject is not None:
            pinned = given.latest(subject)
            schema = avro_text(given, pinned)
        self.schema: str = _text(schema, place)
        self.schema_id = schema_id
        self.writer_schemas: dict[int, str] = {
            checked_id(number, place): _text(one, place) for number, one in (writer_schemas or {}).items()
        }
        self._made: AvroFormat | None = None
        try:
            self._title = self._plain.title
        except TopologyError as wrong:
            raise TopologyError(f"{place}: {wrong.message}", next_step=wrong.next_step) from None

        if given is not None:
            number = None if pinned is None else pinned.id
            self.schemas: Schemas | None = AvroSchemas(
                self._plain.writes_as, given, self.schema, self._title, subject, number
            )
            self._made = None

    @property
    def _plain(self) -> AvroFormat:
        from stoatflow._runtime.bridge import AvroFormat  # of the engine, which imports serdes

        return AvroFormat(self.schema, self.schema_id, self.writer_schemas)

    @property
    def _format(self) -> AvroFormat:
        if self._made is None:
            self._made = self._with_ids(self._plain)
        return self._made

    @property
    def name(self) -> str:
        """Name of the serde in messages."""
        return f"avro({self._title})"

    @property
    def has_members(self) -> bool:
        """Whether its values are always objects."""
        schema = json.loads(self.schema)
        return isinstance(schema, dict) and schema.get("type") in ("record", "map", "error")

    def serialize(self, value: Any) -> bytes:
        """Serialize a value."""
        return self._format.encode(value)

    def deserialize(self, data: bytes) -> Any:
        """Deserialize bytes."""
        return self._format.decode(data)

    def view(self, data: bytes) -> Any:
        """Return what a function gets for these bytes; for tests of functions."""
        if self.decode == "dict":
            return self.deserialize(data)
        return self._format.view(data)

    def to_plan(self, registry: int | None = None) -> dict[str, object]:
        """Return the serde as plan data; `registry` is its number among the custom serdes, if it uses a registry."""
        spec: dict[str, object] = {"schema": self.schema}
        if registry is not None:
            spec["registry"] = registry
        if self.schema_id is not None:
            spec["schema_id"] = self.schema_id
        if self.writer_schemas:
            spec["writer_schemas"] = {str(number): text for number, text in self.writer_schemas.items()}
        if self.decode != "lazy":
            spec["decode"] = self.decode
        return {"avro": spec}

    @classmethod
    def from_plan(cls, spec: Mapping[str, Any]) -> AvroSerde:
        """Create the serde from plan data."""
        framing: Literal["plain", "confluent"] = "plain" if spec.get("schema_id") is None else "confluent"
        writers = {int(number): text for number, text in spec.get("writer_schemas", {}).items()}
        return cls(spec["schema"], framing, spec.get("schema_id"), writers or None, spec.get("decode", "lazy"))

    def __reduce__(self) -> tuple[object, ...]:
        """Support pickling: the engine's object is created again. Refused with a registry."""
        if self.schemas is not None:
            self.schemas.registry.__reduce__()
        framing = "plain" if self.schema_id is None else "confluent"
        return (AvroSerde, (self.schema, framing, self.schema_id, self.writer_schemas or None, self.decode))


def _text(schema: AvroSchema | None, place: str) -> str:
    if isinstance(schema, os.PathLike):
        try:
            return Path(schema).read_text("utf-8")
        except OSError as cause:
            raise TopologyError(
                f"{place}: the schema can't be read: {cause}", next_step="give the path of an .avsc file"
            ) from cause
    if isinstance(schema, str):
        if schema.endswith(".avsc"):
            raise TopologyError(
                f"{place}: {schema!r} is a name, not the text of a schema",
                next_step=f"write pathlib.Path({schema!r})",
            )
        return json.dumps(schema) if schema in _PRIMITIVES else schema
    if isinstance(schema, Mapping | list):
        return json.dumps(schema, ensure_ascii=False, default=dict)
    raise TopologyError(
        f"{place} needs a schema, not {type(schema).__name__}",
        next_step="give the JSON text of a schema, a dict of it, or the path of an .avsc file",
    )
