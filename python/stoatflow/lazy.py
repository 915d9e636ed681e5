"""JSON and Avro as functions see them: views over the bytes of a record that decode what is read.

Takes nothing but what the engine gives: a function whose argument is an object (of JSON; a record or a map of Avro)
gets a `JsonObject`, for an array a `JsonArray`. They are a `Mapping` and a `Sequence`, compare like dicts and lists,
never change, and are their bytes again when they are written. `to_python` makes plain dicts and lists of them; a serde
with `decode="dict"` gives real ones.
"""

from __future__ import annotations

from stoatflow._runtime.bridge import JsonArray, JsonObject, to_python

__all__ = ["JsonArray", "JsonObject", "to_python"]
