"""Methods and classes of Kafka Streams, and what to write here.

Takes a name as Java spells it, returns its row of `kafka_streams.json`, which `make docs` writes from the table of
docs/reference/parity.md. Owns the names that Kafka Streams 4 no longer has, and those of Kafka's serdes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from stoatflow.explain.entry import Entry

__all__ = ["Method", "class_named", "find", "method_of", "methods"]

_PAGE = "reference/parity.md"
_STEPS = "group_by_key, count, join, ..."
_EARLIER = (
    ("KStream.branch", "KStream.split", ""),
    ("KStream.through", "KStream.repartition", ""),
    ("KStream.transform", "KStream.process", ""),
    ("KStream.flatTransform", "KStream.process", ""),
    ("KStream.transformValues", "KStream.process_values", ""),
    ("KStream.flatTransformValues", "KStream.process_values", ""),
    ("KStream.groupBy", "KStream.group_by", ""),
    ("Topology.AutoOffsetReset", "OffsetReset", ""),
    ("TimeWindows.of", "TimeWindows()", ""),
    ("TimeWindows.grace", "TimeWindows(grace=)", ""),
    ("JoinWindows.of", "JoinWindows()", ""),
    ("JoinWindows.grace", "JoinWindows(grace=)", ""),
    ("SessionWindows.with", "SessionWindows()", ""),
    ("SessionWindows.grace", "SessionWindows(grace=)", ""),
    ("SlidingWindows.withTimeDifferenceAndGrace", "SlidingWindows()", ""),
    ("Serdes.String", "", "the type `str`, or `Serdes.string()`"),
    ("Serdes.Long", "", "the type `int`, or `Serdes.int64()`"),
    ("Serdes.Integer", "Serdes.int32", ""),
    ("Serdes.Double", "", "the type `float`, or `Serdes.double()`"),
    ("Serdes.Bytes", "", "the type `bytes`, or `Serdes.bytes()`"),
    ("Serdes.ByteArray", "", "the type `bytes`, or `Serdes.bytes()`"),
    ("Serdes.UUID", "", "the type `uuid.UUID`, or `Serdes.uuid()`"),
    ("Serdes.ListSerde", "Serdes.list", ""),
    ("Serdes.serdeFrom", "", "a subclass of `Serde`, with `serialize` and `deserialize`"),
)
"""Methods that Kafka Streams had before 4.0, and Kafka's serdes."""
_CLASSES = {
    "StreamsConfig": 'a configuration is a dict, {"application.id": ...}, a file, or `Settings`',
    "Properties": 'a configuration is a dict, {"application.id": ...}, a file, or `Settings`',
    "Named": f"the argument `name=` of each step ({_STEPS})",
    "Duration": 'a `timedelta`, or text such as "5m"',
    "TopologyTestDriver": "`stoatflow.testing.TopologyTestDriver`",
    "TestInputTopic": "`TopologyTestDriver.input`",
    "TestOutputTopic": "`TopologyTestDriver.output`",
    "MockProcessorContext": "`stoatflow.testing.MockProcessorContext`",
    "StoreQueryParameters": "`StoatFlow.store(name)`",
    "Transformer": "a `Processor`, with `KStream.process`",
    "ValueTransformerWithKey": "`ValueTransformer`, which gets the key too",
}
"""Classes whose name is not that of a method's counterpart."""
_LINK = re.compile(r"\[([^]]+)]\([^)]*\)")


class Method(NamedTuple):
    """A method of Kafka Streams, or `new` and a class."""

    java: str
    python: str
    why: str

    @property
    def here(self) -> str:
        """What to write, or why there is nothing."""
        return f"`{self.python.replace('=)', '=...)')}`" if self.python else _LINK.sub(r"\1", self.why)

    @property
    def advice(self) -> str:
        """The end of an error message: what to write, or why there is nothing."""
        if self.python:
            return f"Next: for Kafka Streams' {self.java} write {self.python.replace('=)', '=...)')}"
        return f"Kafka Streams' {self.java}: {self.here}"

    def to_entry(self) -> Entry:
        """Return it as an entry of `stoatflow explain`."""
        return Entry(sort="method of Kafka Streams", name=self.java, meaning=f"here: {self.here}", page=_PAGE)


@cache
def methods() -> tuple[Method, ...]:
    """Return all of them, those of current versions first."""
    rows: list[list[str]] = json.loads((files("stoatflow.explain") / "kafka_streams.json").read_text("utf-8"))
    return tuple(Method(*row) for row in (*rows, *_EARLIER))


def find(name: str) -> list[Method]:
    """Return those with this name, with or without their class; case is ignored."""
    wanted = name.lower().removeprefix("new ").removesuffix("()")
    found = [each for each in methods() if each.java.lower() in (wanted, f"new {wanted}")]
    if not found and "." not in wanted:
        found = [each for each in methods() if each.java.lower().rpartition(".")[2] == wanted]
    if not found and (one := class_named(name)):
        found = [one]
    return found


def method_of(classes: Iterable[str], name: str) -> Method | None:
    """Return the method `name` of one of these classes, by Java's name of the class or by the name here."""
    by_java = {each.java: each for each in reversed(methods())}
    by_class = {(_class_of(each.python), each.java.rpartition(".")[2]): each for each in reversed(methods())}
    for one in classes:
        if found := by_java.get(f"{one}.{name}") or by_class.get((one, name)):
            return found
    return None


def class_named(name: str) -> Method | None:
    """Return a class of Kafka Streams, and what to write for it."""
    if name in _CLASSES:
        return Method(name, "", _CLASSES[name])
    part = next((each for each in methods() if each.java == f"new {name}"), None)
    if part is None:
        part = next((each for each in methods() if each.java.startswith(f"{name}.")), None)
        if part is not None and part.python:
            part = part._replace(python=_class_of(part.python))
    return None if part is None else part._replace(java=name)


def _class_of(spelling: str) -> str:
    """Return the class of `Class.method`, `Class(argument=)` or `Class()`."""
    before, found, _ = spelling.partition("(")
    return before if found and "." not in before else before.rpartition(".")[0]
