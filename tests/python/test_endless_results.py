"""A function that never stops returning results fails for its record, and doesn't fill the memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

# An async function has a store for parked calls; it needs no name here.
CONFIG = {"ensure.explicit.naming": False}
Build = Callable[[sf.KStream[Any, Any]], sf.KStream[Any, Any]]
MOST = 1_000_000


def endless(value: str) -> Iterable[str]:
    return itertools.repeat(value) if value == "endless" else [value]


def endless_pairs(key: str, value: str) -> Iterable[tuple[str, str]]:
    return ((key, word) for word in endless(value))


async def endless_async(value: str) -> Iterable[str]:
    return endless(value)


class Forwards(sf.ContextualProcessor[str, str, str, str]):
    """Forwards each word; one of them endlessly."""

    def process(self, record: sf.Record[str, str]) -> None:
        for word in endless(record.value):
            self.context.forward(record.replace(value=word))


@pytest.mark.parametrize(
    ("build", "value"),
    [
        (lambda s: s.flat_map_values(endless, on_error=sf.DLQ("dead")), "endless"),
        (lambda s: s.flat_map(endless_pairs, on_error=sf.DLQ("dead")), "endless"),
        (lambda s: s.flat_map_values(endless_async, on_error=sf.DLQ("dead")), "endless"),
        (lambda s: s.process(Forwards, on_error=sf.DLQ("dead")), "endless"),
        (lambda s: s.flat_map_values(sf.value.str.split(","), on_error=sf.DLQ("dead")), "," * MOST),
    ],
    ids=["flat_map_values", "flat_map", "async", "processor", "expression"],
)
def test_a_record_with_endless_results_is_a_dead_letter(build: Build, value: str) -> None:
    builder = sf.StreamsBuilder()
    build(builder.stream("in", key=str, value=str)).to("out", key=str, value=str)
    with TopologyTestDriver(builder.build(), CONFIG) as running:
        topic = running.input("in", str, str)
        for each in ("before", value, "after"):
            topic.pipe("k", each)
        assert running.output("out", str, str).read_values_to_list() == ["before", "after"]
        (dead,) = running.output("dead").read_all()
        assert dead.value == value.encode()
        assert any(f"more than {MOST} results for one record".encode() in text for _, text in dead.headers)


def test_the_allowed_number_of_results_is_accepted() -> None:
    builder = sf.StreamsBuilder()
    words = builder.stream("in", key=str, value=str).flat_map_values(sf.value.str.split(","))
    words.group_by_key(value=str).count(store="counts")
    with TopologyTestDriver(builder.build(), CONFIG) as running:
        running.input("in", str, str).pipe("k", "," * (MOST - 1))
        assert running.store("counts").get("k") == MOST
