"""`any_lanes`: the same answer with any number of lanes, and a test that fails where there is none."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.testing import any_lanes

MINUTE = 60_000


def late_by_nobody() -> sf.Topology:
    builder = sf.StreamsBuilder()
    (
        builder.stream("clicks", key=str, value=str)
        .group_by(sf.value, key=str)
        .windowed_by(sf.TimeWindows("5s", grace="0s"))
        .count(store="per-page")
        .to_stream()
        .map(lambda window, count: (window.key, count), name="page")
        .to("counts", key=str, value=int)
    )
    return builder.build()


def test_nothing_is_late_that_one_lane_would_take() -> None:
    inputs = [("clicks", f"user-{at % 50}", f"page-{at % 4}", MINUTE + 10 * at) for at in range(3_000)]
    outputs = any_lanes(late_by_nobody(), inputs)
    assert len(outputs["counts"]) == 3_000, "every record is counted, with any number of lanes"


def test_records_of_a_new_key_come_in_the_order_of_the_input() -> None:
    builder = sf.StreamsBuilder()
    (
        builder.stream("lines", key=str, value=str)
        .flat_map_values(lambda line: line.split())
        .select_key(lambda key, word: word[0], name="initial")
        .group_by_key(key=str, value=str)
        .reduce(lambda text, word: f"{text} {word}", store="words")
        .to_stream()
        .to("texts", key=str, value=str)
    )
    words = itertools.cycle(["stoat", "stone", "store", "flow", "flood", "flint", "sable", "fox"])
    lines = [("lines", f"k{at}", " ".join(next(words) for _ in range(at % 5 + 1)), at) for at in range(60)]
    outputs = any_lanes(builder.build(), lines)
    last = [record.value for record in outputs["texts"] if record.key == b"f"][-1]
    wanted = " ".join(word for _, _, line, _ in lines for word in line.split() if word.startswith("f"))
    assert last == wanted.encode()


def test_what_depends_on_lanes_is_shown_with_its_key() -> None:
    lanes: list[Any] = []

    class Where(sf.Processor[str, str, str, str]):
        def init(self, context: sf.ProcessorContext[str, str]) -> None:
            self.context = context
            lanes.append(context)

        def process(self, record: sf.Record[str, str]) -> None:
            self.context.forward(sf.Record(record.key, f"{record.value}{len(lanes)}", record.timestamp))

    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).process(Where).to("out", key=str, value=str)
    with pytest.raises(AssertionError, match="the topic 'out' depends on the number of lanes, at key b'a'") as caught:
        any_lanes(builder.build(), [("in", "a", "x", 0)], lanes=(1, 4))
    assert "4 lanes: [" in str(caught.value)


def test_a_topic_that_is_not_read_is_named() -> None:
    with pytest.raises(ValueError, match=r"reads no topic 'other'\. Next: use one of: clicks"):
        any_lanes(late_by_nobody(), [("other", "a", "x", 0)])
