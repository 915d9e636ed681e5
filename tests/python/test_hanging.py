"""The end of an application whose functions hang: it keeps its time limits, and never crashes the interpreter."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from hanging import BOUND_S, SLACK_S, TELLS_WHEN_IT_RUNS, Hanging

SLEEPS = "def fn(value):\n    print('hangs', flush=True)\n    time.sleep(60)\n    return value"
BUSY = "def fn(value):\n    print('hangs', flush=True)\n    while True:\n        pass"
# In C, without releasing the interpreter.
KEEPS_THE_INTERPRETER = "def fn(value):\n    print('hangs', flush=True)\n    return sum(range(10**12))"
KINDS = pytest.mark.parametrize("functions", [SLEEPS, BUSY, KEEPS_THE_INTERPRETER], ids=["sleeps", "busy", "keeps"])
NUMBERS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: signal.Signals(n).name)
TWO_SECONDS: dict[str, object] = {"shutdown.timeout.ms": "2s"}
HEARD = "a second one aborts"
"""Logged by Python at the first signal. A second signal that arrives before it counts as the same one."""


@KINDS
def test_the_first_signal_ends_within_the_shutdown_timeout(functions: str, tmp_path: Path) -> None:
    with Hanging(tmp_path, functions, settings=TWO_SECONDS) as child:
        child.signal(signal.SIGTERM)
        # A function that keeps the interpreter doubles the time.
        assert child.ends(2 * BOUND_S + 2) == 3
        where = "function <string>:4 fn, node hangs, topic in, partition "
        assert where in child.errors
        assert "not everything is committed after shutdown.timeout.ms" in child.errors
        assert "left behind: this thread doesn't end" in child.errors


def test_waiters_get_the_error_and_the_record(tmp_path: Path) -> None:
    run = "try:\n    app.run()\nexcept sf.StalledError as error:\n    print(error.coordinates, flush=True)"
    with Hanging(tmp_path, SLEEPS, run=run, settings={"shutdown.timeout.ms": "1s"}) as child:
        child.signal(signal.SIGINT)
        assert child.ends(1 + BOUND_S) == 3, child.errors
        reported = child.output()
        assert "'function': '<string>:4 fn', 'node': 'hangs', 'topic': 'in', 'partition': " in reported
        assert "'offset': 0, 'lane': " in reported


@KINDS
@NUMBERS
def test_the_second_signal_ends_the_process(functions: str, number: signal.Signals, tmp_path: Path) -> None:
    with Hanging(tmp_path, functions) as child:
        child.signal(number)
        if functions != KEEPS_THE_INTERPRETER:
            child.says(HEARD)
        child.signal(number, after=0.5)
        assert child.ends(BOUND_S) == 128 + number


@KINDS
def test_the_third_signal_ends_it_at_once(functions: str, tmp_path: Path) -> None:
    with Hanging(tmp_path, functions) as child:
        child.signal(signal.SIGINT)
        child.signal(signal.SIGINT, after=0.3)
        # On a slow machine the second one has ended it by then.
        child.signal(signal.SIGINT, after=0.3, may_have_ended=True)
        assert child.ends(BOUND_S) == 128 + signal.SIGINT


ASYNC = "async def fn(value):\n    print('hangs', flush=True)\n    await asyncio.sleep(1000)\n    return value"
AWAITED = "sf.awaiting(fn, concurrency=4, timeout='1h')"


def test_an_async_function_that_never_answers_is_parked(tmp_path: Path) -> None:
    with Hanging(tmp_path, ASYNC, fn=AWAITED, settings=TWO_SECONDS) as child:
        child.signal(signal.SIGTERM)
        assert child.ends(BOUND_S + 2) == 0, child.errors
        assert child.output() == "after STOPPED\n"


def test_the_second_signal_while_an_async_function_never_answers(tmp_path: Path) -> None:
    blocking = ASYNC.replace("await asyncio", "time")
    with Hanging(tmp_path, blocking, fn=AWAITED) as child:
        child.signal(signal.SIGINT)
        child.says(HEARD)
        child.signal(signal.SIGINT, after=0.2)
        assert child.ends(BOUND_S) in {128 + signal.SIGINT, -signal.SIGINT}, child.errors


def test_native_expressions_end_at_once(tmp_path: Path) -> None:
    with Hanging(tmp_path, "", fn="sf.value", run=TELLS_WHEN_IT_RUNS) as child:
        child.signal(signal.SIGTERM, after=1.0)
        assert child.ends(BOUND_S) == 0, child.errors
        assert child.output() == "after STOPPED\n"


def test_a_failure_does_not_wait_for_a_function_that_hangs(tmp_path: Path) -> None:
    functions = """
