"""Aggregations, and operators of tables, in random topologies.

A windowed aggregation gets null values, so functions that fail on them are not drawn there.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from semantics.sketch import COUNTS, Draw, Handle, Json, Serde, Sketch, move, pick, serdes
from semantics.stream_moves import VALUE_MAPPERS

DAY = 86_400_000

# Aggregations ----------------------------------------------------------------------------------

SAFE = {
    # Those that also accept null values: (operator, fields, result type).
    "string": (
        ("count", {}, "long"),
        ("reduce", {"reducer": "concat_values"}, "string"),
        ("reduce", {"reducer": "keep_last"}, "string"),
        ("reduce", {"reducer": "null_on_x"}, "string"),
        ("aggregate", {"initializer": "empty_text", "aggregator": "append_plus"}, "string"),
        ("aggregate", {"initializer": "empty_text", "aggregator": "append_or_reset"}, "string"),
        ("aggregate", {"initializer": "zero", "aggregator": "count_events"}, "long"),
    ),
    "long": (
        ("count", {}, "long"),
        ("reduce", {"reducer": "keep_last"}, "long"),
        ("reduce", {"reducer": "keep_first"}, "long"),
        ("aggregate", {"initializer": "empty_text", "aggregator": "append_key_value"}, "string"),
        ("aggregate", {"initializer": "zero", "aggregator": "count_events"}, "long"),
    ),
}
NEEDS_VALUES = {
    "string": (("aggregate", {"initializer": "zero", "aggregator": "sum_length"}, "long"),),
    "long": (
        ("reduce", {"reducer": "add_longs"}, "long"),
        ("reduce", {"reducer": "max_long"}, "long"),
        ("aggregate", {"initializer": "zero", "aggregator": "sum_long"}, "long"),
    ),
}
MERGERS = {"empty_text": "merge_texts", "zero": "merge_sums"}


def group(sketch: Sketch, draw: Draw, of: Handle) -> str:
    """Group a stream; return the id of the grouped one."""
    name = sketch.name("group-")
    if draw(st.booleans()):
        return sketch.step("group_by_key", **{"from": of.id}, **serdes(of), name=name)
    fns = ("value_as_key", "first_char", "const_all") if of.value == "string" else ("const_all", "same_key")
    fn = draw(st.sampled_from(fns))
    return sketch.step("group_by", **{"from": of.id}, fn=fn, **serdes(of), name=name)


def aggregated(sketch: Sketch, draw: Draw, window: Json | None, *, on_close: bool = False) -> bool:
    """Group a stream, window it, aggregate it."""
    options = sketch.of("stream", windowed=False)
    if not options:
        return False
    of = pick(draw, options)
    at = group(sketch, draw, of)
    # Null values reach aggregations in time windows and sessions only.
    takes_null = window is not None and window["type"] != "sliding"
    choices = SAFE[of.value] if takes_null else SAFE[of.value] + NEEDS_VALUES[of.value]
    op, fields, value = draw(st.sampled_from(choices))
    store: Json = sketch.store(value)
    key: Serde = "string"
    if window is not None:
        at = sketch.step("windowed_by", **{"from": at}, window=window)
        if window["type"] == "session":
            key = {"session_windowed": "string"}
            fields = fields | ({"merger": MERGERS[fields["initializer"]]} if op == "aggregate" else {})
        else:
            key = {"time_windowed": "string", "size_ms": size_of(window)}
    if on_close:
        at = sketch.step("emit_strategy", **{"from": at}, strategy="on_window_close")
        # Kafka Streams loses results that leave the store's default retention before they are emitted.
        if window is not None and window["type"] != "count":
            store["retention_ms"] = DAY
    made = sketch.step(op, **{"from": at}, **fields, materialized=store)
    sketch.give(Handle(made, "table", value, key, stored=True))
    return True


def size_of(window: Json) -> int:
    size: int = next(window[name] for name in ("size_ms", "difference_ms", "records") if name in window)
    return size


def drawn_window(draw: Draw, kinds: tuple[str, ...]) -> Json:
    kind, grace = draw(st.sampled_from(kinds)), draw(st.sampled_from((0, 5, 20)))
    size = draw(st.sampled_from((5, 10, 20)))
    shapes: dict[str, Json] = {
        "tumbling": {"size_ms": size},
        "hopping": {"size_ms": size, "advance_ms": draw(st.sampled_from((2, 5)))},
        "sliding": {"difference_ms": size},
        "session": {"gap_ms": size},
    }
    return {"type": kind, **shapes[kind], "grace_ms": grace}


@move("plain stream")
def aggregate(sketch: Sketch, draw: Draw) -> bool:
    return aggregated(sketch, draw, None)


@move("plain stream")
def tumbling(sketch: Sketch, draw: Draw) -> bool:
    return aggregated(sketch, draw, drawn_window(draw, ("tumbling",)))


@move("plain stream")
def hopping(sketch: Sketch, draw: Draw) -> bool:
    return aggregated(sketch, draw, drawn_window(draw, ("hopping",)))


@move("plain stream")
def sliding(sketch: Sketch, draw: Draw) -> bool:
    return aggregated(sketch, draw, drawn_window(draw, ("sliding",)))


@move("plain stream")
def session(sketch: Sketch, draw: Draw) -> bool:
    return aggregated(sketch, draw, drawn_window(draw, ("session",)))


@move("plain stream")
def count_window(sketch: Sketch, draw: Draw) -> bool:
    window = {"type": "count", "records": draw(st.sampled_from(COUNTS))}
    return aggregated(sketch, draw, window, on_close=draw(st.booleans()))


@move("plain stream")
def on_window_close(sketch: Sketch, draw: Draw) -> bool:
    window = drawn_window(draw, ("tumbling", "hopping", "sliding", "session"))
    return aggregated(sketch, draw, window, on_close=True)


@move("plain stream")
def cogroup(sketch: Sketch, draw: Draw) -> bool:
    streams = sketch.of("stream", windowed=False)
    if len(streams) < 2:
        return False
    window = draw(st.none() | st.builds(lambda: drawn_window(draw, ("tumbling", "sliding", "session"))))
    at = ""
    for of in draw(st.lists(st.sampled_from(streams), min_size=2, max_size=2, unique_by=lambda h: h.id)):
        grouped = group(sketch, draw, of)
        aggregator = draw(st.sampled_from(("append_plus", "append_key_value")))
        fields = {"from": at, "other": grouped} if at else {"from": grouped}
        at = sketch.step("cogroup", **fields, aggregator=aggregator)
    key: Serde = "string"
    fields = {}
    if window is not None:
        at = sketch.step("windowed_by", **{"from": at}, window=window)
        size = window.get("size_ms", window.get("difference_ms"))
        key = {"time_windowed": "string", "size_ms": size}
        if window["type"] == "session":
            key, fields = {"session_windowed": "string"}, {"merger": "merge_texts"}
    made = sketch.step(
        "aggregate", **{"from": at}, initializer="empty_text", **fields, materialized=sketch.store("string")
    )
    sketch.give(Handle(made, "table", "string", key, stored=True))
    return True


# Tables ----------------------------------------------------------------------------------------


def on_table(sketch: Sketch, draw: Draw) -> tuple[Handle, Json] | None:
    """A table and, sometimes, a store for the derived one (not for windowed ones)."""
    options = sketch.of("table")
    if not options:
        return None
    of = pick(draw, options)
    return of, {"stored": not of.windowed and draw(st.booleans())}


@move("table")
def filter_table(sketch: Sketch, draw: Draw) -> bool:
    found = on_table(sketch, draw)
    if found is None:
        return False
    of, how = found
    op, predicate = draw(st.sampled_from(("filter", "filter_not"))), draw(st.sampled_from(of.predicates))
    kept = {"materialized": sketch.store(of.value)} if how["stored"] else {}
    made = sketch.step(op, **{"from": of.id}, predicate=predicate, **kept)
    stored = bool(kept)
    of = replace(of, versioned=of.versioned and not stored, readable=stored or of.readable, typed=stored or of.typed)
    sketch.give(replace(of, id=made, stored=stored))
    return True


@move("table")
def map_table(sketch: Sketch, draw: Draw) -> bool:
    found = on_table(sketch, draw)
    if found is None:
        return False
    of, how = found
    fn = draw(st.sampled_from(sorted(VALUE_MAPPERS[of.value])))
    value, stored = VALUE_MAPPERS[of.value][fn], how["stored"]
    # The result of a function has no serde until one is named, with a store or without.
    kept = sketch.store(value) if stored else {"key_serde": of.key, "value_serde": value}
    made = sketch.step("map_values", **{"from": of.id}, fn=fn, materialized=kept)
    of = replace(of, versioned=False, readable=stored or of.readable, typed=True)
    sketch.give(replace(of, id=made, value=value, stored=stored))
    return True


@move("table")
def to_stream(sketch: Sketch, draw: Draw) -> bool:
    options = sketch.of("table")
    if not options:
        return False
    of = pick(draw, options)
    made = sketch.step("to_stream", **{"from": of.id})
    sketch.give(Handle(made, "stream", of.value, of.key))
    return True


TABLE_AGGREGATIONS: dict[str, tuple[tuple[str, dict[str, str], str], ...]] = {
    "string": (
        ("count", {}, "long"),
        ("reduce", {"adder": "concat_values", "subtractor": "concat_minus"}, "string"),
        ("aggregate", {"initializer": "empty_text", "adder": "append_plus", "subtractor": "append_minus"}, "string"),
    ),
    "long": (
        ("count", {}, "long"),
        ("reduce", {"adder": "add_longs", "subtractor": "sub_longs"}, "long"),
        ("aggregate", {"initializer": "zero", "adder": "sum_long", "subtractor": "subtract_long"}, "long"),
    ),
}


@move("table")
def aggregate_table(sketch: Sketch, draw: Draw) -> bool:
    options = sketch.of("table")
    if not options:
        return False
    of = pick(draw, options)
    plain = ("by_first_char",) if of.value == "string" else ("parity_group",)
    fn = draw(st.sampled_from((*plain, "by_window_start", "by_inner_key") if of.windowed else plain))
    name = sketch.name("group-")
    at = sketch.step("group_by", **{"from": of.id}, fn=fn, key_serde="string", value_serde=of.value, name=name)
    op, fields, value = draw(st.sampled_from(TABLE_AGGREGATIONS[of.value]))
    made = sketch.step(op, **{"from": at}, **fields, materialized=sketch.store(value))
    sketch.give(Handle(made, "table", value, stored=True))
    return True


@move("windowed table")
def suppress_until_close(sketch: Sketch, draw: Draw) -> bool:
    options = [h for h in sketch.of("table", windowed=True) if h.closes]
    if not options:
        return False
    of = pick(draw, options)
    fields = {"until": "window_closes", "buffer": {"type": "unbounded"}, "name": sketch.name("final-")}
    sketch.give(replace(of, id=sketch.step("suppress", **{"from": of.id}, **fields), stored=False, readable=False))
    return True


@move("table")
def suppress_for_a_while(sketch: Sketch, draw: Draw) -> bool:
    options = [h for h in sketch.of("table") if h.typed and not h.versioned]
    if not options:
        return False
    of = pick(draw, options)
    full = {"max_records": draw(st.sampled_from((1, 3))), "when_full": "emit_early"}
    buffer = draw(st.sampled_from(({"type": "unbounded"}, full)))
    limit = draw(st.sampled_from((0, 10, 50)))
    fields = {"until": "time_limit", "time_limit_ms": limit, "buffer": buffer, "name": sketch.name("later-")}
    sketch.give(replace(of, id=sketch.step("suppress", **{"from": of.id}, **fields), stored=False, readable=False))
    return True
