"""The spec of a load: topics, keys, fields, times and faults, as declared in a TOML file.

Takes a file, a text or a dictionary; returns a `LoadSpec`, or raises a `ConfigError` that lists every problem.
Generates no records.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from stoatflow.errors import ConfigError
from stoatflow.spark.loading.members import Members

FORMATS = ("json", "text", "avro", "protobuf")
KEYS = ("zipf", "uniform", "sequential", "none")
FIELDS = ("int", "float", "choice", "text", "words", "timestamp", "index", "key", "reference", "constant")
START_MS = 1_700_000_000_000
"""Event time of the first record, unless the spec says otherwise."""
_MOST_KEYS = 10_000_000


@dataclass(frozen=True)
class KeySpec:
    """How keys are drawn."""

    kind: str = "uniform"
    count: int = 1000
    """Number of distinct keys; 0 for an endless sequence."""
    skew: float = 1.0
    prefix: str = "key-"
    format: str = "text"
    """`text`, or `long`: eight bytes, as in Kafka's LongSerializer."""


@dataclass(frozen=True)
class FieldSpec:
    """A field of the value, or a header. Which members apply depends on the kind."""

    name: str
    kind: str
    low: int = 0
    high: int = 0
    digits: int = 2
    skew: float = 0.0
    of: tuple[str, ...] = ()
    weights: tuple[float, ...] | None = None
    shortest: int = 0
    longest: int = 0
    vocabulary: int = 0
    prefix: str = "word"
    topic: str = ""
    match: float = 1.0
    value: str = ""


@dataclass(frozen=True)
class TimeSpec:
    """How event time advances from record to record."""

    start_ms: int = START_MS
    rate: float = 1000.0
    """Records per second of event time."""
    burst_every_ms: int = 0
    burst_length_ms: int = 0
    burst_factor: float = 1.0
    gap_every_ms: int = 0
    gap_length_ms: int = 0
    disorder: float = 0.0
    disorder_within_ms: int = 0
    late: float = 0.0
    late_by_ms: int = 0


@dataclass(frozen=True)
class FaultSpec:
    """Shares of records with faults."""

    duplicates: float = 0.0
    tombstones: float = 0.0
    null_keys: float = 0.0
    malformed: float = 0.0


@dataclass(frozen=True)
class TopicSpec:
    """A topic."""

    name: str
    records: int
    partitions: int = 1
    partitioner: str = "key"
    format: str = "json"
    schema_name: str = "Record"
    framing: int | None = None
    """Schema id in a registry: values begin with a zero byte and the id in four bytes."""
    key: KeySpec = field(default_factory=KeySpec)
    fields: tuple[FieldSpec, ...] = ()
    headers: tuple[FieldSpec, ...] = ()
    time: TimeSpec = field(default_factory=TimeSpec)
    faults: FaultSpec = field(default_factory=FaultSpec)


@dataclass(frozen=True)
class LoadSpec:
    """A whole load."""

    topics: tuple[TopicSpec, ...]
    seed: int = 0

    def topic(self, name: str) -> TopicSpec:
        """Return the topic with this name."""
        for topic in self.topics:
            if topic.name == name:
                return topic
        known = ", ".join(topic.name for topic in self.topics)
        raise ConfigError(f"the spec has no topic '{name}'", next_step=f"use one of: {known}")

    @property
    def records(self) -> int:
        """Number of records of all topics."""
        return sum(topic.records for topic in self.topics)


def read_spec(source: str | Path | Mapping[str, Any]) -> LoadSpec:
    """Read a spec from a TOML file, or from a dictionary.

    Raises:
        ConfigError: the spec is wrong; lists every problem with its path.

    """
    where, given = ("the spec", source) if isinstance(source, Mapping) else (str(source), _toml(Path(source)))
    problems: list[str] = []
    members = Members(dict(given), "", problems)
    seed = members.whole("seed", 0)
    topics = tuple(_topic(name, each) for name, each in members.table("topics").tables())
    members.end()
    if not topics and not problems:
        problems.append("topics is empty: name at least one, [topics.NAME]")
    _check_references(topics, problems)
    if problems:
        listed = "\n".join(f"  - {problem}" for problem in problems)
        raise ConfigError(f"{where} is no load spec:\n{listed}", next_step="correct what is listed")
    return LoadSpec(topics, seed)


def _toml(path: Path) -> dict[str, Any]:
    # 3.10 has no `tomllib`, later versions need no `tomli`.
    library = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        return cast("dict[str, Any]", library.loads(path.read_text("utf-8")))
    except OSError as error:
        raise ConfigError(
            f"the load spec {path} can't be read: {error.strerror}", next_step="check its path"
        ) from error
    except ValueError as error:
        raise ConfigError(f"{path} is no TOML: {error}", next_step="correct the file at that line") from error


