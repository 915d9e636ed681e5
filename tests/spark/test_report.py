"""The result for a person and for a program."""

from __future__ import annotations

import json
import re

import pytest

from stoatflow.spark.report import Example, Fault, Reconciliation


def result(words: int = 10, **faults: int) -> Reconciliation:
    """Return a result with these faults, one example for each."""
    counts = {Fault[name]: count for name, count in faults.items()}
    examples = tuple(Example(fault, "stoat", 3, 2, 0, 17) for fault in counts)
    return Reconciliation(6, words, 5, 10, 5, False, counts, examples, 1.25)


@pytest.mark.parametrize("fault", list(Fault))
def test_every_fault_changes_the_verdict_and_one_headline(fault: Fault) -> None:
    bad = result(**{fault.name: 2})
    assert not bad.ok
    headlines = {"missing": bad.missing, "duplicated": bad.duplicated, "wrong": bad.wrong}
    assert headlines.pop(fault.headline) == 2
    assert set(headlines.values()) == {0}
    report = bad.render()
    assert f"2 {fault.meaning}, such as\n    'stoat' " in report
    assert "NOT OK" in report


def test_a_good_result_is_a_dozen_aligned_lines() -> None:
    assert result().ok
    lines = result().render().splitlines()
    assert len(lines) == 12
    ends = {match.end() for line in lines[2:11] if (match := re.search(r"[\d.,]+", line))}
    assert len(ends) == 1
    assert lines[-1].endswith("OK: nothing lost, nothing counted twice")


def test_nothing_checked_is_not_ok() -> None:
    assert not result(words=0).ok
    assert "NOT PROVEN" in result(words=0).render()


def test_json_has_everything() -> None:
    content = json.loads(result(REPEATED=1).to_json())
    assert content["ok"] is False
    assert (content["missing"], content["duplicated"], content["wrong"]) == (0, 1, 0)
    assert set(content["faults"]) == {fault.name.lower() for fault in Fault}
    assert content["examples"][0] == {
        "fault": "repeated",
        "key": "stoat",
        "expected": 3,
        "actual": 2,
        "partition": 0,
        "offset": 17,
        "text": "'stoat' counts 2 again (partition 0, offset 17)",
    }
    assert content["seconds"] == 1.25
