"""The life cycle of a run: hooks, the uncaught exception handler, waiting, exit codes, the log line at the start."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import stoatflow as sf


@pytest.fixture
def broker() -> Iterator[sf.EmbeddedBroker]:
    with sf.EmbeddedBroker() as broker:
        broker.create_topic("in", partitions=2)
        broker.create_topic("out")
        yield broker


def application(broker: sf.EmbeddedBroker, tmp_path: Path, function: object = None, **settings: object) -> sf.StoatFlow:
    builder = sf.StreamsBuilder()
    values = builder.stream("in", key=str, value=str)
    changed = values.map_values(function) if callable(function) else values
    changed.to("out", key=str, value=str)
    config = {"application.id": "life", "state.dir": str(tmp_path), "admin.listen": "off"} | settings
    return sf.StoatFlow(builder.build(), config, broker=broker)


def test_hooks_are_called_in_their_order(broker: sf.EmbeddedBroker, tmp_path: Path) -> None:
    output: list[str] = []
    app = application(broker, tmp_path)
    for phase in sf.Phase:
        app.add_hook(phase, lambda app, phase=phase: output.append(f"{phase} second"), order=2)

        async def first(app: sf.StoatFlow, phase: sf.Phase = phase) -> None:
            await asyncio.sleep(0)
            output.append(f"{phase} first {app.state}")

        app.add_hook(str(phase), first, order=1)
    with app:
        app.wait_until("RUNNING")
        deadline = time.monotonic() + 60
        while len(output) < 4 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert output == [
        "PRE_START first CREATED", "PRE_START second",
        "POST_START first RUNNING", "POST_START second",
        "PRE_STOP first RUNNING", "PRE_STOP second",
        "POST_STOP first STOPPED", "POST_STOP second",
    ]  # fmt: skip


def test_a_hook_before_the_start_vetoes_it(broker: sf.EmbeddedBroker, tmp_path: Path) -> None:
    output: list[object] = []

    def no_licence(app: sf.StoatFlow) -> None:
        raise PermissionError("no licence")

    app = application(broker, tmp_path)
    app.add_hook("PRE_START", no_licence)
    app.add_hook("PRE_START", output.append)
    with pytest.raises(PermissionError, match="no licence"):
        app.run()
    assert output == []
    assert app.state == "STOPPED"
    assert app.close("1s")


def test_a_hook_that_takes_too_long_counts_as_failed(
    broker: sf.EmbeddedBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    over = threading.Event()
    app = application(broker, tmp_path)
    app.add_hook("PRE_START", lambda app: over.wait(300), timeout="50ms")
    with pytest.raises(TimeoutError, match=r"PRE_START hook .* has not ended within 0\.05 s"):
        app.start()
    app = application(broker, tmp_path)
    app.add_hook("PRE_STOP", lambda app: over.wait(300), timeout="50ms")
    app.add_hook("POST_STOP", lambda app: 1 / 0)
    with caplog.at_level(logging.ERROR, "stoatflow"), app:
        app.wait_until("RUNNING")
    over.set()
    assert app.state == "STOPPED"
    assert "the PRE_STOP hook" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_hooks_are_checked(broker: sf.EmbeddedBroker, tmp_path: Path) -> None:
    app = application(broker, tmp_path)
    with pytest.raises(sf.ConfigError, match="POST_STOP"):
        app.add_hook("BEFORE", print)
    with pytest.raises(sf.ConfigError, match="a hook is a function"):
        app.add_hook("PRE_START", "x")  # type: ignore[arg-type]
    with pytest.raises(sf.ConfigError, match="REPLACE_THREAD"):
        app.set_uncaught_exception_handler("x")  # type: ignore[arg-type]


def test_replace_thread_starts_again_from_the_last_commit(broker: sf.EmbeddedBroker, tmp_path: Path) -> None:
    fails, heard = [2], []

    def sometimes(value: str) -> str:
        if value == "b" and fails[0] > 0:
            fails[0] -= 1
            raise OSError("away")
        return value.upper()

    def replace(error: BaseException) -> str:
        heard.append((type(error), type(error.__cause__)))
        return "REPLACE_THREAD"

    app = application(broker, tmp_path, sometimes)
    app.set_uncaught_exception_handler(replace)
    with app:
        for value in ("a", "b", "c"):
            broker.produce("in", "k", value.encode(), partition=0)
        app.wait_until(caught_up=True)
        assert app.metrics()["restarts"] == 2
    assert heard == [(sf.ProcessingError, OSError)] * 2
    assert [record.value for record in broker.read("out")] == [b"A", b"B", b"C"]


@pytest.mark.parametrize("answer", ["SHUTDOWN_CLIENT", sf.ExceptionResponse.SHUTDOWN_APPLICATION, "nonsense", None])
def test_any_other_response_stops_the_application(broker: sf.EmbeddedBroker, tmp_path: Path, answer: object) -> None:
    def fails(value: str) -> str:
        raise OSError("away")

    app = application(broker, tmp_path, fails)
    app.set_uncaught_exception_handler(lambda error: answer)  # type: ignore[arg-type,return-value]
    app.start()
    app.wait_until("RUNNING")
    broker.produce("in", "k", b"v")
    with pytest.raises(sf.ProcessingError):
        app.wait_until(caught_up=True)
    assert app.state == "ERROR"


def test_replacements_are_limited(broker: sf.EmbeddedBroker, tmp_path: Path) -> None:
    def fails(value: str) -> str:
        raise OSError("away")

    app = application(broker, tmp_path, fails, **{"restart.max.attempts": 1})
    app.set_uncaught_exception_handler(lambda error: sf.ExceptionResponse.REPLACE_THREAD)
    app.start()
    app.wait_until("RUNNING")
    broker.produce("in", "k", b"v")
    with pytest.raises(sf.ProcessingError):
        app.wait(60)
    assert app.metrics()["restarts"] == 1


def test_wait_until_times_out_and_reports_progress(broker: sf.EmbeddedBroker, tmp_path: Path) -> None:
    goes_on = threading.Event()
    app = application(broker, tmp_path, lambda value: value if goes_on.wait(300) else "")
    with pytest.raises(TimeoutError, match="the application is CREATED, not RUNNING, after"):
        app.wait_until("RUNNING", timeout="30ms")
    broker.produce("in", "k", b"v", partition=1)
    with app:
        app.wait_until("RUNNING")
        with pytest.raises(TimeoutError, match="in-1 is at 0 of 1"):
            app.wait_until(caught_up=True, timeout="200ms")
        goes_on.set()
        app.wait_until(caught_up=True)
        assert [record.value for record in broker.read("out")] == [b"v"]
    app.wait_until("STOPPED")
    with pytest.raises(RuntimeError, match="has ended"):
        app.wait_until("RUNNING")


def run(program: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "program.py"
    file.write_text(program, "utf-8")
    return subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=60, check=False)


def test_the_start_logs_one_line(tmp_path: Path) -> None:
    done = run(
        f"""
