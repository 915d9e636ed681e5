"""Applications whose functions hang, in their own processes: they are signalled, timed, and inspected.

Takes the code of a function; returns output, exit code, and the duration of the end. Ends every process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

from concurrency import until

_PROGRAM = """
import asyncio, logging, sys, time; logging.basicConfig(level=logging.INFO)
import stoatflow as sf
FUNCTIONS
builder = sf.StreamsBuilder()
stream = builder.stream("in", key=str, value=str)
stream = stream.map_values(FN, name="hangs")
stream.to("out", key=str, value=str)
broker = sf.EmbeddedBroker(sys.argv[1] + "/broker")
broker.create_topic("in", 2)
broker.create_topic("out", 2)
config = {"application.id": "hanging", "state.dir": sys.argv[1] + "/state", "lanes.count": 2, "admin.listen": "off"}
app = sf.StoatFlow(builder.build(), config | SETTINGS, broker=broker)
broker.produce_many("in", [(None, b"a", b"first", 1)])
"""
_RUN = "app.run()\nprint('after', app.state, flush=True)\n"
TELLS_WHEN_IT_RUNS = f"""
import threading
def tell():
    app.wait_until("RUNNING")
    print("hangs", flush=True)
threading.Thread(target=tell).start()
{_RUN}"""
"""For functions that never hang. From then on signals are handled by the application."""
BOUND_S = 2.0
"""How much longer the end of a process may take than the time it was given: the bound in the docs."""
SLACK_S = 20.0
"""For the test machine, which may not run a process for this long.

Waits that must not happen are longer: a shutdown 30 s, a sleeping function a minute.
"""


class Hanging:
    """A child, from the moment its function hangs: `with Hanging(tmp_path, "def fn(v): time.sleep(60)") as child`."""

    def __init__(
        self, where: Path, functions: str, *, fn: str = "fn", run: str = _RUN, settings: dict[str, object] | None = None
    ) -> None:
        """`fn` prints "hangs" when it hangs."""
        program = _PROGRAM.replace("FUNCTIONS", functions).replace("FN", fn).replace("SETTINGS", repr(settings or {}))
        self._arguments = [sys.executable, "-X", "faulthandler", "-c", program + run, str(where)]

    def __enter__(self) -> Hanging:
        """Start it, and wait until it hangs."""
        path = os.pathsep.join([*(p for p in sys.path if p), os.environ.get("PYTHONPATH", "")])
        environ = os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
        self._errors = tempfile.TemporaryFile()
        self._child = subprocess.Popen(
            self._arguments,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        assert self._child.stdout is not None
        first = self._child.stdout.readline().strip()
        assert first == "hangs", (first, self.errors)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it, whatever it does."""
        with contextlib.suppress(ProcessLookupError):
            self._child.kill()
        self._child.wait(60)
        assert self._child.stdout is not None
        self._child.stdout.close()
        self._errors.close()

    @property
    def errors(self) -> str:
        """What it wrote to standard error so far."""
        return os.pread(self._errors.fileno(), 1 << 20, 0).decode(errors="replace")

    def signal(self, number: signal.Signals, *, after: float = 0.0, may_have_ended: bool = False) -> None:
        """Send a signal to a child that must be alive and have handled the previous one (two pending become one)."""
        until(lambda: self._child.poll() is not None or not self._is_pending(number))
        time.sleep(after)
        assert may_have_ended or self._child.poll() is None, f"it ended with {self._child.returncode}: {self.errors}"
        self._child.send_signal(number)

    def says(self, text: str) -> None:
        """Wait until it has written this to standard error."""
        until(lambda: text in self.errors or self._child.poll() is not None)
        assert text in self.errors, self.errors

    def _is_pending(self, number: int) -> bool:
        """Whether such a signal is pending. Only Linux reports it."""
        try:
            status = Path(f"/proc/{self._child.pid}/status").read_text("utf-8")
        except OSError:
            return False
        masks = [line.split()[1] for line in status.splitlines() if line.startswith(("SigPnd:", "ShdPnd:"))]
        return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)

    def ends(self, within: float) -> int:
        """Return the exit code; fail if it takes longer than this, plus some slack."""
        began = time.monotonic()
        try:
            code = self._child.wait(within + SLACK_S)
        except subprocess.TimeoutExpired:
            took = time.monotonic() - began
            raise AssertionError(f"still there after {took:.1f} s instead of {within}: {self.errors}") from None
        assert "Fatal Python error" not in self.errors, self.errors
        return code

    def line(self) -> str:
        """Wait for the next line that it prints."""
        assert self._child.stdout is not None
        return self._child.stdout.readline().strip()

    def output(self) -> str:
        """Its output after its function hung, once it has ended."""
        assert self._child.stdout is not None
        return self._child.stdout.read()
