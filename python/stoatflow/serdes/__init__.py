"""Serdes: convert Python values to the bytes of topics and stores, and back, in Kafka's encodings.

Takes a serde, or a type that stands for one; returns the serde. The engine runs the built-in ones in Rust; the Python
versions here are for the test driver and users of the embedded broker.
"""

from stoatflow.serdes.avro import AvroSchema, AvroSerde
from stoatflow.serdes.base import Serde
from stoatflow.serdes.builtin import BuiltinSerde, Serdes, builtin_by_name
from stoatflow.serdes.json_schema import JsonSchema, JsonSchemaSerde
from stoatflow.serdes.protobuf import ProtobufSchema, ProtobufSerde
from stoatflow.serdes.resolve import BareDict, SerdeLike, resolve
from stoatflow.serdes.windowed import SessionWindowedSerde, TimeWindowedSerde

__all__ = [
    "AvroSchema", "AvroSerde", "BareDict", "BuiltinSerde", "JsonSchema", "JsonSchemaSerde", "ProtobufSchema",
    "ProtobufSerde", "Serde", "SerdeLike", "Serdes", "SessionWindowedSerde", "TimeWindowedSerde", "builtin_by_name",
    "resolve",
]  # fmt: skip
