"""JSON that is validated by a schema, in the engine's encoding.

Takes a schema (text, a dict, or the path of a file), or the registry's; returns the serde. The engine validates: this
class passes bytes to it for the test driver and users of the embedded broker. Uses the network only for a schema
registry, if one is given: what a schema refers to is never fetched.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from stoatflow.errors import TopologyError
from stoatflow.serdes.base import Serde
from stoatflow.serdes.framing import check_framing, check_registry, checked_id
from stoatflow.serdes.registered import RegisteredSerde, Schemas

if TYPE_CHECKING:
    from stoatflow._runtime.bridge import JsonSchemaFormat
    from stoatflow.registry import RegisteredSchema, SchemaRegistry

JsonSchema: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any]"
"""The text of a schema, the result of `json.loads` of it, or the path of a file that holds it."""


class JsonSchemaSerde(Serde[Any], RegisteredSerde):
    """Created by `Serdes.json_schema`."""

    def __init__(
        self,
        schema: JsonSchema | None,
        framing: Literal["plain", "confluent"] = "plain",
        schema_id: int | None = None,
        schema_ids: Iterable[int] = (),
        decode: Literal["lazy", "dict"] = "lazy",
        registry: SchemaRegistry | None = None,
        subject: str | None = None,
        references: Mapping[str, str] | None = None,
        *,
        validate: bool = True,
    ) -> None:
        """Read the schema."""
        from stoatflow.plan.functions import user_line  # imported here: the plan uses serdes

        place = f"{user_line()} Serdes.json_schema(...)"
        self.schema_ids: list[int] = [checked_id(number, place) for number in schema_ids]
        given = check_registry(place, registry, subject, schema, schema_id=schema_id, schema_ids=self.schema_ids)
        if given is None:
            check_framing(place, "JSON", framing, schema_id, schema_ids=self.schema_ids or None)
        if decode not in {"lazy", "dict"}:
            raise TopologyError(
                f"{place}: decode={decode!r}: there are views and dicts",
                next_step='write decode="lazy" or decode="dict"',
            )
        self.decode: Literal["lazy", "dict"] = decode
        self.validate: bool = validate
        self.schema_id: int | None = schema_id
        self.references: dict[str, str] = dict(references or {})
        pinned: RegisteredSchema | None = None
        if schema is None and given is not None and subject is not None:
            pinned = given.latest(subject)
            schema, self.references = _of_registered(given, pinned, place)
        self.schema: str = _text(schema, place)
        try:
            self._made: JsonSchemaFormat | None = self._plain
        except TopologyError as wrong:
            raise TopologyError(f"{place}: {wrong.message}", next_step=wrong.next_step) from None
        if given is not None:
            number = None if pinned is None else pinned.id
            self.schemas: Schemas | None = JsonSchemas(given, "JSON", self.schema, self._title, subject, number)
            self._made = None

    @property
    def _title(self) -> str | None:
        schema = json.loads(self.schema)
        title = schema.get("title") if isinstance(schema, dict) else None
        return title if isinstance(title, str) else None

    @property
    def _plain(self) -> JsonSchemaFormat:
        from stoatflow._runtime.bridge import JsonSchemaFormat  # of the engine, which imports serdes

        return JsonSchemaFormat(self.schema, self.references, self.schema_id, self.schema_ids, self.validate)

    @property
    def _format(self) -> JsonSchemaFormat:
        if self._made is None:
            self._made = self._with_ids(self._plain)
        return self._made

    @property
    def name(self) -> str:
        """Name of the serde in messages."""
        return f"json_schema({self._title or ''})"

    def serialize(self, value: Any) -> bytes:
        """Serialize a value."""
        return self._format.encode(value)

    def deserialize(self, data: bytes) -> Any:
        """Deserialize bytes."""
        return self._format.decode(data)

    def view(self, data: bytes) -> Any:
        """Return what a function gets for these bytes; for tests of functions."""
        return self.deserialize(data) if self.decode == "dict" else self._format.view(data)

    def to_plan(self, registry: int | None = None) -> dict[str, object]:
        """Return the serde as plan data; `registry` is its number among the custom serdes, if it uses a registry."""
        spec: dict[str, object] = {"schema": self.schema}
        if self.references:
            spec["references"] = self.references
        if registry is not None:
            spec["registry"] = registry
        if self.schema_id is not None:
            spec["schema_id"] = self.schema_id
        if self.schema_ids:
            spec["schema_ids"] = self.schema_ids
        if not self.validate:
            spec["validate"] = False
        if self.decode != "lazy":
            spec["decode"] = self.decode
        return {"json_schema": spec}

    @classmethod
    def from_plan(cls, spec: Mapping[str, Any]) -> JsonSchemaSerde:
        """Create the serde from plan data."""
        framing: Literal["plain", "confluent"] = "plain" if spec.get("schema_id") is None else "confluent"
        return cls(
            spec["schema"],
            framing,
            spec.get("schema_id"),
            spec.get("schema_ids", ()),
            spec.get("decode", "lazy"),
            references=spec.get("references"),
            validate=spec.get("validate", True),
        )

    def __getstate__(self) -> dict[str, Any]:
        """Support pickling: the engine's object is created again. Refused with a registry."""
        if self.schemas is not None:
            self.schemas.registry.__reduce__()
        return {**self.__dict__, "_made": None}


class JsonSchemas(Schemas):
    """Schemas of a JSON Schema serde: the writer's schema doesn't affect the value."""

    def _is_same(self, latest: RegisteredSchema) -> bool:
        mine, other = json.loads(self._schema), json.loads(latest.schema)
        return bool(mine == other)


def _of_registered(registry: SchemaRegistry, found: RegisteredSchema, place: str) -> tuple[str, dict[str, str]]:
    """Return a schema, and the schemas that it refers to, by the names in its references."""
    if found.type != "JSON":
        raise TopologyError(
            f"{place}: the subject '{found.subject}' has a schema of {found.type}, JSON is wanted",
            next_step="give the subject of a JSON Schema, or use the serde of that format",
        )
    references: dict[str, str] = {}

    def collect(schema: RegisteredSchema) -> None:
        for name, subject, version in schema.references:
            if name not in references:
                needed = registry.version(subject, version)
                references[name] = needed.schema
                collect(needed)

    collect(found)
    return found.schema, references


def _text(schema: JsonSchema | None, place: str) -> str:
    if isinstance(schema, os.PathLike):
        try:
            return Path(schema).read_text("utf-8")
        except OSError as cause:
            raise TopologyError(
                f"{place}: the schema can't be read: {cause}", next_step="give the path of a file with a JSON Schema"
            ) from cause
    if isinstance(schema, str):
        if schema.endswith(".json"):
            raise TopologyError(
                f"{place}: {schema!r} is a name, not the text of a schema",
                next_step=f"write pathlib.Path({schema!r})",
            )
        return schema
    if isinstance(schema, Mapping):
        return json.dumps(schema, ensure_ascii=False, default=dict)
    raise TopologyError(
        f"{place} needs a schema, not {type(schema).__name__}",
        next_step="give the JSON text of a schema, a dict of it, or the path of a file",
    )
