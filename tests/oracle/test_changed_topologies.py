"""Recorded topologies with one or two changes that were not recorded: the engine must do what Kafka Streams does.

A store loses its name, a filter is inverted, a join becomes another kind of join, windows become shorter or longer.
Inputs are those of `test_new_inputs`. Topologies that Kafka Streams refuses to build or to run are skipped.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from conformance.kafka_streams import KafkaStreamsError, Oracle
from conformance.runner import Case
from oracle.beside import KNOWN, engine_does
from oracle.test_new_inputs import ROUNDS, SEED, Mixer, topologies

Step = dict[str, Any]
_KINDS = ("join", "left_join", "outer_join")
_SPANS_MS = (1, 2, 5, 10)


def without_name_of_store(step: Step, dice: random.Random) -> bool:
    kept = step.get("materialized", {})
    # Versioned stores need a name, in both systems.
    return "versioned_history_ms" not in kept and kept.pop("store", None) is not None


def the_other_filter(step: Step, dice: random.Random) -> bool:
    others = {"filter": "filter_not", "filter_not": "filter"}
    step["op"], before = others.get(step["op"], step["op"]), step["op"]
    return bool(step["op"] != before)


def another_join(step: Step, dice: random.Random) -> bool:
    if step["op"] not in _KINDS:
        return False
    of_streams, of_tables = "window" in step, not {"key_serde", "key_fn", "fk_fn"} & step.keys()
    step["op"] = dice.choice(_KINDS if of_streams or of_tables else _KINDS[:2])
    return True


def other_spans(step: Step, dice: random.Random) -> bool:
    window = step.get("window", {})
    for name in window:
        if name.endswith("_ms"):
            window[name] = dice.choice((0, *_SPANS_MS) if name in ("grace_ms", "before_ms", "after_ms") else _SPANS_MS)
    if "grace_ms" in step:
        step["grace_ms"] = dice.choice((0, *_SPANS_MS))
    return bool(window) or "grace_ms" in step


CHANGES: tuple[Callable[[Step, random.Random], bool], ...] = (
    without_name_of_store,
    the_other_filter,
    another_join,
    other_spans,
)


def changed(case: Case, dice: random.Random) -> list[Step] | None:
    """The steps with one or two changes, or None if no change was found in some tries."""
    steps: list[Step] = copy.deepcopy(case.data["topology"])
    # If retention equals the time a window is open, a scan of the store shows one window less
    # (docs/adr/0007).
    on_close = any(step["op"] == "emit_strategy" for step in steps)
    ways = [way for way in CHANGES if not (on_close and way is other_spans)]
    made = sum(dice.choice(ways)(dice.choice(steps), dice) for _ in range(8 * dice.choice((1, 2))) if ways)
    return steps if made else None


@pytest.mark.parametrize(("case", "recorded"), list(topologies()))
def test_a_changed_topology_does_the_same(case: Case, recorded: list[dict[str, Any]], oracle: Oracle) -> None:
    for number in range(ROUNDS):
        seed = f"{SEED}-changed-{number}-{case.topology_name}"
        steps = changed(case, random.Random(seed))  # noqa: S311  # no secret
        if steps is None:
            continue
        data = case.data | {"topology": steps, "inputs": Mixer(recorded, seed).inputs(), "name": seed}
        data.pop("versioned_lookups", None)
        mixed = replace(case, data=data)
        if any(known(mixed) for known in KNOWN):
            continue
        try:
            wanted = oracle.replay(data)
        except KafkaStreamsError:
            continue
        engine_does(mixed, wanted)
