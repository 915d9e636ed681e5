"""Serdes as a plan names them.

Takes the JSON of a serde, and what gives the user's own by their number. Gives the serde.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoatflow.serdes import (
    AvroSerde,
    ProtobufSerde,
    Serde,
    SessionWindowedSerde,
    TimeWindowedSerde,
    builtin_by_name,
)


def planned(spec: Any, custom: Callable[[int], Serde[Any]]) -> Serde[Any]:  # noqa: PLR0911  # one return per form
    """Give the serde that a plan names."""
    if isinstance(spec, str):
        return builtin_by_name(spec)
    if "time_windowed" in spec:
        return TimeWindowedSerde(planned(spec["time_windowed"], custom), spec["size_ms"])
    if "session_windowed" in spec:
        return SessionWindowedSerde(planned(spec["session_windowed"], custom))
    if "avro" in spec:
        if "registry" in spec["avro"]:
            return custom(spec["avro"]["registry"])
        return AvroSerde.from_plan(spec["avro"])
    if "protobuf" in spec:
        decode = spec["protobuf"].get("decode")
        if isinstance(decode, dict):
            return custom(decode["message"])
        return ProtobufSerde.from_plan(spec["protobuf"])
    return custom(spec["custom"])
