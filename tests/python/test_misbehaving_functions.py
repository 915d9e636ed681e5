"""Functions that misbehave: each has a deterministic outcome, and affects nothing else."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver


def topology(
    fn: Callable[[Any], Any], value: Any = dict, out: Any = dict, method: str = "map_values", **options: Any
) -> sf.Topology:
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=value)
    getattr(stream, method)(fn, name="fn", **options).to("out", key=str, value=out)
    return builder.build()


def outcome(fn: Callable[[Any], Any], *, out: Any = dict, **options: Any) -> Any:
    """The result for one record."""
    with TopologyTestDriver(topology(fn, out=out, **options)) as driver:
        driver.input("in", str, dict).pipe("k", {"n": 1})
        return driver.output("out", str, out).read_values_to_list()


@contextmanager
def running(
    fn: Callable[[Any], Any], tmp_path: Path, records: int = 1, method: str = "map_values", **settings: Any
) -> Iterator[sf.StoatFlow]:
    with sf.EmbeddedBroker() as broker:
        broker.create_topic("in", 1)
        broker.create_topic("out", 1)
        config = {"application.id": "rude", "state.dir": str(tmp_path), "lanes.count": 2, **settings}
        app = sf.StoatFlow(topology(fn, method=method), config, broker=broker)
        with app:
            broker.produce_many("in", ((0, b"k", b'{"n": 1}', at) for at in range(records)))
            yield app


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.02)


def boom(value: Any) -> Any:
    raise LookupError("boom")


def test_a_function_that_raises_stops_with_its_line_or_is_handled() -> None:
    with pytest.raises(
        sf.ProcessingError, match=r"raised LookupError: boom .*test_misbehaving_functions\.py:\d+ boom"
    ) as caught:
        outcome(boom)
    assert isinstance(caught.value.__cause__, LookupError)
    assert outcome(boom, on_error=sf.log_and_continue()) == []


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_system_exit_stops_the_application_despite_a_handler(kind: type[BaseException]) -> None:
    def leave(value: Any) -> Any:
        raise kind(3)

    for options in ({}, {"on_error": sf.log_and_continue()}):
        with pytest.raises(sf.ProcessingError, match=f"raised {kind.__name__}: 3.*can't end the process") as caught:
            outcome(leave, **options)
        assert type(caught.value.__cause__) is kind


def test_sys_exit_in_a_running_application(tmp_path: Path) -> None:
    def run() -> None:
        with running(lambda _: sys.exit(3), tmp_path) as app:
            until(lambda: app.state is sf.State.ERROR)
            app.wait()

    with pytest.raises(sf.ProcessingError, match="SystemExit"):
        run()
    assert threading.main_thread().is_alive()


def test_a_function_that_returns_garbage() -> None:
    class Mine:
        pass

    for garbage, message in (
        (Mine(), "no form for an object of type .*Mine"),
        ({1: 2}, "key is not text"),
        (float("nan"), "no form for the number"),
        ({"a": {1, 2}}, "no form for an object of type set"),
        ("\ud800", "surrogate"),
    ):
        with pytest.raises(sf.StoatFlowError, match=message):
            outcome(lambda _, given=garbage: given)
    itself: list[Any] = []
    itself.append(itself)
    with pytest.raises(sf.SerdeError, match="contain itself"):
        outcome(lambda _: itself)
    with pytest.raises(sf.SerdeError, match="can't write a value of type str"):
        outcome(lambda _: "text", out=int)


def test_a_function_whose_result_has_a_broken_repr_or_str() -> None:
    class BrokenError(Exception):
        def __str__(self) -> str:
            raise ValueError("no")

    def fail(value: Any) -> Any:
        raise BrokenError

    with pytest.raises(sf.ProcessingError, match=r"raised .*BrokenError: \(it can't be shown\)"):
        outcome(fail)


def test_a_function_that_changes_its_input() -> None:
    def change(value: Any) -> Any:
        value["n"] = 2
        return value

    with pytest.raises(
        sf.ProcessingError, match=r"raised TypeError: a JsonObject can't be changed.*test_misbehaving"
    ) as caught:
        outcome(change)
    assert isinstance(caught.value.__cause__, TypeError)


def test_with_dicts_a_change_stays_within_its_branch() -> None:
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=sf.Serdes.json(decode="dict"))
    stream.map_values(lambda v: v.update(n=2) or v).to("changed", key=str, value=dict)
    stream.to("other", key=str, value=dict)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, dict).pipe("k", {"n": 1})
        assert driver.output("changed", str, dict).read_value() == {"n": 2}
        assert driver.output("other", str, dict).read_value() == {"n": 1}


def test_a_function_that_starts_threads(tmp_path: Path) -> None:
    done: list[int] = []

    def start(value: Any) -> Any:
        thread = threading.Thread(target=lambda: done.append(value["n"]))
        thread.start()
        thread.join()
        return value

    with running(start, tmp_path, records=20) as app:
        until(lambda: app.metrics()["records_committed"] == 20)
    assert done == [1] * 20


def test_a_store_that_is_used_in_another_thread_refuses() -> None:
    result: list[str] = []

    class Shares(sf.ContextualProcessor[str, Any, str, Any]):
        def process(self, record: sf.Record[str, Any]) -> None:
            def elsewhere() -> None:
                try:
                    self.context.forward(record)
                except sf.ProcessingError as error:
                    result.append(str(error))

            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()

    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=dict).process(Shares).to("out", key=str, value=dict)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, dict).pipe("k", {"n": 1})
        assert driver.output("out", str, dict).is_empty
    assert "another thread" in result[0]


@pytest.mark.parametrize("kind", ["plain", "columns", "async"])
def test_a_function_that_forks(kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    children: list[int] = []

    def fork(value: Any) -> Any:
        if not children:
            child = os.fork()
            if child:
                children.append(child)
        return value

    async def fork_async(value: Any) -> Any:
        return fork(value)

    fn = fork_async if kind == "async" else fork
    method = "map_batches" if kind == "columns" else "map_values"
    with running(fn, tmp_path, records=10, method=method) as app:
        until(lambda: app.metrics()["records_committed"] == 10)
        (child,) = children
        ended: list[int] = []

        def gone() -> bool:
            ended[:] = os.waitpid(child, os.WNOHANG)
            return ended[0] == child

        until(gone)
    assert os.waitstatus_to_exitcode(ended[1]) == 70
    assert "a function forked the process" in capfd.readouterr().err


def test_a_function_that_forks_and_exits_the_child_properly(tmp_path: Path) -> None:
    codes: list[int] = []

    def fork(value: Any) -> Any:
        child = os.fork()
        if not child:
            os._exit(5)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return value

    with running(fork, tmp_path, records=3) as app:
        until(lambda: app.metrics()["records_committed"] == 3)
    assert codes == [5, 5, 5]


def test_a_function_that_hangs_does_not_block_queries(tmp_path: Path) -> None:
    released = threading.Event()
    held: list[int] = []

    def hang(value: Any) -> Any:
        held.append(1)
        released.wait(600)
        return value

    with running(hang, tmp_path, records=5) as app:
        until(lambda: bool(held))
        url = app.admin_url
        assert url is not None
        for _ in range(20):
            began = time.monotonic()
            assert urllib.request.urlopen(url + "health/live").status == 200  # noqa: S310
            assert time.monotonic() - began < 60
        assert app.metrics()["records_committed"] == 0
        released.set()
        until(lambda: app.metrics()["records_committed"] == 5)


def test_a_function_that_computes_for_long_does_not_block_queries(tmp_path: Path) -> None:
    stop = threading.Event()
    held: list[int] = []

    def compute(value: Any) -> Any:
        held.append(1)
        while not stop.is_set():
            sum(range(1000))
        return value

    with running(compute, tmp_path) as app:
        until(lambda: bool(held))
        url = app.admin_url
        assert url is not None
        assert urllib.request.urlopen(url + "health/live").status == 200  # noqa: S310
        stop.set()
        until(lambda: app.metrics()["records_committed"] == 1)


def test_a_function_that_leaks_is_visible_and_the_engine_leaks_nothing() -> None:
    leaked: list[Any] = []

    def views() -> int:
        gc.collect()
        return sum(type(one) is sf.JsonObject for one in gc.get_objects())

    before = views()

    def leak(value: Any) -> Any:
        leaked.append(value)
        return value

    with TopologyTestDriver(topology(leak)) as driver:
        source = driver.input("in", str, dict)
        for n in range(50):
            source.pipe("k", {"n": n})
    assert [value["n"] for value in leaked] == list(range(50)), "views outlive the driver"
    assert views() == before + 50
    leaked.clear()
    assert views() == before


def test_a_function_that_recurses_forever() -> None:
    def deeper(value: Any) -> Any:
        return deeper(value)

    with pytest.raises(sf.ProcessingError, match="RecursionError"):
        outcome(deeper)
    assert outcome(deeper, on_error=sf.log_and_continue()) == []
