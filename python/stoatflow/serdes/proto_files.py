"""Protobuf files in a registry: what is registered for a message, and what is read of others.

Takes the engine's half of a serde, gives its files as a registry gets them: descriptors in base64, as Confluent's
serializers for Python, Go and .NET do, for those can't read a text unless the registry makes a descriptor of it.
Files that a file imports are registered before it, under their names.
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
"""Whoever reads a schema has these."""
TEXT = "schema.proto"
"""The name of a file that has none."""


@dataclass(frozen=True)
class ProtoFile:
    """A file: its name, what it imports, and how a registry gets it."""

    name: str
    imports: tuple[str, ...]
    content: str


def proto_files(plain: ProtobufFormat, serialized: Mapping[str, bytes]) -> tuple[str, dict[str, ProtoFile]]:
    """Return the name of the message's file, and all files; `serialized` are descriptors to take as they are."""
    own, files = plain.files()
    found = {}
    for name, imports, descriptor in files:
        content = base64.b64encode(serialized.get(name, descriptor)).decode()
        found[name] = ProtoFile(name, tuple(imports), content)
    return own, found


def imported(registry: SchemaRegistry, found: RegisteredSchema) -> dict[str, str]:
    """Return the files that a registered one imports, by their names."""
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
    """What a Protobuf serde asks: of others' files it needs no more than the places of messages in them."""

    def __init__(
        self,
        same: Callable[[bytes], bool],
        own: str,
        files: Mapping[str, ProtoFile],
        registry: SchemaRegistry,
        *rest: Any,
    ) -> None:
        """`same`: is the message at the same place in these descriptors, and written as here?"""
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
