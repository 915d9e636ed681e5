"""StoatFlow's objects, used by several threads at the same time: the result is right in any order.

Runs on every CPython. With a GIL the interpreter switches threads as often as it can; without one they run in parallel.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import gc
import json
import os
import subprocess
import sys
import sysconfig
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from concurrency import THREADS, changing_dict, frequent_thread_switches, run_concurrently
from stoatflow import EmbeddedBroker, JsonArray, JsonObject, to_python
from stoatflow._runtime.event_loop import EventLoop
from stoatflow.asynchronous import awaiting
from stoatflow.plan import Node, PlanBuilder
from stoatflow.resources import Resource
from stoatflow.testing import TopologyTestDriver

NAMED = {"ensure.explicit.naming": False}


@pytest.fixture(autouse=True)
def changing() -> Iterator[None]:
    with frequent_thread_switches():
        yield


def test_the_import_leaves_the_gil_as_it_was() -> None:
    code = "import sys, stoatflow; print(getattr(sys, '_is_gil_enabled', lambda: True)())"
    # Without the variable's value, which no import changes.
    alone = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    output = subprocess.run([sys.executable, "-c", code], env=alone, capture_output=True, text=True, check=True)
    has_gil = not sysconfig.get_config_var("Py_GIL_DISABLED")
    assert output.stdout.strip() == str(has_gil)


# Views ---------------------------------------------------------------------------------------

PLAIN = {
    "id": 7,
    "name": "a\u00e9\U0001f98a",
    "big": 2**80,
    "inner": {"x": [1, {"y": None}], "z": 1.5},
    "list": [1, "two", [3], {"four": 4}],
    "none": None,
    **{f"member{number}": {"at": number} for number in range(6)},
}
TEXT = json.dumps(PLAIN)


def reads(view: JsonObject, number: int) -> None:
    """Reads everything, starting elsewhere in each thread."""
    checks: list[Callable[[], bool]] = [
        lambda: view["inner"]["x"][1]["y"] is None,
        lambda: len(view) == len(PLAIN),
        lambda: list(view) == list(PLAIN),
        lambda: view == PLAIN,
        lambda: view.to_dict() == PLAIN,
        lambda: view["name"] == PLAIN["name"] and view["big"] == 2**80,
        lambda: "list" in view and "nothing" not in view,
        lambda: dict(view.items()) == PLAIN,
        lambda: (view | {"id": 8}).to_dict() == {**PLAIN, "id": 8},
        lambda: ({"id": 8, "new": 1} | view).to_dict() == {"id": 8, "new": 1} | PLAIN,
        lambda: copy.deepcopy(view) == PLAIN,
        lambda: repr(view) == repr(PLAIN),
        lambda: [view["list"][at] for at in range(4)] == PLAIN["list"],
        # Often enough for a dict of all members to be built.
        lambda: all(view[f"member{at % 6}"]["at"] == at % 6 for at in range(40)),
    ]
    for at in range(len(checks)):
        place = (at + number * 5) % len(checks)
        assert checks[place](), place


def test_a_view_of_an_object_that_all_read() -> None:
    for _ in range(60):
        view = JsonObject.parse(TEXT)
        run_concurrently(functools.partial(reads, view))


def test_a_part_of_a_view_is_one_object_for_all() -> None:
    for _ in range(60):
        view = JsonObject.parse(TEXT)
        parts = run_concurrently(lambda _, view=view: (view["inner"], view["inner"]["x"], view["list"]))
        assert len({tuple(map(id, each)) for each in parts}) == 1


def test_a_view_of_an_array_that_all_read() -> None:
    plain = [PLAIN, [1, [2, {"a": "b"}]], "text", None, 2**80]
    checks: list[Callable[[JsonArray], bool]] = [
        lambda view: view[1][1][1]["a"] == "b",
        lambda view: len(view) == len(plain),
        lambda view: list(view) == plain,
        lambda view: view == plain,
        lambda view: view.to_list() == plain,
        lambda view: "text" in view,
        lambda view: view[-1] == 2**80,
        lambda view: [*view, 1] == [*plain, 1],
        lambda view: view[1:3] == plain[1:3],
    ]

    def read(number: int, view: JsonArray) -> None:
        for at in range(len(checks)):
            place = (at + number) % len(checks)
            assert checks[place](view), place

    for _ in range(60):
        run_concurrently(functools.partial(read, view=JsonArray.parse(json.dumps(plain))))


def test_a_view_of_a_change_that_all_read() -> None:
    for _ in range(60):
        view = {"first": {"a": 1}} | JsonObject.parse(TEXT) | {"id": [8], "last": 2}
        wanted = {"first": {"a": 1}, **PLAIN, "id": [8], "last": 2}

        def read(number: int, view: Any = view, wanted: dict[str, Any] = wanted) -> None:
            if number % 2:
                assert view["id"] == [8]
            assert view.to_dict() == wanted
            assert len(view) == len(wanted)
            assert list(view) == list(wanted)

        run_concurrently(read)


def test_a_dict_that_another_thread_changes_becomes_plain() -> None:
    shared: dict[str, Any] = {"always": [1]}
    stop = threading.Event()

    def work(number: int) -> None:
        if number == 0:
            changing_dict(shared, stop)
            return
        try:
            for _ in range(2000):
                plain = to_python(shared)
                assert plain.pop("always") == [1]
                assert all(plain[name] == {"n": int(name[1:])} for name in plain)
        finally:
            stop.set()

    run_concurrently(work)


def test_a_dict_that_garbage_collection_changes_becomes_plain() -> None:
    """Callbacks of the garbage collector are Python code, and so is a thread that runs during one."""
    shared: dict[str, Any] = {f"n{number}": {"n": number} for number in range(100)}

    def change(_phase: str, _info: dict[str, int]) -> None:
        shared[f"n{len(shared)}"] = {"n": len(shared)}

    before = gc.get_threshold()
    gc.callbacks.append(change)
    gc.set_threshold(1)
    try:
        plain = to_python(shared)
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(change)
    assert len(plain) >= 100
    assert all(plain[name] == {"n": int(name[1:])} for name in plain)


def test_settings_that_all_read() -> None:
    given = {"application.id": "app", "bootstrap.servers": "embedded:", "lanes.count": 3}
    settings = sf.Settings(given, environ={"STOATFLOW_COMMIT_INTERVAL_MS": "50"})

    def read(number: int) -> None:
        for at in range(50):
            settings.check()
            assert dict(settings.pairs()) == {**given, "commit.interval.ms": "50"}
            assert settings.origin("commit.interval.ms") == "variable STOATFLOW_COMMIT_INTERVAL_MS"
            other = settings.with_values({"lanes.count": number}).with_defaults({"lanes.count": at})
            assert other.get("lanes.count") == number
            assert settings.get("lanes.count") == 3

    run_concurrently(read)


# Topologies ----------------------------------------------------------------------------------


def built() -> sf.Topology:
    builder = sf.StreamsBuilder()
    words = builder.stream("in", key=str, value=str).flat_map_values(str.split)
    counts = words.group_by(lambda _key, word: word, key=str, value=str).count(store="counts")
    counts.to_stream().map_values(lambda n: {"n": n}).to("out", key=str, value=sf.Serdes.json())
    return builder.build()


def test_topologies_that_are_built_at_once() -> None:
    wanted = built()
    for _ in range(5):
        made = run_concurrently(lambda _: built())
        assert {each.describe() for each in made} == {wanted.describe()}
        assert {each.to_json() for each in made} == {wanted.to_json()}


def test_topologies_that_are_built_at_once_while_garbage_is_collected() -> None:
    """Callbacks of a collection let threads run while CPython reads a builtin's argument; some versions then fail."""

    def callback(phase: str, info: dict[str, int]) -> None:
        sum(range(20))

    before = gc.get_threshold()
    gc.callbacks.append(callback)
    gc.set_threshold(5)
    try:
        run_concurrently(lambda _: [built() for _ in range(10)])
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(callback)


