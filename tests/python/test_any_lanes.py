"""`any_lanes`: the same result with any number of lanes, and a test that fails if there is none."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable
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


def test_records_on_time_with_one_lane_are_on_time_with_many() -> None:
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


def test_a_dependence_on_lanes_is_shown_with_its_key() -> None:
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


def windows(stream: sf.KStream[str, int]) -> None:
    counted = stream.group_by_key().windowed_by(sf.TimeWindows("50ms", grace="0s")).count(store="windows")
    counted.to_stream().map(lambda window, count: (window.key, count), name="flat").to("out", key=str, value=int)


def closed_windows(stream: sf.KStream[str, int]) -> None:
    counted = stream.group_by_key().windowed_by(sf.SessionWindows("15ms", grace="0s")).count(store="sessions")
    final = counted.suppress(sf.Suppressed.until_window_closes(), name="final")
    final.to_stream().map(lambda window, count: (window.key, count), name="flat").to("out", key=str, value=int)


def joined(stream: sf.KStream[str, int]) -> None:
    left = stream.filter(lambda key, value: value % 2 == 0, name="even")
    right = stream.filter(lambda key, value: value % 2 == 1, name="odd")
    pairs = left.outer_join(right, lambda one, two: [one, two], sf.JoinWindows("20ms", grace="0s"), name="pairs")
    pairs.to("out", value=list)


def in_order(stream: sf.KStream[str, int]) -> None:
    stream.group_by_key().reduce(lambda one, two: 31 * one % 9973 + two, store="last").to_stream().to("out")


@pytest.mark.parametrize("shape", [windows, closed_windows, joined, in_order])
@pytest.mark.parametrize("slow_above", [True, False])
def test_random_sleeps_of_a_lane_change_nothing(
    shape: Callable[[sf.KStream[str, int]], None], slow_above: bool
) -> None:
    """In the function that changes the key, or in another branch beside it."""
    chance = random.Random(7)  # noqa: S311  # the same each time
    slow: set[int] = set()

    def sleep_in_one_lane(key: str, value: int) -> None:
        if not slow:
            slow.add(threading.get_ident())
        if threading.get_ident() in slow and chance.random() < 0.05:
            time.sleep(chance.random() * 0.01)

    def new_key(key: str, value: int) -> str:
        if slow_above:
            sleep_in_one_lane(key, value)
        return f"page-{value % 7}"

    builder = sf.StreamsBuilder()
    clicks = builder.stream("clicks", key=str, value=int)
    if not slow_above:
        clicks.foreach(sleep_in_one_lane)
    shape(clicks.select_key(new_key, name="page").repartition(key=str, value=int, name="pages"))
    # Perfectly ordered: without grace, a lane that is ahead of another would make records late.
    inputs = [("clicks", f"user-{at % 40}", at, MINUTE + 3 * at) for at in range(1_200)]
    inputs.append(("clicks", "end", 0, 10 * MINUTE))
    assert len(any_lanes(builder.build(), inputs, lanes=(1, 4, 16))["out"]) > 100
