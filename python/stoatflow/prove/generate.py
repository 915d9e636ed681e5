"""Random inputs, from the serdes of a topology's sources.

Takes the physical plan, a seed, and, where a serde doesn't define its values, their shapes or sample records. Returns
inputs: keys that repeat, timestamps in and out of order at the distances of the topology's own windows, tombstones for
tables, headers, steps of the wall clock. The same seed gives the same inputs.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from stoatflow.errors import ConfigError
from stoatflow.prove.inputs import ClockStep, Header, Input, InputRecord

START_MS = 1_700_000_000_000
"""First timestamp, in 2023."""
_WORDS = ("ann", "bob", "cyd", "dee", "eve", "kafka", "streams", "to", "be", "or", "not", "Hello", "")
_KEYS = ("ann", "bob", "cyd", "dee", "eve", "fay")
_SPANS = (1, 10, 100, 1_000, 10_000, 60_000)
_INTEGERS = (0, 1, 1, 2, 3, 5, 10, 42, 100, 1_000, -1, -7, 1_000_000)
_FLOATS = (0.0, 0.5, 1.0, 1.25, 2.5, 10.0, 99.75, -1.5, 1e6)
_TYPES = ("str", "int", "float", "bool", "null")
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class Shapes:
    """What is known about keys and values besides their serdes, by topic."""

    keys: Mapping[str, Any]
    values: Mapping[str, Any]
    like: Sequence[InputRecord] = ()
    """Records whose keys and values are used unchanged."""


class Generator:
    """Generates the inputs of one topology."""

    def __init__(self, plan: dict[str, Any], shapes: Shapes, seed: int, *, nulls: bool = False) -> None:
        """Raise `ConfigError` for a topic whose records can't be generated."""
        self._dice = random.Random(seed)  # noqa: S311  # not for secrets: a seed repeats a run
        self._nulls, self._plan = nulls, plan
        self._spans = spans(plan)
        self._now = START_MS
        self._sources = {topic: source for source in plan["sources"] for topic in source["topics"]}
        self._tables = _tables(plan)
        for topic in [*shapes.keys, *shapes.values]:
            if topic not in self._sources:
                raise ConfigError(
                    f"the Python topology reads no topic '{topic}'",
                    next_step=f"use one of: {', '.join(sorted(self._sources))}",
                )
        self._made = {
            topic: (
                self._maker(topic, "key", source["key"], shapes.keys, shapes.like),
                self._maker(topic, "value", source["value"], shapes.values, shapes.like),
            )
            for topic, source in sorted(self._sources.items())
        }
        self._topics = sorted(self._sources)

    def inputs(self, count: int) -> list[Input]:
        """Return `count` inputs."""
        made: list[Input] = []
        while len(made) < count:
            if made and self._dice.random() < 0.04:
                made.append(ClockStep(self._dice.choice(self._spans)))
            else:
                made.append(self._record(early=len(made) < count // 10))
        return made

    def _record(self, *, early: bool) -> InputRecord:
        dice = self._dice
        # Tables get more of the early records: later records are joined with their rows.
        topics = sorted(self._tables) if early and self._tables and dice.random() < 0.6 else self._topics
        topic = dice.choice(topics)
        key, value = (maker.draw(dice) for maker in self._made[topic])
        if topic in self._tables and dice.random() < 0.1:
            value = None
        if self._nulls:
            key = None if dice.random() < 0.03 else key
            value = None if dice.random() < 0.05 else value
        self._now += dice.choice((0, 1, dice.choice(self._spans) // 10, dice.choice(self._spans) // 3))
        if dice.random() < 0.02:
            self._now += dice.choice(self._spans)
        late = dice.choice((0, 0, 0, 1, dice.choice(self._spans) // 10, dice.choice(self._spans)))
        headers: tuple[Header, ...] = ()
        if dice.random() < 0.1:
            headers = (("trace", str(dice.randrange(100)).encode()), ("empty", None))[: dice.choice((1, 2))]
        return InputRecord(topic, key, value, max(0, self._now - late), headers)

    def _maker(
        self, topic: str, part: str, spec: Any, shapes: Mapping[str, Any], like: Iterable[InputRecord]
    ) -> _Maker:
        alike = [getattr(record, part) for record in like if record.topic == topic]
        if topic in shapes:
            return _Shaped(topic, part, spec, shapes[topic])
        if alike:
            return _Alike(alike)
        if part == "key" and spec == "string":
            return _Shaped(topic, part, spec, list(_KEYS))
        if part == "key" and spec in ("int32", "int64"):
            return _Shaped(topic, part, spec, [1, 2, 3, 4, 5, 6])
        if isinstance(spec, str) and spec in _PLAIN:
            return _Shaped(topic, part, spec, _PLAIN[spec])
        option = "--keys" if part == "key" else "--values"
        if spec == "json":
            raise ConfigError(
                f"what the JSON {part}s of '{topic}' look like isn't known",
                next_step=f"""say it, as in {option} '{topic}={{"user": ["ann", "bob"], "amount": "int"}}', or give """
                "recorded records with --like FILE (stoatflow record makes such a file)",
            )
        name = spec if isinstance(spec, str) else next(iter(spec))
        raise ConfigError(
            f"{part}s of '{topic}' can't be made: their serde is {name.replace('_', ' ')}",
            next_step="give recorded records with --like FILE, whose bytes are used as they are, or prove with "
            "--inputs FILE (stoatflow record makes such files)",
        )


class _Maker(Protocol):
    def draw(self, dice: random.Random) -> bytes | None: ...


class _Alike:
    def __init__(self, given: Sequence[bytes | None]) -> None:
        self._given = given

    def draw(self, dice: random.Random) -> bytes | None:
        return dice.choice(self._given)


class _Shaped:
    def __init__(self, topic: str, part: str, spec: Any, shape: Any) -> None:
        self._spec, self._shape = spec, shape
        if not isinstance(spec, str):
            raise ConfigError(
                f"the serde of the {part}s of '{topic}' takes no shape", next_step="give records with --like FILE"
            )
        try:
            _check(shape, spec)
        except (TypeError, ValueError, struct.error) as error:
            raise ConfigError(
                f"the shape of the {part}s of '{topic}' does not fit: {error}",
                next_step='a shape is a type ("str", "int", "float", "bool", "null"), a list to choose from, or '
                "an object of shapes",
            ) from error

    def draw(self, dice: random.Random) -> bytes | None:
        return _encoded(self._spec, _drawn(self._shape, dice))


_PLAIN = {
    "string": "str",
    "int32": "int",
    "int64": "int",
    "double": "float",
    "bytes": "str",
}


def _check(shape: Any, spec: str) -> None:
    """Raise for an invalid shape, or one that the serde can't write."""
    if isinstance(shape, str) and shape not in _TYPES:
        raise ValueError(f"{shape!r} is no type: {', '.join(_TYPES)}")
    if isinstance(shape, list) and not shape:
        raise ValueError("there is nothing to choose from")
    if spec == "json":
        for inner in shape.values() if isinstance(shape, dict) else ():
            _check(inner, spec)
        return
    if isinstance(shape, dict):
        raise TypeError(f"an object is nothing that the serde {spec} writes")
    for one in shape if isinstance(shape, list) else [_drawn(shape, random.Random(0))]:  # noqa: S311
        _encoded(spec, one)


def _drawn(shape: Any, dice: random.Random) -> Any:
    if isinstance(shape, dict):
        return {name: _drawn(inner, dice) for name, inner in shape.items()}
    if isinstance(shape, list):
        return dice.choice(shape)
    if shape == "str":
        words = dice.choice((1, 1, 1, 2, 4))
        return " ".join(dice.choice(_WORDS) for _ in range(words))
    if shape == "int":
        return dice.choice(_INTEGERS)
    if shape == "float":
        return dice.choice(_FLOATS)
    # Anything that is no type is a constant number or text.
    return {"bool": dice.random() < 0.5, "null": None}.get(shape, shape)


def _encoded(spec: str, value: Any) -> bytes | None:
    if spec == "json":
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    if value is None:
        return None
    if spec in ("string", "bytes"):
        if not isinstance(value, str):
            raise TypeError(f"{value!r} is no text")
        return value.encode()
    return struct.pack({"int32": ">i", "int64": ">q", "double": ">d"}[spec], value)


def spans(plan: dict[str, Any]) -> tuple[int, ...]:
    """Return the durations in a plan (windows, grace, gaps): timestamps are spread by them."""
    found: set[int] = set()

    def look(at: Any, name: str = "") -> None:
        if isinstance(at, dict):
            for inner, value in at.items():
                look(value, inner)
        elif isinstance(at, list):
            for value in at:
                look(value)
        elif name.endswith("_ms") and isinstance(at, int) and 0 < at <= 31 * _DAY_MS:
            found.add(at)

    look(plan["nodes"])
    chosen = sorted(found) or list(_SPANS)
    return tuple(sorted({*chosen, *(one + 1 for one in chosen)}))


def _tables(plan: dict[str, Any]) -> set[str]:
    """Return the topics that are read as tables."""
    names = {source["id"]: source["topics"] for source in plan["sources"]}
    nodes = {node["id"]: node for node in plan["nodes"]}
    found: set[str] = set()
    for node in nodes.values():
        if node["op"]["op"] == "source":
            below = [nodes[child]["op"]["op"] for child in node["children"] if child in nodes]
            if below and all(op == "table_source" for op in below):
                found |= set(names[node["op"]["source"]])
    return found