def test_every_node_of_a_plan_has_its_own_place() -> None:
    for _ in range(10):
        plan = PlanBuilder()

        def add(number: int, plan: PlanBuilder = plan) -> list[tuple[int, Node]]:
            made = [Node(line=f"{number}:{at}") for at in range(500)]
            return [(plan.add(node), node) for node in made]

        placed = [each for one in run_concurrently(add) for each in one]
        nodes = plan.snapshot()
        assert len(nodes) == len(placed)
        assert all(nodes[at] is node for at, node in placed)


def test_a_builder_that_all_use() -> None:
    """The order of additions is random; related ones stay together."""
    branches = 10
    for _ in range(3):
        builder = sf.StreamsBuilder()

        def add(number: int, builder: sf.StreamsBuilder = builder) -> None:
            for at in range(branches):
                name = f"{number}-{at}"
                stream = builder.stream(f"in-{name}", key=str, value=str)
                stream.map_values(lambda v, name=name: f"{v} {name}").to(f"out-{name}", value=str)

        run_concurrently(add)
        with TopologyTestDriver(builder.build(), NAMED) as driver:
            for name in (f"{number}-{at}" for number in range(THREADS) for at in (0, branches - 1)):
                driver.input(f"in-{name}", str, str).pipe("k", "v")
                assert driver.output(f"out-{name}", str, str).read_value() == f"v {name}"


