"""One JVM: a running broker, the tool that formats its storage, or another server of the tests."""

from __future__ import annotations

import base64
import signal
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

from broker.class_archive import ClassArchive
from broker.guarded_process import GuardedProcess
from broker.java_home import BrokerError


class BrokerProcess(GuardedProcess):
    """A running broker. `java` is the command up to the main class, `server` its properties file.

    Another server has another `main`, and its own file instead. `temporary` is a folder that is also removed if the
    program that started it dies.
    """

    def __init__(
        self, java: Sequence[str], server: Path, log: Path, temporary: Path | None = None, main: str = "kafka.Kafka"
    ) -> None:
        self._classes = ClassArchive(java)
        command = [java[0], *self._classes.use_or_make(log), *java[1:], main, str(server)]
        super().__init__(command, str(server), log, temporary)

    def end(self, how: signal.Signals, patience: float) -> None:
        """Sends `how`, and SIGKILL if it still runs after `patience` seconds; returns when it has ended."""
        super().end(how, patience)
        # A killed JVM has written no archive, or only part of it.
        if self._process.returncode >= 0:
            self._classes.keep()


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
