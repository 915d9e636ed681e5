"""Applications whose lanes, threads and listeners all run concurrently: with or without a GIL, nothing is lost."""

from __future__ import annotations

import asyncio
import functools
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from concurrency import THREADS, changing_dict, frequent_thread_switches, run_concurrently, until
from stoatflow import EmbeddedBroker, State, StoatFlow

LANES = 64
NAMED = {"ensure.explicit.naming": False}


@pytest.fixture(autouse=True)
def changing() -> Iterator[None]:
    with frequent_thread_switches():
        yield


def drained(app: StoatFlow) -> None:
    """Wait until everything is committed, or for the error that prevents it."""
    until(lambda: app.state is State.ERROR or app.lag() == 0)
    assert not app.wait(0)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path / "broker") as made:
        made.create_topic("in", 8)
        made.create_topic("out", 8)
        yield made


@pytest.fixture
def make(broker: EmbeddedBroker, tmp_path: Path) -> Callable[..., StoatFlow]:
    def application(topology: sf.Topology, name: str = "app", **settings: object) -> StoatFlow:
        given = {"application.id": name, "state.dir": str(tmp_path / name), "lanes.count": LANES, **NAMED, **settings}
        return StoatFlow(topology, sf.Settings(given, environ={}), broker=broker)

    return application


# Lanes ---------------------------------------------------------------------------------------


def test_functions_in_many_lanes(broker: EmbeddedBroker, make: Callable[..., StoatFlow]) -> None:
    """Stateless operators, an aggregate and a table, with keys that several partitions and all lanes have."""
    keys, count = 200, 12_000
    builder = sf.StreamsBuilder()
    stream = (
        builder.stream("in", key=str, value=sf.Serdes.json())
        .map_values(lambda v: {**v, "twice": v["n"] * 2})
        .filter(lambda _key, v: v["n"] % 3 != 0)
        .flat_map(lambda key, v: [(f"{key}-{v['n'] % 2}", v)])
    )
    grouped = stream.group_by_key(key=str, value=sf.Serdes.json())
    grouped.aggregate(
        lambda: {"sum": 0, "parts": []},
        lambda _key, v, agg: {"sum": agg["sum"] + v["twice"], "parts": [*agg["parts"][-3:], v["n"]]},
        store=sf.Materialized("sums", key=str, value=sf.Serdes.json()),
    ).to_stream().to("out", key=str, value=sf.Serdes.json())
    broker.produce_many("in", ((None, b"k%d" % (at % keys), b'{"n": %d}' % at, at) for at in range(count)))
    app = make(builder.build())
    with app:
        drained(app)
    wanted: Counter[str] = Counter()
    for at in range(count):
        if at % 3:
            wanted[f"k{at % keys}-{at % 2}"] += at * 2
    last: dict[str, Any] = {}
    for record in broker.read("out"):
        assert record.key is not None
        assert record.value is not None
        last[record.key.decode()] = json.loads(record.value)
    assert {key: each["sum"] for key, each in last.items()} == wanted
    assert all(each["parts"] == sorted(each["parts"]) for each in last.values())


class Counting(sf.Processor[str, str, str, int]):
    """Counts in a store, and reads all of it from other threads now and then."""

    def init(self, context: sf.ProcessorContext[str, int]) -> None:
        self._context = context
        self._store = context.state_store("counts")

    def process(self, record: sf.Record[str, str]) -> None:
        count = (self._store.get(record.key) or 0) + 1
        self._store.put(record.key, count)
        if count == 5:
            rows = self._store.range(record.key, record.key)
            found = run_concurrently(lambda _: list(rows), 3)
            assert sorted(found, key=len) == [[], [], [(record.key, 5)]], "each entry goes to one of them"
            refused = run_concurrently(self._refused, 3)
            assert refused == [True] * 3
        self._context.forward(record.replace(value=count))

    def _refused(self, _number: int) -> bool:
        try:
            self._store.put("of another thread", 1)
        except sf.StoatFlowError:
            return True
        return False


def test_processors_with_stores_in_many_lanes(broker: EmbeddedBroker, make: Callable[..., StoatFlow]) -> None:
    keys, each = 60, 40
    builder = sf.StreamsBuilder()
    builder.add_state_store(sf.Stores.key_value("counts", key=str, value=int))
    stream = builder.stream("in", key=str, value=str)
    stream.process(Counting, stores=["counts"], name="counting").to("out", key=str, value=int)
    broker.produce_many("in", ((None, b"k%d" % (at % keys), b"v", at) for at in range(keys * each)))
    app = make(builder.build())
    with app:
        drained(app)
    seen: dict[bytes, list[int]] = {}
    for record in broker.read("out"):
        assert record.key is not None
        assert record.value is not None
        seen.setdefault(record.key, []).append(int.from_bytes(record.value, "big"))
    assert len(seen) == keys
    assert all(counts == list(range(1, each + 1)) for counts in seen.values())


