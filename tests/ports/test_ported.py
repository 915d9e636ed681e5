"""The ports against the recorded outputs of the originals: the same results, except for documented differences.

A port with other outputs documents them: `DIFFERENCE` in words, and its outputs in `HERE`, or `LAST` if the last
result of each key is the same. `TIMESTAMPS` says why its results have other times than those of the original.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ports.cases import LIBRARIES, Case, Outputs, by_key, every, last, ours, without_times
from ports.environments import REQUIREMENTS

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"
EVERY = pytest.mark.parametrize("case", every(), ids=lambda case: f"{case.library}-{case.program}")


@pytest.mark.parametrize("lanes", [1, 4])
@EVERY
def test_the_port_matches_the_original(case: Case, lanes: int) -> None:
    ported, theirs = case.ported, case.recorded["outputs"]
    timed = _timed(theirs) and not {"TIMESTAMPS", "HERE"} & {*ported}
    got = ours(case, lanes, timestamps=timed)
    wanted = theirs if timed else without_times(theirs)
    if "DIFFERENCE" in ported:
        assert by_key(got) != by_key(wanted), "they are the same by now: DIFFERENCE is wrong"
    if "LAST" in ported:
        got = last(got)
    assert by_key(got) == by_key(ported.get("HERE", wanted))


@pytest.mark.parametrize("case", [case for case in every() if "TIMESTAMPS" in case.ported], ids=lambda c: c.program)
def test_timestamps_differ_where_declared(case: Case) -> None:
    theirs = case.recorded["outputs"]
    assert all(time == value["start"] for rows in theirs.values() for _, value, time in rows), "the start of the window"
    assert by_key(ours(case, timestamps=True)) != by_key(theirs)


@EVERY
def test_a_difference_is_shown_in_full(case: Case) -> None:
    ported = case.ported
    assert ("DIFFERENCE" in ported) == bool({"HERE", "LAST"} & {*ported})
    assert any(case.recorded["outputs"].values()), "the original gave nothing"


@EVERY
def test_versions_match_the_requirements(case: Case) -> None:
    assert case.recorded["version"] == REQUIREMENTS[case.library].rpartition("==")[2]


TITLES = {"bytewax": "Bytewax", "quixstreams": "Quix Streams"}
NUMBERS = {12: "twelve", 13: "thirteen", 14: "fourteen"}


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_guide_shows_the_real_programs(library: str) -> None:
    page = (GUIDE / f"from-{library}.md").read_text("utf-8")
    programs = {case.program for case in every(library)}
    assert f" has {NUMBERS[len(programs)]} programs from " in page
    blocks = re.findall(r"<!-- (.*) -->\n```python no-run\n(.*?)```", page, flags=re.DOTALL)
    assert blocks, "the guide shows no original"
    for reason, shown in blocks:
        program = re.search(rf"{library}/(\w+)$", reason)
        assert program
        assert shown in (Case(library, program[1]).folder / "original.py").read_text("utf-8")
    name, _, version = REQUIREMENTS[library].partition("==")
    assert f"{TITLES.get(name, name)} {version}" in page
    shown_by = {name for row in re.findall(r"^\|.*\|([^|]*)\|$", page, flags=re.MULTILINE) for name in _names(row)}
    assert shown_by <= programs
    assert programs == shown_by | {
        name for text in re.findall(r"[Pp]rograms?\s`[^.:;]*", page) for name in _names(text)
    }


def _names(text: str) -> set[str]:
    return {*re.findall(r"`(\w+)`", text)}


def _timed(outputs: Outputs) -> bool:
    return any(len(row) == 3 for rows in outputs.values() for row in rows)
