"""The engine as its own process, so that it can be killed, signalled and asked for its exit code.

Takes arguments, returns output and exit code. Owns one process and ends it with the `with` block. Never waits
without a bound.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType

PATIENCE_S = 90.0
"""Timeout of waits: a process of a busy machine may stand still for seconds."""


class Process:
    """A child with its output so far: `with Process(["-m", "stoatflow", ...]) as child`."""

    def __init__(
        self, arguments: Iterable[object], environ: Mapping[str, str] | None = None, *, under: Iterable[object] = ()
    ) -> None:
        """`under` is a command that runs Python."""
        self._arguments = [str(a) for a in (*under, sys.executable, *arguments)]
        # The same package as in this process, wherever the child starts.
        path = os.pathsep.join([*(p for p in sys.path if p), os.environ.get("PYTHONPATH", "")])
        self._environ = os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"} | dict(environ or {})
        self._lines: list[str] = []

    def __enter__(self) -> Process:
        """Start it."""
        self._errors = tempfile.TemporaryFile()
        self.started_at = time.time()
        self._child = subprocess.Popen(
            self._arguments,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it, whatever it does."""
        with contextlib.suppress(ProcessLookupError):
            self._child.kill()
        self._child.wait(60)
        self._reader.join(10)
        assert self._child.stdout is not None
        self._child.stdout.close()
        self._errors.close()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._lines.append(line.rstrip("\n"))

    @property
    def lines(self) -> list[str]:
        """The lines that it has printed so far."""
        return list(self._lines)

    @property
    def last(self) -> str:
        """The last line that it printed, if any."""
        return self._lines[-1] if self._lines else ""

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    @property
    def is_stopped(self) -> bool:
        """Whether it is stopped by SIGSTOP."""
        with contextlib.suppress(OSError):
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        return False

    @property
    def errors(self) -> str:
        """What it wrote to standard error so far."""
        file = self._errors.fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")

    @property
    def code(self) -> int | None:
        """Its exit code, if it has ended."""
        return self._child.poll()

    def signal(self, number: int) -> None:
        """Send a signal."""
        self._child.send_signal(number)

    def wait(self, patience: float = PATIENCE_S) -> int:
        """Wait for its end; returns the exit code."""
        try:
            code = self._child.wait(patience)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {patience} s. {self.reported()}") from None
        self._reader.join(10)
        return code

    def until(self, what: Callable[[], bool], why: str, patience: float = PATIENCE_S) -> None:
        """Wait for a condition while it runs."""
        began = time.monotonic()
        while not what():
            if self.code is not None:
                self._reader.join(10)
                if what():
                    return
            assert self.code is None, f"{why}: it ended with {self.code}. {self.reported()}"
            assert time.monotonic() - began < patience, f"{why}: not within {patience} s. {self.reported()}"
            time.sleep(0.002)

    def reported(self) -> str:
        """The end of its output, for messages of failing tests."""
        return f"stdout: {' | '.join(self._lines[-4:])}\nstderr: {self.errors[-3000:]}"


def word_count(address: str, name: str, state: object, *more: object) -> list[object]:
    """Arguments of the word count of the command line."""
    topics = ["--input", f"{name}-in", "--output", f"{name}-out"]
    who = ["--application-id", name, "--state-dir", state]
    return ["-m", "stoatflow", "word-count", "--bootstrap", address, *topics, *who, "--every-update", *more]


COUNTING = """
import stoatflow as sf

builder = sf.StreamsBuilder()
builder.stream("{name}-in").group_by_key().count(store="counts").to_stream().to("{name}-out")
topology = builder.build()
"""


def run_with(folder: Path, name: str, settings: Mapping[str, object]) -> tuple[int, str]:
    """`stoatflow run app.py --config FILE` until it ends by itself; returns exit code and standard error."""
    app, config = folder / "app.py", folder / "app.json"
    app.write_text(COUNTING.format(name=name))
    config.write_text(json.dumps({"application.id": name, "state.dir": str(folder / "state"), **settings}))
    with Process(["-m", "stoatflow", "run", app, "--config", config]) as child:
        return child.wait(), child.errors
