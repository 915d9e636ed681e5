"""A server of the tests that ends with the program that started it.

It gets its own session, so Ctrl-C reaches the tests, which then stop it cleanly. A guard process ends it when the
program that started it dies.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

# Ends the broker when the pipe from the program that owns it closes without a farewell line, so that a test
# run killed with SIGKILL leaves no JVM behind. Checking the command line guards against a reused pid. Then
# it removes the folder in the third argument, if there is one.
_GUARD = """\
read -r line && exit 0
runs() { tr "\\0" " " <"/proc/$1/cmdline" | grep -qF -- "$2"; }
runs "$1" "$2" && kill -9 "$1"
[ -n "$3" ] || exit 0
while runs "$1" "$2"; do sleep 0.1; done
rm -rf -- "$3"
"""


class GuardedProcess:
    """A running server, whose output is appended to `log`.

    `mark` is a text in its command that no other process has. `temporary` is a folder that is also removed if the
    program that started it dies.
    """

    def __init__(self, command: Sequence[str], mark: str, log: Path, temporary: Path | None = None) -> None:
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )
        self._guard = subprocess.Popen(
            ["sh", "-c", _GUARD, "guard", str(self.pid), mark, str(temporary or "")],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        """Sends the process a signal, unless it has ended."""
        self._process.send_signal(number)

    def end(self, how: signal.Signals, patience: float) -> None:
        """Sends `how`, and SIGKILL if it still runs after `patience` seconds; returns when it has ended."""
        self._process.send_signal(how)  # does nothing if it has already ended
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._dismiss_guard()

    def _dismiss_guard(self) -> None:
        pipe = self._guard.stdin
        if pipe is not None and not pipe.closed:
            try:
                pipe.write(b"done\n")
                pipe.close()
            except BrokenPipeError:
                pass  # the guard was killed: nothing is left to guard
        self._guard.wait()