def test_metrics_while_lanes_run(broker: EmbeddedBroker, make: Callable[..., StoatFlow]) -> None:
    count = 8000
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).map_values(str.upper, name="upper").to("out", key=str, value=str)
    broker.produce_many("in", ((None, b"k%d" % at, b"v", at) for at in range(count)))
    app = make(builder.build())

    def watch(_number: int) -> int:
        calls = 0
        while app.lag() and app.state is not State.ERROR:
            now = sum(each["calls"] for each in app.metrics()["functions"])
            assert now >= calls, "a counter never falls"
            calls = now
            state = app.state
            assert state in {State.CREATED, State.STARTING, State.RESTORING, State.RUNNING}, (state, app.error)
            assert isinstance(app.states, tuple)
        return calls

    with app:
        run_concurrently(watch, 4)
        (spent,) = app.metrics()["functions"]
        assert spent["calls"] == count
        assert app.metrics()["records_in"] == count
    assert sum(broker.end_offsets("out").values()) == count


def test_call_times_do_not_exceed_elapsed_time(broker: EmbeddedBroker, make: Callable[..., StoatFlow]) -> None:
    """Calls of an aggregator are sampled, each sample counting for those before it: no call is counted twice."""
    count, pause = 1600, 0.002
    builder = sf.StreamsBuilder()
    grouped = builder.stream("in", key=str, value=str).group_by_key()

    def add(_key: str, _value: str, total: int) -> int:
        time.sleep(pause)
        return total + 1

    grouped.aggregate(lambda: 0, add, store=sf.Materialized("adds", key=str, value=int)).to_stream().to(
        "out", value=int
    )
    broker.produce_many("in", ((None, b"k%d" % at, b"v", at) for at in range(count)))
    app = make(builder.build())
    began = time.monotonic()
    with app:
        drained(app)
        took = time.monotonic() - began
        spent = [each for each in app.metrics()["functions"] if "add" in each["function"]]
    assert [each["calls"] for each in spent] == [count]
    assert count * pause <= spent[0]["seconds"] <= LANES * took


def test_a_dict_that_another_thread_changes_is_written(broker: EmbeddedBroker, make: Callable[..., StoatFlow]) -> None:
    """A function's result is written later, in its state at that time, but never half of a name and a value."""
    shared: dict[str, Any] = {"always": [1]}
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=sf.Serdes.json())
    stream.map_values(lambda _: shared).to("out", key=str, value=sf.Serdes.json())
    # The other way of writing: a view of a text, merged with the changing dict.
    stream.map_values(lambda v: v | shared).to("out", key=str, value=sf.Serdes.json())
    count = 4000
    broker.produce_many("in", ((None, b"%d" % at, b'{"of": 1}', at) for at in range(count)))
    stop = threading.Event()
    changing = threading.Thread(target=changing_dict, args=(shared, stop), daemon=True)
    changing.start()
    try:
        with make(builder.build()) as app:
            drained(app)
    finally:
        stop.set()
        changing.join()
    written = [json.loads(record.value) for record in broker.read("out") if record.value is not None]
    assert len(written) == 2 * count
    for each in written:
        each.pop("of", None)
        assert each.pop("always") == [1]
        assert all(each[name] == {"n": int(name[1:])} for name in each)


def test_async_functions_in_many_lanes(broker: EmbeddedBroker, make: Callable[..., StoatFlow]) -> None:
    """Calls that lanes submit, and calls of a table that lanes wait for; some are retried."""
    count = 3000
    tried: Counter[str] = Counter()

    @sf.awaiting(concurrency=50, retry=sf.Backoff(attempts=2, first="1ms"))
    async def work(value: str) -> str:
        await asyncio.sleep(0)
        tried[value] += 1
        if int(value) % 100 == 0 and tried[value] == 1:
            raise ValueError("once")
        return f"{value}!"

    async def waited_for(value: str) -> str:
        await asyncio.sleep(0)
        return f"{value}?"

    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=str).map_values(work, name="work")
    table = stream.to_table(store=sf.Materialized("table", key=str, value=str))
    table.map_values(waited_for, name="waited").to_stream().to("out", key=str, value=str)
    broker.produce_many("in", ((None, b"k%d" % at, b"%d" % at, at) for at in range(count)))
    app = make(builder.build())
    with app:
        drained(app)
    written = sorted(record.value or b"" for record in broker.read("out"))
    assert written == sorted(b"%d!?" % at for at in range(count))
    assert sum(tried.values()) == count + count // 100


# Applications --------------------------------------------------------------------------------


def fails(_value: str) -> str:
    raise ValueError("always")


