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


def parse(given_value: Any, serdes: Callable[[str], Serdes | None]) -> Input:
    """Parse a line of JSON to an input; raise `ValueError`, `KeyError` or `TypeError`."""
    if not isinstance(given_value, dict):
        raise TypeError("it is no JSON object")
    if _STEP in given_value:
        return ClockStep(_whole(given_value[_STEP], _STEP, 0))
    topic = given_value["topic"]
    if not isinstance(topic, str):
        raise TypeError(f"the topic {topic!r} is no text")
    both = serdes(topic) or (None, None)
    key, value = (
        _bytes(given_value.get(part), part, serde) for part, serde in zip(("key", "value"), both, strict=True)
    )
    headers = tuple((str(name), _bytes(content, "header", None)) for name, content in given_value.get("headers", ()))
    return InputRecord(topic, key, value, _whole(given_value["timestamp"], "timestamp", 0), headers)


def _whole(given_value: object, name: str, least: int) -> int:
    if isinstance(given_value, bool) or not isinstance(given_value, int) or given_value < least:
        raise ValueError(f"{name} {given_value!r} is no whole number from {least} on")
    return given_value


def _bytes(given_value: Any, part: str, serde: Serde[Any] | None) -> bytes | None:
    if given_value is None:
        return None
    if isinstance(given_value, str):
        return given_value.encode()
    if isinstance(given_value, dict) and given_value.keys() == {"base64"}:
        try:
            return base64.b64decode(given_value["base64"], validate=True)
        except (binascii.Error, TypeError) as error:
            raise ValueError(f"the {part} is no Base64: {error}") from error
    if isinstance(given_value, dict) and given_value.keys() == {"json"}:
        return json.dumps(given_value["json"], ensure_ascii=False, separators=(",", ":")).encode()
    if serde is None:
        raise ValueError(f'the {part} {given_value!r} is neither text nor {{"base64": ...}} nor {{"json": ...}}')
    return serde.serialize(given_value)


def line(given: Input) -> str:
    """Return an input as a line of JSON."""
    if isinstance(given, ClockStep):
        return json.dumps({_STEP: given.ms})
    given_value: dict[str, Any] = {"topic": given.topic, "key": spelt(given.key), "value": spelt(given.value)}
    given_value["timestamp"] = given.timestamp
    if given.headers:
        given_value["headers"] = [[name, spelt(content)] for name, content in given.headers]
    return json.dumps(given_value, ensure_ascii=False)


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
