"""Protobuf files in a registry: what is registered for a message, and what is read of other writers' files.

Takes the engine's object of a serde, returns its files in the form that is registered: descriptors in base64, as
Confluent's serializers for Python, Go and .NET do, since these can't read a text unless the registry converts it to a
descriptor. Files that a file imports are registered before it, under their names.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stoatflow.serdes.registered import Schemas

if TYPE_CHECKING:
    from stoatflow._runtime.bridge import ProtobufFormat
    from stoatflow.registry import RegisteredSchema, SchemaRegistry

_KNOWN = ("google/protobuf/", "google/type/", "confluent/")
"""Files that every reader of a schema has."""
TEXT = "schema.proto"
"""Name of a file that has none."""


@dataclass(frozen=True)
class ProtoFile:
    """A file: its name, its imports, and its registered form."""

    name: str
    imports: tuple[str, ...]
    content: str


def proto_files(plain: ProtobufFormat, serialized: Mapping[str, bytes]) -> tuple[str, dict[str, ProtoFile]]:
    """Return the name of the message's file, and all files; `serialized` are descriptors to use unchanged."""
    own, files = plain.files()
    found = {}
    for name, imports, descriptor in files:
        content = base64.b64encode(serialized.get(name, descriptor)).decode()
        found[name] = ProtoFile(name, tuple(imports), content)
    return own, found


def imported(registry: SchemaRegistry, found: RegisteredSchema) -> dict[str, str]:
    """Return the files that a registered one imports, by name."""
    files: dict[str, str] = {}

    def collect(schema: RegisteredSchema) -> None:
        for name, subject, version in schema.references:
            if name not in files:
                needed = registry.version(subject, version)
                files[name] = needed.schema
                collect(needed)

    collect(found)
    return files


class ProtobufSchemas(Schemas):
    """Schemas of a Protobuf serde: of other writers' files only the message indexes matter."""

    def __init__(
        self,
        same: Callable[[bytes], bool],
        own: str,
        files: Mapping[str, ProtoFile],
        registry: SchemaRegistry,
        *rest: Any,
    ) -> None:
        """`same`: whether these descriptors have the message at the same place, with the same encoding."""
        super().__init__(registry, "PROTOBUF", files[own].content, *rest)
        self._same, self._own, self._files = same, own, files

    def _is_same(self, latest: RegisteredSchema) -> bool:
        from stoatflow._runtime.bridge import ProtobufFormat  # of the engine, which imports serdes
        from stoatflow.errors import TopologyError

        try:
            descriptors = ProtobufFormat.of_registered(latest.schema, imported(self.registry, latest))
            own, _ = ProtobufFormat(descriptors, self._record).files()
            return own == TEXT and self._same(descriptors)
        except TopologyError:
            return False  # it has no such message

    def _references(self) -> list[tuple[str, str, int]]:
        return self._imports(self._files[self._own])

    def _imports(self, file: ProtoFile) -> list[tuple[str, str, int]]:
        references = []
        for name in file.imports:
            if name.startswith(_KNOWN):
                continue
            needed = self._files[name]
            asked = (name, needed.content, self._type, self._imports(needed))
            if self.registry.auto_register:
                self.registry.register(*asked)
            references.append((name, name, self.registry.registered(*asked).version or 1))
        return references
