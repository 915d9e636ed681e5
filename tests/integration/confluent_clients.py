"""Topics as Confluent's own serializers write and read them, with a schema registry in memory.

Takes a schema, returns its id, serializers and deserializers; takes values, returns values. Never uses the engine's
serdes: a mistake in both of their directions would stay hidden.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from topics import PATIENCE_S, KafkaTopics, Row

import stoatflow as sf

Serializer = Callable[[Any, SerializationContext], bytes]
Deserializer = Callable[[bytes, SerializationContext], Any]
IN_HEADERS = {"schema.id.serializer": header_schema_id_serializer}
"""For a serializer: the schema id is in a record header, and nothing precedes the value."""
HEADER_OF_VALUES = "__value_schema_id"
"""The name of that header."""


class Registry:
    """Ids and schemas. A schema registered twice for a topic has one id; ids differ between topics."""

    def __init__(self) -> None:
        self.client = SchemaRegistryClient.new_client({"url": "mock://registry"})
        # As in a shared registry: ids are not small numbers, and no two schemas share one.
        for number in range(300):
            self.client.register_schema(f"somebody-else-{number}", Schema(f'"{number}"', "AVRO"))

    def avro_id(self, topic: str, schema: object, field: MessageField = MessageField.VALUE) -> int:
        """Register a schema of Avro, as a serializer of that topic would."""
        return int(self.client.register_schema(f"{topic}-{field.value}", Schema(json.dumps(schema), "AVRO")))

    def writes_avro(self, schema: object, **more: Any) -> Serializer:
        """Confluent's serializer of Avro."""
        return AvroSerializer(self.client, json.dumps(schema), conf=more or None)  # type: ignore[no-any-return]

    def reads_avro(self) -> Deserializer:
        """Confluent's Avro deserializer, which looks up the writer schema of each record in the registry."""
        return AvroDeserializer(self.client)  # type: ignore[no-any-return]

    def protobuf_id(self, topic: str, message: Any, field: MessageField = MessageField.VALUE) -> int:
        """Register the file of a message, as a serializer of that topic would."""
        self.writes_protobuf(message)(message(), SerializationContext(topic, field))
        return int(self.client.get_latest_version(f"{topic}-{field.value}").schema_id)

    def writes_protobuf(self, message: Any, **more: Any) -> Serializer:
        """Confluent's serializer of a class of messages."""
        return ProtobufSerializer(message, self.client, conf=more or None)  # type: ignore[no-any-return]

    def reads_protobuf(self, message: Any) -> Deserializer:
        """Confluent's deserializer of a class of messages."""
        return ProtobufDeserializer(message, schema_registry_client=self.client)  # type: ignore[no-any-return]


def patient(url: str) -> sf.SchemaRegistry:
    """A registry for tests that count requests: no request is repeated because a busy machine answers late."""
    return sf.SchemaRegistry(url, timeout="180s", request_timeout="90s")


def write(
    kafka: KafkaTopics,
    topic: str,
    values: Iterable[tuple[Any, Any]],
    serializer: Serializer,
    key_serializer: Serializer | None = None,
) -> list[bytes]:
    """Append keys and values; returns the bytes of the values."""
    producer = Producer({"bootstrap.servers": kafka.address, "linger.ms": 5, "acks": "all", "log_level": 0})
    written = []
    for key, value in values:
        headers: list[tuple[str, bytes]] = []
        data = serializer(value, SerializationContext(topic, MessageField.VALUE, headers))
        of_key = SerializationContext(topic, MessageField.KEY, headers)
        key_data = key.encode() if key_serializer is None else key_serializer(key, of_key)
        while True:
            try:
                producer.produce(topic, data, key_data, headers=headers)
                break
            except BufferError:
                producer.poll(0.05)
        written.append(data)
    assert producer.flush(PATIENCE_S) == 0
    return written


def read(
    kafka: KafkaTopics, topic: str, deserializer: Deserializer, key_deserializer: Deserializer | None = None
) -> list[tuple[Any, Any]]:
    """All committed keys and values, in the order of each partition."""
    return [values_of(row, topic, deserializer, key_deserializer) for row in kafka.read(topic)]


def values_of(row: Row, topic: str, deserializer: Deserializer, key_deserializer: Deserializer | None) -> Any:
    """Key and value of a record."""
    assert row.key is not None
    assert row.value is not None
    of_key, of_value = (
        SerializationContext(topic, field, list(row.headers)) for field in (MessageField.KEY, MessageField.VALUE)
    )
    key = row.key.decode() if key_deserializer is None else key_deserializer(row.key, of_key)
    return key, deserializer(row.value, of_value)
