"""Creates serdes from plan data.

Takes the JSON of a serde, and a function that returns custom serdes by number. Returns the serde.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoatflow.serdes import (
    AvroSerde,
    JsonSchemaSerde,
    ProtobufSerde,
    Serde,
    SessionWindowedSerde,
    TimeWindowedSerde,
    builtin_by_name,
)

_WITH_SCHEMAS: dict[str, type[AvroSerde | ProtobufSerde | JsonSchemaSerde]] = {
    "avro": AvroSerde,
    "protobuf": ProtobufSerde,
    "json_schema": JsonSchemaSerde,
}


def planned(spec: Any, custom: Callable[[int], Serde[Any]]) -> Serde[Any]:  # one return per form
    """Return the serde that a plan names."""
    if isinstance(spec, str):
        return builtin_by_name(spec)
    if "time_windowed" in spec:
        return TimeWindowedSerde(planned(spec["time_windowed"], custom), spec["size_ms"])
    if "session_windowed" in spec:
        return SessionWindowedSerde(planned(spec["session_windowed"], custom))
    for name, serde in _WITH_SCHEMAS.items():
        if name in spec:
            parts = spec[name]
            decode = parts.get("decode")
            number = decode["message"] if isinstance(decode, dict) else parts.get("registry")
            return serde.from_plan(parts) if number is None else custom(number)
    return custom(spec["custom"])
