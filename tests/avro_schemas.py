"""Schemas that the tests of Avro share."""

from __future__ import annotations

from typing import Any

USER: dict[str, Any] = {
    "type": "record",
    "name": "User",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "mail", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "scores", "type": {"type": "map", "values": "double"}, "default": {}},
        {"name": "level", "type": {"type": "enum", "name": "Level", "symbols": ["LOW", "HIGH"]}, "default": "LOW"},
        {"name": "photo", "type": "bytes", "default": ""},
        {"name": "boss", "type": ["null", "User"], "default": None},
    ],
}

NAMED: dict[str, Any] = {
    "type": "record",
    "name": "Named",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "first_tag", "type": ["null", "string"], "default": None},
        {"name": "picture", "type": "bytes", "default": ""},
    ],
}


def user(number: int, name: str, **more: Any) -> dict[str, Any]:
    """A user with all fields."""
    rest = {"mail": None, "tags": [], "scores": {}, "level": "LOW", "photo": b"", "boss": None}
    return {"id": number, "name": name, **rest, **more}