def _topic(name: str, members: Members) -> TopicSpec:
    topic = TopicSpec(
        name=name,
        records=members.whole("records", least=0),
        partitions=members.whole("partitions", 1, 1, 100_000),
        partitioner=members.one_of("partitioner", ("key", "round-robin"), "key"),
        format=members.one_of("format", FORMATS, "json"),
        schema_name=members.text("schema-name", "Record"),
        framing=members.whole("framing", 0, 0, 2**31 - 1) if members.has("framing") else None,
        key=_key(members.table("key", {})),
        fields=tuple(_field(field_name, each) for field_name, each in members.table("fields").tables()),
        headers=tuple(_field(header, each) for header, each in members.table("headers", {}).tables()),
        time=_time(members.table("time", {})),
        faults=_faults(members.table("faults", {})),
    )
    if topic.framing is not None and topic.format in {"json", "text"}:
        members.wrong("framing", f"is for avro and protobuf, not for {topic.format}")
    if not topic.fields:
        members.wrong("fields", "needs at least one field")
    if topic.format == "text" and len(topic.fields) > 1:
        members.wrong("fields", "of the format text is a single field: its text is the value")
    if topic.key.kind == "none" and any(each.kind == "key" for each in topic.fields):
        members.wrong("fields", "has a field of the kind key, but records have none")
    members.end()
    return topic


def _key(members: Members) -> KeySpec:
    kind = members.one_of("kind", KEYS, "uniform")
    # A sequence may be endless.
    endless = kind in {"sequential", "none"}
    key = KeySpec(
        kind=kind,
        count=members.whole("count", 0 if endless else 1000, 0 if endless else 1, _MOST_KEYS),
        skew=members.number("skew", 1.0, 0.0) if kind == "zipf" else 0.0,
        prefix=members.text("prefix", "key-"),
        format=members.one_of("format", ("text", "long"), "text"),
    )
    members.end()
    return key


def _field(name: str, members: Members) -> FieldSpec:
    kind = members.one_of("kind", FIELDS)
    read: dict[str, Any] = {}
    if kind in {"int", "float"}:
        read["low"] = low = members.number("low", 0) if kind == "float" else members.whole("low", 0)
        read["high"] = members.number("high", least=low) if kind == "float" else members.whole("high", least=int(low))
        if kind == "float":
            read["digits"] = members.whole("digits", 2, 0, 9)
        else:
            read["skew"] = members.number("skew", 0.0, 0.0)
            if read["skew"] and read["high"] - read["low"] >= _MOST_KEYS:
                members.wrong("skew", f"is for at most {_MOST_KEYS:,} different numbers")
    elif kind == "choice":
        read["of"] = members.texts("of")
        read["weights"] = members.weights("weights", len(read["of"]))
    elif kind in {"text", "words"}:
        if kind == "text" and members.has("length"):
            read["shortest"] = read["longest"] = members.whole("length", least=0, most=1_000_000)
        else:
            read["shortest"] = members.whole("shortest", 8, 0, 1_000_000)
            read["longest"] = members.whole("longest", 12, read["shortest"], 1_000_000)
        if kind == "words":
            read["vocabulary"] = members.whole("vocabulary", 10_000, 1, _MOST_KEYS)
            read["skew"] = members.number("skew", 1.0, 0.0)
            read["prefix"] = members.text("prefix", "word")
    elif kind == "reference":
        read["topic"] = members.text("topic")
        read["match"] = members.share("match", 1.0)
    elif kind == "constant":
        read["value"] = members.text("value")
    members.end()
    return _scaled(FieldSpec(name, kind, **read))


def _scaled(given: FieldSpec) -> FieldSpec:
    """Keep floats as integers of their last digit: the same text on every machine."""
    if given.kind != "float":
        return given
    scale = 10**given.digits
    return FieldSpec(
        given.name, "float", low=round(given.low * scale), high=round(given.high * scale), digits=given.digits
    )


def _time(members: Members) -> TimeSpec:
    burst, gap = members.table("burst", {}), members.table("gap", {})
    disorder, late = members.table("disorder", {}), members.table("late", {})
    time = TimeSpec(
        start_ms=members.time("start", START_MS),
        rate=members.number("rate", 1000.0),
        burst_every_ms=burst.duration("every", 0),
        burst_length_ms=burst.duration("length", 0),
        burst_factor=burst.number("factor", 1.0, 1.0),
        gap_every_ms=gap.duration("every", 0),
        gap_length_ms=gap.duration("length", 0),
        disorder=disorder.share("share"),
        disorder_within_ms=disorder.duration("within", 0),
        late=late.share("share"),
        late_by_ms=late.duration("by", 0),
    )
    if time.rate <= 0:
        members.wrong("rate", "is above 0: records per second of event time")
    if time.burst_length_ms > time.burst_every_ms:
        burst.wrong("length", "is at most as long as every")
    for each in (burst, gap, disorder, late, members):
        each.end()
    return time


def _faults(members: Members) -> FaultSpec:
    names = ("duplicates", "tombstones", "null_keys", "malformed")
    faults = FaultSpec(*(members.share(name.replace("_", "-")) for name in names))
    members.end()
    return faults


def _check_references(topics: tuple[TopicSpec, ...], problems: list[str]) -> None:
    by_name = {topic.name: topic for topic in topics}
    for topic in topics:
        for each in (*topic.fields, *topic.headers):
            if each.kind != "reference":
                continue
            path, other = f"topics.{topic.name}.fields.{each.name}.topic", by_name.get(each.topic)
            if other is None:
                problems.append(f"{path} is one of {', '.join(by_name)}, not {each.topic!r}")
            elif other.key.kind == "none" or (
                other.key.kind == "sequential" and not (other.key.count or other.records)
            ):
                problems.append(f"{path} names a topic whose records have no keys")