def test_a_topology_by_hand_that_all_ask() -> None:
    class Same(sf.Processor[bytes, bytes, bytes, bytes]):
        def process(self, record: sf.Record[bytes, bytes]) -> None:
            """Never called: the topology is only built."""

    for _ in range(10):
        topology = sf.Topology().add_source("source", "in").add_processor("same", Same, "source")
        topology.add_sink("sink", "out", "same")
        asked = run_concurrently(
            lambda number, topology=topology: (topology.plan, topology.encoded)[:: 1 - 2 * (number % 2)]
        )
        assert len({frozenset(map(id, each)) for each in asked}) == 1


# Topics and the driver -----------------------------------------------------------------------


def test_an_embedded_broker_that_all_use(tmp_path: Path) -> None:
    pages, page = 20, 100
    with EmbeddedBroker(tmp_path / "shared") as broker:

        def work(number: int) -> None:
            broker.create_topic("all", 4)
            broker.create_topic(f"own{number}", 2)
            for at in range(pages):
                records = [(number % 4, b"%d" % number, b"%d" % (at * page + each), each) for each in range(page)]
                assert broker.produce_many("all", records) == page
                broker.produce(f"own{number}", None, b"v", timestamp=1, partition=at % 2)
                assert broker.end_offsets("all")[number % 4] >= (at + 1) * page
            assert len(list(broker.read(f"own{number}"))) == pages
            own = [record for record in broker.read("all") if record.key == b"%d" % number]
            assert [int(record.value or b"") for record in own] == list(range(pages * page))

        run_concurrently(work)
        assert broker.topics() == {"all": 4, **{f"own{number}": 2 for number in range(THREADS)}}
        read = list(broker.read("all"))
        assert len(read) == THREADS * pages * page
        for partition in range(4):
            offsets = [record.offset for record in read if record.partition == partition]
            assert offsets == list(range(len(offsets)))


