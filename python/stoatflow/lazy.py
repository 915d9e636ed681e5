"""JSON and Avro values as functions get them: views of a record's bytes that decode members when they are read.

For an object (in JSON; a record or a map in Avro) a function gets a `JsonObject`, for an array a `JsonArray`. They are
a `Mapping` and a `Sequence`, compare like dicts and lists, are read-only, and are written as their original bytes.
`to_python` converts them to plain dicts and lists; a serde with `decode="dict"` returns plain ones.
"""

from __future__ import annotations

from stoatflow._runtime.bridge import JsonArray, JsonObject, to_python

__all__ = ["JsonArray", "JsonObject", "to_python"]
