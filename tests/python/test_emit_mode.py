"""`emit.mode`: eager, or one result per key and commit, from the same input everywhere."""

from __future__ import annotations

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver


def joined() -> sf.Topology:
    """Two counts of one stream, joined: both are the same at any time."""
    builder = sf.StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    one, two = grouped.count(store="one"), grouped.count(store="two")
    one.join(two, lambda left, right: f"{left}={right}").to_stream().to("out", value=str)
    one.to_stream().to("counts")
    return builder.build()


def piped(settings: dict[str, object], lanes: int) -> tuple[list[tuple[str, str]], list[tuple[str, int]]]:
    with TopologyTestDriver(joined(), settings, lanes=lanes) as driver:
        source = driver.input("in", str, int)
        for _ in range(2):
            with driver.epoch():
                for key in ("a", "b", "a", "a"):
                    source.pipe(key, 1)
        out = driver.output("out", str, str).read_key_values_to_list()
        return sorted(out), sorted(driver.output("counts", str, int).read_key_values_to_list())


@pytest.mark.parametrize("lanes", [1, 3])
def test_barrier_gives_one_result_per_key_and_commit(lanes: int) -> None:
    out, counts = piped({"emit.mode": "barrier", "statestore.cache.max.bytes": 0}, lanes)
    assert counts == [("a", 3), ("a", 6), ("b", 1), ("b", 2)]
    assert out == [("a", "3=3"), ("a", "6=6"), ("b", "1=1"), ("b", "2=2")]


def test_eager_emits_intermediate_results() -> None:
    out, counts = piped({"statestore.cache.max.bytes": 0}, 1)
    assert len(counts) == 8
    assert ("a", "2=1") in out
    # A cache holds back updates of tables, but not of joins without a store: each change of a side emits a
    # result, with the last forwarded value of the other side.
    out, counts = piped({"statestore.cache.max.bytes": 1_000_000}, 1)
    assert counts == [("a", 3), ("a", 6), ("b", 1), ("b", 2)]
    assert out == [("a", "3=3"), ("a", "6=3"), ("a", "6=6"), ("b", "1=1"), ("b", "2=1"), ("b", "2=2")]


def test_another_mode_is_refused() -> None:
    with pytest.raises(sf.ConfigError, match=r"emit\.mode"):
        piped({"emit.mode": "sometimes"}, 1)
