"""The interpreter does what Kafka Streams 4.1.2 did, in every recorded vector."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from conformance import runner
from conformance.functions import PYTHON
from conformance.runner import Case
from semantics.interpreter import Result, interpret
from semantics.processors import PROCESSORS

ALL = runner.cases()
DIFFERENT = Path(__file__).parent / "not_the_same.txt"


def run(case: Case) -> Result:
    return interpret(case.data["topology"], case.data["inputs"], case.data["config"])


def differences(case: Case) -> list[str]:
    """The differences from the recording."""
    found = run(case)
    unordered = "unordered_per_input" in case.data.get("flags", [])
    out = []
    for topic in sorted({*case.data["outputs"], *found.outputs}):
        wanted, got = (lines(outputs.get(topic, []), unordered) for outputs in (case.data["outputs"], found.outputs))
        out += [f"topic {topic}\n got {got}\nwant {wanted}"] if got != wanted else []
    for name in sorted({*case.data["stores"], *found.stores}):
        wanted, got = (runner.lines(stores.get(name, ["none"])) for stores in (case.data["stores"], found.stores))
        out += [f"store {name}\n got {got}\nwant {wanted}"] if got != wanted else []
    if found.store_timestamps != case.data["store_timestamps"]:
        out.append(f"times\n got {found.store_timestamps}\nwant {case.data['store_timestamps']}")
    for store, lookups in case.data.get("versioned_lookups", {}).items():
        for key, as_of, then in lookups:
            at = found.versioned_lookup(store, key, as_of)
            out += [f"lookup {store} {key} {as_of}\n got {at}\nwant {then}"] if at != then else []
    return out


def lines(records: list[Any], unordered: bool) -> list[str]:
    found = runner.lines(records)
    return sorted(found) if unordered else found


def listed() -> dict[str, str]:
    """Cases that are known to differ, with the reason."""
    pairs = [line.partition(": ") for line in DIFFERENT.read_text("utf-8").splitlines() if not line.startswith("#")]
    return {name: reason for name, _, reason in pairs}


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_like_kafka_streams(case: Case) -> None:
    found = differences(case)
    if case.name in listed():
        assert found, f"{case.name} is the same now: take it off {DIFFERENT.name}"
    else:
        assert not found, "\n".join(found)


def test_there_are_vectors() -> None:
    assert len(ALL) >= 344
    assert set(listed()) <= {case.name for case in ALL}
    assert all(listed().values()), "each one has a reason"


def test_the_registry_is_complete() -> None:
    """Every function and processor of FUNCTIONS.md, and no other."""
    text = (runner.HERE / "FUNCTIONS.md").read_text("utf-8").partition("## predicate")[2]
    functions, _, processors = text.partition("## Processors")
    assert set(re.findall(r"^- `(\w+)`:", functions, re.MULTILINE)) == set(PYTHON)
    assert set(re.findall(r"^- `(\w+)` \(", processors, re.MULTILINE)) == set(PROCESSORS)


def test_a_difference_is_detected() -> None:
    """The comparison itself can fail."""
    case = next(case for case in ALL if case.name == "word_count/hand")
    topic = next(iter(case.data["outputs"]))
    changed = {**case.data["outputs"], topic: case.data["outputs"][topic][1:]}
    assert differences(Case(case.path, {**case.data, "outputs": changed}))
    assert differences(Case(case.path, {**case.data, "store_timestamps": {}}))
    assert differences(Case(case.path, {**case.data, "stores": {**case.data["stores"], "other": []}}))
