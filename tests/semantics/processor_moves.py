"""Processors in random topologies, by the state that they need."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from semantics.sketch import Draw, Handle, Sketch, move, pick

STATELESS = {
    "string": (("process", "double_forward"), ("process", "shift_timestamp"), ("process", "stamp_header")),
    "long": (("process", "shift_timestamp"), ("process", "stamp_header"), ("process_values", "stream_time")),
}
STATEFUL = {"string": (("process_values", "dedup"),), "long": (("process", "running_total"),)}


def processed(sketch: Sketch, of: Handle, op: str, processor: str, kind: str | None = None) -> None:
    """Add a processor, with its own store if a kind is given: then null keys are filtered before."""
    stores = {}
    at = of.id
    if kind is not None:
        name = sketch.name("kept-")
        sketch.step("state_store", store=name, kind=kind, key_serde="string", value_serde=of.value)
        at = sketch.step("filter", **{"from": at}, predicate="key_not_null")
        stores = {"stores": [name]}
    made = sketch.step(op, **{"from": at}, processor=processor, **stores)
    sketch.give(replace(of, id=made, value="string" if processor == "stream_time" else of.value))


@move("plain stream")
def process(sketch: Sketch, draw: Draw) -> bool:
    of = pick(draw, sketch.of("stream", windowed=False))
    op, processor = draw(st.sampled_from(STATELESS[of.value]))
    processed(sketch, of, op, processor)
    return True


@move("plain stream")
def process_with_store(sketch: Sketch, draw: Draw) -> bool:
    of = pick(draw, sketch.of("stream", windowed=False))
    op, processor = draw(st.sampled_from(STATEFUL[of.value]))
    processed(sketch, of, op, processor, "kv")
    return True


@move("plain stream")
def punctuate(sketch: Sketch, draw: Draw) -> bool:
    of = pick(draw, sketch.of("stream", windowed=False))
    processor = draw(st.sampled_from(("flush_stream_time", "flush_wall_clock", "ttl_expire")))
    processed(sketch, of, "process", processor, "timestamped_kv" if processor == "ttl_expire" else "kv")
    return True
