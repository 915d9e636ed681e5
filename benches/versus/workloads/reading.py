"""Reading output records: which row of the final table a record is about, and the row's value.

Takes the bytes of a key and of a value; returns the identity of a row and its cell; no cell for a deleted row. Defines
the formats in which engines write; any other format is an error.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from typing import Any

# The value of an output row: a count or a sum, or the text of a JSON object (see `canonical`).
Cell = int | str
# `None` as a whole: the record says nothing about the current value of a row.
Reader = Callable[[bytes, "bytes | None"], "tuple[str, Cell | None] | None"]
_LONGEST = 120


class Form(Exception):  # noqa: N818  # it describes the format of a record
    """An output record that is not in the workload's format."""


def canonical(value: Any) -> str:
    """A JSON object as text, independent of the order of its members; a hash replaces the rest of a long one."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]} {hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"


def keyed(key: Callable[[bytes], str], value: Callable[[bytes], Cell], of: str = "") -> Reader:
    """Rows by their keys. `of` is a prefix of each identity, if several outputs form one table."""

    def read(key_bytes: bytes, value_bytes: bytes | None) -> tuple[str, Cell | None]:
        row = key(key_bytes)
        return f"{of} {row}" if of else row, None if value_bytes is None else value(value_bytes)

    return read


def in_window(key: bytes) -> str:
    """Parse a windowed key of Kafka Streams: text, then the start in 8 bytes."""
    if len(key) < 8:
        raise Form(f"not a windowed key but {key[:40]!r}")
    (start,) = struct.unpack(">q", key[-8:])
    return window(key[:-8].decode(), start)


def window(key: str, start_ms: int) -> str:
    """A key in a window, as one text."""
    return f"{key}@{start_ms}"


def in_session(key: bytes) -> str:
    """Parse a session key of Kafka Streams: text, the end, the start, in 8 bytes each."""
    if len(key) < 16:
        raise Form(f"not a key in a session but {key[:40]!r}")
    end, start = struct.unpack(">qq", key[-16:])
    return session(key[:-16].decode(), start, end)


def session(key: str, start_ms: int, end_ms: int) -> str:
    """A key in a session, as one text."""
    return f"{key}@{start_ms}-{end_ms}"


def long(value: bytes) -> int:
    """Parse a Long of Kafka's own serializer."""
    if len(value) != 8:
        raise Form(f"not a long but {value[:40]!r}")
    (number,) = struct.unpack(">q", value)
    return int(number)


def json_number(value: bytes) -> int:
    """Parse an integer as text."""
    found = _json(value)
    if not isinstance(found, int):
        raise Form(f"not a whole number but {value[:40]!r}")
    return found


def json_object(value: bytes) -> str:
    """Parse a JSON object."""
    return canonical(members(value))


def members(value: bytes | None) -> dict[str, Any]:
    """Return the members of a JSON object."""
    found = _json(value)
    if not isinstance(found, dict):
        raise Form(f"not a JSON object but {(value or b'')[:80]!r}")
    return found


def _json(value: bytes | None) -> Any:
    try:
        return json.loads(value or b"")
    except ValueError as error:
        raise Form(f"not JSON but {(value or b'')[:80]!r}") from error


long_by_text = keyed(bytes.decode, long)
number_by_text = keyed(bytes.decode, json_number)


def object_by_id(_: bytes, value: bytes | None) -> tuple[str, Cell]:
    """Read a record that is a JSON object with an `id`."""
    found = _json(value)
    if not isinstance(found, dict) or "id" not in found:
        raise Form(f"not a JSON object with an id but {(value or b'')[:80]!r}")
    return str(found["id"]), canonical(found)
