"""How output records are read: which row of the final table one is about, and what it says of it.

Takes: the bytes of a key and of a value. Gives: the identity of a row and its cell; no cell for a row that is deleted.
Owns: the forms in which the engines write. Never: guesses: what has another form is an error.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from typing import Any

# What stands in a row of an output: a count or a sum, or the text of a JSON object (see `canonical`).
Cell = int | str
# None for the whole: the record says nothing of what a row is now.
Reader = Callable[[bytes, "bytes | None"], "tuple[str, Cell | None] | None"]
_LONGEST = 120


class Form(Exception):  # noqa: N818  # it says what is wrong with the form of a record
    """An output record that is not what the workload writes."""


def canonical(value: Any) -> str:
    """A JSON object as one text, whatever the order of its members; a hash stands for the rest of a long one."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]} {hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"


def keyed(key: Callable[[bytes], str], value: Callable[[bytes], Cell], of: str = "") -> Reader:
    """Rows by their keys. `of` begins each identity, where several outputs make one table."""

    def read(key_bytes: bytes, value_bytes: bytes | None) -> tuple[str, Cell | None]:
        row = key(key_bytes)
        return f"{of} {row}" if of else row, None if value_bytes is None else value(value_bytes)

    return read


def in_window(key: bytes) -> str:
    """A windowed key as Kafka Streams writes it: text, then the start in 8 bytes."""
    if len(key) < 8:
        raise Form(f"not a windowed key but {key[:40]!r}")
    (start,) = struct.unpack(">q", key[-8:])
    return window(key[:-8].decode(), start)


def window(key: str, start_ms: int) -> str:
    """A key in a window, as one text."""
    return f"{key}@{start_ms}"


def in_session(key: bytes) -> str:
    """A key in a session as Kafka Streams writes it: text, the end, the start, in 8 bytes each."""
    if len(key) < 16:
        raise Form(f"not a key in a session but {key[:40]!r}")
    end, start = struct.unpack(">qq", key[-16:])
    return session(key[:-16].decode(), start, end)


def session(key: str, start_ms: int, end_ms: int) -> str:
    """A key in a session, as one text."""
    return f"{key}@{start_ms}-{end_ms}"


def long(value: bytes) -> int:
    """A Long as Kafka's own serializer writes it."""
    if len(value) != 8:
        raise Form(f"not a long but {value[:40]!r}")
    (number,) = struct.unpack(">q", value)
    return int(number)


def json_number(value: bytes) -> int:
    """A whole number as text."""
    found = _json(value)
    if not isinstance(found, int):
        raise Form(f"not a whole number but {value[:40]!r}")
    return found


def json_object(value: bytes) -> str:
    """A JSON object."""
    return canonical(members(value))


def members(value: bytes | None) -> dict[str, Any]:
    """The members of a JSON object."""
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
    """A record that is a JSON object with an `id`."""
    found = _json(value)
    if not isinstance(found, dict) or "id" not in found:
        raise Form(f"not a JSON object with an id but {(value or b'')[:80]!r}")
    return str(found["id"]), canonical(found)
