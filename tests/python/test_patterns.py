"""Patterns of topics: what the engine reads is taken, what it has not is refused where it is written."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf


def reading(pattern: Any) -> sf.Topology:
    builder = sf.StreamsBuilder()
    builder.stream(pattern, key=str, value=str).to("out")
    return builder.build()


@pytest.mark.parametrize(
    "pattern", [re.compile("(?i)orders-.*"), re.compile("ORDERS-(eu|us)"), re.compile(r"(?x) orders - \w+", re.UNICODE)]
)
def test_flags_in_the_pattern(pattern: re.Pattern[str]) -> None:
    assert reading(pattern).describe()


def test_a_pattern_with_flags_finds_its_topics(tmp_path: Path) -> None:
    read = []
    builder = sf.StreamsBuilder()
    builder.stream(re.compile("(?i)orders-.*"), key=str, value=str).foreach(lambda key, value: read.append(value))
    topics = ["Orders-eu", "orders-us", "my-orders-eu"]
    with sf.EmbeddedBroker(tmp_path / "topics") as broker:
        for topic in topics:
            broker.create_topic(topic)
            broker.produce_many(topic, [(None, b"k", topic.encode(), 1)])
        settings = sf.Settings({"application.id": "p", "state.dir": str(tmp_path / "state")}, environ={})
        with sf.StoatFlow(builder.build(), settings, broker=broker):
            deadline = time.monotonic() + 20
            while len(read) < 2 and time.monotonic() < deadline:
                time.sleep(0.01)
    assert sorted(read) == topics[:2]


@pytest.mark.parametrize(
    ("pattern", "word"),
    [
        (re.compile("orders-(?!eu).*"), "look-around"),
        (re.compile(r"(.)\1"), "backreference"),
        (re.compile("(?a)x"), "flag"),
        (re.compile("orders", re.IGNORECASE), "(?i)orders-.*"),
        (re.compile("(?s)orders", re.IGNORECASE), "flags"),
        (re.compile(b"orders-.*"), "re.compile('orders-.*')"),
    ],
)
def test_what_the_engine_has_not(pattern: Any, word: str) -> None:
    with pytest.raises(sf.TopologyError) as caught:
        reading(pattern)
    assert "test_patterns.py:" in str(caught.value)
    assert word in str(caught.value)