def test_a_driver_that_all_use() -> None:
    builder = sf.StreamsBuilder()
    counts = builder.stream("in", key=str, value=str).group_by_key().count(store="counts")
    counts.to_stream().to("out", key=str, value=int)
    with TopologyTestDriver(builder.build(), NAMED, lanes=3) as driver:

        def pipe(number: int) -> None:
            topic = driver.input("in", str, str)
            for at in range(30):
                topic.pipe(f"k{at % 5}", f"{number}")

        run_concurrently(pipe)
        rows = driver.output("out", str, int).read_key_values_to_list()
    assert Counter(key for key, _ in rows) == {f"k{at}": 6 * THREADS for at in range(5)}
    for key in {key for key, _ in rows}:
        assert [count for each, count in rows if each == key] == list(range(1, 6 * THREADS + 1))


# The event loop ------------------------------------------------------------------------------


def test_event_loops_beside_each_other() -> None:
    def work(number: int) -> list[str]:
        async def same(value: str) -> str:
            await asyncio.sleep(0.001)
            return f"{value}{number}"

        builder = sf.StreamsBuilder()
        builder.stream("in", key=str, value=str).map_values(same).to("out", key=str, value=str)
        with TopologyTestDriver(builder.build(), NAMED, lanes=2) as driver:
            for at in range(20):
                driver.input("in", str, str).pipe(f"k{at}", f"{at}-")
            return sorted(driver.output("out", str, str).read_values_to_list())

    for number, values in enumerate(run_concurrently(work)):
        assert values == sorted(f"{at}-{number}" for at in range(20))


def test_a_loop_that_ends_leaves_nobody_waiting() -> None:
    """Several threads make calls while it stops: each returns its result, or raises an error."""

    async def same(value: int) -> int:
        return value

    for _ in range(20):
        loop = EventLoop()
        caller = loop.caller(awaiting(same), "same")
        loop.acquire()
        begun = threading.Barrier(THREADS + 1)

        def call(number: int, caller: Any = caller, begun: threading.Barrier = begun) -> int:
            begun.wait()
            done = 0
            with suppress(RuntimeError):
                while caller(number + done) == number + done:
                    done += 1
                raise AssertionError("a call has another one's result")
            return done

        def end(loop: EventLoop = loop, begun: threading.Barrier = begun) -> None:
            begun.wait()
            time.sleep(0.005)
            loop.release()

        ending = threading.Thread(target=end)
        ending.start()
        run_concurrently(call)
        ending.join()


def test_a_resource_is_open_or_closed() -> None:
    """Never anything in between, whenever its application ends."""

    async def client() -> AsyncIterator[str]:
        yield "open"

    builder = sf.StreamsBuilder()
    resource = builder.resource(client)
    builder.stream("in", key=str, value=str).map_values(lambda v: v + resource.value).to("out", value=str)
    loop = builder.build().event_loop
    assert loop is not None
    ended = threading.Event()
    seen: set[str] = set()

    def look(thread: int) -> None:
        if thread == 0:
            try:
                # Until both were seen: on a slow machine a thread may not run for a while.
                latest = time.monotonic() + 30
                rounds = 0
                while rounds < 40 or (len(seen) < 2 and time.monotonic() < latest):
                    loop.acquire()
                    loop.release()
                    rounds += 1
            finally:
                ended.set()
        while not ended.is_set():
            try:
                seen.add(resource.value)
            except RuntimeError as error:
                seen.add("closed" if "is not open" in str(error) else str(error))
            # The loop must get to run too.
            time.sleep(0)

    run_concurrently(look, 4)
    assert seen == {"open", "closed"}


class Closing(Resource[str]):
    """It closes between two checks."""

    @property
    def _open(self) -> list[str]:
        looks = self.__dict__["looks"] = self.__dict__.get("looks", 0) + 1
        return ["open"] if looks == 1 else []

    @_open.setter
    def _open(self, made: list[str]) -> None:
        """It is never opened."""


def test_a_resource_that_closes_while_it_is_asked_for() -> None:
    closing = Closing(str, "app.py:1")
    assert closing.value == "open"
    with pytest.raises(RuntimeError, match="is not open"):
        _ = closing.value
