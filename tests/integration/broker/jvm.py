"""One JVM: a running broker, the tool that formats its storage, or another server of the tests.

A broker gets its own session, so Ctrl-C reaches the tests, which then stop it cleanly. A guard process ends it when
the program that started it dies.
"""

from __future__ import annotations

import base64
import signal
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

from broker.class_archive import ClassArchive
from broker.java_home import BrokerError

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


class BrokerProcess:
    """A running broker. `java` is the command up to the main class, `server` its properties file.

    Another server has another `main`, and its own file instead. `temporary` is a folder that is also removed if the
    program that started it dies.
    """

    def __init__(
        self, java: Sequence[str], server: Path, log: Path, temporary: Path | None = None, main: str = "kafka.Kafka"
    ) -> None:
        self._classes = ClassArchive(java)
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [java[0], *self._classes.use_or_make(log), *java[1:], main, str(server)],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self._guard = subprocess.Popen(
            ["sh", "-c", _GUARD, "guard", str(self.pid), str(server), str(temporary or "")],
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
        # A killed JVM has written no archive, or only part of it.
        if self._process.returncode >= 0:
            self._classes.keep()
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


def cluster_id() -> str:
    """A new cluster id in Kafka's format."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def format_storage(java: Sequence[str], server: Path, cluster: str, *options: str) -> None:
    """Creates the data folder of one node, as `kafka-storage format` does."""
    tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(server), *options]
    command = [java[0], *ClassArchive(java).use(), *java[1:], *tool]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BrokerError(
            f"Kafka could not format the storage of {server}:\n{(done.stdout + done.stderr).strip()[-2000:]}\n"
            "Check free space and permissions there; a setting in `settings=` may also be wrong."
        )


def quote_log(log: Path, lines: int = 15) -> str:
    """The end of a broker's log, and what to look for in it."""
    text = log.read_text(errors="replace") if log.is_file() else ""
    end = "\n".join(f"    {line[:400]}" for line in text.splitlines()[-lines:])
    return (
        f"The end of its log ({log}):\n{end}\n"
        "Read the first ERROR above. Often: a data folder of another Kafka version (give an empty one), "
        "a full disk, a port taken in between (start again), less than 1 GB of free memory, or a wrong entry "
        "in `settings=`."
    )
