"""Async functions in the test driver: order, limits, failures, runs that share a loop."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

Build = Callable[[sf.KStream[str, str]], "sf.KStream[Any, Any]"]


def driver_of(topology: sf.Topology, **how: Any) -> TopologyTestDriver:
    """Without names for the stores of parked calls, since no call outlives a commit here."""
    return TopologyTestDriver(topology, {"ensure.explicit.naming": False}, **how)


def run(build: Build, *records: tuple[str | None, str], lanes: int = 1, **driver: Any) -> list[tuple[Any, Any]]:
    """Pipe records through one operator, all in one epoch."""
    builder = sf.StreamsBuilder()
    build(builder.stream("in", key=str, value=str)).to("out", key=str, value=str)
    with driver_of(builder.build(), lanes=lanes, **driver) as running:
        topic = running.input("in", str, str)
        with running.epoch():
            for key, value in records:
                topic.pipe(key, value)
        return running.output("out", str, str).read_key_values_to_list()


async def slow_upper(value: str) -> str:
    """Later letters of the alphabet are faster."""
    await asyncio.sleep((ord("z") - ord(value[0])) / 2000)
    return value.upper()


def test_a_plain_async_function() -> None:
    assert run(lambda s: s.map_values(slow_upper), ("k", "x"), ("k", "y")) == [("k", "X"), ("k", "Y")]


@pytest.mark.parametrize("lanes", [1, 4])
def test_order_is_kept_per_key_but_not_between_keys(lanes: int) -> None:
    records = [(key, f"{letter}{key}") for letter in "adgjmp" for key in "klmn"]
    given = run(lambda s: s.map_values(slow_upper), *records, lanes=lanes)
    assert sorted(given) == sorted((key, value.upper()) for key, value in records)
    for key in "klmn":
        assert [value for k, value in given if k == key] == [v.upper() for k, v in records if k == key]


async def true_for_a(key: str, value: str) -> bool:
    await asyncio.sleep(0)
    return value == "a"


async def as_pair(key: str, value: str) -> tuple[str, str]:
    return value, key


async def twice(value: str) -> list[str]:
    return [value, value]


async def twice_by_yield(value: str) -> AsyncIterator[str]:
    for _ in range(2):
        await asyncio.sleep(0)
        yield value


async def pairs(key: str, value: str) -> list[tuple[str, str]]:
    return [(value, key), (key, value)]


async def value_as_key(key: str, value: str) -> str:
    return value


async def with_key(key: str, value: str) -> str:
    return f"{key}={value}"


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (lambda s: s.filter(true_for_a), [("k", "a")]),
        (lambda s: s.filter_not(true_for_a), [("k", "b")]),
        (lambda s: s.map(as_pair), [("a", "k"), ("b", "k")]),
        (lambda s: s.map_values(with_key, with_key=True), [("k", "k=a"), ("k", "k=b")]),
        (lambda s: s.flat_map_values(twice), [("k", "a"), ("k", "a"), ("k", "b"), ("k", "b")]),
        (lambda s: s.flat_map_values(twice_by_yield), [("k", "a"), ("k", "a"), ("k", "b"), ("k", "b")]),
        (lambda s: s.flat_map(pairs), [("a", "k"), ("k", "a"), ("b", "k"), ("k", "b")]),
        (lambda s: s.select_key(value_as_key), [("a", "a"), ("b", "b")]),
        (lambda s: s.peek(with_key), [("k", "a"), ("k", "b")]),
        (lambda s: s.map_values(functools_partial()), [("k", "aa"), ("k", "bb")]),
    ],
)
def test_every_operator_of_a_stream(build: Build, wanted: list[tuple[str, str]]) -> None:
    assert run(build, ("k", "a"), ("k", "b")) == wanted


def functools_partial() -> Any:
    import functools

    async def join(one: str, value: str, *, times: int) -> str:
        return value * times

    return functools.partial(join, "x", times=2)


def test_group_by_an_async_key_after_another_new_key() -> None:
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=str).select_key(lambda key, value: value[::-1])
    counted = stream.group_by(value_as_key, key=str, name="grouped").count(store="counts")
    counted.to_stream().to("out", key=str, value=int)
    for lanes in (1, 3):
        with driver_of(builder.build(), lanes=lanes) as driver:
            for value in ("ab", "cd", "ab"):
                driver.input("in", str, str).pipe("k", value)
            assert driver.output("out", str, int).read_key_values_to_list() == [("ab", 1), ("cd", 1), ("ab", 2)]


def test_foreach() -> None:
    seen: list[str] = []

    async def note(key: str, value: str) -> None:
        await asyncio.sleep(0)
        seen.append(value)

    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).foreach(note)
    with driver_of(builder.build()) as driver:
        driver.input("in", str, str).pipe("k", "v")
    assert seen == ["v"]


def test_a_result_needed_by_the_next_record_is_awaited() -> None:
    async def longer(agg: str, value: str) -> str:
        await asyncio.sleep(0.001)
        return agg + value

    async def both(left: str, right: str) -> str:
        return f"{left}+{right}"

    async def upper(value: str) -> str:
        return value.upper()

    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    table = stream.group_by_key().reduce(longer, store="all").map_values(upper)
    stream.join(table, both).to("out", key=str, value=str)
    with driver_of(builder.build()) as driver:
        for value in "ab":
            driver.input("in", str, str).pipe("k", value)
        assert driver.output("out", str, str).read_values_to_list()[-1] == "b+AB"


def test_the_concurrency_limit_holds() -> None:
    running = most = 0

    @sf.awaiting(concurrency=3)
    async def busy(value: str) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.002)
        running -= 1
        return value

    given = run(lambda s: s.map_values(busy), *((f"k{n}", "v") for n in range(40)), lanes=4)
    assert (len(given), most) == (40, 3)


MEETING = """
import asyncio
import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

