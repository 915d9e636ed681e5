"""`stoatflow run --reload`: a changed file restarts the application, with its state; no process is left behind."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import stoatflow as sf
from concurrency import until
from stoatflow.cli import main
from stoatflow.cli.reloaded import is_of_user
from stoatflow.cli.reloading import Watched, python_files

APP = """
import atexit
import os
import stoatflow as sf
import beside

print("process", os.getpid(), flush=True)
atexit.register(lambda: print("ended in peace", os.getpid(), flush=True))
builder = sf.StreamsBuilder()
letters = builder.scheduled("tick", every="50ms").map_values(beside.letter, name="letter").group_by_key()
texts = letters.aggregate(lambda: "", lambda key, letter, text: text + letter, key=str, value=str, store="texts")
texts.to_stream().to("out", key=str, value=str)
"""
A_WHILE = 30.0
"""Longer than a slow machine takes until a child reports a signal; before that it would get another one."""
BESIDE = "def letter(tick):\n    print('calls a', flush=True)\n    return 'a'\n"


class Reloading:
    """The command, its output, and the topics of its application."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder, self.arguments = folder, arguments
        self.log = folder / "log.txt"

    def start(self, *, hears_s: float | None = None, **options: object) -> Reloading:
        with sf.EmbeddedBroker(self.folder / "topics") as broker:
            broker.create_topic("out")
        self.write("app.py", APP)
        self.write("beside.py", BESIDE)
        self.write("unrelated.py", "")
        self.write(
            "settings.toml",
            f'"application.id" = "ran"\n"bootstrap.servers" = "embedded:{self.folder}/topics"\n'
            f'"state.dir" = "{self.folder}/state"\n"admin.listen" = "off"\n',
        )
        self.again(hears_s, **options)
        return self

    def again(self, hears_s: float | None = None, **options: object) -> None:
        """`hears_s` is how long the parent waits for a child to report that it got a signal itself."""
        parent = ["-m", "stoatflow"]
        if hears_s is not None:
            changed = f"reloading._SIGNAL_DELAY_S = {hears_s}"
            parent = ["-c", f"from stoatflow.cli import main, reloading; {changed}; raise SystemExit(main())"]
        command = [sys.executable, *parent, "run", "app.py", "--config", "settings.toml", "--reload"]
        without = ("STOATFLOW_", "PYTHONDONTWRITEBYTECODE")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(without)}
        with self.log.open("a") as log:
            given: dict[str, object] = {"stdout": log, "stderr": log, "start_new_session": True, **options}
            self.process = subprocess.Popen(  # type: ignore[call-overload]  # the options vary
                [*command, *self.arguments], cwd=self.folder, env=environment, **given
            )

    def write(self, name: str, text: str, *, in_the_same_second: bool = False) -> None:
        """As editors do: another file is renamed to it."""
        new, file = self.folder / f".{name}.new", self.folder / name
        new.write_text(text, "utf-8")
        if in_the_same_second:
            before = file.stat().st_mtime_ns
            os.utime(new, ns=(before, before + (1 if before % 10**9 < 10**9 - 1 else -1)))
        new.rename(file)

    def output(self) -> str:
        return self.log.read_text("utf-8")

    def runs(self, times: int = 1) -> None:
        self.sees(lambda: self.output().count('"message":"running"') == times)

    def sees(self, condition: Callable[[], bool]) -> None:
        try:
            until(condition)
        except AssertionError:
            raise AssertionError(self.output()[-3000:]) from None

    def children(self) -> list[int]:
        return [int(number) for number in re.findall(r"^process (\d+)$", self.output(), flags=re.MULTILINE)]

    def ends(self) -> int:
        code: int = self.process.wait(60)
        assert [child for child in self.children() if is_alive(child)] == []
        return code


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def reloading(tmp_path: Path) -> Iterator[Reloading]:
    made = Reloading(tmp_path)
    yield made
    for process in (made.process.pid, *made.children()):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    made.process.wait(60)


def texts(reloading: Reloading) -> list[str]:
    """The output, when nothing runs."""
    with sf.EmbeddedBroker(reloading.folder / "topics") as broker:
        return [(record.value or b"").decode() for record in broker.read("out")]


