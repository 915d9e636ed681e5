"""Topic patterns: they match what the engine reads; missing topics are rejected when they are written."""

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
            deadline = time.monotonic() + 60
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
def test_unsupported_regex_syntax_is_refused(pattern: Any, word: str) -> None:
    with pytest.raises(sf.TopologyError) as caught:
        reading(pattern)
    assert "test_patterns.py:" in str(caught.value)
    assert word in str(caught.value)


def test_a_topic_created_later_is_read(tmp_path: Path) -> None:
    """The processor is closed and created again for it; its store is kept."""
    life: list[str] = []

    class Counting(sf.ContextualProcessor[str, str, str, int]):
        def init(self, context: Any) -> None:
            super().init(context)
            self.store = context.state_store("seen")
            life.append("init")

        def process(self, record: sf.Record[str, str]) -> None:
            seen = (self.store.get("all") or 0) + 1
            self.store.put("all", seen)
            self.context.forward(record.replace(value=seen))

        def close(self) -> None:
            life.append("close")

    builder = sf.StreamsBuilder()
    store = sf.Stores.in_memory_key_value("seen", key=str, value=int, logging=False)
    builder.add_state_store(store)
    orders = builder.stream(re.compile("orders-.*"), key=str, value=str)
    orders.process(Counting, stores=["seen"]).to("out", key=str, value=int)
    with sf.EmbeddedBroker(tmp_path / "topics") as broker:
        for topic in ("orders-eu", "out"):
            broker.create_topic(topic)
        broker.produce_many("orders-eu", [(None, b"k", b"x", 1)] * 3)
        settings = {"application.id": "p", "state.dir": str(tmp_path / "state")}
        settings |= {"metadata.max.age.ms": 100, "lanes.count": 1}
        with sf.StoatFlow(builder.build(), sf.Settings(settings, environ={}), broker=broker) as app:

            def wait(count: int) -> None:
                deadline = time.monotonic() + 60
                while app.metrics()["records_committed"] < count and time.monotonic() < deadline:
                    time.sleep(0.01)

            wait(3)
            broker.create_topic("orders-us", partitions=2)
            broker.produce_many("orders-us", [(1, b"k", b"x", 1)] * 2)
            wait(5)
            assert life == ["init", "close", "init"]
        rows = list(broker.read("out"))
    assert [int.from_bytes(row.value or b"", "big") for row in rows] == [1, 2, 3, 4, 5]