@sf.awaiting(concurrency=1)
async def slow(value):
    await asyncio.sleep(0.001)
    return value

builder = sf.StreamsBuilder()
stream = builder.stream("in", key=str, value=str)
stream.map_values(slow).merge(stream.map_values(lambda value: value)).to("out", key=str, value=str)
with TopologyTestDriver(builder.build(), {"ensure.explicit.naming": False}) as driver:
    with driver.epoch():
        driver.input("in", str, str).pipe_all([(f"k{n}", "v") for n in range(50)])
    print(len(driver.output("out", str, str).read_values_to_list()))
"""


def test_branches_that_meet_again_wait_for_room_without_the_interpreter() -> None:
    """In its own process: if it kept the interpreter, it would hang forever."""
    done = subprocess.run([sys.executable, "-c", MEETING], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "100\n", done.stderr


def test_retries_with_pauses() -> None:
    calls: list[float] = []

    @sf.awaiting(retry=sf.Backoff(attempts=3, first="20ms", jitter=0))
    async def flaky(value: str) -> str:
        calls.append(time.monotonic())
        if len(calls) < 3:
            raise ConnectionError("away")
        return value

    assert run(lambda s: s.map_values(flaky), ("k", "v")) == [("k", "v")]
    first, second = calls[1] - calls[0], calls[2] - calls[1]
    assert first >= 0.019
    assert second >= 0.039


def test_retries_are_limited_and_depend_on_the_error() -> None:
    calls = 0

    @sf.awaiting(retry=sf.Backoff(attempts=2, first="1ms", on=ConnectionError))
    async def broken(value: str) -> str:
        nonlocal calls
        calls += 1
        raise ConnectionError("away") if value == "c" else ValueError("bad")

    for value, wanted in (("c", 2), ("v", 1)):
        calls = 0
        with pytest.raises(sf.ProcessingError):
            run(lambda s: s.map_values(broken), ("k", value))
        assert calls == wanted


def test_attributes_of_a_function_are_not_limits() -> None:
    """Retry libraries leave such attributes on functions."""

    async def fetch(value: str) -> str:
        """Fetches."""
        return value

    for name in ("concurrency", "retry", "timeout_s", "on_error", "park_after_ms", "function"):
        setattr(fetch, name, "theirs")
    for made in (sf.awaiting(fetch, concurrency=7), sf.awaiting(slow_upper, concurrency=7).around(fetch)):
        assert (made.concurrency, made.retry, made.timeout_s, made.on_error) == (7, None, 30.0, None)
        assert (made.park_after_ms, made.function) == (50, fetch)
        assert (made.__name__, made.__doc__) == ("fetch", "Fetches.")  # type: ignore[attr-defined]
    assert run(lambda s: s.map_values(sf.awaiting(fetch)), ("k", "v")) == [("k", "v")]


def test_backoff_grows_to_its_bound_and_is_checked() -> None:
    backoff = sf.Backoff(first="100ms", most="1s", jitter=0)
    assert [backoff.pause_s(n) for n in (1, 2, 3, 4, 5, 200)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    jittered = {sf.Backoff(first="1s", jitter=0.5).pause_s(1) for _ in range(50)}
    assert len(jittered) > 1
    assert all(0.5 <= pause <= 1.5 for pause in jittered)
    for wrong in ({"attempts": 0}, {"attempts": True}, {"jitter": 2}, {"first": "soon"}):
        with pytest.raises(ValueError, match=r".+"):
            sf.Backoff(**wrong)  # type: ignore[arg-type]


def test_a_timeout_fails_or_is_replaced() -> None:
    async def hangs(value: str) -> str:
        await asyncio.sleep(60)
        return value

    with pytest.raises(sf.ProcessingError, match=r"did not end within 0\.01 s") as caught:
        run(lambda s: s.map_values(sf.awaiting(hangs, timeout="10ms")), ("k", "v"))
    assert isinstance(caught.value.__cause__, TimeoutError)
    assert "test_async.py:" in str(caught.value)
    replaced = sf.awaiting(hangs, timeout="10ms", on_timeout=lambda value: f"late {value}")
    assert run(lambda s: s.map_values(replaced), ("k", "v")) == [("k", "late v")]


def test_a_timeout_of_the_function_itself_is_an_error_like_others() -> None:
    @sf.awaiting(on_timeout=lambda value: "ours", on_error=lambda value, error: f"its {value} {error}")
    async def gives_up(value: str) -> str:
        raise TimeoutError("its own")

    assert run(lambda s: s.map_values(gives_up), ("k", "v")) == [("k", "its v its own")]


def test_on_error_may_be_async_and_gets_the_value() -> None:
    async def instead(value: str, error: Exception) -> str:
        await asyncio.sleep(0)
        return f"{value}: {type(error).__name__}"

    @sf.awaiting(on_error=instead)
    async def fails(key: str, value: str) -> str:
        raise KeyError(value)

    assert run(lambda s: s.map_values(fails, with_key=True), ("k", "v")) == [("k", "v: KeyError")]


def test_exceptions_go_to_the_handler_as_for_plain_functions() -> None:
    async def picky(value: str) -> str:
        if value == "bad":
            raise ValueError("no")
        return value

    with pytest.raises(sf.ProcessingError, match="ValueError: no") as caught:
        run(lambda s: s.map_values(picky), ("k", "bad"))
    assert "picky" in str(caught.value)
    assert caught.value.coordinates["offset"] == 0
    kept = run(
        lambda s: s.map_values(picky, on_error=sf.log_and_continue()), ("k", "a"), ("k", "bad"), ("k", "b"), ("l", "c")
    )
    assert sorted(kept) == [("k", "a"), ("k", "b"), ("l", "c")]


def test_a_cancelled_call_is_one_that_failed() -> None:
    async def gives_up(value: str) -> str:
        if value == "bad":
            raise asyncio.CancelledError
        return value

    kept = run(lambda s: s.map_values(gives_up, on_error=sf.log_and_continue()), ("k", "bad"), ("k", "b"))
    assert kept == [("k", "b")]


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
@pytest.mark.parametrize("awaited", [False, True])
def test_system_exit_stops_the_application_despite_a_handler(kind: type[BaseException], awaited: bool) -> None:
    async def leaves(value: str) -> str:
        raise kind(3)

    async def leaves_for_two(one: str, value: str) -> str:
        raise kind(3)

    async def upper(value: str) -> str:
        return value.upper()

    def build(stream: sf.KStream[str, str]) -> sf.KStream[Any, Any]:
        if awaited:
            return stream.group_by_key().reduce(leaves_for_two, store="s").to_stream()
        return stream.map_values(leaves)

    builder = sf.StreamsBuilder()
    build(builder.stream("in", key=str, value=str)).to("out", key=str, value=str)
    builder.stream("other", key=str, value=str).map_values(upper).to("others", key=str, value=str)
    topology = builder.build()
    with driver_of(topology) as other:
        with driver_of(topology, on_processing_error=sf.log_and_continue()) as driver:
            with pytest.raises(sf.ProcessingError, match=f"raised {kind.__name__}: 3.*can't end the process") as caught:
                driver.input("in", str, str).pipe_all([("k", "a"), ("k", "b")])
            assert type(caught.value.__cause__) is kind
        # The loop continues for its other users.
        other.input("other", str, str).pipe("k", "v")
        assert other.output("others", str, str).read_values_to_list() == ["V"]


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (lambda s, f: s.map(f), r"must return a \(key, value\) tuple, it returned str"),
        (lambda s, f: s.flat_map(f), "text or bytes"),
    ],
)
def test_wrong_results_are_errors(build: Any, wanted: str) -> None:
    async def text(key: str, value: str) -> Any:
        return value

    with pytest.raises(sf.ProcessingError, match=wanted):
        run(lambda s: build(s, text), ("k", "v"))


def test_invalid_arguments_are_refused_at_build() -> None:
    builder = sf.StreamsBuilder()
    with pytest.raises(sf.TopologyError, match="async function"):
        builder.stream("in", key=str, value=str, timestamp=with_key)
    with pytest.raises(sf.TopologyError, match="has a yield"):
        builder.stream("in", key=str, value=str).map_values(twice_by_yield)
    with pytest.raises(sf.TopologyError, match="needs an async function"):
        sf.awaiting(len)  # type: ignore[call-overload]
    for wrong in ({"concurrency": 0}, {"retry": 3}, {"on_error": 3}, {"on_timeout": "x"}):
        with pytest.raises(sf.TopologyError, match=r"sf\.awaiting"):
            sf.awaiting(slow_upper, **wrong)  # type: ignore[call-overload]


def test_its_store_needs_a_name_outside_of_tests(tmp_path: Path) -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).map_values(slow_upper).to("out", value=str)
    with pytest.raises(sf.TopologyError, match=r'map_values\(\).*add name="in-map_values"'):
        sf.StoatFlow(builder.build(), application_id="a", bootstrap_servers=f"embedded:{tmp_path}")


def test_a_wrapper_wraps_it_with_an_async_function() -> None:
    seen: list[str] = []

    def wrapper(node: sf.NodeInfo, following: Any) -> Any:
        async def traced(*args: Any) -> Any:
            seen.append(node.kind)
            return await following(*args)

        return traced

    builder = sf.StreamsBuilder(wrapper=wrapper)
    builder.stream("in", key=str, value=str).map_values(slow_upper).to("out", key=str, value=str)
    with driver_of(builder.build()) as driver:
        driver.input("in", str, str).pipe("k", "v")
        assert driver.output("out", str, str).read_values_to_list() == ["V"]
    assert seen == ["map_values"]
    plain = sf.StreamsBuilder(wrapper=lambda node, following: lambda value: value)
    plain.stream("in", key=str, value=str).map_values(slow_upper).to("out", value=str)
    with pytest.raises(sf.TopologyError, match="which is not async"):
        plain.build()


def test_without_async_functions_there_is_no_loop() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).map_values(str.upper).to("out", value=str)
    assert builder.build().event_loop is None


# The engine itself, on the embedded broker ---------------------------------------------------


def test_the_plan_has_the_limits_of_async_functions() -> None:
    builder = sf.StreamsBuilder()
    how = sf.awaiting(slow_upper, concurrency=7, park_after="3ms")
    builder.stream("in", key=str, value=str).map_values(how, name="slow").to("out", value=str)
    topology = builder.build()
    (node,) = (n for n in json.loads(topology.to_json())["nodes"] if n["op"] == "map_values")
    assert node["function"] == {"async": {"udf": 0, "concurrency": 7, "park_after_ms": 3}}
    physical = json.loads(topology.plan.physical_json)
    assert [store["name"] for store in physical["stores"]] == ["slow-parked"]
    assert physical["functions"][0].endswith(" slow_upper")
