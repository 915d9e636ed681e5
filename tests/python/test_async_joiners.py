"""Async joiners: rows of different keys at the same time, those of a key one after another, within the bound."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

WINDOW = sf.JoinWindows("1s", grace="1s")


class Service:
    """Joins slowly, and records the calls in progress at the same time."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self.begun: list[str] = []
        self.most = 0
        self.overlaps: list[str] = []

    async def join(self, key: str, left: str, right: str | None) -> str:
        if key in self.running:
            self.overlaps.append(key)
        self.running.append(key)
        self.begun.append(left)
        self.most = max(self.most, len(self.running))
        # Later letters are faster: results must not be in the order in which calls end.
        await asyncio.sleep((ord("z") - ord(key[0])) / 2000)
        self.running.remove(key)
        return f"{left}+{right}"


def with_table(builder: sf.StreamsBuilder, joiner: Any) -> sf.KStream[str, str]:
    table = builder.table("right", key=str, value=str, store="t")
    return builder.stream("left", key=str, value=str).left_join(table, joiner, with_key=True)


def with_global(builder: sf.StreamsBuilder, joiner: Any) -> sf.KStream[str, str]:
    table = builder.global_table("right", key=str, value=str, store="t")
    return builder.stream("left", key=str, value=str).left_join(table, sf.key, joiner, with_key=True)


def of_streams(builder: sf.StreamsBuilder, joiner: Any) -> sf.KStream[str, str]:
    left, right = (builder.stream(topic, key=str, value=str) for topic in ("left", "right"))
    return left.join(right, joiner, WINDOW, joined=sf.StreamJoined(store_name="j"), with_key=True)


def of_tables(builder: sf.StreamsBuilder, joiner: Any) -> sf.KStream[str, str]:
    left, right = (builder.table(topic, key=str, value=str, store=topic) for topic in ("left", "right"))
    return left.join(right, joiner, store="j", value=str, with_key=True).to_stream()


Join = Callable[[sf.StreamsBuilder, Any], "sf.KStream[str, str]"]


def run(join: Join, joiner: Any, lanes: int = 1, each: int = 3, **driver: Any) -> list[tuple[str, str]]:
    """Join records of four keys, all in one epoch; the right sides are there before."""
    builder = sf.StreamsBuilder()
    join(builder, joiner).to("out", key=str, value=str)
    with TopologyTestDriver(builder.build(), lanes=lanes, **driver) as running:
        left, right = running.input("left", str, str), running.input("right", str, str)
        for key in "amsz":
            right.pipe(key, key.upper(), timestamp=1)
        with running.epoch():
            for n in range(each):
                for key in "amsz":
                    left.pipe(key, f"{key}{n}", timestamp=2)
        return running.output("out", str, str).read_key_values_to_list()


@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("join", [with_table, with_global, of_streams, of_tables])
def test_keys_are_joined_side_by_side_and_in_their_order(join: Join, lanes: int) -> None:
    service = Service()
    given = run(join, service.join, lanes)
    wanted = {key: [f"{key}{n}+{key.upper()}" for n in range(3)] for key in "amsz"}
    assert {key: [value for k, value in given if k == key] for key in "amsz"} == wanted
    assert not service.overlaps
    if lanes == 1:
        # Rows keep their order, whichever call ends first.
        assert [value for _, value in given] == [f"{key}{n}+{key.upper()}" for n in range(3) for key in "amsz"]
        assert service.most == 4


@pytest.mark.parametrize("lanes", [1, 3])
def test_the_bound_is_that_of_all_lanes(lanes: int) -> None:
    service = Service()
    given = run(with_table, sf.awaiting(service.join, concurrency=2), lanes, each=6)
    assert (len(given), service.most) == (24, 2)


def test_a_failing_row_is_dropped_and_its_key_continues() -> None:
    service = Service()
    calls = []

    async def picky(key: str, left: str, right: str | None) -> str:
        calls.append(left)
        if left == "m0":
            raise ValueError(left)
        return await service.join(key, left, right)

    def join(builder: sf.StreamsBuilder, joiner: Any) -> sf.KStream[str, str]:
        table = builder.table("right", key=str, value=str, store="t")
        left = builder.stream("left", key=str, value=str)
        return left.join(table, joiner, with_key=True, on_error=sf.Retry(1, then=sf.log_and_continue()))

    given = run(join, picky)
    assert [value for key, value in given if key == "m"] == ["m1+M", "m2+M"]
    assert len(given) == 11
    assert calls.count("m0") == 2
    assert calls.index("m1") > max(at for at, left in enumerate(calls) if left == "m0")


@pytest.mark.parametrize("handler", [None, sf.log_and_continue()])
def test_rows_of_a_table_that_is_itself_a_join_are_joined_side_by_side(handler: Any) -> None:
    """Also if a handler decides about each of them."""
    service = Service()

    async def pair(key: str, left: str, right: str) -> str:
        if handler is not None and key == "s":
            raise ValueError(left)
        return await service.join(key, left, right)

    builder = sf.StreamsBuilder()
    left, right = (builder.table(topic, key=str, value=str, store=topic) for topic in ("left", "right"))
    both = left.join(right, pair, with_key=True).filter(lambda key, value: key != "z")
    stream = builder.stream("in", key=str, value=str)
    stream.join(both, lambda value, held: f"{value}{held}").to("out", key=str, value=str)
    how = {} if handler is None else {"on_processing_error": handler}
    with TopologyTestDriver(builder.build(), {"ensure.explicit.naming": False}, **how) as driver:
        for topic in ("left", "right"):
            with driver.epoch():
                for key in "amsz":
                    driver.input(topic, str, str).pipe(key, topic[0])
        service.most, service.begun = 0, []
        with driver.epoch():
            for key in "amsz":
                driver.input("in", str, str).pipe(key, key)
        given = driver.output("out", str, str).read_values_to_list()
    assert given == [f"{key}l+r" for key in ("amz" if handler else "amsz") if key != "z"]
    assert (service.most, len(service.begun)) == ((3, 3) if handler else (4, 4))


def test_an_exception_names_the_joiner() -> None:
    async def picky(key: str, left: str, right: str | None) -> str:
        raise ValueError(left)

    with pytest.raises(sf.ProcessingError, match="ValueError: a0") as caught:
        run(with_table, picky)
    assert "test_async_joiners.py" in str(caught.value)
    assert "picky" in str(caught.value)


def test_branches_to_one_topic_do_not_hold_the_interpreter_while_calls_are_awaited() -> None:
    """There records are processed one by one, with the interpreter attached for all of them."""
    service = Service()
    builder = sf.StreamsBuilder()
    table = builder.table("right", key=str, value=str, store="t")
    stream = builder.stream("left", key=str, value=str)
    stream.map_values(lambda value: value.upper()).to("out", key=str, value=str)
    stream.left_join(table, service.join, with_key=True).to("out", key=str, value=str)
    with TopologyTestDriver(builder.build()) as driver:
        left = driver.input("left", str, str)
        with driver.epoch():
            for key in "amsz":
                left.pipe(key, key)
        given = driver.output("out", str, str).read_values_to_list()
    assert sorted(given) == sorted([*"AMSZ", *(f"{key}+None" for key in "amsz")])
