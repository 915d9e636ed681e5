"""Inputs of a proof: records and steps of the wall clock, a line of JSON each.

`{"topic": "orders", "key": "ann", "value": "{...}", "timestamp": 1700000000000, "headers": [["trace", "7"]]}` is a
record, `{"advance_wall_clock_ms": 60000}` a step. Text is UTF-8; `{"base64": "..."}` and `{"json": ...}` are other ways
to write bytes; any other value is serialized with the serde of the topic. Pure, except for the file.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from stoatflow.errors import ConfigError, StoatFlowError
from stoatflow.serdes import Serde

Header: TypeAlias = "tuple[str, bytes | None]"
Serdes: TypeAlias = "tuple[Serde[Any], Serde[Any]]"
_STEP = "advance_wall_clock_ms"
_FORMAT = "docs/guide/proving-a-port.md shows the format"
_SPACES = "\t\n\r"


@dataclass(frozen=True, slots=True)
class InputRecord:
    """A record that both sides get."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True)
class ClockStep:
    """A step of both sides' wall clock."""

    ms: int


Input: TypeAlias = "InputRecord | ClockStep"


def read(path: Path, serdes: Callable[[str], Serdes | None]) -> list[Input]:
    """Read a file; `serdes` returns those of a topic. Raise `ConfigError` that names the line."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the inputs {path} can't be read: {error}", next_step="name a file of JSON lines") from error
    found: list[Input] = []
    # Not splitlines(): it also splits at characters that JSON allows in a line.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                found.append(parse(json.loads(line), serdes))
            except (ValueError, KeyError, TypeError, StoatFlowError) as error:
                why = f"there is no {error}" if isinstance(error, KeyError) else error
                raise ConfigError(f"{path}, line {number}, is no input: {why}", next_step=_FORMAT) from error
    return found


def parse(said: Any, serdes: Callable[[str], Serdes | None]) -> Input:
    """Parse a line of JSON to an input; raise `ValueError`, `KeyError` or `TypeError`."""
    if not isinstance(said, dict):
        raise TypeError("it is no JSON object")
    if _STEP in said:
        return ClockStep(_whole(said[_STEP], _STEP, 0))
    topic = said["topic"]
    if not isinstance(topic, str):
        raise TypeError(f"the topic {topic!r} is no text")
    both = serdes(topic) or (None, None)
    key, value = (_bytes(said.get(part), part, serde) for part, serde in zip(("key", "value"), both, strict=True))
    headers = tuple((str(name), _bytes(content, "header", None)) for name, content in said.get("headers", ()))
    return InputRecord(topic, key, value, _whole(said["timestamp"], "timestamp", 0), headers)


def _whole(said: object, name: str, least: int) -> int:
    if isinstance(said, bool) or not isinstance(said, int) or said < least:
        raise ValueError(f"{name} {said!r} is no whole number from {least} on")
    return said


def _bytes(said: Any, part: str, serde: Serde[Any] | None) -> bytes | None:
    if said is None:
        return None
    if isinstance(said, str):
        return said.encode()
    if isinstance(said, dict) and said.keys() == {"base64"}:
        try:
            return base64.b64decode(said["base64"], validate=True)
        except (binascii.Error, TypeError) as error:
            raise ValueError(f"the {part} is no Base64: {error}") from error
    if isinstance(said, dict) and said.keys() == {"json"}:
        return json.dumps(said["json"], ensure_ascii=False, separators=(",", ":")).encode()
    if serde is None:
        raise ValueError(f'the {part} {said!r} is neither text nor {{"base64": ...}} nor {{"json": ...}}')
    return serde.serialize(said)


def line(given: Input) -> str:
    """Return an input as a line of JSON."""
    if isinstance(given, ClockStep):
        return json.dumps({_STEP: given.ms})
    said: dict[str, Any] = {"topic": given.topic, "key": spelt(given.key), "value": spelt(given.value)}
    said["timestamp"] = given.timestamp
    if given.headers:
        said["headers"] = [[name, spelt(content)] for name, content in given.headers]
    return json.dumps(said, ensure_ascii=False)


def spelt(data: bytes | None) -> Any:
    """Return bytes as text if they are readable, otherwise as Base64."""
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if all(character.isprintable() or character in _SPACES for character in text):
        return text
    return {"base64": base64.b64encode(data).decode()}


def write(path: Path, given: Iterable[Input]) -> int:
    """Write a file; return the number of inputs."""
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for one in given:
            file.write(line(one) + "\n")
            count += 1
    return count
