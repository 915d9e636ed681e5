"""Sources and stateless operators of random topologies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from semantics.sketch import LONG_PREDICATES, TEXT_PREDICATES, Draw, Handle, Json, Sketch, move, pick, serdes

# Sources ---------------------------------------------------------------------------------------


def source(sketch: Sketch, draw: Draw, kind: str, **more: Any) -> Handle:
    value = draw(st.sampled_from(("string", "long")))
    topic = f"in{len(sketch.sources) + 1}"
    serde = {"key_serde": "string", "value_serde": value}
    where = {"topics": [topic]} if kind == "stream" else {"topic": topic}
    handle = Handle(sketch.step(kind, **where, **serde, **more), kind, value)
    sketch.sources.append({"topic": topic, "value": value, "table": kind != "stream"})
    sketch.give(handle)
    return handle


@move()
def stream(sketch: Sketch, draw: Draw) -> bool:
    source(sketch, draw, "stream")
    return True


@move()
def table(sketch: Sketch, draw: Draw) -> bool:
    source(sketch, draw, "table")
    return True


@move()
def stored_table(sketch: Sketch, draw: Draw) -> bool:
    made = source(sketch, draw, "table")
    sketch.steps[-1]["materialized"] = sketch.store(made.value)
    return True


@move()
def versioned_table(sketch: Sketch, draw: Draw) -> bool:
    made = source(sketch, draw, "table")
    sketch.steps[-1]["materialized"] = sketch.store(made.value, versioned_history_ms=draw(st.sampled_from((30, 1000))))
    sketch.handles[-1] = replace(made, versioned=True)
    return True


@move()
def global_table(sketch: Sketch, draw: Draw) -> bool:
    source(sketch, draw, "global_table")
    sketch.steps[-1]["materialized"] = sketch.store(sketch.handles[-1].value)
    return True


SOURCES = ("stream", "table", "stored_table", "versioned_table", "global_table")


# Streams ---------------------------------------------------------------------------------------


def on_stream(
    sketch: Sketch, draw: Draw, op: str, functions: dict[str, dict[str, str]], *, keys: bool = False, name: str = "fn"
) -> bool:
    """Add `op` with a function that fits the value, `{value type: {function: result type}}`."""
    options = [h for h in sketch.of("stream", windowed=False if keys else None) if functions.get(h.value)]
    if not options:
        return False
    of = pick(draw, options)
    fn = draw(st.sampled_from(sorted(functions[of.value])))
    made = sketch.step(op, **{"from": of.id, name: fn})
    sketch.give(replace(of, id=made, value=functions[of.value][fn]))
    return True


@move("stream")
def filter_stream(sketch: Sketch, draw: Draw) -> bool:
    op = draw(st.sampled_from(("filter", "filter_not")))
    texts, longs = dict.fromkeys(TEXT_PREDICATES, "string"), dict.fromkeys(LONG_PREDICATES, "long")
    return on_stream(sketch, draw, op, {"string": texts, "long": longs}, name="predicate")


VALUE_MAPPERS = {
    "string": {"upper": "string", "prefix_key": "string", "null_if_x": "string", "text_length": "long"},
    "long": {"double_long": "long", "to_text": "string", "prefix_key": "string"},
}


@move("stream")
def map_values(sketch: Sketch, draw: Draw) -> bool:
    return on_stream(sketch, draw, "map_values", VALUE_MAPPERS)


@move("stream")
def flat_map_values(sketch: Sketch, draw: Draw) -> bool:
    functions = {"string": {"split_words": "string", "twice": "string"}, "long": {"twice": "long"}}
    return on_stream(sketch, draw, "flat_map_values", functions)


@move("plain stream")
def map_pairs(sketch: Sketch, draw: Draw) -> bool:
    functions = {"string": {"swap_kv": "string", "value_to_key_one": "long", "by_first_char": "string"}}
    return on_stream(sketch, draw, "map", functions, keys=True)


@move("plain stream")
def flat_map(sketch: Sketch, draw: Draw) -> bool:
    functions = {"string": {"words_as_keys": "string", "both_ways": "string"}}
    return on_stream(sketch, draw, "flat_map", functions, keys=True)


@move("plain stream")
def select_key(sketch: Sketch, draw: Draw) -> bool:
    texts = dict.fromkeys(("value_as_key", "first_char", "const_all", "same_key"), "string")
    longs = dict.fromkeys(("const_all", "same_key", "null_key"), "long")
    return on_stream(sketch, draw, "select_key", {"string": texts, "long": longs}, keys=True)


@move("windowed stream")
def select_window_key(sketch: Sketch, draw: Draw) -> bool:
    options = sketch.of("stream", windowed=True)
    if not options:
        return False
    of = pick(draw, options)
    fn = draw(st.sampled_from(("window_inner_key", "window_key_text")))
    sketch.give(Handle(sketch.step("select_key", **{"from": of.id, "fn": fn}), "stream", of.value))
    return True


@move("stream")
def peek(sketch: Sketch, draw: Draw) -> bool:
    return on_stream(sketch, draw, "peek", {"string": {"noop": "string"}, "long": {"noop": "long"}})


@move("plain stream")
def merge(sketch: Sketch, draw: Draw) -> bool:
    left = [
        h for h in sketch.of("stream", windowed=False) if len(sketch.of("stream", windowed=False, value=h.value)) > 1
    ]
    if not left:
        return False
    one = pick(draw, left)
    other = pick(draw, [h for h in sketch.of("stream", windowed=False, value=one.value) if h.id != one.id])
    sketch.give(replace(one, id=sketch.step("merge", **{"from": one.id, "other": other.id})))
    return True


@move("stream")
def split(sketch: Sketch, draw: Draw) -> bool:
    options = sketch.of("stream")
    if not options:
        return False
    of = pick(draw, options)
    predicates = draw(st.lists(st.sampled_from(of.predicates), min_size=1, max_size=2, unique=True))
    ids = [sketch.name("branch-") for _ in predicates]
    branches = [{"id": id_, "predicate": p} for id_, p in zip(ids, predicates, strict=True)]
    rest: Json = {}
    if draw(st.booleans()):
        rest = {"default": {"id": sketch.name("branch-")}}
        ids.append(rest["default"]["id"])
    sketch.step("split", **{"from": of.id, "branches": branches}, **rest)
    for id_ in ids:
        sketch.give(replace(of, id=id_))
    return True


@move("plain stream")
def repartition(sketch: Sketch, draw: Draw) -> bool:
    options = sketch.of("stream", windowed=False)
    if not options:
        return False
    of = pick(draw, options)
    made = sketch.step("repartition", **{"from": of.id}, **serdes(of), name=sketch.name("again-"))
    sketch.give(replace(of, id=made))
    return True


@move("plain stream")
def to_table(sketch: Sketch, draw: Draw) -> bool:
    options = sketch.of("stream", windowed=False)
    if not options:
        return False
    of = pick(draw, options)
    made = sketch.step("to_table", **{"from": of.id}, materialized=sketch.store(of.value))
    sketch.give(Handle(made, "table", of.value, stored=True))
    return True
