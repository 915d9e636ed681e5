"""Random cases in the vectors' form: a topology from `moves`, and inputs with all kinds of irregularities.

Records go back in time, share timestamps, repeat keys, lack keys or values, and carry headers; the wall clock
advances now and then.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st

from conformance import recovery
from conformance.runner import Case, same_per_key
from semantics.interpreter import Result, interpret
from semantics.moves import SOURCES, all_moves
from semantics.sketch import NEEDS, Draw, Json, Sketch, applies

EXAMPLES = os.environ.get("STOATFLOW_TEST_RANDOM_EXAMPLES")
TEXTS = ("a", "b", "x", "abcd", "p q", "a:1", "b:2", "x-y")
KEYS = ("a", "b", "a-1", "x")


def searching(examples: int) -> settings:
    """This many cases, the same ones each time; or with `STOATFLOW_TEST_RANDOM_EXAMPLES` that many new ones."""
    return settings(
        max_examples=int(EXAMPLES or examples),
        derandomize=EXAMPLES is None,
        deadline=None,
        print_blob=EXAMPLES is not None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )


@st.composite
def topologies(draw: Draw, allowed: Collection[str], must: str | None = None) -> Sketch:
    """Two to eight operators, on one to three sources; every unused result goes to a topic.

    If `must` is given, that move comes first, with the moves it needs.
    """
    sketch, moves = Sketch(), all_moves()
    # Streams twice, because most operators begin with one.
    sources = [name for name in ("stream", *SOURCES) if name in allowed]
    for name in draw(st.lists(st.sampled_from(sources), min_size=1, max_size=3)):
        moves[name](sketch, draw)
        sketch.moves.append(name)
    for name in () if must is None else (*before(must), must):
        assume(moves[name](sketch, draw))
        sketch.moves.append(name)
    others = [name for name in moves if name in allowed and name not in SOURCES]
    for _ in range(draw(st.integers(1, 7))):
        ready = [name for name in others if applies(name, sketch)]
        if ready:
            name = draw(st.sampled_from(ready))
            # A move that found no operand has not been made.
            sketch.moves += [name] if moves[name](sketch, draw) else []
    ends = [handle for handle in sketch.handles if handle.id not in sketch.used and handle.kind != "global_table"]
    assume(ends)
    for number, handle in enumerate(ends):
        at = handle.id
        if handle.kind == "table":
            at = sketch.step("to_stream", **{"from": at})
        sketch.step("to", **{"from": at}, topic=f"out{number + 1}", key_serde=handle.key, value_serde=handle.value)
    return sketch


def before(must: str) -> list[str]:
    """The moves that create the operands of a move."""
    made = {"stream": ["stream", "stream"], "table": ["stored_table"], "global_table": ["global_table"]}
    windowed = {"table": ["stream", "tumbling"], "stream": ["stream", "tumbling", "to_stream"]}
    parts = [need.rpartition(" ") for need in NEEDS[must]]
    return [name for how, _, kind in parts for name in (windowed if how == "windowed" else made)[kind]]


def event(source: Json) -> st.SearchStrategy[Json]:
    """A record, with the time that passes before it and its lateness."""
    longs, texts = st.integers(-3, 12), st.sampled_from(TEXTS)
    values = st.one_of(texts, texts, st.none()) if source["value"] == "string" else st.one_of(longs, longs, st.none())
    headers = st.sampled_from(([], [], [["h", "1"]], [["h", "2"], ["h", None]]))
    return st.fixed_dictionaries(
        {
            "topic": st.just(source["topic"]),
            "key": st.sampled_from((*KEYS, *KEYS, None)),
            "value": values,
            "passed": st.sampled_from((0, 1, 2, 5, 9, 20, 60)),
            "late": st.sampled_from((0, 0, 0, 1, 5, 10, 15, 40)),
            "headers": headers,
        }
    )


@st.composite
def inputs(draw: Draw, sources: list[Json]) -> list[Json]:
    """Some records, and sometimes an advance of the wall clock."""
    advance = st.sampled_from((1, 500, 1000)).map(lambda ms: {"advance_wall_clock_ms": ms})
    kinds = [event(source) for source in sources]
    now, out = 20, []
    for drawn in draw(st.lists(st.one_of(*kinds, *kinds, advance), min_size=6, max_size=30)):
        if "advance_wall_clock_ms" not in drawn:
            now += drawn.pop("passed")
            drawn["timestamp"] = max(0, now - drawn.pop("late"))
        if not drawn.get("headers", True):
            del drawn["headers"]
        out.append(drawn)
    return out


def topics_of(steps: list[Json]) -> Json:
    """The serdes of all topics."""
    made: Json = {}
    for step in steps:
        for topic in step.get("topics", [step["topic"]] if "topic" in step else []):
            made[topic] = {"key": step["key_serde"], "value": step["value_serde"]}
    return made


@st.composite
def cases(
    draw: Draw,
    allowed: Collection[str],
    *,
    lanes: bool = False,
    together: int = 1,
    must: str | None = None,
    one_task: bool = False,
) -> Case:
    """A case with the interpreter's result.

    Where several internal topics wait, no order is guaranteed among them: cases whose result depends on that are
    left out, as they are among the recorded ones. So are those where it matters whether a punctuation comes between
    an input and the internal topics' records that it causes: the engine punctuates a stage when all records of an
    epoch have passed it, and later stages learn the time with the next epoch.

    Each sub-topology has its own stream time, as in a cluster; with `one_task`, cases are left out in which it
    matters that Kafka Streams' test driver treats all of them as one task.

    For several `lanes`, cases are also left out in which a key's results depend on the order of other keys: of
    those that an input causes, and of the inputs that are processed `together`.
    """
    sketch: Sketch = draw(topologies(allowed, must))
    events: list[Json] = draw(inputs(sketch.sources))
    run = functools.partial(interpret, sketch.steps, one_task=False)
    results = [run(events, order=order) for order in ("earliest", "first", "last", "made")]
    results += [run(events, punctuate_after=what) for what in ("inputs", "everything")]
    if one_task:
        results.append(interpret(sketch.steps, events))
    expected = [outcome(result) for result in results]
    assume(all(other == expected[0] for other in expected))
    if lanes:
        any_order = [run(events, order=order) for order in ("keys", "keys_back")]
        assume(all(per_key(outcome(result)) == per_key(expected[0]) for result in any_order))
    if together > 1:
        wanted = without_inputs(expected[0])
        for backwards in (False, True):
            mixed = keys_together(events, together, backwards)
            for order in ("keys", "keys_back"):
                assume(without_inputs(outcome(run(mixed, order=order))) == wanted)
    data: dict[str, Any] = {
        "name": "random/case",
        "area": "random",
        "config": {"cache_max_bytes": 0, "emit_interval_ms": 0},
        "topics": topics_of(sketch.steps),
        "topology": sketch.steps,
        "moves": sketch.moves,
        "inputs": events,
        **expected[0],
    }
    return Case(Path("random.json"), data)


def outcome(result: Result) -> Json:
    return {"outputs": result.outputs, "stores": result.stores, "store_timestamps": result.store_timestamps}


def per_key(found: Json) -> Json:
    """The guarantees with several lanes."""
    return found | {"outputs": {topic: same_per_key(records) for topic, records in found["outputs"].items()}}


def without_inputs(found: Json) -> Json:
    """The guarantees if several inputs share an epoch."""
    return per_key(found | {"outputs": {topic: recovery.without_input(r) for topic, r in found["outputs"].items()}})


def keys_together(events: list[Json], size: int, backwards: bool) -> list[Json]:
    """As if lanes processed one key after the other in each epoch: a key's own records keep their order."""
    out: list[Json] = []
    for passes, group in itertools.groupby(events, lambda event: "topic" not in event):
        found = list(group)
        for at in range(0, len(found), size):
            part = found[at : at + size]
            out += part if passes else sorted(part, key=lambda e: e["key"] or "", reverse=backwards)
    return out
