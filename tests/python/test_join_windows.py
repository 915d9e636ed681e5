"""Windows of stream-stream joins: around a record, on one side of it, and what is rejected."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver


@pytest.mark.parametrize(
    ("window", "before", "after"),
    [
        (sf.JoinWindows("5ms", grace="0s"), 5, 5),
        (sf.JoinWindows("5ms", before="1ms", grace="0s"), 1, 5),
        (sf.JoinWindows("5ms", grace="0s").after("-5ms"), 5, -5),
        (sf.JoinWindows(before="-5ms", after="10ms", grace="0s"), -5, 10),
        (sf.JoinWindows(before=timedelta(milliseconds=3), after=timedelta(milliseconds=-3), grace="0s"), 3, -3),
    ],
)
def test_both_sides(window: sf.JoinWindows, before: int, after: int) -> None:
    assert (window.before_ms, window.after_ms) == (before, after)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: sf.JoinWindows("5m", before="1m", after="2m", grace="0s"), "beside before= and after="),
        (lambda: sf.JoinWindows(before="-2m", after="1m", grace="0s"), "ends before it starts"),
        (lambda: sf.JoinWindows("1m", grace="0s").before("-2m"), "ends before it starts"),
        (lambda: sf.JoinWindows("-1m", grace="0s"), "JoinWindows(difference)"),
        (lambda: sf.JoinWindows("1m", grace="-1s"), "JoinWindows(grace=)"),
    ],
)
def test_invalid_arguments_are_refused(make: Any, word: str) -> None:
    with pytest.raises(sf.TopologyError) as caught:
        make()
    assert word in str(caught.value)
    assert "test_join_windows.py:" in str(caught.value)


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_window_that_begins_later(lanes: int) -> None:
    builder = sf.StreamsBuilder()
    left, right = (builder.stream(topic, key=str, value=str) for topic in ("left", "right"))
    window = sf.JoinWindows(before="-5ms", after="10ms", grace="1s")
    named: sf.StreamJoined[str, str, str] = sf.StreamJoined(store_name="both")
    left.join(right, lambda one, other: f"{one}{other}", window, joined=named).to("out", value=str)
    with TopologyTestDriver(builder.build(), lanes=lanes) as driver:
        ours, theirs = driver.input("left", str, str), driver.input("right", str, str)
        for at in (24, 25, 30, 31):
            theirs.pipe("a", str(at), timestamp=at)
        ours.pipe("a", "x", timestamp=20)
        theirs.pipe("a", "29", timestamp=29)
        found = driver.output("out", str, str).read_values_to_list()
    assert found == ["x25", "x30", "x29"]