def test_a_change_restarts_and_keeps_the_counts(reloading: Reloading) -> None:
    reloading.start()
    reloading.sees(lambda: "calls a" in reloading.output())
    reloading.write("unrelated.py", "1 / 0\n")
    # Python distinguishes bytecode by second and size. The parent must know the file, since its mtime won't
    # tell.
    time.sleep(6)
    reloading.write("beside.py", BESIDE.replace("calls a", "calls b").replace("a'", "b'"), in_the_same_second=True)
    reloading.sees(lambda: "calls b" in reloading.output())
    assert "stoatflow: beside.py changed: stopping, to start again" in reloading.output()
    assert len(set(reloading.children())) == 2
    assert f"ended in peace {reloading.children()[0]}" in reloading.output()
    assert is_alive(reloading.children()[1])
    # A change of the settings counts too.
    settings = (reloading.folder / "settings.toml").read_text()
    reloading.write("settings.toml", settings + '"lanes.count" = 3\n')
    reloading.sees(lambda: '"lanes":3' in reloading.output())
    reloading.process.send_signal(signal.SIGTERM)
    assert reloading.ends() == 0
    assert reloading.output().count("stopping, to start again") == 2
    written = texts(reloading)
    assert re.fullmatch("a+b+", written[-1])
    assert [text for text in written if not written[-1].startswith(text)] == []
    # A letter for each call: nothing is lost, and nothing is duplicated.
    assert [written[-1].count(letter) for letter in "ab"] == [
        reloading.output().count(f"calls {each}") for each in "ab"
    ]


def test_an_error_is_shown_until_it_is_fixed(reloading: Reloading) -> None:
    reloading.start()
    reloading.sees(lambda: "calls a" in reloading.output())
    reloading.write("beside.py", BESIDE.replace("return 'a'", "return 'a"))
    reloading.sees(lambda: "it ended with exit code 1; it starts again when a file changes" in reloading.output())
    assert "SyntaxError: unterminated string literal" in reloading.output()
    assert [child for child in reloading.children() if is_alive(child)] == []
    # A module that failed to load, because of another one, is watched too.
    reloading.write("beside.py", "from more import letter\n")
    reloading.sees(lambda: "No module named 'more'" in reloading.output())
    reloading.write("more.py", BESIDE.replace("a'", "c'"))
    reloading.sees(lambda: "calls c" in reloading.output())
    assert "stoatflow: more.py changed: starting again" in reloading.output()
    # A module that has loaded, and fails later.
    reloading.write("more.py", "def letter(tick):\n    return 1 / 0\n")
    reloading.sees(lambda: reloading.output().count("it ended with exit code 1") == 3)
    assert "raised ZeroDivisionError" in reloading.output()
    reloading.process.send_signal(signal.SIGTERM)
    assert reloading.ends() == 1
    assert re.fullmatch("a+c+", texts(reloading)[-1])


def test_engine_errors_about_a_changed_topology_are_shown(reloading: Reloading) -> None:
    reloading.start()
    reloading.sees(lambda: "calls a" in reloading.output())
    reloading.write("app.py", APP.replace('"texts"', '"others"'))
    reloading.sees(lambda: "the local state has stores that the topology doesn't have" in reloading.output())
    reloading.write("app.py", APP.replace(', store="texts"', ""))
    reloading.sees(lambda: "it ended with exit code 2" in reloading.output())
    reloading.process.send_signal(signal.SIGINT)
    assert reloading.ends() == 2


