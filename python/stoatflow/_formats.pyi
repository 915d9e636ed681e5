"""Formats with a schema: types of a part of `_native`, not a module of its own. Never import it."""

from collections.abc import Mapping, Sequence
from typing import Any, final

__all__ = ["AvroFormat", "JsonSchemaFormat", "ProtobufFormat"]

@final
class AvroFormat:
    """An Avro schema, with the prefix of its records' bytes."""

    def __new__(
        cls, schema: str, schema_id: int | None = None, writer_schemas: Mapping[int, str] = ...
    ) -> AvroFormat: ...
    def registered(self, schemas: object, topic: str | None = None, is_key: bool = False) -> AvroFormat:
        """Return the same format with the ids and schemas that a registry knows, as written into this topic."""
    def writes_as(self, schema: str) -> bool:
        """Whether values have the same bytes as with `schema`."""
    @property
    def name(self) -> str:
        """Name of the format in messages."""
    @property
    def title(self) -> str:
        """Full name of a record's schema; the type of any other."""
    def encode(self, value: object) -> bytes:
        """Encode a value."""
    def view(self, data: bytes) -> Any:
        """Decode lazily: what a function gets for these bytes."""
    def decode(self, data: bytes) -> Any:
        """Decode to plain Python values."""

@final
class JsonSchemaFormat:
    """A JSON schema, with the prefix of its records' text."""

    def __new__(
        cls,
        schema: str,
        references: Mapping[str, str] = ...,
        schema_id: int | None = None,
        schema_ids: Sequence[int] = ...,
        validate: bool = True,
    ) -> JsonSchemaFormat: ...
    def registered(self, schemas: object, topic: str | None = None, is_key: bool = False) -> JsonSchemaFormat:
        """Return the same format with the ids that a registry knows, as written into this topic."""
    def encode(self, value: object) -> bytes:
        """Encode a value."""
    def view(self, data: bytes) -> Any:
        """Decode lazily: what a function gets for this text."""
    def decode(self, data: bytes) -> Any:
        """Decode to plain Python values."""

@final
class ProtobufFormat:
    """A message type, with the prefix of its records' bytes."""

    def __new__(
        cls,
        descriptors: bytes,
        message: str | None = None,
        schema_id: int | None = None,
        schema_ids: Sequence[int] = ...,
    ) -> ProtobufFormat: ...
    @staticmethod
    def of_text(text: str, folders: Sequence[str]) -> bytes:
        """Compile the text of a .proto file to descriptors."""
    @staticmethod
    def of_file(path: str, folders: Sequence[str]) -> bytes:
        """Compile a .proto file to descriptors."""
    @staticmethod
    def of_registered(content: str, imports: Mapping[str, str]) -> bytes:
        """Compile a file of a registry to descriptors; `imports` holds imported files by their names there."""
    def registered(self, schemas: object, topic: str | None = None, is_key: bool = False) -> ProtobufFormat:
        """Return the same format with the ids and schemas that a registry knows, as written into this topic."""
    def writes_as(self, descriptors: bytes) -> bool:
        """Whether the message of these descriptors is written as this one, at the same place of its file."""
    def files(self) -> tuple[str, list[tuple[str, list[str], bytes]]]:
        """Name of the message's file, and all files: name, names of imported files, descriptors."""
    @property
    def descriptors(self) -> bytes:
        """Descriptors of everything that the message needs."""
    @property
    def message(self) -> str:
        """Full name of the message."""
    def encode(self, value: object) -> bytes:
        """Encode a value."""
    def decode(self, data: bytes) -> Any:
        """Decode to plain Python values."""
    def view(self, data: bytes) -> Any:
        """Decode lazily: what a function gets for these bytes."""
    def body(self, data: bytes) -> bytes:
        """Return the message's own bytes, without the prefix."""
