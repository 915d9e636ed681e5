"""A case on the engine compared with Kafka Streams' result, and the known differences.

Takes: a case, and the result of an `Oracle` for it.
Never: allows a difference that docs/adr/0007 doesn't name.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import stoatflow as sf
from conformance import runner
from conformance.runner import Case

_RESULTS = ("outputs", "stores", "store_timestamps", "versioned_lookups")
EXCHANGES = ("group_by", "map", "flat_map", "select_key", "process", "repartition")


def engine_does(case: Case, wanted: dict[str, Any]) -> None:
    """Run it on the engine, and compare with Kafka Streams' result."""
    # The topics and lookups that are read are those of the real Kafka Streams.
    asked = replace(case, data=case.data | {name: wanted[name] for name in _RESULTS})
    topology = runner.build(asked).for_settings(sf.Settings(runner.config(asked), environ={}))
    found = vars(runner.run(asked, topology))
    same(found, wanted, ordered="unordered_per_input" not in case.data.get("flags", ()))
    assert runner.lines([found["versioned_lookups"]]) == runner.lines([wanted["versioned_lookups"]])
    assert described(topology.describe()) == described(wanted["describe"])


def described(text: str) -> str:
    """Without class names: a function that chooses topics has none that both sides know."""
    return re.sub(r"extractor class: .*\)", "extractor)", text)


def same(got: dict[str, Any], wanted: dict[str, Any], *, ordered: bool = True) -> None:
    """The same records, in the same order, and the same rows in all stores, with the same timestamps."""
    assert set(got["outputs"]) == set(wanted["outputs"])
    for topic, records in wanted["outputs"].items():
        lines, right = runner.lines(got["outputs"][topic]), runner.lines(records)
        assert (lines if ordered else sorted(lines)) == (right if ordered else sorted(right)), topic
    assert set(got["stores"]) == set(wanted["stores"])
    for name, entries in wanted["stores"].items():
        assert runner.lines(got["stores"][name]) == runner.lines(entries), name
    assert got["store_timestamps"] == wanted["store_timestamps"]


def meets_itself_behind_an_exchange(case: Case) -> bool:
    """Whether both sides of a join are of one topic, and one is a table join or a cogroup after an exchange.

    In the engine, the part of that side without an exchange waits with the others, so the other side meets its old
    value.
    """
    topics: dict[str, set[str]] = {}
    exchanged: set[str] = set()
    joined: set[str] = set()
    for step in case.steps():
        sides = [step[side] for side in ("from", "other") if side in step]
        behind = any(side in exchanged for side in sides)
        of_tables = step["op"].endswith("join") and "fk_fn" not in step and "key_serde" not in step
        if step["op"].endswith("join") and topics[sides[0]] & topics[sides[1]] and joined & {*sides}:
            return True
        if joined & {*sides} or (behind and (of_tables or step["op"] == "cogroup")):
            joined.add(step["id"])
        made = {*step.get("topics", ()), *([step["topic"]] if not sides and "topic" in step else ())}
        branches = [branch["id"] for branch in (*step.get("branches", ()), step.get("default", step))]
        for id_ in (step["id"], *branches):
            topics[id_] = made.union(*(topics[side] for side in sides))
            exchanged |= {id_} if behind or "fk_fn" in step or step["op"] in EXCHANGES else set()
    return False


def forgets_a_tombstone(case: Case) -> bool:
    """A versioned row is deleted at its own timestamp: Kafka Streams then takes older versions as the newest."""
    if not any("versioned_history_ms" in step.get("materialized", ()) for step in case.steps()):
        return False
    events = [event for event in case.data["inputs"] if "topic" in event]
    places = [(event["topic"], event["key"], event["timestamp"]) for event in events]
    return any(event["value"] is None and places[i] in places[:i] for i, event in enumerate(events))


KNOWN = (meets_itself_behind_an_exchange, forgets_a_tombstone)
"""Known differences; entries may only be removed."""