def test_all_waiters_get_the_error(broker: EmbeddedBroker, make: Callable[..., StoatFlow]) -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).map_values(fails).to("out", value=str)
    topology = builder.build()
    broker.produce("in", b"k", b"v", timestamp=1)
    for number in range(10):
        app = make(topology, f"app{number}", **{"lanes.count": 1})

        def wait(thread: int, app: StoatFlow = app) -> BaseException:
            if thread == 0:
                app.start()
            # Also callers of the engine itself: each of them gets its error.
            wait = functools.partial(app.wait, "30s") if thread % 2 else functools.partial(app._engine.wait, 30.0)
            with pytest.raises(sf.ProcessingError) as raised:
                wait()
            return raised.value

        errors = run_concurrently(wait)
        assert len({id(error) for error in errors}) == 1
        assert app.error is errors[0]


def test_an_error_waits_for_no_listener(broker: EmbeddedBroker, make: Callable[..., StoatFlow]) -> None:
    """`run` polls, and must not mistake an end whose listeners are still being called for a success."""
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).map_values(fails).to("out", value=str)
    app = make(builder.build())
    heard: list[BaseException | None] = []

    def slowly(new: State, _old: State) -> None:
        if new is State.ERROR:
            time.sleep(0.4)
            # Also from within the listener, which would otherwise wait for itself.
            assert app.close()
            heard.append(app.error)

    app.add_state_listener(slowly)
    broker.produce("in", b"k", b"v", timestamp=1)
    with pytest.raises(sf.ProcessingError, match="always") as raised:
        app.run()
    until(lambda: bool(heard))
    assert heard == [raised.value]


def test_waiters_continue_after_listeners_were_called(broker: EmbeddedBroker, make: Callable[..., StoatFlow]) -> None:
    """Otherwise a script ends, and its interpreter, while a listener of the last state is still running."""
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).to("out", value=str)
    app = make(builder.build())
    heard: list[State] = []

    def slowly(new: State, _old: State) -> None:
        if new is State.STOPPED:
            time.sleep(0.5)
        heard.append(new)

    app.add_state_listener(slowly)
    app.start()
    assert app.close()
    assert heard[-1] is State.STOPPED


class Unhurried(StoatFlow):
    """Checks for a while whether it was started, so that others check meanwhile."""

    @property
    def _started(self) -> bool:
        seen = self.__dict__.get("started", False)
        time.sleep(0.005)
        return seen

    @_started.setter
    def _started(self, started: bool) -> None:
        self.__dict__["started"] = started


def test_an_application_starts_once(broker: EmbeddedBroker, tmp_path: Path) -> None:
    async def same(value: str) -> str:
        return value

    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).map_values(same).to("out", value=str)
    app = Unhurried(
        builder.build(), {"application.id": "app", "state.dir": str(tmp_path / "app"), **NAMED}, broker=broker
    )

    def start(_number: int) -> bool:
        try:
            app.start()
        except RuntimeError:
            return False
        return True

    assert sorted(run_concurrently(start)) == [*[False] * (THREADS - 1), True]
    assert all(run_concurrently(lambda _: app.close()))
    assert app.state is State.STOPPED
    loops = [thread for thread in threading.enumerate() if thread.name == "stoatflow-event-loop"]
    assert not loops, "all runs have let go"


SLOWLY_MADE = """
import sys, threading, time
import stoatflow as sf
from stoatflow import errors

made = errors.ERRORS_BY_KIND["user"]

def slowly(*message, **rest):
    time.sleep(0.2)
    return made(*message, **rest)

errors.ERRORS_BY_KIND["user"] = slowly
broker = sf.EmbeddedBroker(sys.argv[1] + "/broker")
broker.create_topic("in")
broker.produce("in", b"k", b"v", timestamp=1)
builder = sf.StreamsBuilder()
builder.stream("in", key=str, value=str).map_values(lambda v: v.no_such_thing).to("in", value=str)
settings = {"application.id": "app", "state.dir": sys.argv[1] + "/state", "ensure.explicit.naming": False}
app = sf.StoatFlow(builder.build(), settings, broker=broker)
raised = []

def wait():
    try:
        app._engine.wait(30.0)
    except sf.ProcessingError as error:
        raised.append(error)

threads = [threading.Thread(target=wait, daemon=True) for _ in range(4)]
app.start()
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(raised), len(set(map(id, raised))))
"""


def test_a_slow_error_blocks_nobody(tmp_path: Path) -> None:
    """Creating an exception runs Python code, which may yield: nothing may hold the interpreter and wait for it."""
    # In its own process: a deadlock of its threads would block this one.
    output = subprocess.run(
        [sys.executable, "-c", SLOWLY_MADE, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert output.stdout.split() == ["4", "1"], output.stderr
