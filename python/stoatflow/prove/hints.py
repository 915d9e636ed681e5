"""Hints about a difference: frequent mistakes in ports, and deliberate differences from Kafka Streams.

Takes a difference and the physical plan; returns sentences. A hint never removes a difference. The decisions are those
of docs/adr/0006 and 0007, each with the operators at which it is visible. Pure.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from stoatflow.prove.compare import Difference
from stoatflow.prove.runs import Output, Row


class Decision(NamedTuple):
    """A point of a decision, and when it may explain a difference."""

    where: str
    text: str
    fits: Callable[[Difference, Shown], bool]


class Shown:
    """The properties of a topology that decisions depend on."""

    def __init__(self, plan: dict[str, Any], place: str, text: str) -> None:
        """Examine the physical plan upstream of a topic or store, and the text of `describe()`."""
        nodes = [node["op"] for node in leading_to(plan, place)]
        self.ops = {op["op"] for op in nodes}
        used = {store for op in nodes for store in _stores(op)}
        self.kinds = {store["kind"]["type"] for store in plan["stores"] if store["id"] in used}
        self.on_close = any(op.get("emit") not in (None, "on_window_update") for op in nodes)
        self.outer = any(op["op"] == "stream_join" and op.get("kind") != "inner" for op in nodes)
        self.is_one_task = text.count("Sub-topology: ") < 2
        self.reads_what_it_writes = bool(
            {sink["topic"] for sink in plan["sinks"]} & {topic for one in plan["sources"] for topic in one["topics"]}
        )

    def has(self, *ops: str) -> bool:
        """Whether all of these operators occur."""
        return self.ops.issuperset(ops)


def leading_to(plan: dict[str, Any], place: str) -> list[dict[str, Any]]:
    """Return the nodes upstream of a topic or store; all nodes if that is unknown."""
    nodes: dict[int, dict[str, Any]] = {node["id"]: node for node in plan["nodes"]}
    sinks = {sink["id"] for sink in plan["sinks"] if sink.get("topic") == place}
    stores = {store["id"] for store in plan["stores"] if store["name"] == place}
    above: dict[int, set[int]] = {}
    users: dict[int, set[int]] = {}
    for number, node in nodes.items():
        to = node["op"].get("to")
        for child in [*node["children"], *(to if isinstance(to, list) else [])]:
            above.setdefault(child, set()).add(number)
        for store in _stores(node["op"]):
            users.setdefault(store, set()).add(number)
    waiting = [number for number, node in nodes.items() if node["op"].get("sink") in sinks]
    waiting += [number for store in stores for number in users.get(store, ())]
    found: set[int] = set()
    while waiting:
        number = waiting.pop()
        if number not in found:
            found.add(number)
            waiting += above.get(number, ())
            # A node that shares a store may have written what is read there.
            waiting += [other for store in _stores(nodes[number]["op"]) for other in users.get(store, ())]
    return [nodes[number] for number in sorted(found)] or list(nodes.values())


def _stores(op: Any) -> set[int]:
    """Return the numbers of the stores that an operator uses."""
    found: set[int] = set()
    for name, value in op.items() if isinstance(op, dict) else ():
        if name.endswith(("store", "stores")):
            found |= {one for one in (value if isinstance(value, list) else [value]) if isinstance(one, int)}
        elif isinstance(value, dict):
            found |= _stores(value)
        elif isinstance(value, list):
            found |= {store for one in value for store in _stores(one)}
    return found


def _only_java(difference: Difference) -> bool:
    return difference.java is not None and difference.python is None


def _only_python(difference: Difference) -> bool:
    return difference.java is None and difference.python is not None


def _headers_only(difference: Difference) -> bool:
    return difference.parts == ("headers",)


DECISIONS = (
    Decision(
        "docs/adr/0006, point 1",
        "when rows of left and outer stream-stream joins come out that found no partner",
        lambda seen, shown: shown.outer and seen.kind in ("record", "order"),
    ),
    Decision(
        "docs/adr/0006, point 11",
        "a topic that the topology both writes and reads is read after the commit that wrote it",
        lambda _, shown: shown.reads_what_it_writes,
    ),
    Decision(
        "docs/adr/0007, point 1",
        "record_metadata behind a re-keying is that of the input record, since there is no repartition topic",
        lambda _, shown: shown.has("process", "exchange"),
    ),
    Decision(
        "docs/adr/0007, points 2 and 3",
        "forwarded records reach the children after process() has returned; and when punctuations run, over which keys",
        lambda _, shown: shown.has("process"),
    ),
    Decision(
        "docs/guide/proving-a-port.md",
        "stream time in processors, and schedules by it: Kafka Streams' test driver runs all sub-topologies as "
        "one task with one time, an application has one for each",
        lambda _, shown: shown.has("process") and not shown.is_one_task,
    ),
    Decision(
        "docs/reference/windows.md",
        "sessions that Kafka Streams' store has dropped before they close are given out here",
        lambda seen, shown: shown.has("session_aggregate") and shown.on_close and _only_python(seen),
    ),
    Decision(
        "docs/adr/0007, point 12",
        "a table that meets itself: both sides of a join come from one topic, and one of them has a part behind an "
        "exchange",
        lambda _, shown: shown.has("table_join") and bool(shown.ops & {"exchange", "foreign_join"}),
    ),
    Decision(
        "docs/adr/0007, point 13",
        "a version that is deleted at its own time: Kafka Streams forgets that there was anything",
        lambda _, shown: "versioned" in shown.kinds,
    ),
    Decision(
        "docs/adr/0007, points 14 and 15",
        "a foreign-key join into a versioned store, or with a right value of no bytes",
        lambda _, shown: bool({op for op in shown.ops if op.startswith("foreign_") and op != "foreign_batch"}),
    ),
    Decision(
        "docs/adr/0007, point 19",
        "a store of windows that are given out when they close shows one window more in Kafka Streams",
        lambda seen, shown: shown.on_close and seen.kind == "row" and _only_java(seen),
    ),
)


def known(difference: Difference, plan: dict[str, Any], text: str) -> list[str]:
    """Return the decisions that may explain the difference; `text` is that of `describe()`."""
    shown = Shown(plan, difference.place, text)
    if difference.kind == "failure" or _headers_only(difference):
        return []
    return [f"{one.text} ({one.where})" for one in DECISIONS if one.fits(difference, shown)]


def slips(difference: Difference) -> list[str]:
    """Return frequent mistakes in ports that look like this difference."""
    java, python = difference.java, difference.python
    found: list[str] = []
    if difference.kind == "order":
        found.append("the same records come in another order with this input")
    if java is None or python is None:
        return found
    for part in ("key", "value"):
        if part in difference.parts:
            found += _of_bytes(part, getattr(java, part), getattr(python, part))
    if "headers" in difference.parts and isinstance(java, Output) and isinstance(python, Output):
        found += _of_headers(java, python)
    if "timestamp" in difference.parts and isinstance(java, Row | Output):
        found.append("the timestamps differ: look at timestamp extractors, and at functions that set one")
    return found


def _of_bytes(part: str, java: bytes | None, python: bytes | None) -> list[str]:
    if java is None or python is None:
        absent, other = ("Java", "Python") if java is None else ("Python", "Java")
        return [f"the {part} is null in {absent} (a tombstone, if it is a table's), and not in {other}"]
    if len(java) in (4, 8) and len(python) in (4, 8) and _number(java, python):
        sizes = f"Java has {len(java)} bytes, Python {len(python)}"
        types = "Integer is Serdes.int32(), Long is int, Double is float"
        return [f"the {part} is the same number, written as another type: {sizes}. {types}"]
    for more, text in ((8, "a time window (Serdes.time_windowed)"), (16, "a session (Serdes.session_windowed)")):
        if len(java) == len(python) + more and java.startswith(python):
            return [f"Java's {part} is followed by {text}, Python's is not"]
        if len(python) == len(java) + more and python.startswith(java):
            return [f"Python's {part} is followed by {text}, Java's is not"]
    try:
        if json.loads(java) == json.loads(python):
            return [f"the {part} is the same JSON, written otherwise (spaces, order of members): --same-json allows it"]
    except ValueError:
        pass
    return []


def _number(java: bytes, python: bytes) -> bool:
    forms = {4: (">i", ">f"), 8: (">q", ">d")}
    if len(java) == len(python):
        return False
    values = [{struct.unpack(form, data)[0] for form in forms[len(data)]} for data in (java, python)]
    return bool(values[0] & values[1])


def _of_headers(java: Output, python: Output) -> list[str]:
    if sorted(map(repr, java.headers)) == sorted(map(repr, python.headers)):
        return ["the headers are the same in another order"]
    only_java = [name for name, _ in java.headers if name not in {other for other, _ in python.headers}]
    only_python = [name for name, _ in python.headers if name not in {other for other, _ in java.headers}]
    found = []
    if only_java:
        found.append(f"headers that only Java has: {', '.join(only_java)}")
    if only_python:
        found.append(f"headers that only Python has: {', '.join(only_python)}")
    return found