import stoatflow as sf
broker = sf.EmbeddedBroker()
broker.create_topic("in", partitions=3)
builder = sf.StreamsBuilder()
builder.stream("in").foreach(print)
config = {{"application.id": "told", "state.dir": {str(tmp_path)!r}, "lanes.count": 2}}
with sf.StoatFlow(builder.build(), config, broker=broker) as app:
    app.wait_until("RUNNING")
    print(app.admin_url)
""",
        tmp_path,
    )
    (line,) = (json.loads(line) for line in done.stderr.splitlines() if "stoatflow::start" in line)
    assert (line["message"], line["level"], line["application"]) == ("running", "INFO", "told")
    assert line["version"] == sf.__version__
    assert line["guarantee"] == "exactly_once_v2"
    assert line["topics"] == "in (3 partitions)"
    assert line["lanes"] == 2
    assert line["state_dir"] == str(tmp_path / "told")
    assert line["admin"] == done.stdout.strip()


def test_being_fenced_has_an_exit_code_of_its_own(tmp_path: Path) -> None:
    done = run(
        'import stoatflow\nstoatflow.StoatFlow\nraise stoatflow.FencedError("another instance took over")\n', tmp_path
    )
    assert done.returncode == sf.FencedError.exit_code == 4
    assert "another instance took over" in done.stderr


def test_instances_that_fence_each_other_back_off(broker: sf.EmbeddedBroker, tmp_path: Path) -> None:
    (tmp_path / "life").mkdir()
    now = int(time.time() * 1000)
    (tmp_path / "life" / "fenced-at").write_text(f"{now - 2000}\n{now - 1000}\n", "utf-8")
    app = application(broker, tmp_path)
    began = time.monotonic()
    with app:
        seen = app.state
        # On a slow machine its second may be over by then.
        assert seen in ("CREATED", "STARTING") or time.monotonic() - began > 0.9
        app.wait_until("RUNNING")
        assert 0.9 < time.monotonic() - began < 30
    # If a stop is requested meanwhile, it doesn't wait.
    (tmp_path / "life" / "fenced-at").write_text(f"{now}\n" * 8, "utf-8")
    began = time.monotonic()
    with application(broker, tmp_path):
        pass
    assert time.monotonic() - began < 45, "eight of them are a minute"