def test_ctrl_c_leaves_no_process(reloading: Reloading) -> None:
    """The terminal sends the signal to parent and child; the child must get it once."""
    terminal, other = pty.openpty()
    try:
        reloading.start(hears_s=A_WHILE, stdin=other, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(other)
        reloading.sees(lambda: "calls a" in reloading.output())
        os.write(terminal, b"\x03")
        assert reloading.ends() == 0
    finally:
        os.close(terminal)


@pytest.mark.parametrize("to", ["the parent", "the child", "the group"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: signal.Signals(number).name)
def test_every_signal_drains_once(reloading: Reloading, to: str, number: signal.Signals) -> None:
    reloading.start(hears_s=A_WHILE if to == "the group" else None)
    reloading.sees(lambda: "calls a" in reloading.output())
    (child,) = reloading.children()
    match to:
        case "the parent":
            reloading.process.send_signal(number)
        case "the child":
            os.kill(child, number)
        case _:
            os.killpg(reloading.process.pid, number)
    assert reloading.ends() == 0
    assert len(texts(reloading)[-1]) >= 1


def test_a_signal_to_the_process_group_aborts_nothing(reloading: Reloading) -> None:
    """The child got the signal itself: from its parent it would be the second one."""
    reloading.start(hears_s=A_WHILE)
    # Otherwise the first child may already have the change when it is stopped for it: that would be its
    # first signal.
    reloading.sees(lambda: "calls a" in reloading.output())
    slow = "import time\ndef letter(tick):\n    print('slow', flush=True)\n    time.sleep(2.5)\n    return 's'\n"
    reloading.write("beside.py", slow)
    reloading.sees(lambda: "slow" in reloading.output())
    os.killpg(reloading.process.pid, signal.SIGINT)
    assert reloading.ends() == 0
    assert texts(reloading)[-1].endswith("s")


def test_a_child_without_its_parent_ends(reloading: Reloading) -> None:
    reloading.start()
    reloading.sees(lambda: "calls a" in reloading.output())
    (child,) = reloading.children()
    reloading.process.kill()
    reloading.process.wait(60)
    reloading.sees(lambda: not is_alive(child))


def test_the_second_ctrl_c_ends_a_function_that_hangs(reloading: Reloading) -> None:
    reloading.start()
    reloading.sees(lambda: "calls a" in reloading.output())
    telling = "import logging, time\nlogging.basicConfig(level=logging.INFO)\n"
    reloading.write("beside.py", f"{telling}def letter(tick):\n    print('hangs', flush=True)\n    time.sleep(600)\n")
    reloading.sees(lambda: "hangs" in reloading.output())
    reloading.process.send_signal(signal.SIGINT)
    # Two signals that arrive before one is handled count as one.
    reloading.sees(lambda: "a second one aborts" in reloading.output())
    assert reloading.process.poll() is None
    reloading.process.send_signal(signal.SIGINT)
    assert reloading.ends() == 130


def test_reload_is_refused_with_check_spark_and_systemd(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = tmp_path / "app.py"
    app.write_text("", "utf-8")
    for also in (["--check"], ["--engine", "spark", "--batch"]):
        assert main(["run", str(app), "--reload", *also]) == 2
        assert "leave --reload out" in capsys.readouterr().err
    with (tmp_path / "journal").open("w+") as journal:
        status = os.fstat(journal.fileno())
        done = subprocess.run(
            [sys.executable, "-m", "stoatflow", "run", str(app), "--reload"],
            env=os.environ | {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}, stderr=journal, check=False,
            timeout=60,
        )  # fmt: skip
        journal.seek(0)
        assert (done.returncode, "a service of systemd" in journal.read()) == (2, True)


def test_only_files_of_the_user_are_watched(tmp_path: Path) -> None:
    theirs = (json.__file__, pytest.__file__, sf.__file__, "/srv/app/.venv/lib/python3.12/site-packages/x.py")
    assert [file for file in theirs if is_of_user(str(file))] == []
    assert is_of_user(str(tmp_path / "app.py"))
    for name in ("app.py", "part/two.py", "part/data.json", ".venv/lib/three.py", "part/site-packages/four.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert sorted(python_files(str(tmp_path))) == [str(tmp_path / "app.py"), str(tmp_path / "part/two.py")]


def test_which_file_events_are_changes(tmp_path: Path) -> None:
    old, new = tmp_path / "old.py", tmp_path / "new.py"
    old.write_text("1", "utf-8")
    os.utime(old, (1, 1))
    watched = Watched([str(old), str(tmp_path / "none.py")])
    assert watched.changed() == []
    # Written while the run started: it may have been loaded in its old form.
    new.write_text("2", "utf-8")
    os.utime(new, ns=(time.time_ns(), time.time_ns()))
    watched.add([str(new)])
    assert watched.changed() == [str(new)]
    watched.begin()
    assert watched.changed() == []
    # The clock of another machine is ahead.
    ahead = tmp_path / "ahead.py"
    ahead.write_text("3", "utf-8")
    os.utime(ahead, (time.time() + 3600, time.time() + 3600))
    watched.add([str(ahead)])
    assert watched.changed() == []
    old.unlink()
    assert watched.changed() == []
    old.write_text("1", "utf-8")
    assert watched.changed() == [str(old)]
    assert watched.with_files([]).changed() == [str(old)]
