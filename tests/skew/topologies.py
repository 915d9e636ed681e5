"""Topologies in the vectors' form: windows of one topic, joins of two.

Takes: windows, functions, when to emit what.
Gives: steps, and their stores.
Never: names topics of a broker: they are `in`, or `left` and `right`, and `out`.
"""

from __future__ import annotations

from typing import Any

Step = dict[str, Any]
_DAY_MS = 86_400_000
_TEXTS: Step = {"key_serde": "string", "value_serde": "string"}


class Topology:
    """Appends steps, each to the one before."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.stores: dict[str, Step] = {}
        self.waits = False
        """Whether results are emitted only when time has passed."""

    def add(self, op: str, **fields: Any) -> str:
        made = f"s{len(self.steps) + 1}"
        self.steps.append({"id": made, "op": op, **fields})
        return made

    def source(self, topic: str, *, first_char: bool = False) -> str:
        made = self.add("stream", topics=[topic], **_TEXTS)
        return self.add("select_key", **{"from": made}, fn="first_char") if first_char else made

    def kept(self, kind: str, *, value: str = "string", **more: Any) -> Step:
        name = f"kept-{len(self.stores)}"
        self.stores[name] = {"kind": kind}
        return {"store": name, "key_serde": "string", "value_serde": value, **more}

    def to(self, made: str, key: Any = "string", value: str = "string") -> None:
        self.add("to", **{"from": made}, topic="out", key_serde=key, value_serde=value)


def windowed_key(window: Step) -> Step:
    """The serde of the keys of its results."""
    if window["type"] == "session":
        return {"session_windowed": "string"}
    return {"time_windowed": "string", "size_ms": window.get("size_ms", window.get("difference_ms"))}


def aggregation(window: Step, function: str, comes: str, *, exchanged: bool) -> Topology:
    """Windows of one topic: `comes` with every update, when `suppressed` until it closes, or `on_close`."""
    made = Topology()
    stream = made.source("in")
    group = {"op": "group_by", "fn": "first_char"} if exchanged else {"op": "group_by_key"}
    at = made.add(**group, **{"from": stream}, **_TEXTS)
    at = made.add("windowed_by", **{"from": at}, window=window)
    more: Step = {}
    if comes == "on_close":
        at = made.add("emit_strategy", **{"from": at}, strategy="on_window_close")
        # With less, Kafka Streams loses windows that the record which closes them has expired from the store.
        more = {"retention_ms": _DAY_MS}
    value = "long" if function == "count" else "string"
    functions: dict[str, Step] = {
        "count": {},
        "reduce": {"reducer": "concat_values"},
        "aggregate": {"initializer": "empty_text", "aggregator": "append_plus"},
    }
    sessions = window["type"] == "session"
    merger = {"merger": "merge_texts"} if sessions and function == "aggregate" else {}
    kept = made.kept("session" if sessions else "window", value=value, **more)
    at = made.add(function, **{"from": at}, **functions[function], **merger, materialized=kept)
    if comes == "suppressed":
        at = made.add("suppress", **{"from": at}, until="window_closes")
    made.to(made.add("to_stream", **{"from": at}), windowed_key(window), value)
    made.waits = comes != "each"
    return made


def expiry(*, exchanged: bool) -> Topology:
    """Rows that a schedule by stream time deletes when they are five seconds old."""
    made = Topology()
    kept = made.kept("kv")
    made.add("state_store", kind="timestamped_kv", **kept)
    stream = made.source("in", first_char=exchanged)
    if exchanged:
        stream = made.add("repartition", **{"from": stream}, name="again", **_TEXTS)
    made.to(made.add("process", **{"from": stream}, processor="expire_after_five", stores=[kept["store"]]))
    return made


def join_of_streams(op: str, window: Step, *, exchanged: bool) -> Topology:
    """Of `left` and `right`."""
    made = Topology()
    left = made.source("left", first_char=exchanged)
    right = made.source("right")
    serdes = _TEXTS | {"other_value_serde": "string"}
    made.to(made.add(op, **{"from": left}, other=right, joiner="pair_text", window=window, **serdes))
    made.waits = op != "join"
    return made


def join_with_a_table(op: str, *, versioned: bool, grace_ms: int | None, exchanged: bool) -> Topology:
    """Of the stream `left` and the table `right`."""
    made = Topology()
    left = made.source("left", first_char=exchanged)
    kept = made.kept("versioned", versioned_history_ms=3_600_000) if versioned else made.kept("kv")
    table = made.add("table", topic="right", **_TEXTS, materialized=kept)
    serdes = _TEXTS | {"other_value_serde": "string"}
    grace: Step = {} if grace_ms is None else {"grace_ms": grace_ms}
    made.to(made.add(op, **{"from": left}, other=table, joiner="pair_text", name="J", **serdes, **grace))
    made.waits = grace_ms is not None
    return made