import threading
hangs = threading.Event()
def fn(value):
    if value == "second":
        hangs.wait()
        raise ValueError("broken")
    print("hangs", flush=True)
    hangs.set()
    time.sleep(60)
"""
    # Keys of both lanes.
    run = "broker.produce_many('in', [(None, b'%d' % n, b'second', 1) for n in range(8)])\napp.run()"
    with Hanging(tmp_path, functions, run=run) as child:
        assert child.ends(2 * BOUND_S) == 3
        assert "ProcessingError: the function raised ValueError: broken" in child.errors
        assert "left behind: this thread doesn't end" in child.errors


def test_an_exception_whose_text_reads_the_state_is_reported(tmp_path: Path) -> None:
    functions = """
class Broken(ValueError):
    def __str__(self):
        return f"broken while {app.state}"
def fn(value):
    print("hangs", flush=True)
    raise Broken
"""
    with Hanging(tmp_path, functions) as child:
        assert child.ends(SLACK_S) == 1
        assert "the function raised Broken: broken while RUNNING" in child.errors


CLOSING = """
import threading
def close():
    began = time.monotonic()
    app.start()
    while not printed.wait(0.01):
        pass
    began = time.monotonic()
    print(app.close(CLOSE), app.state, type(app.error).__name__, flush=True)
    print(time.monotonic() - began, flush=True)
other = threading.Thread(target=close)
other.start()
other.join()
time.sleep(1)
print("alive", app.has_left_behind(), flush=True)
"""


@pytest.mark.parametrize(("argument", "timeout"), [("0.5", "30s"), ("", "500")])
def test_close_gives_up_and_ends_no_process(argument: str, timeout: str, tmp_path: Path) -> None:
    reported = SLEEPS.replace("    time", "    printed.set()\n    time")
    functions = f"import threading\nprinted = threading.Event()\n{reported}"
    run = CLOSING.replace("CLOSE", argument)
    with Hanging(tmp_path, functions, run=run, settings={"shutdown.timeout.ms": timeout}) as child:
        assert child.ends(0.5 + BOUND_S + 2) == 3, child.errors
        closed, took, alive = child.output().splitlines()
        assert closed == "False ERROR StalledError"
        assert 0.5 <= float(took) < 0.5 + BOUND_S + SLACK_S
        assert alive == "alive True"


def test_an_application_that_nobody_closes_does_not_bring_the_interpreter_down(tmp_path: Path) -> None:
    run = "app.start()\ntime.sleep(2)"
    with Hanging(tmp_path, BUSY, run=run) as child:
        assert child.ends(2 + BOUND_S) == 3
        assert "doesn't come back; the process ends without it" in child.errors


def test_a_function_that_comes_back_in_time_ends_nothing_early(tmp_path: Path) -> None:
    """A slow function is waited for, and committed."""
    with Hanging(tmp_path, SLEEPS.replace("60", "1.5")) as child:
        child.signal(signal.SIGTERM)
        assert child.ends(BOUND_S) == 0, child.errors
        assert child.output() == "after STOPPED\n"


def test_a_forked_process_has_its_own_signal_handlers(tmp_path: Path) -> None:
    """A function's child process gets the first signal too, and that counts once."""
    functions = """
import os
def fn(value):
    ready, says = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(says, b"!")
        time.sleep(60)
        os._exit(0)
    os.read(ready, 1)  # Python forgets a signal that comes before the copy is set up
    print("hangs", flush=True)
    os.kill(child, 15)
    _, status = os.waitpid(child, 0)
    print("child", os.waitstatus_to_exitcode(status), flush=True)
    time.sleep(0.5)
    return value
"""
    with Hanging(tmp_path, functions) as child:
        child.signal(signal.SIGTERM, after=0.3)
        assert child.ends(BOUND_S) == 0, child.errors
        assert child.output().splitlines() == ["child 143", "after STOPPED"]
