"""Formats with a schema: the part of `_native.pyi` that says their types. There is no such module: never import it."""

from collections.abc import Mapping, Sequence
from typing import Any, final

__all__ = ["AvroFormat", "JsonSchemaFormat", "ProtobufFormat"]

@final
class AvroFormat:
    """A schema with what stands before the bytes of its records."""

    def __new__(
        cls, schema: str, schema_id: int | None = None, writer_schemas: Mapping[int, str] = ...
    ) -> AvroFormat: ...
    def registered(self, schemas: object, topic: str | None = None, is_key: bool = False) -> AvroFormat:
        """The same, with ids and schemas that a registry knows, written into this topic."""
    def writes_as(self, schema: str) -> bool:
        """Are the bytes of values those of another schema?"""
    @property
    def name(self) -> str:
        """Its name in messages."""
    @property
    def title(self) -> str:
        """The full name of a record's schema, the type of any other."""
    def encode(self, value: object) -> bytes:
        """The bytes of a value."""
    def view(self, data: bytes) -> Any:
        """What a function gets for bytes."""
    def decode(self, data: bytes) -> Any:
        """The value of bytes, plain."""

@final
class JsonSchemaFormat:
    """A schema with what stands before the text of its records."""

    def __new__(
        cls,
        schema: str,
        references: Mapping[str, str] = ...,
        schema_id: int | None = None,
        schema_ids: Sequence[int] = ...,
        validate: bool = True,
    ) -> JsonSchemaFormat: ...
    def registered(self, schemas: object, topic: str | None = None, is_key: bool = False) -> JsonSchemaFormat:
        """The same, with ids that a registry knows, written into this topic."""
    def encode(self, value: object) -> bytes:
        """The bytes of a value."""
    def view(self, data: bytes) -> Any:
        """What a function gets for bytes."""
    def decode(self, data: bytes) -> Any:
        """The value of bytes, plain."""

@final
class ProtobufFormat:
    """A message type with what stands before the bytes of its records."""

    def __new__(
        cls,
        descriptors: bytes,
        message: str | None = None,
        schema_id: int | None = None,
        schema_ids: Sequence[int] = ...,
    ) -> ProtobufFormat: ...
    @staticmethod
    def of_text(text: str, folders: Sequence[str]) -> bytes:
        """The descriptors of a .proto file's text."""
    @staticmethod
    def of_file(path: str, folders: Sequence[str]) -> bytes:
        """The descriptors of a .proto file."""
    @staticmethod
    def of_registered(content: str, imports: Mapping[str, str]) -> bytes:
        """The descriptors of a file as a registry has it, and of those that it imports, by their names there."""
    def registered(self, schemas: object, topic: str | None = None, is_key: bool = False) -> ProtobufFormat:
        """The same, with ids and schemas that a registry knows, written into this topic."""
    def writes_as(self, descriptors: bytes) -> bool:
        """Is the message of these descriptors written as this one, at the same place of its file?"""
    def files(self) -> tuple[str, list[tuple[str, list[str], bytes]]]:
        """The name of the message's file, and all files: names, the names of what they import, descriptors."""
    @property
    def descriptors(self) -> bytes:
        """The descriptors of all that the message needs."""
    @property
    def message(self) -> str:
        """The full name of the message."""
    def encode(self, value: object) -> bytes:
        """The bytes of a value."""
    def decode(self, data: bytes) -> Any:
        """The value of bytes, plain."""
    def view(self, data: bytes) -> Any:
        """What a function gets for bytes."""
    def body(self, data: bytes) -> bytes:
        """The message's own bytes, without what stands before them."""
