"""The format of a store's rows, in the notation that the engine stores with them.

Takes serdes and kinds of a plan's JSON. Two formats that are equal here are equal to a start of the engine, which
compares nothing else.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stoatflow._runtime import bridge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from stoatflow.serdes import Serde

# As in Kafka Streams: windows and sessions are kept in segments of half their retention, but at least a
# minute.
_SHORTEST_SEGMENT_MS = 60_000
_LAYOUTS = {
    "key_value": "key-value",
    "timestamped_key_value": "key-value",
    "versioned": "versioned",
    "time_ordered": "time-ordered",
    "timers": "timers",
}


@dataclass(frozen=True)
class SerdeFormat:
    """A serde by the name that the engine stores; for Protobuf also its message, whose fields matter."""

    name: str
    message: Mapping[str, Any] | None = field(default=None, compare=False)

    def writes_as(self, other: SerdeFormat) -> bool:
        """Whether a start accepts one in place of the other."""
        if self.name != other.name or self.message is None or other.message is None:
            return self.name == other.name
        return _protobuf(self.message).writes_as(base64.b64decode(other.message["descriptors"]))

    def __str__(self) -> str:
        """Show its name."""
        return self.name


def serde_format(spec: Any, custom: Sequence[Serde[Any]]) -> SerdeFormat:
    """Return the format of a serde in a plan; `custom` are the plan's own serdes."""
    if isinstance(spec, str):
        return SerdeFormat(spec)
    if "custom" in spec:
        return SerdeFormat(custom[spec["custom"]].name)
    if "avro" in spec:
        return SerdeFormat(_avro_name(spec["avro"]))
    if "protobuf" in spec:
        message = spec["protobuf"]
        # With a schema id before the value, fields may be added and removed.
        return SerdeFormat(f"protobuf({message['message']})", None if _is_framed(message) else message)
    if "json_schema" in spec:
        return SerdeFormat("json_schema" if _is_framed(spec["json_schema"]) else "json_schema(plain)")
    return SerdeFormat("time_windowed" if "time_windowed" in spec else "session_windowed")


def layout(kind: Mapping[str, Any]) -> str:
    """Return what a store keeps for a key: one value, windows, sessions, versions."""
    return _LAYOUTS.get(kind["type"], str(kind["type"]))


def segment_ms(kind: Mapping[str, Any]) -> int | None:
    """Return the duration of a segment, if the store's keys depend on it."""
    if kind["type"] not in ("window", "session"):
        return None
    return max(int(kind["retention_ms"]) // 2, _SHORTEST_SEGMENT_MS)


def _avro_name(spec: Mapping[str, Any]) -> str:
    made = bridge.AvroFormat(spec["schema"], spec.get("schema_id"))
    return f"avro({made.title})" if _is_framed(spec) else made.name


def _protobuf(spec: Mapping[str, Any]) -> bridge.ProtobufFormat:
    return bridge.ProtobufFormat(base64.b64decode(spec["descriptors"]), spec["message"])


def _is_framed(spec: Mapping[str, Any]) -> bool:
    return spec.get("schema_id") is not None or spec.get("registry") is not None
